"""Files and flags that `trimtab backtest` refuses, each in a process of its own.

A refusal is one line on standard error: the file, the line, the column, the value, what to do.
"""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

_SERIES = "workload,resource,start_unix,step_seconds,source_id,values"
_CPU = "gc-001,cpu_millicores,1767225600,300,none," + " ".join(["5"] * 20)
_MEMORY = "gc-001,memory_mib,1767225600,300,none," + " ".join(["7"] * 20)
_SAMPLES = "time,workload,cpu_cores,memory_mib"


def _refuse(*arguments: str | Path) -> str:
    """Return the one line with which the command refuses."""
    program = str(Path(sys.executable).with_name("trimtab"))
    command = [program, "backtest", "--policy", "today", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("\n") == 1, run.stderr
    return run.stderr


@pytest.mark.parametrize(
    ("lines", "refusal"),
    [
        pytest.param([], "the file is empty", id="empty"),
        pytest.param([_SERIES], "there is no workload to replay", id="a header alone"),
        pytest.param(
            ["a,b", "1,2"],
            "line 1: there is no column 'time'; a file has the columns time, workload, one of CPU",
            id="another table",
        ),
        pytest.param(
            [_SERIES.replace("step_seconds", "step"), _CPU],
            "line 1: there is no column 'step_seconds'",
            id="series without a step",
        ),
        pytest.param(
            [_SERIES, _CPU, _MEMORY.replace("memory_mib", "memory_gib")],
            "line 3: the resource of gc-001 is 'memory_gib'; it must be one of cpu_millicores,"
            " memory_mib",
            id="a unit of series",
        ),
        pytest.param(
            [_SAMPLES.replace("mib", "gib"), "0,web,1,1"],
            "line 1: there must be one of the columns memory_mib, memory_bytes; the columns are"
            " time, workload, cpu_cores, memory_gib",
            id="a unit of samples",
        ),
        pytest.param(
            [f"{_SAMPLES},memory_bytes", "0,web,1,1,1"],
            "there are memory_mib, memory_bytes",
            id="two columns of memory",
        ),
        pytest.param(
            [_SERIES, _CPU],
            "gc-001 has no line with memory_mib, only cpu_millicores (line 2)",
            id="no memory",
        ),
        pytest.param(
            [_SERIES, _CPU, _MEMORY + " 7"],
            "there are 20 values of CPU and 21 of memory of gc-001, lines 2 and 3",
            id="unequal lengths",
        ),
        pytest.param(
            [_SERIES, _CPU, _MEMORY, _CPU],
            "line 4: a second line with cpu_millicores of gc-001; the first is line 2",
            id="twice",
        ),
        pytest.param(
            [_SERIES, _CPU.replace("5 5", "5 much", 1), _MEMORY],
            "line 2: cpu_millicores of gc-001: value 2 is 'much'; values must be whole numbers",
            id="no number in series",
        ),
        pytest.param(
            [_SERIES, _CPU, _MEMORY.replace("7 7", "7 -7", 1)],
            "line 3: memory_mib of gc-001: value 2 is -7, which is below zero",
            id="less than nothing",
        ),
        pytest.param(
            [_SERIES, _CPU.replace("1767225600", "noon"), _MEMORY],
            "line 2: start_unix of gc-001 is 'noon'; it must be a whole number of seconds",
            id="no start",
        ),
        pytest.param(
            [_SERIES, "gc-001,cpu_millicores", _MEMORY],
            "line 2: no cell for the columns start_unix, step_seconds, values",
            id="a short line",
        ),
        pytest.param(
            [
                *(_SERIES, _CPU, _MEMORY),
                *(each.replace("gc-001", "b").replace(",300,", ",60,") for each in (_CPU, _MEMORY)),
            ],
            "there must be one resolution: gc-001 has values for 300 s, b for 60 s",
            id="two resolutions",
        ),
        pytest.param(
            [_SAMPLES, "0,web,1,1", "300,web,1,much"],
            "line 3: memory_mib is 'much'; it must be a number",
            id="no number in samples",
        ),
        pytest.param(
            [_SAMPLES, "yesterday,web,1,1"],
            "line 2: time is 'yesterday'; it must be seconds since the epoch or ISO 8601",
            id="no time",
        ),
        pytest.param(
            [_SAMPLES, "nan,web,1,1"], "line 2: time is 'nan'; it must be seconds", id="NaN as time"
        ),
        pytest.param([_SAMPLES, "0"], "line 2: no cell for time or workload", id="half a line"),
        pytest.param(
            [f"{_SAMPLES},memory_request_mib", "0,web,1,1,nan"],
            "line 2: memory_request_mib is 'nan'; it must not be below zero",
            id="NaN as a request",
        ),
        pytest.param(
            [_SAMPLES, "0,web,1,1"], "every workload has less than an hour: web", id="too short"
        ),
    ],
)
def test_a_file_is_refused_with_the_place_and_the_value(
    tmp_path: Path, lines: list[str], refusal: str
) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    assert f"trimtab: {path}: " in (told := _refuse("--trace", path))
    assert refusal in told


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        pytest.param(
            "usage.csv.gz", _SERIES.encode(), "ends in .gz and is no whole gzip file", id="plain"
        ),
        pytest.param(
            "usage.csv.gz",
            gzip.compress(_CPU.encode() * 50)[:40],
            "ends in .gz and is no whole gzip file",
            id="cut off",
        ),
        pytest.param(
            "usage.csv",
            gzip.compress(_CPU.encode()),
            "is no UTF-8 text (byte 1); gzipped files must end in .gz",
            id="gzip by another name",
        ),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, name: str, content: bytes, refusal: str
) -> None:
    (tmp_path / name).write_bytes(content)

    assert refusal in _refuse("--trace", tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        pytest.param(
            ["--policy", "best"], "--policy: there is no 'best'; name a file", id="policy"
        ),
        pytest.param(
            ["--scenario", "over-strict,odd"],
            "--scenario: there is no 'odd'; choose from over-strict, over-loose",
            id="scenario",
        ),
        pytest.param(["--trace", "nowhere.csv"], "cannot read nowhere.csv: No such", id="no file"),
    ],
)
def test_unknown_names_are_refused_with_those_that_are_known(
    tmp_path: Path, arguments: list[str], refusal: str
) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(f"{_SERIES}\n{_CPU}\n{_MEMORY}\n", encoding="utf-8")
    trace = [] if "--trace" in arguments else ["--trace", str(path)]

    assert refusal in _refuse(*trace, *arguments)
