import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from support.makers.scores import rounds

from bench import core
from bench.core_tables import SECTION
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS

SMALL = core.Workload("small", 7, 0.2, history_ticks=3, history_minutes=48)


def test_every_run_draws_the_same_ticks() -> None:
    first, again = list(core.draw_ticks(SMALL)), list(core.draw_ticks(SMALL))

    assert len(first) == 3 + core.ROUNDS * core.TICKS_PER_ROUND
    assert all(np.array_equal(a.values, b.values) for a, b in zip(first, again, strict=True))
    assert [tick.weight for tick in first[:4]] == pytest.approx([4.8, 4.8, 4.8, 0.1])
    assert first[1].times.min() > first[0].times.max()


def test_a_round_is_told_by_the_medians_of_its_ticks() -> None:
    dear, cheap = core.Cost(2.0, 4.0), core.Cost(1.0, 1.0)
    first, second = core.list_rounds([dear, dear, cheap, dear, cheap, *[cheap] * 5], 208.75)

    assert first == {"cpu": 6.0, "intake_cpu": 2.0, "percentiles_cpu": 4.0, "bytes": 208.75}
    assert second["cpu"] == 2.0


def test_histograms_are_told_with_the_spread_of_their_rounds_and_their_growth() -> None:
    entries = [
        entry
        for size in (10_000, 100_000)
        for entry in rounds((size * 1e-7, size * 5e-7), (size * 1e-7, size * 7e-7), size=size)
    ]
    told = "".join(SECTION.tell(entries))

    assert "| CPU per tick | 10000 | lifted | 1.00 ms | 6.00 ms | **6** (5 to 7) |" in told
    assert "| CPU per tick | lifted | 10000 … 100000 | 1.00 | 1.00 |" in told


def test_any_differing_number_is_reported_by_kind(tmp_path: Path) -> None:
    bank = HistogramBank(CPU_BUCKETS, timedelta(days=1), core.QUANTILES)
    rows = bank.allocate(7)
    for tick in core.draw_ticks(SMALL):
        core.tick_ours(bank, core.write_tick(tick, tmp_path), tick.weight)
    weights = np.array([bank.weights.span(row) for row in rows])
    equal = np.concatenate((bank.total_weight(rows)[:, None], bank.percentiles(), weights), axis=1)
    other = equal.copy()
    other[2, 0] *= 1.0 + 1e-15
    other[3, 2] = 0.0

    assert core.differing(bank, equal) == []
    assert core.differing(bank, other) == ["1 totals", "1 percentiles"]


def test_without_go_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    code = core.main()

    assert code == 2
    assert "bench: Go is needed to build this" in capsys.readouterr().err
