from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.models.histogram import PlainHistogram

from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS

DAY = timedelta(days=1)
MIDNIGHT = datetime(2026, 8, 1, tzinfo=UTC).timestamp()
QUANTILES = (0.0, 0.25, 0.5, 0.9, 0.95, 1.0)
ROWS = 3


@dataclass(frozen=True)
class Sample:
    value: float
    weight: float
    time: float


@dataclass(frozen=True)
class Step:
    """Something done to one row, in some cases with samples, in some with another row."""

    verb: str
    row: int
    other: int
    samples: tuple[Sample, ...]


# Few values and equal weights make ties likely; weights around epsilon make faint buckets.
VALUES = st.sampled_from([0.0, 0.011, 0.1, 0.12, 0.5, 1.0, 4.0, 90.0, 5000.0]) | st.floats(
    0.0, 20.0
)
WEIGHTS = st.sampled_from([0.0, 0.00003, 0.00009, 0.0001, 0.1, 0.1, 0.1, 1.0, 3.0, 1e29])
HOURS = st.integers(0, 72) | st.integers(0, 24 * 250)
SAMPLES = st.builds(
    lambda value, weight, hour: Sample(value, weight, MIDNIGHT + 3600.0 * hour),
    VALUES,
    WEIGHTS,
    HOURS,
)
STEPS = st.builds(
    Step,
    st.sampled_from(["add", "add", "add", "subtract", "merge", "reload"]),
    st.integers(0, ROWS - 1),
    st.integers(0, ROWS - 1),
    st.lists(SAMPLES, max_size=4).map(tuple),
)


def a_bank(rows: int = ROWS, quantiles: tuple[float, ...] = QUANTILES) -> HistogramBank:
    bank = HistogramBank(CPU_BUCKETS, DAY, quantiles)
    bank.allocate(rows)
    return bank


def columns_of(samples: Sequence[Sample]) -> tuple[list[float], list[float], list[float]]:
    return (
        [sample.value for sample in samples],
        [sample.weight for sample in samples],
        [sample.time for sample in samples],
    )


def do(bank: HistogramBank, step: Step) -> None:
    if step.verb == "add":
        bank.add([step.row] * len(step.samples), *columns_of(step.samples))
    if step.verb == "subtract":
        bank.subtract([step.row] * len(step.samples), *columns_of(step.samples))
    if step.verb == "merge" and step.row != step.other:
        bank.merge(step.row, step.other)
    if step.verb == "reload":
        stored = bank.encode(step.row)
        bank.release(step.row)
        bank.allocate(1)
        bank.decode(step.row, stored)


def do_plainly(plain: list[PlainHistogram], step: Step) -> None:
    for sample in step.samples:
        if step.verb == "add":
            plain[step.row].add(sample.value, sample.weight, sample.time)
        if step.verb == "subtract":
            plain[step.row].subtract(sample.value, sample.weight, sample.time)
    if step.verb == "merge" and step.row != step.other:
        plain[step.row].merge(plain[step.other])


@given(st.lists(STEPS.filter(lambda step: step.verb != "reload"), max_size=25))
def test_a_bank_equals_plain_histograms_after_every_step(steps: list[Step]) -> None:
    bank = a_bank()
    plain = [PlainHistogram(CPU_BUCKETS, DAY) for _ in range(ROWS)]
    for step in steps:
        do(bank, step)
        do_plainly(plain, step)

        assert bank.is_empty(range(ROWS)).tolist() == [one.is_empty for one in plain]
        assert bank.total_weight(range(ROWS)).tolist() == [one.total for one in plain]
        assert bank.percentiles().tolist() == [
            [one.percentile(fraction) for fraction in QUANTILES] for one in plain
        ]
        for row, one in enumerate(plain):
            inside = one.weights[one.lowest : one.highest + 1]
            assert bank.weights.span(row)[one.lowest : one.highest + 1].tolist() == inside


@given(st.lists(STEPS, max_size=20))
def test_percentiles_in_one_pass_equal_a_plain_scan_of_each_row(steps: list[Step]) -> None:
    bank = a_bank()
    for step in steps:
        do(bank, step)

        assert bank.percentiles().tolist() == [
            [bank.percentile(row, fraction) for fraction in QUANTILES] for row in range(ROWS)
        ]


@given(st.lists(STEPS, max_size=12), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_a_percentile_never_falls_with_its_fraction(
    steps: list[Step], fractions: list[float]
) -> None:
    bank = a_bank()
    for step in steps:
        do(bank, step)
    found = [bank.percentile(0, fraction) for fraction in sorted(fractions)]

    assert found == sorted(found)


@given(st.lists(st.tuples(st.integers(0, ROWS - 1), SAMPLES), max_size=40), st.booleans())
def test_a_batch_does_what_its_samples_do_one_by_one(
    batch: list[tuple[int, Sample]],
    subtracting: bool,  # noqa: FBT001
) -> None:
    together, one_by_one = a_bank(), a_bank()
    rows = [row for row, _ in batch]
    columns = columns_of([sample for _, sample in batch])
    for bank in (together, one_by_one):
        bank.add(range(ROWS), [0.1, 1.0, 4.0], 2.0, MIDNIGHT)
    change = HistogramBank.subtract if subtracting else HistogramBank.add
    change(together, rows, *columns)
    for row, sample in batch:
        change(one_by_one, row, sample.value, sample.weight, sample.time)

    for row in range(ROWS):
        assert together.encode(row) == one_by_one.encode(row)
        assert together.weights.span(row).tolist() == one_by_one.weights.span(row).tolist()
    assert together.percentiles().tolist() == one_by_one.percentiles().tolist()


@given(st.lists(STEPS, max_size=15), st.permutations(range(ROWS)))
def test_rows_do_not_depend_on_each_other_or_on_their_numbers(
    steps: list[Step], numbers: list[int]
) -> None:
    bank, renumbered = a_bank(), a_bank()
    for step in steps:
        do(bank, step)
        do(renumbered, Step(step.verb, numbers[step.row], numbers[step.other], step.samples))

    assert [renumbered.encode(numbers[row]) for row in range(ROWS)] == [
        bank.encode(row) for row in range(ROWS)
    ]
    assert renumbered.percentiles(numbers).tolist() == bank.percentiles().tolist()


@given(st.lists(SAMPLES.filter(lambda sample: sample.weight < 10), max_size=12), SAMPLES)
def test_adding_and_subtracting_a_sample_changes_next_to_nothing(
    samples: list[Sample], sample: Sample
) -> None:
    bank = a_bank(1)
    last = max((one.time for one in samples), default=MIDNIGHT)
    for one in samples:
        bank.add(0, one.value, one.weight, one.time)
    bank.add(0, 0.7, 1.0, last)
    before = bank.encode(0)
    weight = min(sample.weight, 10.0)
    bank.add(0, sample.value, weight, last)
    bank.subtract(0, sample.value, weight, last)

    assert bank.total_weight(0) == pytest.approx(before.total_weight, rel=1e-9, abs=2e-4)
    assert bank.encode(0).reference_time == before.reference_time


@given(st.lists(STEPS.filter(lambda step: step.verb == "add"), max_size=15))
def test_merging_commutes_up_to_rounding(steps: list[Step]) -> None:
    bank = a_bank()
    for step in steps:
        do(bank, step)
    forward, backward = bank.merged([[0, 1, 2]]), bank.merged([[2, 1, 0]])
    weights, same = forward.weights.span(0), backward.weights.span(0)

    assert weights == pytest.approx(same, rel=1e-12)
    assert forward.total_weight(0) == pytest.approx(backward.total_weight(0), rel=1e-12)
    assert forward.encode(0).reference_time == backward.encode(0).reference_time


@given(
    st.lists(STEPS, max_size=15),
    st.lists(st.lists(st.integers(0, ROWS - 1), max_size=4), max_size=4),
)
def test_merged_groups_equal_merging_the_youngest_first(
    steps: list[Step], groups: list[list[int]]
) -> None:
    bank = a_bank()
    for step in steps:
        do(bank, step)
    merged = bank.merged(groups)
    for number, group in enumerate(groups):
        target = int(bank.allocate(1)[0])
        bank.merge(target, sorted(group, key=lambda row: -bank.references[row]))

        assert merged.weights.span(number) == pytest.approx(bank.weights.span(target), rel=1e-12)
        assert merged.total_weight(number) == pytest.approx(bank.total_weight(target), rel=1e-12)
        assert merged.encode(number).reference_time == bank.encode(target).reference_time


@given(st.lists(STEPS, max_size=10))
def test_a_copy_answers_like_its_original(steps: list[Step]) -> None:
    bank = a_bank()
    for step in steps:
        do(bank, step)
    same = bank.copy()

    assert same.percentiles().tolist() == bank.percentiles().tolist()
    assert [same.encode(row) for row in range(ROWS)] == [bank.encode(row) for row in range(ROWS)]


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5, 2.0])
@pytest.mark.parametrize("step_seconds", [0.0, 60.0, 21600.0])
def test_running_percentiles_equal_plain_scans_over_many_ticks(
    spread: float, step_seconds: float
) -> None:
    # A tick of zero seconds gives all samples one weight: full of exact ties.
    random = np.random.default_rng(7)
    bank = a_bank(60, (0.1, 0.5, 0.9, 0.95))
    means = random.normal(-2.0, 1.0, 60)
    for tick in range(60):
        rows = np.flatnonzero(random.random(60) < 0.8)
        values = np.exp(means[rows] + random.normal(0.0, spread, len(rows)))
        bank.add(rows, values, 0.1, MIDNIGHT + step_seconds * tick)
        if tick % 10 == 3:
            bank.subtract(rows[:9], values[:9], 0.1, MIDNIGHT + step_seconds * tick)
        found = bank.percentiles()
        checked = random.integers(0, 60, 8).tolist()

        assert [found[row].tolist() for row in checked] == [
            [bank.percentile(row, fraction) for fraction in bank.quantiles] for row in checked
        ]
