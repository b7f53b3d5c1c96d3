from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, an_autoscaler
from support.makers.usage import DAY, WEB, World, a_selector, moment

from trimtab.core.histogram.buckets import MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    CheckpointError,
    HistogramCheckpoint,
    decode_aggregate,
)
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, ContainerPolicy
from trimtab.core.usage.aggregates import AggregateKey
from trimtab.core.usage.checkpoints import encode_histories
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.samples import SampleCounts

LEADER = {"role": "leader"}
FOLLOWER = {"role": "follower"}


def a_world(*pods: str, labels: dict[str, str] | None = None) -> World:
    world = World()
    for pod in pods or ("web-0",):
        world.pod(pod, "app", labels=labels)
    return world


def two_roles() -> tuple[World, Autoscaler]:
    """A leader's autoscaler beside one for the followers, and one pod that may be either."""
    world = World(autoscaler=an_autoscaler(name="leaders"))
    world.usage.learn(world.autoscaler, a_selector(**WEB, **LEADER))
    followers = an_autoscaler(name="followers")
    world.usage.learn(followers, a_selector(**WEB, **FOLLOWER))
    return world, followers


def test_containers_of_equal_labels_share_one_aggregate() -> None:
    world = a_world("web-0", "web-1")
    world.cpu([100], [1], pod="web-0")
    world.cpu([100], [1], pod="web-1")

    assert len(world.usage.aggregates) == 1
    assert len(world.usage.containers) == 2
    assert world.history().total_samples_count == 2


def test_the_order_of_labels_does_not_matter() -> None:
    world = World()
    world.usage.track(PodName("default", "a"), {"x": "1", **WEB}, ["app"], moment(0))
    world.usage.track(PodName("default", "b"), {**WEB, "x": "1"}, ["app"], moment(0))

    assert len(world.usage.aggregates) == 1


def test_equal_labels_of_another_namespace_are_other_labels() -> None:
    world = a_world()
    world.usage.track(PodName("elsewhere", "web-0"), WEB, ["app"], moment(0))

    assert len(world.usage.aggregates) == 2
    assert len(world.usage.links.linked_rows(world.autoscaler.identity)) == 1


def test_saying_the_same_of_a_pod_again_changes_nothing() -> None:
    world = a_world()
    world.publications.refresh()
    row = world.row()
    world.pod("web-0", "app")

    assert world.row() == row
    assert world.publications.refresh() == {}


def test_saying_the_same_of_an_autoscaler_again_changes_nothing() -> None:
    world = a_world()
    world.publications.refresh()
    world.usage.learn(world.autoscaler, a_selector(**WEB))

    assert world.usage.links.drain_changed() == set()


def test_a_sidecar_counts_like_any_container() -> None:
    world = World()
    world.pod("web-0", "app", "mesh")
    world.cpu([500], [1], name="mesh")

    assert [one.container_name for one in world.recommendation().containers] == ["mesh"]
    assert world.recommendation().without_samples == ("app",)


def test_a_forgotten_pod_leaves_its_history_behind() -> None:
    world = a_world()
    world.cpu([500], [1])
    world.usage.forget(PodName("default", "web-0"))

    assert world.cpu([500], [2]) == SampleCounts(absurd=1)
    assert world.history().total_samples_count == 1
    assert not world.usage.has_pods(world.autoscaler.identity)


def test_what_was_read_of_an_earlier_pod_of_the_same_name_counts_for_no_other() -> None:
    world = a_world()
    name = PodName("default", "web-0")
    world.cpu([500], [1])
    world.usage.forget(name)
    world.usage.track(name, WEB, ["app"], moment(3), created_at=moment(2))

    assert world.cpu([500], [1]) == SampleCounts(outdated=1)
    assert world.memory([500 * MIB], [1]) == SampleCounts(outdated=1)
    assert world.cpu([500], [3]) == SampleCounts(accepted=1)
    assert world.history().total_samples_count == 2


def test_forgetting_an_unknown_pod_is_no_error() -> None:
    world = World()
    world.usage.forget(PodName("default", "gone"))

    assert len(world.usage.containers) == 0


def test_a_container_that_left_the_spec_is_not_tracked_any_more() -> None:
    world = World()
    world.pod("web-0", "app", "old")
    world.pod("web-0", "app", "new")

    assert world.row(container="old") == -1
    assert world.row(container="new") >= 0


def test_the_history_before_a_change_of_labels_stays_with_the_old_ones() -> None:
    world, followers = two_roles()
    world.pod("web-0", "app", labels=FOLLOWER)
    world.cpu([100, 100], [1, 2])
    world.pod("web-0", "app", labels=LEADER)
    world.cpu([900], [3])

    assert world.viewing(followers).history().total_samples_count == 2
    assert world.history().total_samples_count == 1


def test_what_was_measured_before_a_change_of_labels_was_seen_counts_for_no_role() -> None:
    world = World()
    world.pod("web-0", "app", labels=LEADER)
    world.pod("web-0", "app", labels=FOLLOWER, minute=10)
    early = [world.cpu([900], [9.5]), world.memory([900 * MIB], [9.5])]
    late = [world.cpu([100], [10.5]), world.memory([100 * MIB], [10.5])]

    assert [intake.outdated for intake in early] == [1, 1]
    assert [intake.accepted for intake in late] == [1, 1]


def test_a_change_of_labels_does_not_reopen_the_past() -> None:
    world, _ = two_roles()
    world.pod("web-0", "app", labels=FOLLOWER)
    world.cpu([100], [10])
    world.pod("web-0", "app", labels=LEADER)

    assert world.cpu([100, 100], [9, 10]) == SampleCounts(outdated=2)


def test_s25a_a_peak_in_the_new_role_does_not_touch_the_old_one() -> None:
    world, followers = two_roles()
    world.pod("web-0", "app", labels=FOLLOWER)
    world.memory([2048 * MIB], [1])
    before = world.viewing(followers).history()
    world.pod("web-0", "app", labels=LEADER)
    world.memory([3072 * MIB], [2])

    assert world.viewing(followers).history() == before
    assert world.history().memory_histogram.total_weight == pytest.approx(1, rel=0.01)
    assert len(world.history().memory_histogram.bucket_weights) == 1


def test_s25a_a_role_taken_up_again_goes_on_in_its_window() -> None:
    world, followers = two_roles()
    world.pod("web-0", "app", labels=FOLLOWER)
    world.memory([2048 * MIB], [1])
    once = world.viewing(followers).history().memory_histogram
    for role in (LEADER, FOLLOWER):
        world.pod("web-0", "app", labels=role)
        world.memory([1024 * MIB], [2])

    assert world.viewing(followers).history().memory_histogram == once
    world.memory([4096 * MIB], [3])
    replaced = world.viewing(followers).history().memory_histogram
    assert replaced.total_weight == once.total_weight
    assert max(replaced.bucket_weights) > max(once.bucket_weights)


def test_s25b_a_kill_counts_in_the_role_of_the_moment_by_the_rule_of_that_role() -> None:
    world, followers = two_roles()
    generous = ContainerPolicy("*", oom_bump_up_ratio=3.0)
    world.usage.learn(replace(followers, policies=(generous,)), a_selector(**WEB, **FOLLOWER))
    world.pod("web-0", "app", labels=LEADER)
    world.pod("web-0", "app", labels=FOLLOWER)
    world.oom([1000 * MIB], [1])

    assert world.history().memory_histogram.bucket_weights == {}
    bucket = max(world.viewing(followers).history().memory_histogram.bucket_weights)
    assert bucket == MEMORY_BUCKETS.find(np.array([3000.0 * MIB]))[0]


def test_several_autoscalers_learn_from_the_same_pod() -> None:
    world = a_world()
    other = an_autoscaler(name="other")
    world.usage.learn(other, a_selector(**WEB))
    world.cpu([500], [1])

    assert world.viewing(other).history() == world.history()


def test_an_autoscaler_that_comes_late_learns_what_is_there() -> None:
    world = a_world()
    world.cpu([500], [1])
    late = an_autoscaler(name="late")
    world.usage.learn(late, a_selector(**WEB))

    assert world.viewing(late).history() == world.history()


def test_an_autoscaler_for_no_pods_learns_nothing() -> None:
    world = a_world()
    world.usage.learn(world.autoscaler, None)

    assert world.recommendation().containers == ()
    assert not world.usage.has_pods(world.autoscaler.identity)


def test_a_new_selector_drops_what_checkpoints_told_of_other_pods() -> None:
    world = a_world()
    world.cpu([500], [1])
    world = world.restarted(2)
    assert world.recommendation().containers
    world.usage.learn(world.autoscaler, a_selector(app="other"))

    assert world.recommendation().containers == ()
    assert len(world.usage.aggregates) == 0


def a_restarted_world() -> World:
    world = a_world()
    world.cpu([500] * 100, range(100))
    world.memory([4e9, 4e9], [0, 2 * DAY])
    return world.restarted(2 * DAY)


def test_f2_a_target_that_is_gone_for_one_loop_keeps_the_history() -> None:
    world = a_restarted_world()
    before = world.container()
    world.usage.learn(world.autoscaler, None)
    assert world.container() == before
    world.usage.learn(world.autoscaler, a_selector(**WEB))

    assert world.container() == before
    assert world.history().total_samples_count == 100


def test_f2_a_target_that_is_gone_at_the_start_keeps_the_history() -> None:
    saved = a_restarted_world().checkpoint(2 * DAY)
    world = World()
    world.usage.unlearn(world.autoscaler.identity)
    world.usage.learn(world.autoscaler, None)
    world.usage.restore(world.autoscaler.identity, "app", saved)
    world.usage.learn(world.autoscaler, a_selector(**WEB))
    world.pod(minute=2 * DAY)
    world.cpu([500], [2 * DAY + 1])

    assert world.history().total_samples_count == 101


def test_f2_what_was_learned_since_the_restart_comes_back_with_the_target() -> None:
    world = a_restarted_world()
    world.pod(minute=2 * DAY)
    world.cpu([500], [2 * DAY + 1])
    for selector in (None, None, a_selector(**WEB)):
        world.usage.learn(world.autoscaler, selector)

    assert world.history().total_samples_count == 101


def test_a_target_that_comes_back_with_other_pods_brings_no_history() -> None:
    world = a_restarted_world()
    world.usage.learn(world.autoscaler, None)
    world.usage.learn(world.autoscaler, a_selector(app="other"))

    assert world.recommendation().containers == ()
    assert len(world.usage.aggregates) == 0


def test_an_override_ends_when_the_target_is_gone() -> None:
    policy = ContainerPolicy("app", memory_interval=timedelta(hours=1))
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    world.pod()
    owner = world.usage.containers.aggregate[world.row()]
    assert world.usage.aggregates.floats("interval")[owner] == 3600
    world.usage.learn(world.autoscaler, None)

    assert world.usage.aggregates.floats("interval")[owner] == 24 * 3600


def test_f3_saying_something_else_keeps_the_history() -> None:
    world = a_world()
    world.cpu([500], [1])
    world = world.restarted(2)
    before = world.container()
    world.say(recommenders=("other",))

    assert world.container() == before


def test_unlearning_an_unknown_autoscaler_is_no_error() -> None:
    world = World()
    world.usage.unlearn(AutoscalerName("default", "gone"))

    assert list(world.usage.links.learners) == [world.autoscaler.identity]


def test_a_checkpoint_read_again_replaces_the_one_before() -> None:
    world = a_world()
    world.cpu([500], [1])
    saved = world.checkpoint(2)
    fresh = World()
    for _ in range(3):
        fresh.usage.restore(fresh.autoscaler.identity, "app", saved)

    assert fresh.history().total_samples_count == 1
    assert len(fresh.usage.aggregates) == 1


@given(
    histograms=st.lists(
        st.dictionaries(st.integers(0, 170), st.integers(0, 10_000), max_size=30), max_size=5
    )
)
def test_checkpoints_restored_together_are_those_restored_one_by_one(
    histograms: list[dict[int, int]],
) -> None:
    stored = {
        f"app-{number}": AggregateCheckpoint(
            HistogramCheckpoint(moment(number), weights, 7.5 * number),
            HistogramCheckpoint(moment(0), weights, 3.0),
            first_sample_start=moment(0),
            last_sample_start=moment(number),
            total_samples_count=number,
        )
        for number, weights in enumerate(histograms)
    }
    together, in_turn = World(), World()
    name = together.autoscaler.identity
    together.usage.restore_all(
        {(name, container): decode_aggregate(each) for container, each in stored.items()}
    )
    for container, each in stored.items():
        in_turn.usage.restore(name, container, each)

    assert encode_histories(together.usage, [name]) == encode_histories(in_turn.usage, [name])
    assert len(encode_histories(together.usage, [name])) == len(stored)
    assert together.recommendation() == in_turn.recommendation()


def test_f4_an_unreadable_checkpoint_is_refused_and_leaves_nothing() -> None:
    world = World()
    with pytest.raises(CheckpointError, match="version"):
        world.usage.restore(world.autoscaler.identity, "app", AggregateCheckpoint(version="v2"))
    broken = AggregateCheckpoint(memory_histogram=None)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError):
        world.usage.restore(world.autoscaler.identity, "app", broken)

    assert len(world.usage.aggregates) == 0
    assert world.recommendation().containers == ()


def test_f4_an_empty_checkpoint_gives_no_recommendation_rather_than_zero() -> None:
    world = World()
    world.usage.restore(
        world.autoscaler.identity, "app", AggregateCheckpoint(total_samples_count=100)
    )

    assert world.recommendation().containers == ()
    assert world.recommendation().without_samples == ("app",)


label_changes = st.lists(
    st.tuples(
        st.sampled_from(["web-0", "web-1"]),
        st.sampled_from(["a", "b", "c", None]),
        st.sets(st.sampled_from(["app", "side"]), min_size=1),
    ),
    max_size=15,
)


@given(label_changes)
def test_every_container_feeds_exactly_the_aggregate_of_its_labels(
    changes: list[tuple[str, str | None, set[str]]],
) -> None:
    world, pods = World(), dict[str, tuple[str, set[str]]]()
    for minute, (pod, role, names) in enumerate(changes):
        if role is None:
            world.usage.forget(PodName("default", pod))
            pods.pop(pod, None)
        else:
            world.pod(pod, *names, labels={"role": role})
            pods[pod] = (role, names)
            for name in names:
                world.memory([minute * MIB], [minute], pod=pod, name=name)

    expected = [
        AggregateKey("default", name, (("app", "web"), ("role", role)))
        for role, names in pods.values()
        for name in names
    ]
    aggregates = world.usage.aggregates
    owners = world.usage.containers.aggregate
    rows = [world.row(pod, name) for pod, (_, names) in pods.items() for name in names]
    assert [aggregates.key(int(owners[row])) for row in rows] == expected
    assert sum(aggregates.ints("feeders")) == len(rows) == len(world.usage.containers)


def test_a_pod_that_flaps_for_days_books_one_peak_per_role_and_day() -> None:
    world, followers = two_roles()
    for day in range(3):
        for hour in range(24):
            world.pod("web-0", "app", labels=(LEADER, FOLLOWER)[hour % 2])
            world.memory([(hour + 1) * 100 * MIB], [day * DAY + hour * 60])

    days = world.viewing(followers).history().memory_histogram
    assert days.total_weight == pytest.approx(1 + 2 + 4, rel=0.05)


def test_a_window_left_behind_does_not_outlive_its_aggregate() -> None:
    world, _ = two_roles()
    world.pod("web-0", "app", labels=FOLLOWER)
    world.memory([2048 * MIB], [1])
    left = int(world.usage.containers.aggregate[world.row()])
    world.pod("web-0", "app", labels=LEADER)
    world.usage.drop_aggregate(left)
    world.pod("web-0", "app", labels=FOLLOWER)
    world.memory([1024 * MIB], [2])

    assert world.usage.containers.floats("usage_peak")[world.row()] == 1024 * MIB
