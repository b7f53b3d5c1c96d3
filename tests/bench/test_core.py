import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "core.py"

spec = importlib.util.spec_from_file_location("bench_core", SCRIPT)
assert spec is not None
assert spec.loader is not None
core = importlib.util.module_from_spec(spec)
sys.modules["bench_core"] = core
spec.loader.exec_module(core)

SMALL = core.Workload("small", 7, 0.2, history_ticks=3, history_minutes=48)


def a_comparison() -> Any:
    ours = core.summarise_side([core.Cost(1.0, 2.0), core.Cost(2.0, 4.0), core.Cost(1.0, 1.0)], 200)
    original = core.summarise_side([core.Cost(10.0, 20.0)], 1600)
    return core.summarise(SMALL, ours=ours, original=original)


def test_every_run_draws_the_same_ticks() -> None:
    first, again = list(core.draw_ticks(SMALL)), list(core.draw_ticks(SMALL))

    assert len(first) == 3 + core.ROUNDS
    assert all(np.array_equal(a.values, b.values) for a, b in zip(first, again, strict=True))
    assert [tick.weight for tick in first[:4]] == pytest.approx([4.8, 4.8, 4.8, 0.1])
    assert first[1].times.min() > first[0].times.max()


def test_a_side_is_summed_up_by_medians_and_its_extremes() -> None:
    found = a_comparison().ours

    assert (found.intake_ms, found.percentiles_ms, found.total_ms) == (1.0, 2.0, 3.0)
    assert (found.least_ms, found.most_ms) == (2.0, 6.0)


def test_ratios_say_how_many_times_more_the_original_needs() -> None:
    found = a_comparison()

    assert (found.cpu_ratio, found.memory_ratio) == (10.0, 8.0)


def test_the_table_has_three_lines_for_each_workload() -> None:
    lines = core.format_table([a_comparison(), a_comparison()]).splitlines()

    assert len(lines) == 2 + 2 * 3
    assert lines[4] == "| | **ratio** | 10.0 | 10.0 | **10.0** | **8.0** |"


def test_results_are_written_as_figures_and_as_a_page(tmp_path: Path) -> None:
    core.write_results([a_comparison()], tmp_path / "results")
    figures = json.loads((tmp_path / "results" / "core.json").read_text(encoding="utf-8"))

    assert figures["comparisons"][0]["cpu_ratio"] == 10.0
    assert "| 7 small | Trimtab |" in (tmp_path / "results" / "core.md").read_text(encoding="utf-8")


def test_any_differing_number_is_reported_by_kind(tmp_path: Path) -> None:
    bank = core.HistogramBank(core.CPU_BUCKETS, core.timedelta(days=1), core.QUANTILES)
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
