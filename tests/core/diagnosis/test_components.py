"""Checks of the components: each finding seen, and not seen."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.makers.records import NOW

from trimtab.core.diagnosis.components import (
    Component,
    HeldLease,
    Installed,
    LeaseFacts,
    check_components,
    check_leases,
    check_other_installations,
    is_held,
)
from trimtab.core.diagnosis.findings import Severity, Unseen

OK, NOTE, UNKNOWN = Severity.OK, Severity.NOTE, Severity.UNKNOWN
WARNING, PROBLEM = Severity.WARNING, Severity.PROBLEM


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


STATUS = HeldLease("kube-system", "vpa-admission-controller", "pod-1", renewed_at=NOW - seconds(5))
LEADER = HeldLease("kube-system", "vpa-updater", "pod-2_x_trimtab", renewed_at=NOW - seconds(2))


@pytest.mark.parametrize(
    ("leases", "expected"),
    [
        pytest.param((STATUS, LEADER), [OK, OK], id="held and fresh"),
        pytest.param((LEADER,), [PROBLEM, OK], id="nobody says that new pods get their size"),
        pytest.param(
            (replace(STATUS, renewed_at=NOW - seconds(90)),), [PROBLEM], id="not said any more"
        ),
        pytest.param((replace(STATUS, renewed_at=None),), [PROBLEM], id="never said"),
        pytest.param(
            (replace(STATUS, renewed_at=NOW + seconds(9)),), [OK, WARNING], id="a clock ahead"
        ),
        pytest.param(
            (STATUS, replace(LEADER, renewed_at=NOW - seconds(31))),
            [OK, WARNING],
            id="a leader that is silent",
        ),
        pytest.param((STATUS, replace(LEADER, holder="")), [OK, NOTE], id="released by its leader"),
        pytest.param(
            (STATUS, replace(LEADER, holder="gke", is_ours=False)), [OK, PROBLEM], id="a rival"
        ),
        pytest.param(
            (STATUS, replace(LEADER, renewed_at=NOW + seconds(9))),
            [OK, OK, WARNING],
            id="a leader from the future",
        ),
    ],
)
def test_a_lease_is_good_while_one_of_us_renews_it(
    leases: tuple[HeldLease, ...], expected: list[Severity]
) -> None:
    found = list(check_leases(LeaseFacts(NOW, leases)))

    assert [one.severity for one in found] == expected
    assert all(one.remedy for one in found if one.severity is not OK)


ALL = tuple(
    Installed("kube-system", f"vpa-{one}", one)
    for one in (Component.RECOMMENDER, Component.UPDATER, Component.ADMISSION)
)
FIRST, *REST = ALL


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param((FIRST,), [OK, OK, OK], id="all run"),
        pytest.param((), [WARNING, OK, OK], id="one is not there"),
        pytest.param((replace(FIRST, wanted=0, ready=0),), [WARNING, WARNING, OK, OK], id="at 0"),
        pytest.param((replace(FIRST, ready=0),), [PROBLEM, OK, OK], id="no copy is ready"),
        pytest.param(
            (replace(FIRST, wanted=2, ready=1),), [WARNING, OK, OK], id="one of two is ready"
        ),
        pytest.param((replace(FIRST, restarts=9),), [WARNING, OK, OK], id="it falls and rises"),
        pytest.param(
            (replace(FIRST, is_ours=False),), [OK, OK], id="the original's is in its place"
        ),
    ],
)
def test_components_are_judged_by_their_copies(
    first: tuple[Installed, ...], expected: list[Severity]
) -> None:
    found = list(check_components([*first, *REST]))

    assert [one.severity for one in found] == expected


def test_what_pods_complain_of_is_told_with_the_component() -> None:
    sick = replace(FIRST, ready=0, troubles=("vpa-1: CrashLoopBackOff",))

    assert "0 of 1 copies are ready: vpa-1: CrashLoopBackOff" in [
        one.text for one in check_components([sick])
    ]


def test_without_any_component_nobody_is_blamed() -> None:
    (found,) = check_components([])

    assert found.severity is NOTE


@pytest.mark.parametrize(
    ("lease", "is_it"),
    [
        pytest.param(LEADER, True, id="renewed a moment ago"),
        pytest.param(replace(LEADER, renewed_at=NOW - seconds(15)), True, id="just before its end"),
        pytest.param(replace(LEADER, renewed_at=NOW - seconds(16)), False, id="run out"),
        pytest.param(replace(LEADER, renewed_at=NOW + seconds(9)), True, id="a clock ahead"),
        pytest.param(replace(LEADER, renewed_at=None), False, id="never renewed"),
        pytest.param(replace(LEADER, holder=""), False, id="released"),
        pytest.param(
            replace(STATUS, duration=seconds(10), renewed_at=NOW - seconds(12)),
            True,
            id="a status whose renewal is under way",
        ),
        pytest.param(
            replace(STATUS, duration=seconds(10), renewed_at=NOW - seconds(21)),
            False,
            id="a status that nobody renews",
        ),
    ],
)
def test_a_lease_is_held_until_it_is_released_or_runs_out(lease: HeldLease, *, is_it: bool) -> None:
    assert is_held(lease, NOW) is is_it


RIVAL = replace(FIRST, namespace="vpa", is_ours=False)
NO_LEASES = LeaseFacts(NOW, ())


@pytest.mark.parametrize(
    ("installed", "leases", "expected"),
    [
        pytest.param(ALL, NO_LEASES, [], id="nobody else"),
        pytest.param((FIRST, RIVAL), NO_LEASES, [PROBLEM], id="the original beside ours"),
        pytest.param((RIVAL,), NO_LEASES, [NOTE], id="the original instead of ours"),
        pytest.param((FIRST, replace(RIVAL, wanted=0)), NO_LEASES, [], id="one that was stopped"),
        pytest.param((FIRST, replace(FIRST, name="b")), NO_LEASES, [WARNING], id="ours twice"),
        pytest.param(Unseen("no"), NO_LEASES, [UNKNOWN], id="nobody may look"),
        pytest.param(
            ALL,
            LeaseFacts(NOW, (LEADER, replace(LEADER, namespace="vpa"))),
            [WARNING],
            id="a lease in two namespaces",
        ),
        pytest.param(
            ALL,
            LeaseFacts(NOW, (LEADER, replace(LEADER, namespace="vpa", holder=""))),
            [],
            id="a lease that was left behind",
        ),
        pytest.param(
            ALL,
            LeaseFacts(
                NOW, (LEADER, replace(LEADER, namespace="vpa", renewed_at=NOW - seconds(16)))
            ),
            [],
            id="a lease of a component that has just been killed",
        ),
        pytest.param(ALL, Unseen("no"), [UNKNOWN], id="no view of leases"),
    ],
)
def test_another_autoscaler_is_found_by_what_it_runs_and_what_it_holds(
    installed: tuple[Installed, ...] | Unseen,
    leases: LeaseFacts | Unseen,
    expected: list[Severity],
) -> None:
    found = list(check_other_installations(installed, leases))

    assert [one.severity for one in found] == expected
