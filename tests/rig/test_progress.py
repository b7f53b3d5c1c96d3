"""Progress of long work: said in time, with what it is at, and with the last words of a failure."""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rig import progress
from rig.progress import ProgressError

# Goes on once its log has been described, so that it takes as long as it takes to be asked.
SLOW = """\
import pathlib, sys, time
print("one", flush=True)
print("two", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""

ROOT = Path(__file__).parents[2]

# A run in a process of its own, which will be killed; it tells the pid of the work.
RUN = """\
import pathlib, sys
from rig import progress
progress._EVERY_SECONDS = 0.01
def describe(lines):
    if lines:
        print(lines[0], flush=True)
    return ""
folder = pathlib.Path(sys.argv[1])
work = ["sh", "-c", "echo $$; exec sleep 60"]
progress.run(work, "it", directory=folder, logs=folder, describe=describe)
"""


def test_long_work_says_for_how_long_it_has_been_at_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_EVERY_SECONDS", 0.01)

    def describe(lines: Sequence[str]) -> str:
        if len(lines) == 2:
            (tmp_path / "asked").touch()
        return " and ".join(lines)

    command = [sys.executable, "-c", SLOW, str(tmp_path / "asked")]
    progress.run(command, "it", directory=tmp_path, logs=tmp_path, describe=describe)

    said = capsys.readouterr().err.splitlines()
    assert any(line.endswith(" s: one and two") for line in said)
    assert all(line.startswith("build: it: ") for line in said)
    assert said[-1].startswith("build: it: done in ")


def test_short_work_says_only_that_it_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.run(["true"], "it", directory=tmp_path, logs=tmp_path)

    assert capsys.readouterr().err.startswith("build: it: done in ")


def test_a_failure_shows_the_last_words(tmp_path: Path) -> None:
    script = 'i=0; while [ $i -lt 30 ]; do i=$((i + 1)); echo "line $i"; done; exit 3'

    with pytest.raises(ProgressError) as caught:
        progress.run(["sh", "-c", script], "it", directory=tmp_path, logs=tmp_path)

    assert str(caught.value).splitlines() == [f"line {number}" for number in range(11, 31)]


def test_work_is_done_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    progress.run(
        ["sh", "-c", 'echo "$PWD $WORD"'],
        "it",
        directory=tmp_path,
        logs=tmp_path,
        environment={"WORD": "given"},
    )

    assert (tmp_path / "sh.log").read_text(encoding="utf-8") == f"{tmp_path} given\n"


def test_work_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        watched = os.pidfd_open(pid)
        run.kill()

    ended, _, _ = select.select([watched], [], [], 30)
    os.close(watched)
    assert ended


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(0.4, "0 s", id="less than a second"),
        pytest.param(59.4, "59 s", id="seconds alone"),
        pytest.param(59.6, "1 min 0 s", id="rounded to a minute"),
        pytest.param(250, "4 min 10 s", id="minutes and seconds"),
    ],
)
def test_spans_are_told_as_a_person_would(seconds: float, expected: str) -> None:
    assert progress.format_span(seconds) == expected
