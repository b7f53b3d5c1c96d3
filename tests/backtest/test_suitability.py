"""Requests that suit the day that follows, held against percentiles taken one by one."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.backtest.demand import Demand, percentile
from trimtab.backtest.replay import Suitability

_MIB = 1024.0 * 1024.0
_HOUR = 3600
_STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 400)), min_size=2, max_size=60)
_SIZES = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 600)), min_size=1, max_size=3)


def _demand(loads: list[list[tuple[int, int]]]) -> Demand:
    lengths = np.array([len(load) for load in loads])
    amounts = np.zeros((lengths.max(), 2, len(loads)))
    for place, load in enumerate(loads):
        amounts[: len(load), :, place] = np.array(load) * [1.0, _MIB]
    names = tuple(str(place) for place in range(len(loads)))
    return Demand(
        names, np.zeros(len(loads)), lengths, _HOUR, amounts, np.full((2, 2, len(loads)), np.nan)
    )


def _suits(demand: Demand, workload: int, step: int, requests: list[float]) -> bool:
    """The rule by its own words."""
    coming = demand.values(workload)[step + 1 : step + 25]
    cpu, memory = (
        float(percentile(coming[:, place], part)) for place, part in enumerate((0.95, 0.99))
    )
    return bool(
        cpu <= requests[0] <= 1.5 * max(cpu, 25.0)
        and memory <= requests[1] <= 1.5 * max(memory, 170 * _MIB)
    )


@given(st.lists(_STEPS, min_size=1, max_size=3), _SIZES, st.randoms(use_true_random=False))
def test_counts_carried_along_agree_with_percentiles_taken_anew(
    loads: list[list[tuple[int, int]]], sizes: list[tuple[int, int]], dice: Random
) -> None:
    demand = _demand(loads)
    watched = Suitability(demand)
    requests = np.array([[50.0] * len(demand), [300 * _MIB] * len(demand)])
    for step in range(int(demand.lengths.max()) - 1):
        open_ones = np.flatnonzero(demand.lengths > step + 1)
        cpu, memory = dice.choice(sizes)
        requests[:, dice.randrange(len(demand))] = cpu, memory * _MIB
        suits = watched.suits(open_ones, np.full(len(open_ones), step), requests[:, open_ones])
        expected = [
            _suits(demand, each, step, requests[:, each].tolist()) for each in open_ones.tolist()
        ]

        assert suits.tolist() == expected
