from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from msgspec import structs
from simulation.bare_cluster import a_node, a_placed_pod, a_world, passing, virtually
from support.makers.records import MIB, a_recommendation, amounts, an_autoscaler

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event, EventReason, about_pod
from trimtab.api.kinds.leases import Lease
from trimtab.cluster.errors import (
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.autoscalers import Condition
from trimtab.core.model.json_patch import Add, Patch, Remove
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Pod, PodPhase
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.api_server.writes import GRACE, ResizeRules, Serving
from trimtab.simulation.world.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    EventEmitted,
    Fact,
    LeaseWritten,
    PodEvicted,
    PodGone,
    PodPatched,
    PodResized,
    StatusPublished,
)
from trimtab.simulation.world.objects import DisruptionBudget, LimitRange, QuotaObject
from trimtab.simulation.world.virtual_time import START

CPU = "/spec/containers/0/resources/requests/cpu"
MORE: Patch = (Add(CPU, "250m"),)
WEB = Selector((equality("app", "web"),))


class Played:
    """A world with one node and one pod, and all that is told of it."""

    def __init__(self, pod: Pod | None = None) -> None:
        self.world = a_world()
        self.serving = Serving(self.world)
        self.world.nodes.put(a_node())
        self.pod = self.world.pods.put(pod or a_placed_pod())
        self.facts: list[Fact] = []
        self.world.subscribe(self.facts.append)

    @property
    def current(self) -> Pod | None:
        return self.world.pods.find(self.pod.namespace, self.pod.name)

    @property
    def told(self) -> list[type[Fact]]:
        return [type(fact) for fact in self.facts]


@virtually
async def test_a_pod_that_is_deleted_ends_gracefully() -> None:
    played = Played()
    played.serving.delete_pod(played.pod)
    await passing(seconds=GRACE.total_seconds() - 1)
    ending = played.current
    await passing(seconds=1)

    assert ending is not None
    assert ending.is_deleting
    assert played.current is None
    assert played.told == [PodGone]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_placed_pod(node_name="", phase=PodPhase.PENDING), id="without a node"),
        pytest.param(a_placed_pod(phase=PodPhase.SUCCEEDED), id="that is done"),
        pytest.param(a_placed_pod(phase=PodPhase.FAILED), id="that has failed"),
    ],
)
@virtually
async def test_a_pod_of_which_nothing_runs_is_gone_at_once(pod: Pod) -> None:
    played = Played(pod)
    played.serving.delete_pod(played.pod)

    assert played.current is None
    assert played.told == [PodGone]


@virtually
async def test_a_pod_on_a_lost_node_stays_until_somebody_says_that_it_ended() -> None:
    played = Played()
    played.world.nodes.put(a_node(is_ready=False))
    played.serving.delete_pod(played.pod)
    await passing(hours=1)
    stuck = played.current
    played.world.nodes.put(a_node())
    await passing(seconds=GRACE.total_seconds())

    assert stuck is not None
    assert stuck.is_deleting
    assert played.current is None


@virtually
async def test_a_successor_of_the_same_name_is_not_ended_with_its_predecessor() -> None:
    played = Played()
    played.serving.delete_pod(played.pod)
    played.serving.remove_pod(played.pod)
    successor = played.world.pods.put(structs.replace(played.pod, uid="other"))
    played.serving.delete_pod(played.pod)
    await passing(minutes=1)

    assert played.current == successor


@virtually
async def test_an_evicted_pod_is_deleted_and_told_of() -> None:
    played = Played()
    played.serving.evict("updater", played.pod)
    current = played.current

    assert current is not None
    assert current.is_deleting
    assert played.facts == [PodEvicted(START, "updater", played.pod)]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"uid": "other"}, id="it is another pod of that name"),
        pytest.param({"labels": {"app": "web", "role": "leader"}}, id="it has changed since"),
    ],
)
@virtually
async def test_a_pod_that_is_not_the_one_seen_is_not_evicted(change: dict[str, object]) -> None:
    played = Played()
    current = played.world.pods.put(structs.replace(played.pod, **change))

    with pytest.raises(ConflictError):
        played.serving.evict("updater", played.pod)
    assert played.current == current
    assert played.facts == []


@virtually
async def test_a_pod_that_is_gone_cannot_be_acted_upon() -> None:
    played = Played()
    played.serving.remove_pod(played.pod)
    serving, pod = played.serving, played.pod
    acts = [
        partial(serving.evict, "updater", pod),
        partial(serving.resize, "updater", pod, MORE),
        partial(serving.patch_pod, "updater", pod, MORE),
    ]

    for act in acts:
        with pytest.raises(NotFoundError):
            act()


@virtually
async def test_evicting_a_pod_that_is_about_to_go_does_nothing_more() -> None:
    played = Played(a_placed_pod(is_deleting=True))
    played.serving.evict("updater", played.pod)

    assert played.current == played.pod
    assert played.facts == []


@virtually
async def test_two_evictions_in_one_moment_do_not_both_pass_a_budget_for_one() -> None:
    played = Played()
    other = played.world.pods.put(a_placed_pod(name="web-1"))
    played.world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=1))
    played.serving.evict("updater", played.pod)

    with pytest.raises(BudgetError):
        played.serving.evict("updater", other)


@virtually
async def test_an_eviction_in_vain_costs_the_budget_all_the_same() -> None:
    played = Played()
    other = played.world.pods.put(a_placed_pod(name="web-1"))
    played.world.pods.put(structs.replace(played.pod, labels={"app": "web", "role": "leader"}))
    played.world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=1))
    with pytest.raises(ConflictError):
        played.serving.evict("updater", played.pod)

    with pytest.raises(BudgetError):
        played.serving.evict("updater", other)


@virtually
async def test_a_resize_changes_the_spec_and_leaves_the_status_to_the_kubelet() -> None:
    played = Played()
    played.serving.resize("updater", played.pod, MORE)
    after = played.current

    assert after is not None
    assert after.containers[0].spec == Allocation(amounts(250, 100 * MIB))
    assert after.containers[0].status == Allocation(amounts(100, 100 * MIB))
    assert int(after.resource_version) > int(played.pod.resource_version)
    assert played.facts == [PodResized(START, "updater", played.pod, after)]


@virtually
async def test_a_pod_that_has_changed_since_is_resized_if_it_is_still_that_pod() -> None:
    played = Played()
    played.world.pods.put(structs.replace(played.pod, labels={"app": "web", "role": "leader"}))
    played.serving.resize("updater", played.pod, MORE)

    assert played.told == [PodResized]
    played.world.pods.put(structs.replace(played.pod, uid="other"))
    with pytest.raises(ConflictError):
        played.serving.resize("updater", played.pod, MORE)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param((Add("/spec/containers/3/resources", {}),), id="no such container"),
        pytest.param((Remove("/metadata/annotations/none"),), id="nothing to take away"),
    ],
)
@virtually
async def test_a_patch_that_does_not_apply_is_refused_as_by_the_real_server(
    patch: Patch,
) -> None:
    played = Played()

    # The client reads a pod again before a resize is a conflict; here it is the pod that was seen.
    with pytest.raises(InvalidError) as refusal:
        played.serving.resize("updater", played.pod, patch)
    assert not refusal.value.causes
    with pytest.raises(ConflictError):
        played.serving.patch_pod("updater", played.pod, patch)


@virtually
async def test_a_resize_that_is_not_valid_names_its_causes() -> None:
    played = Played()

    with pytest.raises(InvalidError) as refusal:
        played.serving.resize("updater", played.pod, (Remove(CPU),))
    assert [cause.field for cause in refusal.value.causes] == [
        "spec.containers[0].resources.requests"
    ]
    assert played.current == played.pod


@virtually
async def test_a_resize_must_stay_inside_the_limit_ranges() -> None:
    played = Played()
    item = LimitRangeItem(LimitRangeType.POD, min=amounts(cpu=50))
    played.world.limit_ranges.put(LimitRange("default", "bounds", (item,)))

    with pytest.raises(ForbiddenError):
        played.serving.resize("updater", played.pod, (Add(CPU, "40m"),))
    played.serving.resize("updater", played.pod, MORE)
    assert played.told == [PodResized]


@virtually
async def test_a_limit_range_that_came_later_adds_its_defaults_in_a_resize() -> None:
    played = Played()
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(cpu=1000))
    played.world.limit_ranges.put(LimitRange("default", "bounds", (item,)))
    played.serving.resize("updater", played.pod, MORE)

    after = played.current
    assert after is not None
    assert after.containers[0].spec == Allocation(amounts(250, 100 * MIB), amounts(1000))


@virtually
async def test_a_resize_must_stay_inside_the_quota() -> None:
    played = Played()
    played.world.quotas.put(QuotaObject("default", "room", amounts(cpu=249)))

    with pytest.raises(ForbiddenError, match="exceeded quota"):
        played.serving.resize("updater", played.pod, MORE)
    assert played.current == played.pod


@virtually
async def test_a_newer_server_refuses_what_the_node_could_never_give() -> None:
    played = Played()
    patch = (Add(CPU, "9"),)
    played.serving.resize("updater", played.pod, patch)
    played.serving.resize_rules = ResizeRules(node_must_be_large_enough=True)

    seen = played.current
    assert seen is not None
    with pytest.raises(ForbiddenError) as refusal:
        played.serving.resize("updater", seen, patch)
    assert [cause.reason for cause in refusal.value.causes] == ["NodeCapacity"]


@virtually
async def test_a_resize_leaves_metadata_alone_and_a_patch_the_spec() -> None:
    played = Played()
    label = Add("/metadata/labels/role", "leader")
    played.serving.resize("updater", played.pod, (label, *MORE))
    resized = played.current

    assert resized is not None
    assert resized.labels == {"app": "web"}
    with pytest.raises(InvalidError):
        played.serving.patch_pod("updater", played.pod, (Add(CPU, "300m"),))


@virtually
async def test_a_patch_changes_metadata() -> None:
    played = Played()
    played.serving.patch_pod("updater", played.pod, (Add("/metadata/labels/role", "leader"),))

    after = played.current
    assert after is not None
    assert after.labels == {"app": "web", "role": "leader"}
    assert played.facts == [PodPatched(START, "updater", played.pod, after)]


@virtually
async def test_what_changes_nothing_makes_no_new_version() -> None:
    played = Played()
    autoscaler = played.world.add_autoscaler(an_autoscaler())
    lease = played.serving.write_lease("updater", Lease("default", "lock", holder="a"))
    latest = played.world.versions.latest
    played.serving.resize("updater", played.pod, (Add(CPU, "100m"),))
    played.serving.patch_pod("updater", played.pod, (Add("/metadata/labels/app", "web"),))
    played.serving.publish_conditions("updater", autoscaler, autoscaler.conditions)
    played.serving.write_lease("updater", lease)

    assert played.world.versions.latest == latest


@virtually
async def test_a_status_replaces_the_whole_one_before() -> None:
    played = Played()
    seen = played.world.add_autoscaler(an_autoscaler())
    recommendation = (a_recommendation(target=amounts(cpu=100)),)
    at = START + timedelta(milliseconds=1500)
    conditions = (Condition("RecommendationProvided", "True", last_transition_time=at),)
    played.serving.publish_status("recommender", seen, recommendation, conditions)

    after = played.world.autoscalers.find(seen.namespace, seen.name)
    assert after is not None
    assert after.recommendation == recommendation
    assert after.conditions[0].last_transition_time == START + timedelta(seconds=1)
    assert after.observed_generation == seen.generation == 1
    assert played.facts == [StatusPublished(START, "recommender", seen, after)]


@virtually
async def test_conditions_alone_are_written_only_over_the_version_seen() -> None:
    played = Played()
    seen = played.world.add_autoscaler(an_autoscaler())
    conditions = (Condition("NoMatch", "True"),)
    played.serving.publish_conditions("updater", seen, conditions)

    after = played.world.autoscalers.find(seen.namespace, seen.name)
    assert after is not None
    assert after.conditions == conditions
    with pytest.raises(ConflictError):
        played.serving.publish_conditions("updater", seen, ())


@virtually
async def test_an_autoscaler_that_is_gone_has_no_status_to_write() -> None:
    played = Played()

    with pytest.raises(NotFoundError):
        played.serving.publish_status("recommender", an_autoscaler(), (), ())
    with pytest.raises(NotFoundError):
        played.serving.publish_conditions("updater", an_autoscaler(), ())


@virtually
async def test_checkpoints_are_written_over_and_deleted_once() -> None:
    played = Played()
    histogram = HistogramCheckpoint(START, {1: 10_000}, 0.5)
    checkpoint = Checkpoint("default", "web", "app", AggregateCheckpoint(histogram, histogram))
    for _ in range(2):
        played.serving.save_checkpoint("recommender", checkpoint)
    stored = played.world.checkpoints.find("default", "web-app")
    for _ in range(2):
        played.serving.delete_checkpoint("recommender", "default", "web-app")

    assert stored
    assert replace(stored, resource_version="") == replace(checkpoint, name="web-app")
    assert played.told == [CheckpointSaved, CheckpointSaved, CheckpointDeleted]
    assert len(played.world.checkpoints) == 0


@virtually
async def test_a_lease_is_taken_only_in_the_version_seen() -> None:
    played = Played()
    created = played.serving.write_lease("a", Lease("default", "lock", holder="a"))
    renewed = played.serving.write_lease("a", replace(created, holder="b"))

    for stale in (created, Lease("default", "lock", holder="c")):
        with pytest.raises(ConflictError):
            played.serving.write_lease("c", stale)
    assert played.world.leases.find("default", "lock") == renewed
    assert renewed.created_at == created.created_at
    assert played.told == [LeaseWritten, LeaseWritten]


@virtually
async def test_a_lease_that_somebody_deleted_comes_back_with_its_renewal() -> None:
    played = Played()
    created = played.serving.write_lease("a", Lease("default", "lock", holder="a"))
    played.world.leases.delete("default", "lock")
    renewed = played.serving.write_lease("a", created)

    assert played.world.leases.find("default", "lock") == renewed


@virtually
async def test_events_are_only_told() -> None:
    played = Played()
    event = Event(about_pod(played.pod), EventReason.EVICTED_BY_VPA, "Evicted.", START)
    played.serving.emit("updater", event)

    assert played.facts == [EventEmitted(START, "updater", event)]


@virtually
async def test_limit_ranges_leave_alone_what_is_about_to_go() -> None:
    played = Played(a_placed_pod(is_deleting=True))
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(cpu=200))
    played.world.limit_ranges.put(LimitRange("default", "bounds", (item,)))
    played.serving.resize("updater", played.pod, MORE)

    assert played.told == [PodResized]
