"""Short contests of both sides on a real API server: each measures all that its tables tell."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from bench import admission, interrupts, recommender, stack, updater
from bench.contests import Contest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("contest", "hold"),
    [
        pytest.param(recommender.CONTEST, recommender.main, id="recommenders"),
        pytest.param(updater.CONTEST, updater.main, id="updaters"),
        pytest.param(admission.CONTEST, admission.main, id="webhooks"),
        pytest.param(stack.CONTEST, stack.main, id="whole stacks"),
    ],
)
def test_a_short_contest_tells_every_measure_of_both_sides(
    contest: Contest,
    hold: Callable[[Sequence[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = hold(["--short"])
    told = capsys.readouterr().out

    assert code == 0
    for table in contest.section.tables:
        for measure in table.measures:
            assert f"| {measure.title} | {contest.short_size} |" in told


def test_an_interrupt_ends_all_that_was_started() -> None:
    mark = f"of_this_test={uuid4()}"
    command = [sys.executable, "-m", "bench", "--short", "--parts", "stack"]
    # By `env`, so that whatever descends from it has the mark, too.
    with subprocess.Popen(["env", mark, *command], stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "watching for" in line:
                break
        begun = list_marked(mark)
        running.send_signal(signal.SIGINT)
        told = running.stderr.read()

    # Both of the bench, two of the API server, three components, and all their supervisors.
    assert len(begun) >= 12
    assert running.returncode == interrupts.EXIT_CODE
    assert "interrupted" in told
    assert list_marked(mark) == []


def list_marked(mark: str) -> list[Path]:
    """The processes that have a mark in their surroundings."""
    return [path.parent for path in Path("/proc").glob("[0-9]*/environ") if has(path, mark)]


def has(environ: Path, mark: str) -> bool:
    try:
        return mark.encode() in environ.read_bytes()
    except OSError:
        return False
