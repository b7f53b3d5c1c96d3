from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, amounts, an_autoscaler
from support.makers.usage import DAY, WEB, World, a_selector, moment

from trimtab.core.histogram.checkpoint import HistogramCheckpoint
from trimtab.core.histogram.memory_peaks import Peaks
from trimtab.core.model.autoscalers import (
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    policy_for,
)
from trimtab.core.model.recommendation import RecommendationSettings, ResourceSettings
from trimtab.core.model.resources import MAX_AMOUNT, Resource, Resources
from trimtab.core.recommendation.recommender import Publications
from trimtab.core.recommendation.status_changes import PublishingSettings
from trimtab.core.usage.containers import PodName

CPU, MEMORY = Resource.CPU, Resource.MEMORY
SECONDS_PER_DAY = 86400.0


def a_world(*containers: str, **fields: object) -> World:
    world = World(**fields)  # type: ignore[arg-type]
    world.pod("web-0", *(containers or ("app",)))
    return world


def feed(
    world: World,
    container: str = "app",
    *,
    start: datetime,
    cpu: list[float] | None = None,
    memory: dict[float, float] | None = None,
    pod: str = "web-0",
) -> None:
    """CPU samples by the minute and memory peaks by the day, straight into one aggregate."""
    owner = world.usage.containers.aggregate[[world.row(pod, container)]]
    millicores = np.array(cpu or [], np.float64)
    times = np.array([start.timestamp() + 60 * minute for minute in range(len(millicores))])
    owners = np.repeat(owner, len(millicores))
    world.usage.aggregates.add_cpu(owners, millicores / 1000, times)
    days = np.array(list(memory or ()), np.float64)
    values = np.array(list((memory or {}).values()), np.float64)
    ends = start.timestamp() + SECONDS_PER_DAY * days
    none = np.zeros(len(days), np.int64)
    world.usage.aggregates.book_peaks(owner, Peaks(none, values, ends))


def feed_v1(world: World, container: str = "app") -> None:
    start = datetime(2026, 8, 22, 13, tzinfo=UTC)
    feed(world, container, start=start, cpu=[100], memory={0: 1e8})


def feed_v2(world: World, container: str = "app") -> None:
    start = datetime(2026, 8, 22, 13, tzinfo=UTC)
    feed(world, container, start=start, cpu=[500] * 720, memory={1: 1e9})


def feed_v3(world: World, container: str = "app") -> None:
    start = datetime(2026, 8, 1, tzinfo=UTC)
    cpu = [10.0 * i for i in range(100)]
    feed(world, container, start=start, cpu=cpu, memory={i: i * 1e8 for i in range(1, 9)})


def feed_v4(world: World, container: str = "app", pod: str = "web-0") -> None:
    day_3 = datetime(2026, 8, 4, tzinfo=UTC)
    feed(world, container, start=datetime(2026, 8, 1, tzinfo=UTC), cpu=[1000] * 1440, pod=pod)
    feed(world, container, start=day_3, cpu=[100] * 1440, pod=pod)


VECTORS = [
    pytest.param(
        feed_v1,
        amounts(126, 262144000),
        amounts(25, 262144000),
        amounts(10**14, 10**14),
        id="V1: one sample has no confidence",
    ),
    pytest.param(
        feed_v2,
        amounts(587, 1168723596),
        amounts(584, 1164056225),
        amounts(1762, 3509421757),
        id="V2: half a day of steady CPU",
    ),
    pytest.param(
        feed_v3,
        amounts(1038, 920733364),
        amounts(570, 894521661),
        amounts(17115, 14313218658),
        id="V3: CPU by tens, memory by the day",
    ),
    pytest.param(
        feed_v4,
        amounts(1168),
        amounts(125),
        amounts(1752),
        id="V4: a busy day, an idle one three days later",
    ),
]


@pytest.mark.parametrize(("feed_vector", "target", "lower", "upper"), VECTORS)
def test_vectors_of_the_original_come_out_equal(
    feed_vector: Callable[[World], None], target: Resources, lower: Resources, upper: Resources
) -> None:
    world = a_world()
    feed_vector(world)

    assert world.container() == ContainerRecommendation("app", target, lower, upper, target)


@pytest.mark.parametrize(
    ("feed_vector", "cpu", "memory"),
    [
        pytest.param(
            feed_v1,
            HistogramCheckpoint(datetime(2026, 8, 23, tzinfo=UTC), {8: 10000}, 0.07278265914210938),
            HistogramCheckpoint(datetime(2026, 8, 23, tzinfo=UTC), {8: 10000}, 0.7278265914210937),
            id="V1",
        ),
        pytest.param(
            feed_v3,
            None,
            HistogramCheckpoint(
                datetime(2026, 8, 2, tzinfo=UTC),
                {8: 78, 14: 156, 18: 313, 22: 625, 25: 1250, 28: 2500, 30: 5000, 32: 10000},
                255,
            ),
            id="V3",
        ),
        pytest.param(
            feed_v4,
            HistogramCheckpoint(
                datetime(2026, 8, 1, tzinfo=UTC), {8: 10000, 36: 1250}, 1869.282809093509
            ),
            HistogramCheckpoint(),
            id="V4",
        ),
    ],
)
def test_vectors_of_the_original_have_equal_histories(
    feed_vector: Callable[[World], None],
    cpu: HistogramCheckpoint | None,
    memory: HistogramCheckpoint,
) -> None:
    world = a_world()
    feed_vector(world)
    history = world.history()

    for ours, theirs in ((history.cpu_histogram, cpu), (history.memory_histogram, memory)):
        if theirs is not None:
            weight = pytest.approx(theirs.total_weight, rel=1e-9)
            assert replace(ours, total_weight=0.0) == replace(theirs, total_weight=0.0)
            assert ours.total_weight == weight


def test_v3_reloaded_gives_the_same_recommendation() -> None:
    world = a_world()
    feed_v3(world)
    fresh = a_world()
    fresh.usage.restore(fresh.autoscaler.identity, "app", world.history())

    assert fresh.container() == world.container()


def test_v4_percentiles_part_between_the_two_days() -> None:
    world = a_world()
    feed_v4(world)
    owner = world.usage.containers.aggregate[[world.row()]]
    row = int(world.usage.aggregates.bank_rows(CPU, owner)[0])

    assert world.usage.aggregates.cpu.percentile(row, 0.88) == pytest.approx(0.110266, rel=1e-5)
    assert world.usage.aggregates.cpu.percentile(row, 0.89) == pytest.approx(1.016281, rel=1e-5)


def test_v5_after_a_hundred_half_lives_everything_older_vanishes() -> None:
    world = a_world()
    feed_v4(world)
    world.pod("web-1", "app", labels={"rev": "2"})
    feed(world, start=datetime(2026, 12, 29, tzinfo=UTC), cpu=[2000], pod="web-1")
    history = world.history()

    expected = HistogramCheckpoint(datetime(2026, 12, 29, tzinfo=UTC), {49: 10000}, 0.1)
    assert history.cpu_histogram == expected
    assert history.total_samples_count == 2881


def test_v6_a_container_without_samples_shares_the_floor_but_gets_nothing() -> None:
    world = a_world("busy", "empty", "steady")
    feed_v3(world, "busy")
    feed_v4(world, "steady")
    recommendation = world.recommendation()

    assert [one.container_name for one in recommendation.containers] == ["busy", "steady"]
    assert recommendation.containers[1].target == amounts(1168)
    assert recommendation.without_samples == ("empty",)


def test_v7_humanized_memory_is_whole_bytes_here() -> None:
    world = a_world(settings=RecommendationSettings(humanize_memory=True))
    feed_v2(world)

    # The original prints 1170378588160m, a fraction of a byte less.
    assert world.container().target[MEMORY] == 1170378589


def test_v0_d11_nothing_is_recommended_without_samples() -> None:
    world = a_world()

    assert world.recommendation().containers == ()
    assert world.recommendation().lacks_samples


@pytest.mark.parametrize(
    ("feed_world", "known"),
    [
        pytest.param(
            lambda world: world.oom([2e9], [1]), MEMORY, id="killed before any CPU sample"
        ),
        pytest.param(lambda world: world.memory([2e9], [1]), MEMORY, id="memory samples only"),
        pytest.param(lambda world: world.cpu([500], [1]), CPU, id="CPU samples only"),
        pytest.param(
            lambda world: world.cpu([500] * DAY, range(DAY)), CPU, id="CPU samples for a whole day"
        ),
    ],
)
def test_f4_a_resource_without_samples_has_no_amount(
    feed_world: Callable[[World], object], known: Resource
) -> None:
    world = a_world()
    feed_world(world)
    published = world.container()

    for one in (
        published.target,
        published.lower_bound,
        published.upper_bound,
        published.uncapped_target,
    ):
        assert one is not None
        assert one.keys() == {known}
    assert world.recommendation().without_samples == ()


def test_f4_no_memory_is_made_up_after_a_restart_in_the_first_window() -> None:
    world = a_world()
    world.cpu([500] * 600, range(600))
    world.memory([4e9] * 600, range(600))
    restarted = world.restarted(600)
    restarted.pod(minute=601)
    restarted.cpu([500], [602])

    assert world.container().target.keys() == {CPU, MEMORY}
    assert restarted.container().target.keys() == {CPU}


def test_a_resource_is_published_with_its_first_sample() -> None:
    world = a_world()
    world.memory([2e9], [1])
    world.publications.refresh()
    world.cpu([500], [2])

    (changed,) = world.publications.refresh().values()
    assert changed.containers[0].target.keys() == {CPU, MEMORY}


@pytest.mark.parametrize("least", [amounts(), amounts(1000, 1024 * MIB)])
def test_samples_of_what_is_not_controlled_are_no_samples(least: Resources) -> None:
    policies = (ContainerPolicy("app", min_allowed=least, controlled_resources=(CPU,)),)
    world = a_world(autoscaler=an_autoscaler(policies=policies))
    world.memory([2e9], [1])

    assert world.recommendation().containers == ()
    assert world.recommendation().without_samples == ("app",)


def an_idle_world(*containers: str, **fields: object) -> World:
    world = a_world(*containers, **fields)
    for name in containers or ("app",):
        world.cpu([1] * DAY, range(DAY), name=name)
        world.memory([MIB], [0], name=name)
    return world


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param(("app",), amounts(25, 250 * MIB), id="one container gets all of it"),
        pytest.param(("a", "b"), amounts(12, 125 * MIB), id="two containers get half of it"),
    ],
)
def test_idle_containers_share_the_floor_of_a_pod(
    containers: tuple[str, ...], expected: dict[Resource, int]
) -> None:
    world = an_idle_world(*containers)

    assert [one.target for one in world.recommendation().containers] == [expected] * len(containers)


def test_f11_d15_the_floor_is_not_split_over_ghosts_of_renamed_containers() -> None:
    world = an_idle_world("old", "app")
    world.pod("web-0", "app")

    assert [one.container_name for one in world.recommendation().containers] == ["app"]
    assert world.container("app").target == amounts(25, 250 * MIB)


def test_d15_the_floor_is_split_anew_when_a_container_goes_or_comes_back() -> None:
    world = an_idle_world("old", "app")
    targets = []
    for containers in (["old", "app"], ["app"], ["old", "app"]):
        world.pod("web-0", *containers)
        targets.append(world.container("app").target)

    assert targets == [amounts(12, 125 * MIB), amounts(25, 250 * MIB), amounts(12, 125 * MIB)]


def test_d15_the_floor_is_split_anew_when_the_last_pod_with_a_container_goes() -> None:
    world = an_idle_world("app")
    world.pod("web-1", "old", labels={"rev": "1"})
    world.cpu([1], [0], "web-1", "old")
    before = world.container("app").target
    world.usage.forget(PodName("default", "web-1"))

    assert before == amounts(12, 125 * MIB)
    assert world.container("app").target == amounts(25, 250 * MIB)


def test_a_workload_without_pods_splits_the_floor_over_all_it_knows() -> None:
    world = an_idle_world("a", "b")
    world.usage.forget(PodName("default", "web-0"))

    assert world.container("a").target == amounts(12, 125 * MIB)


@pytest.mark.parametrize(
    ("policy", "target", "uncapped"),
    [
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(5, 32 * MIB)),
            amounts(11, 32 * MIB),
            amounts(11, 32 * MIB),
            id="a minimum below the floor replaces it",
        ),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(1000)),
            amounts(1000, 250 * MIB),
            amounts(25, 250 * MIB),
            id="a minimum above the floor leaves the uncapped target alone",
        ),
        pytest.param(
            ContainerPolicy("app", max_allowed=amounts(10, 10 * MIB)),
            amounts(10, 10 * MIB),
            amounts(25, 250 * MIB),
            id="a maximum below the floor wins",
        ),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(0, 0)),
            amounts(25, 250 * MIB),
            amounts(25, 250 * MIB),
            id="a minimum of zero is none",
        ),
    ],
)
def test_d15_what_a_user_allows_wins_over_the_floor(
    policy: ContainerPolicy, target: dict[Resource, int], uncapped: dict[Resource, int]
) -> None:
    world = an_idle_world(autoscaler=an_autoscaler(policies=(policy,)))

    assert world.container().target == target
    assert world.container().uncapped_target == uncapped


def test_a_container_that_is_switched_off_is_left_out_of_everything() -> None:
    policies = (ContainerPolicy("side", mode=ContainerMode.OFF),)
    world = an_idle_world("app", "side", autoscaler=an_autoscaler(policies=policies))

    assert [one.container_name for one in world.recommendation().containers] == ["app"]
    assert world.container("app").target == amounts(25, 250 * MIB)


@pytest.mark.parametrize(
    ("controlled", "keys"),
    [
        pytest.param((CPU,), {CPU}, id="only CPU"),
        pytest.param((MEMORY,), {MEMORY}, id="only memory"),
        pytest.param((), set(), id="nothing at all"),
        pytest.param((CPU, MEMORY), {CPU, MEMORY}, id="both"),
    ],
)
def test_only_controlled_resources_are_published(
    controlled: tuple[Resource, ...], keys: set[Resource]
) -> None:
    policies = (ContainerPolicy("*", controlled_resources=controlled),)
    published = an_idle_world(autoscaler=an_autoscaler(policies=policies)).container()

    for one in (published.target, published.lower_bound, published.upper_bound):
        assert one is not None
        assert one.keys() == keys


def test_whole_cores_are_published_where_flag_and_annotation_agree() -> None:
    annotated = an_autoscaler(
        annotations={"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
    )
    found = []
    for integer_cpu in (False, True):
        world = a_world(
            settings=RecommendationSettings(integer_cpu=integer_cpu), autoscaler=annotated
        )
        feed_v2(world)
        found.append(world.container())

    assert found[0].target[CPU] == 587
    assert found[1].target[CPU] == 1000
    assert found[1].uncapped_target is not None
    assert found[1].uncapped_target[CPU] == 1000
    assert found[1].upper_bound is not None
    assert found[1].upper_bound[CPU] == 2000
    assert found[0].target[MEMORY] == found[1].target[MEMORY]


def test_rounding_applies_to_every_number_and_caps_come_after_it() -> None:
    settings = RecommendationSettings(
        cpu=ResourceSettings(25, rounding=100), memory=ResourceSettings(MIB, rounding=64 * MIB)
    )
    policies = (ContainerPolicy("app", max_allowed=amounts(1750)),)
    world = a_world(settings=settings, autoscaler=an_autoscaler(policies=policies))
    feed_v2(world)
    published = world.container()

    assert published.target == amounts(600, 1152 * MIB)
    assert published.uncapped_target == amounts(600, 1152 * MIB)
    assert published.lower_bound == amounts(600, 1152 * MIB)
    assert published.upper_bound == amounts(1750, 3392 * MIB)


def test_the_global_maximum_caps_what_policies_leave_open() -> None:
    world = a_world(settings=RecommendationSettings(max_allowed=amounts(memory=1024 * MIB)))
    feed_v2(world)

    assert world.container().target == amounts(587, 1024 * MIB)
    assert world.container().uncapped_target == amounts(587, 1168723596)


def test_only_autoscalers_whose_numbers_changed_are_reported() -> None:
    world = a_world()
    other = an_autoscaler(name="other")
    world.usage.learn(other, a_selector(app="other"))
    world.usage.track(PodName("default", "other-0"), {"app": "other"}, ["app"], moment(0))
    assert world.publications.refresh().keys() == {world.autoscaler.identity, other.identity}
    world.cpu([500], [1])

    assert world.publications.refresh().keys() == {world.autoscaler.identity}
    assert world.publications.refresh() == {}


def test_f34_samples_that_change_no_number_are_not_reported() -> None:
    world = a_world(settings=RecommendationSettings(max_allowed=amounts(10, MIB)))
    world.cpu([500, 500], [1, 2])
    world.memory([500 * MIB], [1])
    world.publications.refresh()
    world.cpu([510], [3])

    assert world.publications.refresh() == {}


def test_a_new_policy_is_reported_without_a_sample() -> None:
    world = an_idle_world()
    world.publications.refresh()
    world.say(policies=(ContainerPolicy("app", min_allowed=amounts(2000)),))

    (changed,) = world.publications.refresh().values()
    assert changed.containers[0].target[CPU] == 2000


def test_a_deleted_autoscaler_says_nothing() -> None:
    world = an_idle_world()
    world.publications.refresh()
    world.usage.unlearn(world.autoscaler.identity)

    assert world.publications.refresh() == {}


@pytest.mark.parametrize("is_seen_to_go", [True, False])
def test_an_autoscaler_that_was_made_anew_is_reported_again(*, is_seen_to_go: bool) -> None:
    world = an_idle_world()
    before = world.publications.refresh()
    if is_seen_to_go:
        world.usage.unlearn(world.autoscaler.identity)
    world.say(uid="another")

    assert world.publications.refresh() == before
    assert world.publications.refresh() == {}


def test_an_autoscaler_that_is_taken_up_again_is_not_reported() -> None:
    world = an_idle_world()
    world.publications.refresh()
    world.usage.unlearn(world.autoscaler.identity)
    world.say()

    assert world.publications.refresh() == {}


def test_an_autoscaler_without_pods_is_reported_once_as_empty() -> None:
    world = World()

    (first,) = world.publications.refresh().values()
    assert first.containers == ()
    assert not first.lacks_samples
    assert world.publications.refresh() == {}


caps = st.fixed_dictionaries(
    {}, optional={CPU: st.integers(0, 3000), MEMORY: st.integers(0, 10**9)}
)
policies = st.lists(
    st.builds(
        ContainerPolicy,
        st.sampled_from(["app", "side", "*"]),
        st.sampled_from(ContainerMode),
        caps,
        caps,
        st.sets(st.sampled_from(Resource)).map(lambda chosen: tuple(sorted(chosen))),
    ),
    max_size=3,
).map(tuple)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("cpu"), st.sampled_from(["web-0", "web-1"]), st.integers(0, 5000)),
        st.tuples(st.just("memory"), st.sampled_from(["web-0", "web-1"]), st.integers(0, 10**10)),
        st.tuples(st.just("pod"), st.sampled_from(["web-0", "web-1"]), st.integers(0, 2)),
        st.tuples(st.just("forget"), st.sampled_from(["web-0", "web-1"]), st.just(0)),
        st.tuples(st.just("refresh"), st.just(""), st.just(0)),
        st.tuples(st.just("policies"), policies, st.just(0)),
    ),
    max_size=25,
)


def play(world: World, step: tuple[str, object, int], minute: int) -> None:
    kind, subject, number = step
    match kind:
        case "cpu" | "memory":
            add = world.cpu if kind == "cpu" else world.memory
            add([number], [minute], pod=str(subject))
        case "pod":
            names = ("app", "side")[: 1 + number % 2]
            world.pod(str(subject), *names, labels={"rev": str(number)})
        case "forget":
            world.usage.forget(PodName("default", str(subject)))
        case "policies":
            world.say(policies=subject)
        case _:
            world.publications.refresh()


@given(steps)
def test_what_is_published_step_by_step_is_what_would_be_published_at_once(
    script: list[tuple[str, object, int]],
) -> None:
    world = World()
    for minute, step in enumerate(script):
        play(world, step, minute)
    step_by_step = world.recommendation()
    at_once = Publications(world.usage, world.settings)
    world.usage.learn(replace(world.autoscaler, generation=7), a_selector(**WEB))

    assert at_once.refresh()[world.autoscaler.identity] == step_by_step


def plainly_capped(
    uncapped: ContainerRecommendation, given_policies: tuple[ContainerPolicy, ...], most: Resources
) -> Resources:
    """What becomes of a target, told without columns."""
    policy = policy_for(given_policies, uncapped.container_name)
    highest = {**most, **(policy.max_allowed if policy else {})}
    lowest = policy.min_allowed if policy else {}
    return {
        resource: min(max(amount, lowest.get(resource, 0)), highest.get(resource) or MAX_AMOUNT)
        for resource, amount in uncapped.target.items()
    }


@given(st.integers(0, 5000), st.integers(0, 10**10), policies, caps)
def test_every_container_is_published_inside_its_caps(
    cpu: int, memory: int, given_policies: tuple[ContainerPolicy, ...], global_max: Resources
) -> None:
    plain = tuple(
        replace(policy, mode=ContainerMode.AUTO, min_allowed={}, max_allowed={})
        for policy in given_policies
    )
    capping = tuple(replace(policy, mode=ContainerMode.AUTO) for policy in given_policies)
    floors = RecommendationSettings(cpu=ResourceSettings(0), memory=ResourceSettings(0))
    world = a_world(settings=replace(floors, max_allowed=global_max))
    world.cpu([cpu], [0])
    world.memory([memory], [0])
    bare = a_world(settings=floors, autoscaler=an_autoscaler(policies=plain))
    bare.usage, bare.publications = world.usage, Publications(world.usage, floors)
    bare.say(policies=plain)
    uncapped = bare.recommendation().containers
    world.say(policies=capping)
    published = world.recommendation().containers

    for one, free in zip(published, uncapped, strict=True):
        assert one.target == plainly_capped(free, capping, global_max)
        assert one.uncapped_target == free.target


WARY = PublishingSettings(far_move_fraction=0.02)
"""Every bound that moved by 2 % matters."""


def test_f34_small_bound_changes_are_published_on_request_and_compared_then() -> None:
    world = World()
    world.pod()
    world.cpu([100] * 300, range(300))
    name = world.autoscaler.identity
    first = world.publications.refresh(WARY)[name]
    crept = 0
    for minute in range(300, 330):
        world.cpu([100], [minute])
        changed = world.publications.refresh(WARY)
        if changed:
            break
        assert world.publications.small_changes == {name}
        crept += 1

    assert 3 <= crept <= 10
    assert changed[name] != first
    world.cpu([100], [minute + 1])
    assert world.publications.refresh(WARY) == {}
    told = world.publications.mark_published(name)
    assert told != changed[name]
    assert world.publications.refresh(WARY) == {}
    assert world.publications.small_changes == set()


def test_a_target_is_told_however_little_it_moved() -> None:
    world = World()
    world.pod()
    world.memory([1e9], [0])
    world.publications.refresh(PublishingSettings(bound_move_fraction=0.5))
    world.memory([1.06e9], [1])

    assert list(world.publications.refresh(PublishingSettings(bound_move_fraction=0.5))) == [
        world.autoscaler.identity
    ]


def test_a_bound_that_moved_by_next_to_nothing_drifts() -> None:
    world = a_world()
    world.cpu([100] * 300, range(300))
    name = world.autoscaler.identity
    world.publications.refresh(PublishingSettings())
    world.cpu([100], [300])
    changed = world.publications.refresh(PublishingSettings(drift_fraction=0.5))
    drifting = world.publications.drifting
    world.publications.refresh(PublishingSettings(drift_fraction=0.0))

    assert (changed, drifting) == ({}, {name})
    assert (world.publications.small_changes, world.publications.drifting) == ({name}, set())


@pytest.mark.parametrize(
    ("requests", "is_told"),
    [
        pytest.param([30], True, id="the lower bound passed a request"),
        pytest.param([24, 900], True, id="it moved between two requests"),
        pytest.param([600], False, id="the request is within the bounds as before"),
        pytest.param([], False, id="nothing is requested"),
    ],
)
def test_a_bound_is_told_at_once_where_it_moved_past_a_request(
    requests: list[int], *, is_told: bool
) -> None:
    """The lower bound goes from 25 to 68 millicores while history grows, the target stays."""
    patient = PublishingSettings(far_move_fraction=1e9)
    world = a_world()
    world.cpu([100, 100], [0, 1])
    world.memory([1e6], [0])
    for number, request in enumerate(requests):
        world.pod(f"web-{number}")
        pod = PodName(world.autoscaler.namespace, f"web-{number}")
        world.usage.note_requests(pod, {"app": amounts(request)})
    (before,) = world.publications.refresh(patient).values()
    world.cpu([100] * 3, range(2, 5))
    changed = world.publications.refresh(patient)
    after = world.publications.recommendation(world.autoscaler.identity)

    assert before.containers[0].target == after.containers[0].target
    assert (before.containers[0].lower_bound or {})[CPU] == 25
    assert (after.containers[0].lower_bound or {})[CPU] == 68
    assert bool(changed) is is_told


def test_histories_are_saved_until_something_else_is_recommended() -> None:
    world = a_world()
    world.cpu([100] * 300, range(300))
    name = world.autoscaler.identity
    world.publications.refresh()
    never = world.publications.list_saved(0.02)
    world.publications.note_saved([name])
    saved = world.publications.list_saved(0.02)
    world.cpu([100], [300])
    world.publications.refresh()
    small_changes = world.publications.list_saved(0.02)
    world.oom([2e9], [300])
    world.publications.refresh()

    assert (never, saved, small_changes) == (set(), {name}, {name})
    assert world.publications.list_saved(0.02) == set()
