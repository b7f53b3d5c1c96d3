from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.makers.plans import (
    DOWN,
    REPLICA_SET,
    SMALL,
    UP,
    by_pod,
    planned,
    several,
    snapshot_of,
    told,
)
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
)

from trimtab.api.explain.pods import tell_check
from trimtab.core.changes.outcomes import Hold, Resize
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import ContainerRecommendation, UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.pods import Container, OwnerReference, Pod, PodPhase
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.updates.checks.check import CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import RESTART_GAP
from trimtab.core.updates.snapshot import PodMemory, Retry

IN_PLACE, EITHER = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
UPSCALE_ONLY = UpdateMode.UPSCALE_ONLY


def selecting(role: str) -> Selector:
    return Selector((LabelRequirement("role", Operator.IN, (role,)),))


def test_half_of_a_group_is_evicted_at_once() -> None:
    outcomes = planned(snapshot_of(several(5), an_autoscaler(UP)))

    assert told(outcomes) == ["Evict"] * 2 + ["BudgetSpent"] * 3


@pytest.mark.parametrize("mode", [IN_PLACE, EITHER, UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("replicas", "missing"),
    [
        pytest.param(5, 0, id="a whole group at once"),
        pytest.param(1, 0, id="a single replica"),
        pytest.param(1, 4, id="while all others are missing"),
    ],
)
def test_resizes_that_restart_nothing_need_neither_budget_nor_replicas(
    mode: UpdateMode, replicas: int, missing: int
) -> None:
    snapshot = snapshot_of(
        several(replicas),
        an_autoscaler(UP, mode=mode),
        configured_replicas={REPLICA_SET: replicas + missing},
    )

    assert told(planned(snapshot)) == ["Resize"] * replicas


@pytest.mark.parametrize("mode", [IN_PLACE, EITHER])
def test_a_single_replica_also_shrinks_in_place(mode: UpdateMode) -> None:
    pod = a_pod(ready_since=NOW)

    assert told(planned(snapshot_of([pod], an_autoscaler(DOWN, mode=mode)))) == ["Resize"]


def restarting_on(*kinds: Resource) -> Container:
    return a_container(requests=SMALL, restarts_on_resize=frozenset(kinds))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(amounts(500, 100 * MIB), "Resize", id="only cpu changes"),
        pytest.param(amounts(100, 500 * MIB), "BelowMinReplicas", id="memory changes"),
    ],
)
def test_a_policy_to_restart_matters_only_for_what_changes(
    target: Resources, expected: str
) -> None:
    pod = a_pod(restarting_on(Resource.MEMORY))
    autoscaler = an_autoscaler(a_recommendation(target=target, lower=target), mode=IN_PLACE)

    assert told(planned(snapshot_of([pod], autoscaler))) == [expected]


def exactly(cpu: int, memory: int) -> ContainerRecommendation:
    target = amounts(cpu, memory)
    return a_recommendation(target=target, lower=target, upper=target)


@pytest.mark.parametrize(
    ("recommendation", "wanted"),
    [
        pytest.param(exactly(500, 500 * MIB), amounts(500), id="both grow"),
        pytest.param(exactly(500, 50 * MIB), amounts(500), id="memory shrinks"),
        pytest.param(exactly(50, 500 * MIB), amounts(50), id="cpu shrinks"),
        pytest.param(
            replace(exactly(101, 500 * MIB), lower_bound=amounts(50), upper_bound=None),
            None,
            id="cpu is inside its bounds",
        ),
    ],
)
def test_what_restarts_nothing_does_not_wait_for_what_does(
    recommendation: ContainerRecommendation, wanted: Resources | None
) -> None:
    pod = a_pod(restarting_on(Resource.MEMORY), age=hours(24))
    (outcome,) = planned(snapshot_of([pod], an_autoscaler(recommendation, mode=IN_PLACE)))

    if wanted is None:
        assert told([outcome]) == ["BelowMinReplicas"]
    else:
        assert isinstance(outcome, Resize)
        assert {name: each.requests for name, each in outcome.wanted.items()} == {"app": wanted}


@pytest.mark.parametrize(
    ("recommendation", "others_ready", "expected"),
    [
        pytest.param(DOWN, False, "BudgetSpent", id="it shrinks and is the last one"),
        pytest.param(DOWN, True, "Resize", id="others are ready"),
        pytest.param(UP, False, "BudgetSpent", id="it grows and is the last one"),
        pytest.param(UP, True, "Resize", id="it grows and others are ready"),
    ],
)
def test_the_last_ready_pod_of_several_is_not_restarted(
    recommendation: ContainerRecommendation, expected: str, *, others_ready: bool
) -> None:
    last = a_pod(restarting_on(*BOTH), name="last", ready_since=NOW)
    sibling = a_pod(
        a_container(requests=recommendation.target),
        name="other",
        ready_since=NOW if others_ready else None,
    )
    snapshot = snapshot_of([last, sibling], an_autoscaler(recommendation, mode=IN_PLACE))

    assert by_pod(planned(snapshot))["last"] == expected


def of_readiness(signs: str) -> list[Pod]:
    """Return one pod per sign: + for a ready one."""
    return [
        a_pod(
            name=f"web-{index}", age=hours(24), ready_since=NOW - hours(1) if sign == "+" else None
        )
        for index, sign in enumerate(signs)
    ]


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
@pytest.mark.parametrize("recommendation", [UP, DOWN], ids=["it grows", "it shrinks"])
@pytest.mark.parametrize(
    ("ready", "evicted"),
    [
        pytest.param("+-", {"web-1"}, id="the last ready one of two"),
        pytest.param("-+", {"web-0"}, id="whatever their names"),
        pytest.param("++", {"web-0"}, id="both are ready"),
        pytest.param("+---", {"web-1", "web-2"}, id="the last of four"),
        pytest.param("++--", {"web-2", "web-3"}, id="half of them is down"),
        pytest.param("+++-", {"web-0", "web-3"}, id="one more may be down"),
        pytest.param("--", {"web-0"}, id="none is ready"),
    ],
)
def test_pods_that_are_not_ready_are_down_for_the_eviction_of_a_ready_one(
    mode: UpdateMode,
    recommendation: ContainerRecommendation,
    ready: str,
    evicted: set[str],
) -> None:
    outcomes = by_pod(
        planned(snapshot_of(of_readiness(ready), an_autoscaler(recommendation, mode=mode)))
    )

    assert {name for name, word in outcomes.items() if word == "Evict"} == evicted
    assert set(outcomes.values()) <= {"Evict", "BudgetSpent"}


def test_of_one_owner_the_pods_that_are_not_ready_come_first() -> None:
    outcomes = planned(snapshot_of(of_readiness("++-"), an_autoscaler(UP)))

    assert list(by_pod(outcomes)) == ["web-2", "web-0", "web-1"]


@pytest.mark.parametrize(
    ("recommendation", "expected"),
    [
        pytest.param(DOWN, "BudgetSpent", id="it shrinks"),
        pytest.param(UP, "Evict", id="it grows"),
    ],
)
def test_no_tolerance_lets_the_last_ready_pod_of_several_be_evicted_to_shrink(
    recommendation: ContainerRecommendation, expected: str
) -> None:
    settings = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
    snapshot = snapshot_of(of_readiness("+-"), an_autoscaler(recommendation))

    assert by_pod(planned(snapshot, settings))["web-0"] == expected


@pytest.mark.parametrize("recommendation", [UP, DOWN], ids=["it grows", "it shrinks"])
def test_a_single_replica_is_evicted_where_one_is_enough(
    recommendation: ContainerRecommendation,
) -> None:
    autoscaler = an_autoscaler(recommendation, min_replicas=1)

    assert told(planned(snapshot_of(of_readiness("+"), autoscaler))) == ["Evict"]


def test_the_explanation_counts_the_ready_pods_of_a_ready_one() -> None:
    snapshot = snapshot_of(of_readiness("+-"), an_autoscaler(DOWN))
    explanation = explain_pod(snapshot.pods[0], view_plan(snapshot, PlanSettings(), NOW))

    assert explanation is not None
    (check,) = [each for each in explanation.checks if each.is_decisive]
    assert check.kind is CheckKind.BUDGET
    assert tell_check(check, explanation, PlanSettings()) == (
        "1 of 2 pods are ready, and 1 may be down: web-1 first"
    )


def test_a_leader_grows_at_once_while_another_replica_is_missing() -> None:
    leader = an_autoscaler(UP, name="leader", selector=selecting("leader"), mode=IN_PLACE)
    promoted = structs.replace(leader_and_followers()[1], labels={"role": "leader"})
    snapshot = snapshot_of([promoted], leader, configured_replicas={REPLICA_SET: 3})

    assert by_pod(planned(snapshot)) == {"web-1": "Resize"}


def test_free_resizes_leave_the_budget_to_those_that_restart() -> None:
    free = a_pod(a_container(requests=amounts(50, 50 * MIB)), name="free")
    other = a_pod(restarting_on(*BOTH), name="other")
    outcomes = planned(snapshot_of([free, other], an_autoscaler(UP, mode=IN_PLACE)))

    assert by_pod(outcomes) == {"free": "Resize", "other": "Resize"}


def test_f24_resizes_that_restart_containers_keep_to_the_budget() -> None:
    restarting = a_container(requests=SMALL, restarts_on_resize=True)
    pods = [a_pod(restarting, name=f"web-{index}") for index in range(4)]

    outcomes = planned(snapshot_of(pods, an_autoscaler(UP, mode=IN_PLACE)))
    down = structs.replace(pods[0], phase=PodPhase.PENDING)
    later = planned(snapshot_of([down, *pods[1:]], an_autoscaler(UP, mode=IN_PLACE)))
    two_down = [structs.replace(pod, phase=PodPhase.PENDING) for pod in pods[:2]]
    at_last = planned(snapshot_of([*two_down, *pods[2:]], an_autoscaler(UP, mode=IN_PLACE)))

    assert told(outcomes) == ["Resize"] + ["BudgetSpent"] * 3
    assert told(later).count("Resize") == 1
    assert "Resize" not in told(at_last)


def test_the_most_urgent_pod_is_served_first() -> None:
    pods = [
        a_pod(a_container(requests=amounts(cpu, 100 * MIB)), name=f"web-{cpu}")
        for cpu in (300, 100, 200)
    ]

    outcomes = planned(snapshot_of(pods, an_autoscaler(UP)))

    assert list(by_pod(outcomes).items()) == [
        ("web-100", "Evict"),
        ("web-200", "BudgetSpent"),
        ("web-300", "BudgetSpent"),
    ]


def test_a_pod_that_is_evicted_while_pending_costs_nothing() -> None:
    large = a_container(requests=amounts(2000, 4000 * MIB))
    pods = [*several(4), a_pod(large, name="late", phase=PodPhase.PENDING)]
    both_ways = replace(UP, upper_bound=amounts(1000, 1000 * MIB))
    snapshot = snapshot_of(pods, an_autoscaler(both_ways), configured_replicas={REPLICA_SET: 4})

    assert sorted(told(planned(snapshot))) == ["BudgetSpent"] * 2 + ["Evict"] * 3


def test_groups_of_one_autoscaler_have_their_own_budgets() -> None:
    old = OwnerReference("ReplicaSet", "web-0")
    pods = [
        *several(2),
        *(structs.replace(pod, owner=old, name=f"old-{pod.name}") for pod in several(2)),
    ]
    counts = {REPLICA_SET: 2, REPLICA_SET._replace(name="web-0"): 2}

    outcomes = planned(snapshot_of(pods, an_autoscaler(UP), configured_replicas=counts))

    assert by_pod(outcomes) == {
        "old-web-0": "Evict",
        "old-web-1": "BudgetSpent",
        "web-0": "Evict",
        "web-1": "BudgetSpent",
    }


def test_a_custom_workload_without_a_scale_is_not_emptied() -> None:
    rollout = OwnerReference("Rollout", "web")
    pods = [structs.replace(pod, owner=rollout) for pod in several(4)]

    outcomes = planned(snapshot_of(pods, an_autoscaler(UP), configured_replicas={}))

    assert told(outcomes) == ["Evict"] * 2 + ["BudgetSpent"] * 2


def leader_and_followers() -> list[Pod]:
    return [
        a_pod(name="web-0", labels={"role": "leader"}),
        a_pod(name="web-1", labels={"role": "follower"}),
        a_pod(name="web-2", labels={"role": "follower"}),
    ]


def test_an_unlabelled_pod_is_unmanaged_but_counts_as_a_replica() -> None:
    pods = [a_pod(name="web-0", labels={"role": "leader"}), a_pod(name="web-1", labels={})]
    autoscaler = an_autoscaler(UP, selector=selecting("leader"))

    assert by_pod(planned(snapshot_of(pods, autoscaler))) == {"web-0": "Evict"}


def test_a_single_leader_of_three_replicas_is_acted_on() -> None:
    autoscaler = an_autoscaler(UP, selector=selecting("leader"))

    outcomes = planned(snapshot_of(leader_and_followers(), autoscaler))

    assert by_pod(outcomes) == {"web-0": "Evict"}


def test_a_leader_without_other_replicas_is_left_alone() -> None:
    autoscaler = an_autoscaler(UP, selector=selecting("leader"))
    snapshot = snapshot_of(leader_and_followers()[:1], autoscaler)

    assert told(planned(snapshot)) == ["BelowMinReplicas"]


def test_autoscalers_of_one_workload_share_its_budget() -> None:
    leader = an_autoscaler(UP, name="leader", selector=selecting("leader"))
    follower = an_autoscaler(UP, name="follower", selector=selecting("follower"))

    outcomes = planned(snapshot_of(leader_and_followers(), leader, follower))

    assert sorted(told(outcomes)) == ["BudgetSpent", "BudgetSpent", "Evict"]


def test_a_pod_that_changes_its_role_is_judged_by_the_other_autoscaler_at_once() -> None:
    leader = an_autoscaler(UP, name="leader", selector=selecting("leader"), mode=IN_PLACE)
    follower = an_autoscaler(
        a_recommendation(target=SMALL), name="follower", selector=selecting("follower")
    )
    pods = leader_and_followers()
    promoted = structs.replace(pods[1], labels={"role": "leader"})

    before = by_pod(planned(snapshot_of(pods, leader, follower)))
    after = by_pod(planned(snapshot_of([pods[0], promoted, pods[2]], leader, follower)))

    assert before["web-1"] == "InsideBounds"
    assert after == {"web-0": "Resize", "web-1": "Resize", "web-2": "InsideBounds"}


def test_with_the_gate_off_an_autoscaler_with_a_selector_is_inert() -> None:
    autoscaler = an_autoscaler(UP, selector=Selector())
    settings = PlanSettings(gates=FeatureGates(pod_selector=False))

    assert planned(snapshot_of(several(2), autoscaler), settings) == []


def test_f45_of_two_autoscalers_on_one_pod_the_older_acts() -> None:
    older = an_autoscaler(UP, name="z", created_at=NOW - hours(2))
    younger = an_autoscaler(DOWN, name="a", created_at=NOW - hours(1))

    outcomes = planned(snapshot_of(several(2), younger, older))

    assert {each.autoscaler for each in outcomes} == {older.identity}


def test_f45_an_autoscaler_that_is_off_does_not_stop_one_that_acts() -> None:
    off = an_autoscaler(UP, name="a", mode=UpdateMode.OFF)
    acting = an_autoscaler(UP, name="b")

    assert told(planned(snapshot_of(several(2), off, acting))) == ["Evict", "BudgetSpent"]


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        pytest.param(timedelta(seconds=9), "BudgetSpent", id="too early to see what it has cost"),
        pytest.param(timedelta(seconds=10), "Resize", id="by now it shows"),
    ],
)
def test_f24_between_two_restarts_of_a_workload_there_is_a_while(
    ago: timedelta, expected: str
) -> None:
    restarting = a_container(requests=SMALL, restarts_on_resize=True)
    pods = [a_pod(restarting, name=f"web-{index}") for index in range(4)]
    outcomes = planned(
        snapshot_of(pods, an_autoscaler(UP, mode=IN_PLACE), restarted={REPLICA_SET: NOW - ago})
    )
    held = [each for each in outcomes if isinstance(each, Hold)]

    assert told(outcomes)[0] == expected
    assert {each.until for each in held} == {NOW + RESTART_GAP - ago % RESTART_GAP}


def test_f24_a_restart_that_a_disruption_budget_forbade_waits_like_an_eviction() -> None:
    restarting = a_container(requests=SMALL, restarts_on_resize=True)
    pods = [a_pod(restarting, name=f"web-{index}") for index in range(2)]
    autoscaler = an_autoscaler(UP, mode=IN_PLACE)
    refused = PodMemory(eviction=Retry(1, NOW + timedelta(seconds=30)))
    memory = {(pod.uid, autoscaler.identity): refused for pod in pods}

    assert (
        told(planned(snapshot_of(pods, autoscaler, pod_memory=memory)))
        == ["PodDisruptionBudget"] * 2
    )
