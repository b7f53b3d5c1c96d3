"""Usage as most tools export it, a line for each moment."""

from datetime import UTC, datetime

import pytest

from trimtab.backtest.recordings import parse_samples
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import Resource
from trimtab.simulation.load.traces import TraceError

_BEGIN = 1_767_225_600


def _lines(header: str, cells: str, count: int = 12) -> list[str]:
    return [header, *(cells.format(time=_BEGIN + 300 * each, each=each) for each in range(count))]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        pytest.param("time,workload,cpu_millicores,memory_mib", "{time},web,500,2", id="small"),
        pytest.param("workload,memory_bytes,cpu_cores,time", "web,2097152,0.5,{time}", id="large"),
    ],
)
def test_columns_may_have_other_units_and_another_order(header: str, cells: str) -> None:
    recordings, flaws = parse_samples(_lines(header, cells))

    assert [recording.workload for recording in recordings] == ["web"]
    assert set(recordings[0].trace.cpu_millicores) == {500.0}
    assert set(recordings[0].trace.memory_bytes) == {2.0 * 1024**2}
    assert list(flaws.lines()) == []


def test_a_counter_of_cpu_seconds_is_understood() -> None:
    lines = _lines("time,workload,cpu_seconds_total,memory_mib", "{time},web,{each}00,64", 14)
    lines[8] = lines[8].replace(",700,", ",0,")
    recordings, flaws = parse_samples(lines)

    # A hundred seconds in each five minutes.
    assert recordings[0].trace.cpu_millicores[0] == pytest.approx(1000 / 3)
    assert flaws.resets == 1


def test_moments_may_be_written_for_people_and_come_in_any_order() -> None:
    times = [f"2026-01-01T{each // 12:02}:{each % 12 * 5:02}:00+00:00" for each in range(12)]
    rows = [f"{time},web,{each},64" for each, time in enumerate(times)]
    lines = ["time,workload,cpu_millicores,memory_mib", *reversed(rows)]
    recordings, _ = parse_samples(lines)

    assert recordings[0].start == datetime(2026, 1, 1, tzinfo=UTC)
    assert recordings[0].trace.cpu_millicores == tuple(float(each) for each in range(12))


def test_the_last_requests_of_a_workload_are_those_of_today() -> None:
    header = "time,workload,cpu_millicores,memory_mib,cpu_request_millicores,memory_limit_mib"
    lines = _lines(header, "{time},web,500,64,{each}00,128")
    lines[-1] = lines[-1].replace(",128", ",")
    recordings, _ = parse_samples(lines)
    bare, _ = parse_samples(_lines("time,workload,cpu_cores,memory_mib", "{time},web,1,64"))

    limit = {Resource.MEMORY: 128 * 1024**2}
    assert recordings[0].size == Allocation({Resource.CPU: 1100, **limit}, limit)
    assert bare[0].size is None


def test_an_empty_cell_is_a_gap() -> None:
    lines = _lines("time,workload,cpu_millicores,memory_mib", "{time},web,500,64")
    lines[5] = lines[5].replace(",500,", ",,")
    _, flaws = parse_samples(lines)

    assert list(flaws.lines()) == [
        "gaps of 0.1 h in all were filled with the last value before them"
    ]


@pytest.mark.parametrize(
    ("lines", "flaw"),
    [
        pytest.param(["workload,cpu_cores,memory_mib"], "'time'", id="no time"),
        pytest.param(["time,workload,memory_mib"], "one of the columns cpu_", id="no CPU"),
        pytest.param(
            ["time,workload,cpu_cores,cpu_millicores,memory_mib"], "one of", id="two kinds of CPU"
        ),
        pytest.param(
            ["time,workload,cpu_cores,memory_mib", "noon,a,1,1"],
            "line 2: time is 'noon'",
            id="no moment",
        ),
        pytest.param(
            ["time,workload,cpu_cores,memory_mib", "1,a,1,1", "2,a,much,1"],
            "line 3: cpu_cores is 'much'",
            id="no number",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_where(lines: list[str], flaw: str) -> None:
    with pytest.raises(TraceError, match=flaw):
        parse_samples(lines)
