"""Boosts end early where they fill a quota that missing pods need (D19)."""

from collections.abc import Sequence

import pytest
from msgspec import structs
from support.makers.plans import REPLICA_SET, UP, boosted, boosting, planned, snapshot_of
from support.makers.records import NOW, hours, minutes

from trimtab.core.changes.outcomes import EndOfBoost, Outcome, Unboost
from trimtab.core.model.pods import Pod, PodPhase
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side

CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
MEMORY = QuotaClaim(Side.REQUESTS, Resource.MEMORY)


def a_crowd(count: int) -> list[Pod]:
    """Boosted pods of 400m that asked for 100m, the oldest first."""
    return [
        boosted(name=f"web-{index}", created_at=NOW - hours(1) + minutes(index))
        for index in range(count)
    ]


def short_of(wanted: int) -> dict[str, object]:
    """An owner that wants so many pods, and has missed some of them for a while."""
    return {
        "configured_replicas": {REPLICA_SET: wanted},
        "short_handed": frozenset({REPLICA_SET}),
    }


def ended(outcomes: Sequence[Outcome]) -> list[str]:
    """The names of pods whose boosts end for a quota."""
    return sorted(
        each.pod.name
        for each in outcomes
        if isinstance(each, Unboost) and each.cause is EndOfBoost.QUOTA_SHORT
    )


@pytest.mark.parametrize(
    ("wanted", "left", "expected"),
    [
        pytest.param(3, 0, [], id="no pod is missing"),
        pytest.param(5, 200, [], id="the missing pods fit"),
        pytest.param(5, 199, ["web-0"], id="one boost is in the way"),
        pytest.param(6, 0, ["web-0"], id="one boost makes room for three"),
        pytest.param(7, 0, ["web-0", "web-1"], id="two make room for four"),
        pytest.param(30, 0, ["web-0", "web-1", "web-2"], id="all of them are too few"),
        pytest.param(4, -500, ["web-0"], id="the quota was made smaller"),
    ],
)
def test_as_many_boosts_end_as_missing_pods_need(
    wanted: int, left: int, expected: list[str]
) -> None:
    quotas = {"default": [Quota("default", "team", {CPU: left})]}
    snapshot = snapshot_of(a_crowd(3), boosting(), quotas=quotas, **short_of(wanted))

    assert ended(planned(snapshot)) == expected


@pytest.mark.parametrize(
    "quota",
    [
        pytest.param(Quota("default", "team", {MEMORY: 0}), id="one that boosts do not fill"),
        pytest.param(
            Quota("default", "team", {CPU: 0}, (QuotaScope("PriorityClass"),)), id="for other pods"
        ),
        pytest.param(Quota("other", "team", {CPU: 0}), id="of another namespace"),
    ],
)
def test_boosts_go_on_where_their_end_would_not_help(quota: Quota) -> None:
    snapshot = snapshot_of(
        a_crowd(3),
        boosting(),
        quotas={quota.namespace: [quota]},
        **short_of(9),
    )

    assert ended(planned(snapshot)) == []


def test_a_pod_that_does_not_run_yet_gives_nothing_back() -> None:
    first, second = a_crowd(2)
    pods = [structs.replace(first, phase=PodPhase.PENDING), second]
    quotas = {"default": [Quota("default", "team", {CPU: 0})]}
    snapshot = snapshot_of(pods, boosting(UP), quotas=quotas, **short_of(3))

    assert ended(planned(snapshot)) == ["web-1"]


def test_pods_that_are_about_to_end_make_room_by_themselves() -> None:
    pods = a_crowd(3)
    leaving = structs.replace(pods[0], is_deleting=True)
    quotas = {"default": [Quota("default", "team", {CPU: 0})]}
    near = snapshot_of([leaving, *pods[1:]], boosting(), quotas=quotas, **short_of(6))
    far = snapshot_of([leaving, *pods[1:]], boosting(), quotas=quotas, **short_of(7))

    assert ended(planned(near)) == []
    assert ended(planned(far)) == ["web-1"]


def test_pods_that_are_missing_for_a_moment_end_no_boost() -> None:
    quotas = {"default": [Quota("default", "team", {CPU: 0})]}
    snapshot = snapshot_of(
        a_crowd(3), boosting(), quotas=quotas, configured_replicas={REPLICA_SET: 9}
    )

    assert ended(planned(snapshot)) == []
