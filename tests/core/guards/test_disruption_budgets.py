from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, a_pod, an_autoscaler

from trimtab.core.guards.disruption_budgets import (
    DisruptionSettings,
    GroupPermission,
    ReplicaGroup,
    count_groups,
    owner_of,
    standing,
)
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import OwnerReference, Pod, PodPhase, WorkloadName
from trimtab.core.model.validation import SettingsError

REPLICA_SET = WorkloadName("default", "ReplicaSet", "web-1")


def group(running: int, pending: int = 0, configured: int | None = None) -> ReplicaGroup:
    wanted = running + pending if configured is None else configured
    return ReplicaGroup(live=running + pending, pending=pending, configured=wanted)


def count_disruptable(counted: ReplicaGroup, tolerance: float = 0.5) -> int:
    """How many pods of a group may go down in one plan."""
    disrupted = 0
    while disrupted < counted.running and counted.is_disruptable(tolerance, disrupted):
        disrupted += 1
    return disrupted


def owned(kind: str, count: int, labels: Mapping[str, str] | None = None) -> list[Pod]:
    owner = OwnerReference(kind, "web-1")
    return [a_pod(name=f"web-{index}", owner=owner, labels=labels) for index in range(count)]


@pytest.mark.parametrize(
    ("counted", "tolerance", "expected"),
    [
        pytest.param(group(1), 0.5, 1, id="one of one"),
        pytest.param(group(2), 0.5, 1, id="two of two"),
        pytest.param(group(3), 0.5, 1, id="three of three"),
        pytest.param(group(4), 0.5, 2, id="four of four"),
        pytest.param(group(2, configured=3), 0.5, 0, id="three wanted, two running"),
        pytest.param(group(2, pending=1), 0.5, 0, id="it stops while a pod is pending"),
        pytest.param(group(0, pending=3), 0.5, 0, id="all pending"),
        pytest.param(group(5, configured=3), 0.5, 3, id="more running than wanted"),
        pytest.param(group(5), 0.0, 1, id="no tolerance still moves a complete group"),
        pytest.param(group(4, configured=5), 0.0, 0, id="no tolerance and one missing"),
        pytest.param(group(5), 0.1, 1, id="a tenth of five is less than one"),
        pytest.param(group(100), 0.99, 99, id="0.99 of a hundred"),
        pytest.param(group(5), 1.0, 5, id="full tolerance"),
    ],
)
def test_how_many_pods_of_a_group_may_go_down(
    counted: ReplicaGroup, tolerance: float, expected: int
) -> None:
    assert count_disruptable(counted, tolerance) == expected


def test_a_group_of_unknown_size_is_never_disruptable() -> None:
    assert not ReplicaGroup(live=9, pending=0, configured=None).is_disruptable(1.0, 0)


@pytest.mark.parametrize(
    ("kind", "configured", "expected"),
    [
        pytest.param("ReplicaSet", 5, 5, id="a replica set says it"),
        pytest.param("StatefulSet", 5, 5, id="a stateful set says it"),
        pytest.param("DaemonSet", 5, 5, id="a daemon set says it"),
        pytest.param("ReplicationController", 5, 5, id="a replication controller says it"),
        pytest.param("ReplicaSet", None, None, id="a replica set that is not known"),
        pytest.param("ReplicaSet", 0, None, id="a replica set that wants none"),
        pytest.param("Job", None, 3, id="a job wants its live pods"),
        pytest.param("Job", 7, 3, id="whatever it says"),
        pytest.param("Rollout", 5, 5, id="a custom kind through its scale"),
        pytest.param("Rollout", None, 3, id="a custom kind without a scale"),
        pytest.param("Rollout", 0, None, id="a custom kind that wants none"),
    ],
)
def test_how_many_pods_an_owner_wants(
    kind: str, configured: int | None, expected: int | None
) -> None:
    owner = WorkloadName("default", kind, "web-1")
    known = {} if configured is None else {owner: configured}

    assert count_groups(owned(kind, 3), known)[owner].configured == expected


def test_a_group_counts_all_pods_of_its_direct_owner() -> None:
    pods = [
        a_pod(name="leader", labels={"role": "leader"}, ready_since=NOW),
        *owned("ReplicaSet", 1),
        a_pod(name="late", phase=PodPhase.PENDING),
        a_pod(name="other", owner=OwnerReference("ReplicaSet", "web-2")),
        a_pod(name="nobody's", owner=None),
    ]

    groups = count_groups(pods, {REPLICA_SET: 4})

    assert groups[REPLICA_SET] == ReplicaGroup(live=3, pending=1, configured=4, ready=1, serving=1)
    assert groups[REPLICA_SET].running == 2
    assert len(groups) == 2


def test_a_pod_without_an_owner_is_in_no_group() -> None:
    assert owner_of(a_pod(owner=None)) is None


IN_PLACE = UpdateMode.IN_PLACE
EITHER = UpdateMode.IN_PLACE_OR_RECREATE


@pytest.mark.parametrize(
    ("live", "own_minimum", "expected"),
    [
        pytest.param(2, None, GroupPermission.OPEN, id="as many as the flag asks for"),
        pytest.param(1, None, HoldReason.BELOW_MIN_REPLICAS, id="fewer than the flag asks for"),
        pytest.param(1, 1, GroupPermission.OPEN, id="the autoscaler asks for fewer"),
        pytest.param(3, 5, HoldReason.BELOW_MIN_REPLICAS, id="the autoscaler asks for more"),
        pytest.param(1, 0, GroupPermission.OPEN, id="the autoscaler asks for none"),
    ],
)
def test_a_group_below_the_least_replicas_is_left_alone(
    live: int, own_minimum: int | None, expected: GroupPermission | HoldReason
) -> None:
    autoscaler = an_autoscaler(min_replicas=own_minimum)

    assert standing(group(live), autoscaler, DisruptionSettings(), can_resize=True) is expected


@pytest.mark.parametrize(
    ("mode", "can_resize", "expected"),
    [
        pytest.param(EITHER, True, GroupPermission.RESIZE_ONLY, id="in place or recreate"),
        pytest.param(IN_PLACE, True, GroupPermission.RESIZE_ONLY, id="in place"),
        pytest.param(UpdateMode.UPSCALE_ONLY, True, GroupPermission.RESIZE_ONLY, id="upscale only"),
        pytest.param(EITHER, False, HoldReason.BELOW_MIN_REPLICAS, id="a cluster without resizes"),
        pytest.param(
            UpdateMode.RECREATE, True, HoldReason.BELOW_MIN_REPLICAS, id="recreate only evicts"
        ),
        pytest.param(UpdateMode.AUTO, True, HoldReason.BELOW_MIN_REPLICAS, id="auto only evicts"),
    ],
)
def test_a_group_that_is_too_small_is_open_for_resizes(
    *, mode: UpdateMode, can_resize: bool, expected: GroupPermission | HoldReason
) -> None:
    small = ReplicaGroup(live=1, pending=0, configured=1)
    autoscaler = an_autoscaler(mode=mode)

    assert standing(small, autoscaler, DisruptionSettings(), can_resize=can_resize) is expected


@pytest.mark.parametrize(
    ("counted", "expected"),
    [
        pytest.param(None, HoldReason.NO_OWNER, id="no owner"),
        pytest.param(
            ReplicaGroup(live=3, pending=0, configured=None),
            HoldReason.REPLICAS_UNKNOWN,
            id="an owner of unknown size",
        ),
    ],
)
def test_a_pod_that_nobody_would_bring_back_is_left_alone(
    counted: ReplicaGroup | None, expected: HoldReason
) -> None:
    found = standing(counted, an_autoscaler(), DisruptionSettings(), can_resize=True)

    assert found is expected


@given(
    running=st.integers(0, 40),
    pending=st.integers(0, 10),
    configured=st.integers(1, 50),
    tolerance=st.floats(0, 1),
)
def test_so_many_pods_stay_up_as_the_tolerance_says(
    running: int, pending: int, configured: int, tolerance: float
) -> None:
    counted = group(running, pending, configured)
    disrupted = count_disruptable(counted, tolerance)
    must_run = configured - int(configured * tolerance)

    assert (
        disrupted == 0
        or counted.running - disrupted >= must_run
        or (disrupted == 1 and counted.running == configured)
    )


@given(
    ready=st.integers(0, 40),
    unready=st.integers(0, 40),
    configured=st.integers(1, 50),
    tolerance=st.floats(0, 1),
)
def test_unready_pods_are_down_for_the_eviction_of_a_ready_one(
    ready: int, unready: int, configured: int, tolerance: float
) -> None:
    counted = ReplicaGroup(ready + unready, 0, configured, ready=ready, serving=ready)
    alone = ReplicaGroup(ready, 0, configured)

    assert counted.can_spare_ready(tolerance, 0) == alone.is_disruptable(tolerance, 0)


def test_a_ready_pod_that_settles_does_not_serve() -> None:
    pods = [a_pod(name=f"web-{index}", ready_since=NOW) for index in range(3)]
    counted = count_groups(pods, {REPLICA_SET: 3}, frozenset({pods[0].uid}))[REPLICA_SET]

    assert (counted.ready, counted.serving, counted.running) == (3, 2, 2)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("min_replicas", -1, id="fewer replicas than none"),
        pytest.param("tolerance", -0.1, id="less than nothing"),
        pytest.param("tolerance", 1.1, id="more than everything"),
        pytest.param("tolerance", float("nan"), id="no number"),
        pytest.param("tolerance", float("inf"), id="no end"),
    ],
)
def test_settings_of_disruption_that_make_no_sense_are_refused_by_name(
    field: str, value: object
) -> None:
    fields: dict[str, Any] = {field: value}

    with pytest.raises(SettingsError, match=rf"^{field}: "):
        DisruptionSettings(**fields)
