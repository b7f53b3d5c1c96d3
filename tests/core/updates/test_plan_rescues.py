"""Memory in place for pods that are OOM-killed early and whose change as a whole must wait."""

from collections.abc import Mapping
from datetime import datetime

import pytest
from msgspec import structs
from support.makers.plans import REPLICA_SET, SMALL, UP, by_pod, planned, snapshot_of
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Hold, Outcome, Resize
from trimtab.core.model.autoscalers import ContainerRecommendation, CpuBoost, UpdateMode
from trimtab.core.model.pods import Allocation, Container, Pod, PodPhase, ResizeState, Termination
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.core.updates.snapshot import PodMemory

KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
DYING = a_container(requests=SMALL, last_termination=KILLED)
READY = a_pod(name="ready", ready_since=NOW - minutes(9))
ACTING = [
    UpdateMode.RECREATE,
    UpdateMode.IN_PLACE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.UPSCALE_ONLY,
]
MEMORY_OF_APP = {"app": amounts(memory=200 * MIB)}


def waiting(count: int) -> list[Pod]:
    """Return pods for which there is no node."""
    return [a_pod(name=f"pending-{number}", phase=PodPhase.PENDING) for number in range(count)]


def asked_of(outcome: Outcome) -> Mapping[str, Resources] | str:
    """Return the requests of a resize by container, or the reason of a hold."""
    if isinstance(outcome, Hold):
        return outcome.reason.value
    assert outcome.wanted is not None
    return {name: each.requests for name, each in outcome.wanted.items() if each.requests}


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
def test_a_pod_that_dies_does_not_wait_for_pods_that_find_no_node(mode: UpdateMode) -> None:
    # The pods without a node take the whole budget, perhaps for good.
    pods = [READY, a_pod(DYING, name="dying"), *waiting(2)]
    outcomes = by_pod(planned(snapshot_of(pods, an_autoscaler(UP, mode=mode))))

    assert outcomes["dying"] == "Resize"
    assert outcomes["ready"] == "BudgetSpent"


def test_a_pod_that_dies_does_not_wait_for_pods_that_are_not_there() -> None:
    pods = [READY, a_pod(DYING, name="dying")]
    snapshot = snapshot_of(pods, an_autoscaler(UP), configured_replicas={REPLICA_SET: 4})

    assert by_pod(planned(snapshot)) == {"dying": "Resize", "ready": "BudgetSpent"}


@pytest.mark.parametrize("mode", ACTING)
def test_a_container_that_dies_restarts_alone_where_the_budget_is_spent(mode: UpdateMode) -> None:
    restarts = frozenset(BOTH)
    dying = a_container(requests=SMALL, last_termination=KILLED, restarts_on_resize=restarts)
    helper = a_container("helper", requests=SMALL, restarts_on_resize=restarts)
    more = a_recommendation("helper", target=amounts(500, 500 * MIB), lower=amounts(400))
    pods = [READY, a_pod(dying, helper, name="dying"), *waiting(2)]
    found = planned(snapshot_of(pods, an_autoscaler(UP, more, mode=mode)))
    (outcome,) = [each for each in found if each.pod.name == "dying"]

    assert asked_of(outcome) == {"app": amounts(500, 500 * MIB)}


def with_helper(*, dying: Container = DYING, on_node: str = "one") -> Pod:
    return a_pod(dying, a_container("helper", requests=SMALL), node_name=on_node)


GREEDY = (
    a_recommendation("app", target=amounts(100, 200 * MIB), lower=amounts(90, 150 * MIB)),
    a_recommendation("helper", target=amounts(100, 9000 * MIB), lower=amounts(90, 8000 * MIB)),
)


@pytest.mark.parametrize("mode", ACTING)
@pytest.mark.parametrize("restarts", [frozenset(), frozenset(BOTH)], ids=["free", "restarts"])
def test_a_container_that_dies_does_not_wait_for_what_its_neighbour_wants(
    mode: UpdateMode, restarts: frozenset[Resource]
) -> None:
    dying = a_container(requests=SMALL, last_termination=KILLED, restarts_on_resize=restarts)
    use = NodeUse({"one": amounts(4000, 4000 * MIB)}, {"one": amounts(200, 200 * MIB)})
    pod = with_helper(dying=dying)
    (outcome,) = planned(snapshot_of([pod], an_autoscaler(*GREEDY, mode=mode), node_use=use))

    assert asked_of(outcome) == MEMORY_OF_APP


@pytest.mark.parametrize("mode", ACTING)
def test_a_container_that_dies_does_not_wait_for_quota_that_its_neighbour_wants(
    mode: UpdateMode,
) -> None:
    quota = Quota("default", "q", {QuotaClaim(Side.REQUESTS, Resource.MEMORY): 4000 * MIB})
    snapshot = snapshot_of(
        [with_helper()], an_autoscaler(*GREEDY, mode=mode), quotas={"default": [quota]}
    )
    (outcome,) = planned(snapshot)

    assert asked_of(outcome) == MEMORY_OF_APP


def test_a_container_that_dies_gets_no_memory_that_its_node_does_not_have() -> None:
    use = NodeUse({"one": amounts(4000, 250 * MIB)}, {"one": amounts(200, 200 * MIB)})
    autoscaler = an_autoscaler(*GREEDY, mode=UpdateMode.IN_PLACE)
    (outcome,) = planned(snapshot_of([with_helper()], autoscaler, node_use=use))

    assert asked_of(outcome) == "ResizeInfeasible"


LESS_CPU = a_recommendation(
    target=amounts(50, 200 * MIB), lower=amounts(40, 150 * MIB), upper=amounts(90, 900 * MIB)
)
MORE_CPU = a_recommendation(target=amounts(300, 200 * MIB), lower=amounts(200, 150 * MIB))
LITTLE_CPU = a_recommendation(target=amounts(130, 200 * MIB), lower=amounts(90, 150 * MIB))
FULL_QUOTA = {
    "quotas": {"default": [Quota("default", "q", {QuotaClaim(Side.REQUESTS, Resource.MEMORY): 0})]}
}
FULL_NODE = {
    "node_use": NodeUse({"one": amounts(4000, 100 * MIB)}, {"one": amounts(100, 100 * MIB)})
}


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize(
    "full", [pytest.param(FULL_QUOTA, id="full quota"), pytest.param(FULL_NODE, id="full node")]
)
@pytest.mark.parametrize(
    ("recommended", "restarts", "gets"),
    [
        pytest.param(LESS_CPU, False, None, id="no CPU is taken"),
        pytest.param(LESS_CPU, True, None, id="nothing restarts to take CPU"),
        pytest.param(MORE_CPU, False, amounts(300), id="CPU that it lacks is given"),
        pytest.param(MORE_CPU, True, None, id="nothing restarts for CPU"),
        pytest.param(LITTLE_CPU, False, None, id="a little CPU inside the bounds can wait"),
    ],
)
def test_where_there_is_no_memory_that_ends_oom_kills_nothing_else_is_urgent(
    mode: UpdateMode,
    full: dict[str, object],
    recommended: ContainerRecommendation,
    gets: Resources | None,
    *,
    restarts: bool,
) -> None:
    kinds = frozenset({Resource.CPU}) if restarts else frozenset()
    dying = a_container(requests=SMALL, last_termination=KILLED, restarts_on_resize=kinds)
    pod = a_pod(dying, node_name="one")
    # It was resized a moment ago.
    memory = {(pod.uid, an_autoscaler().identity): PodMemory(last_updated_at=NOW - minutes(1))}
    autoscaler = an_autoscaler(recommended, mode=mode)
    (outcome,) = planned(snapshot_of([pod], autoscaler, pod_memory=memory, **full))

    if gets is None:
        assert isinstance(outcome, Hold)
    else:
        assert asked_of(outcome) == {"app": gets}


BOOST_OF_APP = {**BOOST_TOLD, annotation_name("app"): format_original(Allocation(SMALL))}


def boosted_and_dying(**fields: object) -> Pod:
    """Return a pod with four times its CPU, in an OOM loop on a node that is known."""
    container = a_container(requests=amounts(400, 100 * MIB), last_termination=KILLED)
    usual: dict[str, object] = {"annotations": BOOST_OF_APP, "node_name": "one"}
    return a_pod(container, age=minutes(5), **(usual | fields))  # type: ignore[arg-type]


def plan_boosted(pod: Pod, mode: UpdateMode, free_mib: int = 4000) -> Outcome:
    use = NodeUse({"one": amounts(4000, (100 + free_mib) * MIB)}, {"one": amounts(400, 100 * MIB)})
    autoscaler = an_autoscaler(GREEDY[0], mode=mode, boost=CpuBoost(factor=4))
    (outcome,) = planned(snapshot_of([pod], autoscaler, node_use=use))
    return outcome


@pytest.mark.parametrize("mode", ACTING)
def test_a_boosted_pod_that_dies_gets_its_memory_and_keeps_its_boost(mode: UpdateMode) -> None:
    assert asked_of(plan_boosted(boosted_and_dying(), mode)) == MEMORY_OF_APP


@pytest.mark.parametrize(
    ("pod", "mode", "free_mib"),
    [
        pytest.param(boosted_and_dying(), UpdateMode.OFF, 4000, id="the mode leaves pods alone"),
        pytest.param(boosted_and_dying(), UpdateMode.IN_PLACE, 50, id="its node is full"),
        # If the kubelet put that off, the boost could not end either.
        pytest.param(
            boosted_and_dying(node_name="two"), UpdateMode.IN_PLACE, 4000, id="nothing is known"
        ),
        pytest.param(
            a_pod(age=minutes(5), annotations=BOOST_OF_APP, node_name="one"),
            UpdateMode.IN_PLACE,
            4000,
            id="nothing was killed",
        ),
    ],
)
def test_other_boosted_pods_keep_their_size(pod: Pod, mode: UpdateMode, free_mib: int) -> None:
    assert asked_of(plan_boosted(pod, mode, free_mib)) == "BoostActive"


@pytest.mark.parametrize("ready_since", [None, NOW], ids=["down", "ready"])
def test_only_a_restart_of_what_works_asks_the_disruption_budgets(
    ready_since: datetime | None,
) -> None:
    dying = a_container(requests=SMALL, last_termination=KILLED, restarts_on_resize=True)
    pods = [
        a_pod(dying, name="web-0", ready_since=ready_since),
        READY,
        structs.replace(READY, name="last"),
    ]
    outcomes = planned(snapshot_of(pods, an_autoscaler(UP, mode=UpdateMode.IN_PLACE)))
    (outcome,) = [each for each in outcomes if each.pod.name == "web-0"]

    assert isinstance(outcome, Resize)
    assert outcome.disturbs == (ready_since is not None)


SECOND = structs.replace(DYING, name="second")
BOTH_DIE = (
    a_recommendation("app", target=amounts(100, 900 * MIB), lower=amounts(90, 800 * MIB)),
    a_recommendation("second", target=amounts(100, 300 * MIB), lower=amounts(90, 250 * MIB)),
)
"""One needs 800 MiB more, the other 200 MiB."""


def plan_two_that_die(
    pod: Pod, mode: UpdateMode, **fields: object
) -> Mapping[str, Resources] | str:
    (outcome,) = planned(snapshot_of([pod], an_autoscaler(*BOTH_DIE, mode=mode), **fields))
    return asked_of(outcome)


@pytest.mark.parametrize("mode", ACTING)
@pytest.mark.parametrize(
    ("free_mib", "expected"),
    [
        pytest.param(1000, {"app": 900, "second": 300}, id="both fit"),
        pytest.param(999, {"second": 300}, id="one is too much"),
        pytest.param(199, None, id="none fits"),
    ],
)
def test_of_two_containers_that_die_the_one_that_fits_grows(
    mode: UpdateMode, free_mib: int, expected: dict[str, int] | None
) -> None:
    pod = a_pod(DYING, SECOND, node_name="one")
    use = NodeUse({"one": amounts(900, (200 + free_mib) * MIB)}, {"one": amounts(200, 200 * MIB)})
    asked = plan_two_that_die(pod, mode, node_use=use)

    if expected is None:
        assert isinstance(asked, str)
    else:
        assert not isinstance(asked, str)
        memory = {name: each[Resource.MEMORY] // MIB for name, each in asked.items()}
        assert memory == expected


@pytest.mark.parametrize("mode", ACTING)
def test_of_two_containers_that_die_one_grows_by_what_a_quota_leaves(mode: UpdateMode) -> None:
    quota = Quota("default", "q", {QuotaClaim(Side.REQUESTS, Resource.MEMORY): 600 * MIB})
    asked = plan_two_that_die(a_pod(DYING, SECOND), mode, quotas={"default": [quota]})

    assert asked == {"second": amounts(memory=300 * MIB)}


@pytest.mark.parametrize("mode", ACTING)
def test_growth_of_both_that_the_kubelet_puts_off_gives_way_to_that_of_one(
    mode: UpdateMode,
) -> None:
    asked = a_container(
        requests=amounts(100, 900 * MIB), last_termination=KILLED, status=Allocation(SMALL)
    )
    other = structs.replace(
        asked, name="second", spec=Allocation(amounts(100, 300 * MIB)), status=Allocation(SMALL)
    )
    pod = a_pod(asked, other, node_name="one", resize=ResizeState.DEFERRED)
    use = NodeUse({"one": amounts(900, 900 * MIB)}, {"one": amounts(200, 1200 * MIB)})

    assert plan_two_that_die(pod, mode, node_use=use) == {
        "app": SMALL,
        "second": amounts(memory=300 * MIB),
    }
