import csv
import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from trimtab.simulation.load.traces import Recording, TraceError, parse_recordings, read_recordings
from trimtab.simulation.world.loads import Trace

HEADER = "workload,resource,start_unix,step_seconds,source_id,values"
NOON_OF_A_TUESDAY = datetime(2011, 5, 3, 12, tzinfo=UTC)


def a_line(
    workload: str = "one",
    resource: str = "cpu_millicores",
    *,
    start: datetime = NOON_OF_A_TUESDAY,
    step: int | str = 300,
    values: str = "10 20 30",
) -> str:
    return f"{workload},{resource},{int(start.timestamp())},{step},somewhere,{values}"


ONE = [HEADER, a_line(), a_line(resource="memory_mib", values="1 2 3")]


def test_a_recording_has_millicores_and_bytes() -> None:
    (recording,) = parse_recordings(ONE)

    mib = 1024.0 * 1024.0
    trace = Trace((10.0, 20.0, 30.0), (mib, 2 * mib, 3 * mib), timedelta(minutes=5))
    assert recording == Recording("one", NOON_OF_A_TUESDAY, trace)


def test_recordings_come_in_the_order_of_the_file() -> None:
    others = [a_line("zero"), a_line("zero", "memory_mib"), a_line("a"), a_line("a", "memory_mib")]

    found = parse_recordings([*ONE, *others])

    assert [recording.workload for recording in found] == ["one", "zero", "a"]


def test_the_two_lines_of_a_workload_may_stand_apart() -> None:
    cpu, memory = ONE[1:]
    between = [a_line("two", "memory_mib"), a_line("two")]

    assert parse_recordings([HEADER, memory, *between, cpu])[0] == parse_recordings(ONE)[0]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_files_are_read_gzipped_or_not(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"recordings{suffix}"
    data = "\n".join(ONE).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)

    assert read_recordings(path) == parse_recordings(ONE)


def test_long_lines_are_read_and_leave_the_limit_of_fields_alone() -> None:
    before = csv.field_size_limit()
    values = " ".join(["123456"] * 50_000)

    (recording,) = parse_recordings(
        [HEADER, a_line(values=values), a_line("one", "memory_mib", values=values)]
    )

    assert len(recording.trace.cpu_millicores) == 50_000
    assert csv.field_size_limit() == before


def test_the_phase_keeps_the_weekday_and_the_hour() -> None:
    (recording,) = parse_recordings(ONE)

    # Simulated time begins at midnight before a Monday, five and a half days into the recording.
    assert recording.phase == timedelta(days=5, hours=12)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([a_line()], id="no memory at all"),
        pytest.param([a_line(), a_line(resource="disk")], id="a resource that nobody knows"),
        pytest.param(
            [a_line(), a_line(resource="memory_mib", values="1 2")], id="fewer values of memory"
        ),
        pytest.param(
            [a_line(values=""), a_line(resource="memory_mib", values="")], id="no values at all"
        ),
        pytest.param(
            [a_line(), a_line(resource="memory_mib", step=60)], id="another step for memory"
        ),
        pytest.param(
            [a_line(), a_line(resource="memory_mib", start=NOON_OF_A_TUESDAY + timedelta(hours=1))],
            id="another start for memory",
        ),
        pytest.param(
            [a_line(), a_line(resource="memory_mib", values="1 2 x")], id="a value that is none"
        ),
        pytest.param([a_line(step="")], id="no step"),
        pytest.param([a_line(step=0), a_line("one", "memory_mib", step=0)], id="a step of no time"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_the_name_of_the_workload(
    lines: list[str],
) -> None:
    with pytest.raises(TraceError, match="one"):
        parse_recordings([HEADER, *lines])
