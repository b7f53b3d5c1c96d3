import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from trimtab.core.histogram.bank import HistogramBank, SampleError
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, BucketScheme
from trimtab.core.histogram.checkpoint import HistogramCheckpoint

DAY = 86400.0
QUANTILES = (0.5, 0.9, 0.95)
MIDNIGHT = datetime(2026, 8, 1, tzinfo=UTC).timestamp()


def a_bank(scheme: BucketScheme = CPU_BUCKETS) -> HistogramBank:
    return HistogramBank(scheme, timedelta(days=1), QUANTILES)


def a_row(bank: HistogramBank) -> int:
    return int(bank.allocate(1)[0])


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def checkpoint(day: str, weights: dict[int, int], total: float) -> HistogramCheckpoint:
    return HistogramCheckpoint(datetime.fromisoformat(day).replace(tzinfo=UTC), weights, total)


# The vectors V1 to V5 of the specification, computed by the original.


def test_v1_one_sample_is_stored_at_the_midnight_ahead() -> None:
    cpu, memory = a_bank(), a_bank(MEMORY_BUCKETS)
    row, same = a_row(cpu), a_row(memory)
    cpu.add(row, 0.1, 0.1, at("2026-08-22T13:00"))
    memory.add(same, 1e8, 1.0, at("2026-08-22T13:00"))

    assert cpu.encode(row) == checkpoint("2026-08-23", {8: 10_000}, 0.07278265914210938)
    assert memory.encode(same) == checkpoint("2026-08-23", {8: 10_000}, 0.7278265914210937)


def test_v2_half_a_day_of_equal_samples_adds_up() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, 0.5, 0.1, at("2026-08-22T13:00") + 60.0 * np.arange(720))

    assert bank.encode(row) == checkpoint("2026-08-23", {25: 10_000}, 62.61591566384486)


def test_v3_percentiles_of_evenly_spread_samples() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, np.arange(100) / 100, 0.1, MIDNIGHT + 60.0 * np.arange(100))

    assert bank.percentiles([row])[0] == pytest.approx([0.511135, 0.903203, 0.958363], rel=1e-5)


def test_v3_daily_peaks_halve_from_day_to_day() -> None:
    bank = a_bank(MEMORY_BUCKETS)
    row = a_row(bank)
    days = np.arange(1, 9)
    bank.add(row, days * 1e8, 1.0, MIDNIGHT + days * DAY)
    stored = {8: 78, 14: 156, 18: 313, 22: 625, 25: 1250, 28: 2500, 30: 5000, 32: 10_000}

    assert bank.encode(row) == checkpoint("2026-08-02", stored, 255.0)
    assert bank.percentiles([row])[0] == pytest.approx([800637708.4] * 3)


def test_v4_old_heavy_usage_weighs_less_than_new_light_usage() -> None:
    bank = a_bank()
    row = a_row(bank)
    minutes = 60.0 * np.arange(1440)
    bank.add(row, 1.0, 0.1, MIDNIGHT + minutes)
    bank.add(row, 0.1, 0.1, MIDNIGHT + 3 * DAY + minutes)

    assert bank.percentile(row, 0.88) == pytest.approx(0.110266, rel=1e-5)
    assert bank.percentile(row, 0.89) == pytest.approx(1.016281, rel=1e-5)
    assert bank.encode(row) == checkpoint("2026-08-01", {8: 10_000, 36: 1250}, 1869.282809093509)


def test_v5_a_much_later_sample_makes_everything_older_vanish() -> None:
    bank = a_bank()
    old, new = bank.allocate(2).tolist()
    bank.add(old, 1.0, 0.1, MIDNIGHT + 60.0 * np.arange(1440))
    bank.add(new, 2.0, 0.1, MIDNIGHT + 150 * DAY)
    bank.merge(old, new)

    assert bank.encode(old) == checkpoint("2026-12-29", {49: 10_000}, 0.1)


# Rows


def test_a_new_row_is_empty_and_its_percentiles_are_zero() -> None:
    bank = a_bank()
    rows = bank.allocate(3)

    assert bank.is_empty(rows).all()
    assert bank.total_weight(rows).tolist() == [0.0, 0.0, 0.0]
    assert bank.percentiles().tolist() == [[0.0] * 3] * 3
    assert bank.percentile(int(rows[0]), 0.5) == 0.0
    assert len(bank) == 3


def test_a_released_row_is_given_out_again_and_empty() -> None:
    bank = a_bank()
    first, second = bank.allocate(2).tolist()
    bank.add([first, second], [0.1, 0.2], 1.0, MIDNIGHT)
    bank.release(first)
    again = a_row(bank)

    assert again == first
    assert bank.is_empty([first, second]).tolist() == [True, False]
    assert bank.encode(first) == HistogramCheckpoint()
    assert bank.allocate(1).tolist() == [2]


def test_rows_given_out_in_small_and_large_numbers_are_all_different() -> None:
    bank = a_bank()
    rows = np.concatenate([bank.allocate(count) for count in (1, 0, 7, 100, 3)])
    bank.add(rows, 0.1, 1.0, MIDNIGHT)

    assert sorted(rows.tolist()) == list(range(111))
    assert bank.total_weight(rows).tolist() == [1.0] * 111


def test_a_copy_shares_nothing_with_its_original() -> None:
    bank = a_bank()
    row, spare = bank.allocate(2).tolist()
    bank.add(row, 0.1, 1.0, MIDNIGHT)
    bank.release(spare)
    same = bank.copy()
    bank.add(row, 3.0, 5.0, MIDNIGHT)

    assert same.encode(row) == checkpoint("2026-08-01", {8: 10_000}, 1.0)
    assert same.percentile(row, 1.0) == CPU_BUCKETS.ends[8]
    assert same.allocate(1).tolist() == [spare]


def test_narrow_rows_hold_a_sixth_of_the_bytes_of_all_their_buckets() -> None:
    bank = a_bank()
    rows = bank.allocate(10_000)
    for usage in (0.1, 0.12, 0.14):
        bank.add(rows, usage, 0.1, MIDNIGHT)

    assert bank.bytes_held / len(bank) < 8 * CPU_BUCKETS.count / 6


def test_room_left_behind_by_widening_rows_is_used_again() -> None:
    bank = a_bank()
    rows = bank.allocate(1_000)
    held = []
    for usage in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 0.01, 100.0):
        bank.add(rows, usage, 0.1, MIDNIGHT)
        held.append(bank.bytes_held / 1_000)

    assert held[-1] <= 2 * 8 * CPU_BUCKETS.count + 100
    assert bank.percentiles()[:, 0].tolist() == [CPU_BUCKETS.ends[find(1.0)]] * 1_000


def find(value: float) -> int:
    return int(CPU_BUCKETS.find(np.array([value]))[0])


# Samples


@pytest.mark.parametrize(
    ("weights", "empty"),
    [
        pytest.param([0.00005], True, id="one weight under epsilon"),
        pytest.param([0.00005, 0.00005], False, id="two that reach it together"),
        pytest.param([0.0], True, id="no weight at all"),
        pytest.param([0.0001], False, id="epsilon itself"),
    ],
)
def test_a_row_counts_as_empty_below_epsilon(weights: list[float], empty: bool) -> None:  # noqa: FBT001
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, 0.1, weights, MIDNIGHT)

    assert bool(bank.is_empty(row)) is empty
    assert bank.total_weight(row) == sum(weights)
    assert (bank.percentile(row, 0.5) == 0.0) is empty


def test_faint_weight_counts_once_the_span_covers_it() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, 0.1, 0.00009, MIDNIGHT)
    bank.add(row, 1.0, 0.001, MIDNIGHT)
    alone = bank.percentiles([row])[0, 0]
    bank.add(row, 0.01, 0.0002, MIDNIGHT)

    assert alone == CPU_BUCKETS.ends[36]
    assert bank.weights.span(row)[8] == 0.00009


def test_a_subtracted_sample_leaves_nothing_behind() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, [0.1, 1.0], 0.3, MIDNIGHT)
    bank.subtract(row, 0.1, 0.3, MIDNIGHT)

    assert bank.encode(row) == checkpoint("2026-08-01", {36: 10_000}, 0.3)
    assert bank.percentile(row, 0.0) == CPU_BUCKETS.ends[36]


def test_subtracting_more_than_there_is_stops_at_nothing() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, [0.1, 1.0], 1.0, MIDNIGHT)
    bank.subtract(row, 0.1, 3.0, MIDNIGHT)

    assert bank.encode(row) == checkpoint("2026-08-01", {36: 10_000}, 0.0)
    assert bank.percentiles([row]).tolist() == [[CPU_BUCKETS.ends[36]] * 3]


def test_many_samples_of_one_row_are_subtracted_as_if_one_by_one() -> None:
    together, one_by_one = a_bank(), a_bank()
    values = np.random.default_rng(7).uniform(0.01, 9.0, 2000)
    for bank in (together, one_by_one):
        bank.add(a_row(bank), values, 0.1, MIDNIGHT)
        bank.add(0, 0.5, 0.1, MIDNIGHT)
    # The first value twice: its bucket loses more than it is owed, which the others must not feel.
    taken = np.append(values[:1500], values[0])
    together.subtract(0, taken, 0.1, MIDNIGHT)
    for value in taken.tolist():
        one_by_one.subtract(0, value, 0.1, MIDNIGHT)

    assert together.weights.span(0).tolist() == one_by_one.weights.span(0).tolist()
    assert together.encode(0) == one_by_one.encode(0)


def test_subtracting_what_was_never_added_only_lowers_the_total() -> None:
    bank = a_bank()
    row, untouched = bank.allocate(2).tolist()
    bank.add(row, 0.1, 1.0, MIDNIGHT)
    bank.subtract([row, untouched], 5.0, 0.25, MIDNIGHT)

    assert bank.encode(row) == checkpoint("2026-08-01", {8: 10_000}, 0.75)
    assert bank.total_weight(untouched) == 0.0


def test_a_shift_drops_what_becomes_too_faint_but_forgets_nothing_heavy() -> None:
    bank = a_bank()
    light, heavy = bank.allocate(2).tolist()
    bank.add([light, heavy], 0.1, [1.0, 1e32], MIDNIGHT)
    bank.add([light, heavy], 1.0, 1.0, MIDNIGHT + 101 * DAY)

    assert bank.encode(light).bucket_weights == {36: 10_000}
    assert set(bank.encode(heavy).bucket_weights) == {8, 36}


def test_samples_before_and_after_a_shift_may_share_a_batch() -> None:
    one_by_one, together = a_bank(), a_bank()
    row = a_row(one_by_one)
    together.allocate(1)
    values = np.array([0.1, 0.2, 0.1, 0.4, 0.2])
    times = MIDNIGHT + DAY * np.array([0.0, 101.0, 3.0, 210.0, 211.0])
    for value, time in zip(values, times, strict=True):
        one_by_one.add(row, value, 1e9, time)
    together.add(row, values, 1e9, times)

    assert together.encode(row) == one_by_one.encode(row)


@pytest.mark.parametrize(
    ("value", "weight", "time"),
    [
        pytest.param(math.nan, 1.0, MIDNIGHT, id="a value that is no number"),
        pytest.param(math.inf, 1.0, MIDNIGHT, id="an infinite value"),
        pytest.param(0.1, math.nan, MIDNIGHT, id="a weight that is no number"),
        pytest.param(0.1, -1.0, MIDNIGHT, id="a negative weight"),
        pytest.param(0.1, 1.0, math.inf, id="a time that never comes"),
    ],
)
def test_a_batch_with_a_bad_sample_is_refused_as_a_whole(
    value: float, weight: float, time: float
) -> None:
    bank = a_bank()
    rows = bank.allocate(2)
    bank.add(rows, 0.1, 1.0, MIDNIGHT)
    before = [bank.encode(row) for row in rows.tolist()]
    for change in (bank.add, bank.subtract):
        with pytest.raises(SampleError):
            change(rows, [0.1, value], [1.0, weight], [MIDNIGHT, time])

    assert [bank.encode(row) for row in rows.tolist()] == before


def test_an_empty_batch_changes_nothing() -> None:
    bank = a_bank()
    bank.allocate(1)
    bank.add([], [], [], [])
    bank.subtract([], [], 1.0, MIDNIGHT)

    assert bank.total_weight(0) == 0.0


# Merging


def test_merged_rows_hold_what_their_groups_hold_and_leave_them_alone() -> None:
    bank = a_bank()
    rows = bank.allocate(3)
    bank.add(rows, [0.1, 0.8, 0.1], [1.0, 3.0, 2.0], MIDNIGHT)
    merged = bank.merged([[0, 1], [], [2, 0]])

    assert merged.encode(0) == checkpoint("2026-08-01", {8: 3333, 32: 10_000}, 4.0)
    assert merged.encode(1) == HistogramCheckpoint()
    assert merged.encode(2) == checkpoint("2026-08-01", {8: 10_000}, 3.0)
    assert bank.total_weight(rows).tolist() == [1.0, 3.0, 2.0]
    assert len(merged) == 3


def test_merging_aligns_older_rows_to_the_youngest_reference() -> None:
    bank = a_bank()
    rows = bank.allocate(2)
    bank.add(rows, [0.1, 0.8], [5.0, 1.0], MIDNIGHT + np.array([0.0, 2 * DAY]))
    merged = bank.merged([[0, 1]])
    bank.merge(0, [1])

    assert merged.encode(0) == checkpoint("2026-08-03", {8: 10_000, 32: 8_000}, 2.25)
    assert bank.encode(0) == merged.encode(0)
    assert bank.encode(1) == checkpoint("2026-08-03", {32: 10_000}, 1.0)


def test_an_older_row_merged_into_a_younger_one_is_left_alone() -> None:
    bank = a_bank()
    rows = bank.allocate(2)
    bank.add(rows, [0.1, 0.8], [1.0, 5.0], MIDNIGHT + np.array([3 * DAY, 0.0]))
    bank.merge(0, 1)

    assert bank.encode(0) == checkpoint("2026-08-04", {8: 10_000, 32: 6_250}, 1.625)
    assert bank.encode(1) == checkpoint("2026-08-01", {32: 10_000}, 5.0)


def test_a_merge_counts_faint_totals_but_not_faint_buckets() -> None:
    bank = a_bank()
    rows = bank.allocate(2)
    bank.add(rows, [0.1, 0.8], [0.00005, 1.0], MIDNIGHT)
    merged = bank.merged([rows.tolist()])

    assert merged.encode(0) == checkpoint("2026-08-01", {32: 10_000}, 1.00005)


def test_no_groups_merge_into_a_bank_without_rows() -> None:
    assert a_bank().merged([]).percentiles().shape == (0, 3)


# Percentiles


def test_percentiles_are_asked_for_in_any_order_of_rows() -> None:
    bank = a_bank()
    rows = bank.allocate(3)
    bank.add(rows, [0.1, 1.0, 3.0], 1.0, MIDNIGHT)
    ends = CPU_BUCKETS.ends

    assert bank.percentiles([2, 0, 2])[:, 0].tolist() == [ends[find(3.0)], ends[8], ends[find(3.0)]]
    assert bank.percentiles()[:, 2].tolist() == [ends[8], ends[36], ends[find(3.0)]]


@pytest.mark.parametrize(
    ("fraction", "bucket"),
    [
        pytest.param(0.0, 8, id="the lowest occupied bucket"),
        pytest.param(0.1, 8, id="a tie belongs to the lower bucket"),
        pytest.param(0.1001, 36, id="just above the tie"),
        pytest.param(1.0, 36, id="the highest occupied bucket"),
    ],
)
def test_a_percentile_is_the_end_of_the_bucket_that_reaches_it(
    fraction: float, bucket: int
) -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, [0.1, 1.0], [1.0, 9.0], MIDNIGHT)

    assert bank.percentile(row, fraction) == CPU_BUCKETS.ends[bucket]


def test_a_sample_above_the_last_bucket_reports_the_last_start() -> None:
    bank = a_bank()
    row = a_row(bank)
    bank.add(row, 1e6, 1.0, MIDNIGHT)

    assert bank.percentiles([row])[0].tolist() == [CPU_BUCKETS.starts[175]] * 3


def test_a_bank_without_quantiles_still_answers_single_questions() -> None:
    bank = HistogramBank(CPU_BUCKETS, timedelta(days=1), ())
    row = a_row(bank)
    bank.add(row, 0.1, 1.0, MIDNIGHT)

    assert bank.percentiles().shape == (1, 0)
    assert bank.percentile(row, 0.5) == CPU_BUCKETS.ends[8]
