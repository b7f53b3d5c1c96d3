import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.readers.terminal import in_terminal

from trimtab.cli.output import progress

SHOWING = """
import sys
from trimtab.cli.output import progress
with progress.shown(2, is_quiet={quiet}) as shown:
    {shows}
    shown.write("a result\\n")
print("rich" in sys.modules)
"""


@pytest.fixture
def run() -> Callable[..., str]:
    """A program in a terminal that shows progress, and writes a result."""

    def run_program(*, quiet: bool = False, shows: str = "shown.show(1, '1 of 2 seeds')") -> str:
        program = SHOWING.format(quiet=quiet, shows=shows)
        return in_terminal([Path(sys.executable), "-c", program]).raw

    return run_program


def test_a_terminal_has_a_bar_that_is_removed(run: Callable[..., str]) -> None:
    raw = run()

    assert "1 of 2 seeds" in raw
    assert "━" in raw
    # The result stands in a line of its own; what was drawn before and after it is erased.
    assert "\x1b[2K" in raw
    assert "a result\r\n" in raw
    assert raw.index("1 of 2 seeds") < raw.index("a result")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"quiet": True}, id="where none is wanted"),
        pytest.param({"shows": "pass"}, id="before there is progress"),
    ],
)
def test_no_bar_is_drawn(run: Callable[..., str], given: dict[str, object]) -> None:
    assert run(**given) == "a result\r\nFalse\r\n"


@pytest.mark.parametrize(
    ("total", "lines"),
    [
        pytest.param(2, ["1 done", "2 done"], id="one for each of few"),
        pytest.param(1000, [f"{100 * part} done" for part in range(1, 11)], id="ten of many"),
    ],
)
def test_a_pipe_has_plain_lines(
    capsys: pytest.CaptureFixture[str], total: int, lines: list[str]
) -> None:
    with progress.shown(total) as shown:
        for done in range(1, total + 1):
            shown.show(done, f"{done} done")

    assert capsys.readouterr().err.splitlines() == lines


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param({"is_quiet": True}, id="quiet"),
        pytest.param({"has_lines": False}, id="only for terminals"),
    ],
)
def test_a_pipe_has_no_lines_where_none_are_wanted(
    capsys: pytest.CaptureFixture[str], silence: dict[str, bool]
) -> None:
    with progress.shown(1, **silence) as shown:
        shown.show(1, "all")
        shown.write("a result\n")

    assert capsys.readouterr() == ("a result\n", "")
