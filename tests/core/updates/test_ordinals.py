"""StatefulSets that make their pods in order: no eviction of a pod that could not come back."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from support.makers.plans import SMALL, UP, by_pod, planned
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, an_autoscaler, minutes

from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import TargetReference, UpdateMode
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import OwnerReference, Pod, PodPhase, Termination, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.updates.evictions.successors import next_pod_from, ordinal_of
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, Snapshot

DB = WorkloadName("default", "StatefulSet", "db")
KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
ALL_AT_ONCE = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))


def a_member(
    ordinal: int, *, is_ready: bool = True, is_killed: bool = False, **fields: object
) -> Pod:
    container = a_container(requests=SMALL, last_termination=KILLED if is_killed else None)
    return a_pod(
        container,
        name=f"db-{ordinal}",
        owner=OwnerReference("StatefulSet", "db"),
        ready_since=NOW - minutes(50) if is_ready and not is_killed else None,
        **fields,  # type: ignore[arg-type]
    )


def a_snapshot(
    pods: Sequence[Pod],
    *,
    first: int | None = 0,
    replicas: int = 4,
    min_ready: timedelta | None = None,
) -> Snapshot:
    target = TargetReference("StatefulSet", "db", "apps/v1")
    autoscaler = an_autoscaler(UP, target=target, mode=UpdateMode.RECREATE)
    return Snapshot(
        pods=[ObservedPod(pod, DB) for pod in pods],
        autoscalers=[ObservedAutoscaler(autoscaler, Selector())],
        configured_replicas={DB: replicas},
        first_ordinals={} if first is None else {DB: first},
        min_ready={} if min_ready is None else {DB: min_ready},
    )


def evicted(snapshot: Snapshot) -> set[str]:
    return {
        name for name, word in by_pod(planned(snapshot, ALL_AT_ONCE)).items() if word == "Evict"
    }


@pytest.mark.parametrize(
    ("lower", "expected"),
    [
        pytest.param([a_member(0, is_ready=False)], {"db-0"}, id="not ready"),
        pytest.param([], set(), id="missing"),
        pytest.param([a_member(0, is_deleting=True)], set(), id="on its way out"),
        pytest.param([a_member(0, phase=PodPhase.PENDING, is_ready=False)], set(), id="pending"),
        pytest.param([a_member(0)], {"db-0"}, id="evicted by the same plan"),
    ],
)
def test_no_pod_above_an_ordinal_that_is_not_ready_is_evicted(
    lower: list[Pod], expected: set[str]
) -> None:
    snapshot = a_snapshot([*lower, a_member(1), a_member(2), a_member(3)])
    outcomes = by_pod(planned(snapshot, ALL_AT_ONCE))

    assert evicted(snapshot) == expected
    assert {outcomes[f"db-{ordinal}"] for ordinal in (1, 2, 3)} == {"LowerOrdinalNotReady"}


def test_a_set_that_makes_its_pods_in_parallel_is_not_concerned() -> None:
    pods = [a_member(0, is_ready=False), a_member(1), a_member(2), a_member(3)]

    assert evicted(a_snapshot(pods, first=None)) == {f"db-{ordinal}" for ordinal in range(4)}


def test_pods_that_are_all_killed_for_memory_are_cured_one_after_the_other() -> None:
    pods = [a_member(ordinal, is_killed=True) for ordinal in range(4)]

    assert evicted(a_snapshot(pods)) == {"db-0"}


def test_the_highest_pod_is_evicted_while_all_below_are_ready() -> None:
    pods = [*(a_member(ordinal) for ordinal in range(3)), a_member(3, is_killed=True)]

    assert "db-3" in evicted(a_snapshot(pods))


def test_ordinals_may_begin_above_zero() -> None:
    pods = [a_member(5), a_member(6)]

    assert evicted(a_snapshot(pods, first=5, replicas=2)) == {"db-5"}
    assert evicted(a_snapshot(pods, first=4, replicas=3)) == set()


def fresh(ordinal: int, ready_for: timedelta) -> Pod:
    """Return a member that has what is recommended, and became ready so long ago."""
    container = a_container(requests=UP.target)
    return structs.replace(a_member(ordinal), containers=(container,), ready_since=NOW - ready_for)


@pytest.mark.parametrize(
    ("ready_for", "min_ready", "expected"),
    [
        pytest.param(minutes(1), minutes(2), "LowerOrdinalNotReady", id="not yet available"),
        pytest.param(minutes(2), minutes(2), "LowerOrdinalNotReady", id="just about to be"),
        pytest.param(minutes(2.1), minutes(2), "Evict", id="ready for long enough"),
        pytest.param(minutes(0), None, "Evict", id="the owner asks for no time"),
        pytest.param(minutes(-1), None, "Evict", id="whatever the clock of its node says"),
    ],
)
def test_a_lower_ordinal_counts_once_it_is_ready_for_long_enough(
    ready_for: timedelta, min_ready: timedelta | None, expected: str
) -> None:
    pods = [fresh(0, ready_for), *(a_member(ordinal) for ordinal in (1, 2, 3))]

    assert by_pod(planned(a_snapshot(pods, min_ready=min_ready)))["db-1"] == expected


def test_the_explanation_tells_when_lower_ordinals_are_ready_for_long_enough() -> None:
    pods = [fresh(0, minutes(1)), *(a_member(ordinal) for ordinal in (1, 2, 3))]
    snapshot = a_snapshot(pods, min_ready=minutes(3))
    explanation = explain_pod(snapshot.pods[1], view_plan(snapshot, PlanSettings(), NOW))

    assert explanation is not None
    (check,) = [each for each in explanation.checks if each.is_decisive]
    assert check.until is not None
    assert minutes(2) <= check.until - NOW < minutes(2.01)


def test_the_explanation_gives_the_same_reason() -> None:
    snapshot = a_snapshot([a_member(1), a_member(2), a_member(3)])
    view = view_plan(snapshot, ALL_AT_ONCE, NOW)
    explanation = explain_pod(snapshot.pods[0], view)

    assert explanation is not None
    assert [check.reason for check in explanation.checks if check.is_decisive] == [
        "LowerOrdinalNotReady"
    ]


@pytest.mark.parametrize(
    ("name", "expected"), [("db-12", 12), ("db", None), ("db-x1", None), ("db-²", None)]
)
def test_an_ordinal_ends_the_name_of_a_pod(name: str, expected: int | None) -> None:
    assert ordinal_of(a_pod(a_container(requests=amounts(1, MIB)), name=name)) == expected


@pytest.mark.parametrize(
    ("ready", "due"),
    [
        pytest.param([timedelta(), minutes(2)], NOW + minutes(5), id="all ready"),
        pytest.param([timedelta(), None], None, id="one not ready"),
    ],
)
def test_the_next_pod_comes_when_the_last_was_ready_for_long_enough(
    ready: list[timedelta | None], due: datetime | None
) -> None:
    pods = [a_pod(ready_since=None if one is None else NOW + one) for one in ready]

    assert next_pod_from(pods, minutes(3)) == due
