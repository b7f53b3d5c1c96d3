from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.simulation.faults.kinds import (
    HAZARDS,
    OF_COMPONENTS,
    USUAL,
    Fault,
    FaultKind,
    draw_faults,
)

COMPONENTS = ("recommender", "updater")
DAY = timedelta(days=1)


@given(st.integers(), st.integers(1, 48))
def test_all_faults_have_ended_when_the_quiet_begins(seed: int, hours: int) -> None:
    until = timedelta(hours=hours)

    faults = draw_faults(Random(seed), COMPONENTS, until=until)

    assert all(timedelta() <= fault.begins < fault.ends <= until for fault in faults)
    assert list(faults) == sorted(faults, key=lambda fault: fault.begins)


@given(st.integers())
def test_a_fault_hits_a_component_or_the_cluster_by_its_kind(seed: int) -> None:
    for fault in draw_faults(Random(seed), COMPONENTS, until=DAY):
        assert (fault.target in COMPONENTS) is (fault.kind in OF_COMPONENTS)


@pytest.mark.parametrize("kinds", [USUAL, HAZARDS])
def test_every_kind_of_fault_is_drawn_now_and_then(kinds: tuple[FaultKind, ...]) -> None:
    drawn = [draw_faults(Random(seed), COMPONENTS, until=DAY, kinds=kinds) for seed in range(40)]

    assert {fault.kind for faults in drawn for fault in faults} == set(kinds)


def test_every_kind_of_fault_is_either_usual_or_a_hazard() -> None:
    assert sorted((*USUAL, *HAZARDS)) == sorted(FaultKind)


def test_one_seed_is_one_row_of_faults() -> None:
    assert draw_faults(Random(3), COMPONENTS, until=DAY) == draw_faults(
        Random(3), COMPONENTS, until=DAY
    )


def test_a_fault_says_what_it_does_to_whom_and_when() -> None:
    hour = timedelta(hours=1)

    assert str(Fault(FaultKind.CRASH, hour, hour, "updater", 0.25)) == (
        "crash updater at 1:00:00 for 1:00:00 (0.25)"
    )
