from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from simulation.bare_cluster import a_placed_pod, a_workload, a_world, passing, virtually

from trimtab.cluster.errors import ApiError, BudgetError
from trimtab.core.model.pods import OwnerReference, Pod, PodPhase
from trimtab.core.model.selectors import Selector, equality
from trimtab.simulation.api_server.disruption_budgets import DISRUPTED_FOR, DisruptionBudgets
from trimtab.simulation.world.objects import DisruptionBudget, WorkloadObject
from trimtab.simulation.world.world import World

WEB = Selector((equality("app", "web"),))


def owned(by: WorkloadObject | None, count: int, **fields: object) -> list[Pod]:
    owner = None if by is None else by.reference
    tag = str(fields.get("phase", "")) + str(fields.get("ready_since", ""))
    names = [f"web-{tag}-{number}".lower() for number in range(count)]
    return [a_placed_pod(name=name, owner=owner, **fields) for name in names]


def put(world: World, *groups: Sequence[Pod]) -> list[Pod]:
    return [world.pods.put(pod) for group in groups for pod in group]


def is_granted(budgets: DisruptionBudgets, pod: Pod) -> bool:
    try:
        budgets.grant("evict", pod)
    except BudgetError:
        return False
    return True


@pytest.mark.parametrize(
    ("healthy", "unready", "min_available", "allowed"),
    [
        pytest.param(3, 0, 2, 1, id="one may go of three where two must stay"),
        pytest.param(3, 0, 3, 0, id="none where all must stay"),
        pytest.param(2, 1, 2, 0, id="what is not ready does not count"),
        pytest.param(3, 0, 0, 3, id="all where none must stay"),
        pytest.param(0, 3, 0, 0, id="of those that are not ready none is left to go"),
        pytest.param(2, 0, 5, 0, id="never fewer than none"),
    ],
)
@virtually
async def test_a_budget_of_available_pods_allows_what_is_left_over(
    healthy: int, unready: int, min_available: int, allowed: int
) -> None:
    world = a_world()
    put(world, owned(None, healthy), owned(None, unready, ready_since=None))
    budget = world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=min_available))
    standing = DisruptionBudgets(world).standing(budget)

    assert standing is not None
    assert standing.allowed == allowed


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        pytest.param("ReplicaSet", 1, id="a set says how many it wants"),
        pytest.param("StatefulSet", 1, id="so does a stateful one"),
        pytest.param("Rollout", 1, id="so does whatever can be scaled"),
        pytest.param("DaemonSet", None, id="a DaemonSet does not, and none may go"),
        pytest.param("Job", None, id="nor does a Job"),
    ],
)
@virtually
async def test_a_budget_of_missing_pods_asks_their_owners(kind: str, allowed: int | None) -> None:
    world = a_world()
    owner = world.add_workload(a_workload(kind, replicas=4))
    pods = put(world, owned(owner, 4), owned(owner, 3, phase=PodPhase.PENDING, ready_since=None))
    budget = world.budgets.put(DisruptionBudget("default", "web", WEB, max_unavailable=1))
    budgets = DisruptionBudgets(world)
    standing = budgets.standing(budget)

    assert (standing.allowed if standing else None) == allowed
    assert is_granted(budgets, pods[0]) is (allowed == 1)


@virtually
async def test_pods_of_a_deployment_are_counted_by_the_deployment_not_its_sets() -> None:
    world = a_world()
    deployment = world.add_workload(a_workload("Deployment", replicas=4))
    sets = [
        world.add_workload(
            a_workload("ReplicaSet", name, replicas=size, owner=deployment.reference)
        )
        for name, size in (("web-old", 3), ("web-new", 2))
    ]
    put(world, owned(sets[0], 3), owned(sets[1], 2, phase=PodPhase.RUNNING))
    budget = world.budgets.put(DisruptionBudget("default", "web", WEB, max_unavailable=1))
    standing = DisruptionBudgets(world).standing(budget)

    assert standing is not None
    assert (standing.expected, standing.needed, standing.allowed) == (4, 3, 2)


@virtually
async def test_a_pod_whose_owner_is_gone_may_not_go_either() -> None:
    world = a_world()
    owner = a_workload("ReplicaSet", uid="gone")
    (pod, *_) = put(world, owned(owner, 3))
    world.budgets.put(DisruptionBudget("default", "web", WEB, max_unavailable=2))

    assert not is_granted(DisruptionBudgets(world), pod)


@virtually
async def test_pods_that_nobody_owns_are_not_expected_by_anyone() -> None:
    world = a_world()
    (pod, *_) = put(world, owned(None, 3))
    world.budgets.put(DisruptionBudget("default", "web", WEB, max_unavailable=2))

    assert not is_granted(DisruptionBudgets(world), pod)


@virtually
async def test_what_was_granted_is_spent_in_the_same_moment() -> None:
    world = a_world()
    pods = put(world, owned(None, 3))
    world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=2))
    budgets = DisruptionBudgets(world)

    assert [is_granted(budgets, pod) for pod in pods] == [True, False, False]


@virtually
async def test_a_pod_that_did_not_go_after_all_counts_again_later() -> None:
    world = a_world()
    pods = put(world, owned(None, 3))
    world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=2))
    budgets = DisruptionBudgets(world)
    budgets.grant("evict", pods[0])
    await passing(seconds=(DISRUPTED_FOR - timedelta(seconds=1)).total_seconds())
    before = is_granted(budgets, pods[1])
    await passing(seconds=1)

    assert not before
    assert is_granted(budgets, pods[1])


@pytest.mark.parametrize(
    ("healthy", "min_available", "is_free"),
    [
        pytest.param(2, 2, True, id="the others are enough"),
        pytest.param(1, 2, False, id="the others are too few"),
        pytest.param(0, 0, False, id="nothing is needed, and nothing is there"),
        pytest.param(1, 0, True, id="nothing is needed, and one is there"),
    ],
)
@virtually
async def test_a_pod_that_is_not_ready_may_go_if_the_others_do_without_it(
    healthy: int, min_available: int, *, is_free: bool
) -> None:
    world = a_world()
    put(world, owned(None, healthy))
    (broken,) = put(world, owned(None, 1, ready_since=None))
    world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=min_available))

    assert is_granted(DisruptionBudgets(world), broken) is is_free


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"phase": PodPhase.PENDING}, id="one that does not run yet"),
        pytest.param({"phase": PodPhase.SUCCEEDED}, id="one that is done"),
        pytest.param({"phase": PodPhase.FAILED}, id="one that has failed"),
        pytest.param({"is_deleting": True}, id="one that is about to go"),
        pytest.param({"labels": {"app": "other"}}, id="one that nobody protects"),
        pytest.param({"namespace": "elsewhere"}, id="one in another namespace"),
    ],
)
@virtually
async def test_some_pods_may_go_whatever_the_budget_says(fields: dict[str, Any]) -> None:
    world = a_world()
    (pod,) = put(world, [a_placed_pod(**fields)])
    world.budgets.put(DisruptionBudget("default", "web", WEB, min_available=9))

    assert is_granted(DisruptionBudgets(world), pod)


@virtually
async def test_a_pod_with_two_budgets_cannot_be_evicted_at_all() -> None:
    world = a_world()
    (pod,) = put(world, [a_placed_pod(owner=OwnerReference("Pod", "x"))])
    for name in ("one", "two"):
        world.budgets.put(DisruptionBudget("default", name, WEB, min_available=0))

    with pytest.raises(ApiError, match="more than one") as refusal:
        DisruptionBudgets(world).grant("evict", pod)
    assert refusal.value.status.code == 500
