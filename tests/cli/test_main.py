"""The real command, started as a user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from trimtab import __version__
from trimtab.api.crds import definitions

TRIMTAB = Path(sys.executable).parent / "trimtab"
BOX = re.compile(r"[\u2500-\u257f]")


def trimtab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TRIMTAB, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("arguments", [["version"], ["--version"]], ids=["command", "flag"])
def test_the_version_is_printed_and_nothing_else(arguments: list[str]) -> None:
    run = trimtab(*arguments)

    assert (run.returncode, run.stdout, run.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []], ids=["long", "short", "none"])
def test_help_names_every_command_that_works(arguments: list[str]) -> None:
    run = trimtab(*arguments)

    assert run.returncode == 0
    assert all(
        f"\n  {command} " in run.stdout
        for command in ("crds", "demo", "recommender", "simulate", "validate", "version")
    )
    assert not BOX.search(run.stdout)


@pytest.mark.parametrize("command", ["crds", "recommender", "validate", "version"])
def test_every_command_explains_itself(command: str) -> None:
    run = trimtab(command, "--help")

    assert run.returncode == 0
    assert run.stdout.startswith(f"Usage: trimtab {command}")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(["frobnicate"], "frobnicate", id="an unknown command"),
        pytest.param(["--frobnicate"], "--frobnicate", id="an unknown flag"),
        pytest.param(["crds", "--frobnicate"], "--frobnicate", id="an unknown flag of a command"),
        pytest.param(["version", "twice"], "twice", id="a needless argument"),
        pytest.param(["validate"], "file", id="a missing argument"),
        pytest.param(["validate", "x", "--feature-gates"], "--feature-gates", id="a missing value"),
        pytest.param(
            ["validate", "x", "--feature-gates=InPlace"], "InPlace", id="a value that is no gate"
        ),
        pytest.param(
            ["validate", "x", "--allow-overlapping-autoscalers=maybe"],
            "maybe",
            id="a value of the wrong type",
        ),
    ],
)
def test_a_mistaken_call_is_one_clear_line_and_code_2(arguments: list[str], named: str) -> None:
    run = trimtab(*arguments)

    assert run.returncode == 2
    assert run.stdout == ""
    assert re.fullmatch(r"trimtab: [^\n]+\n", run.stderr)
    assert named in run.stderr
    assert not BOX.search(run.stderr)


def test_the_definitions_are_printed_as_yaml() -> None:
    run = trimtab("crds")

    assert run.returncode == 0
    assert list(yaml.safe_load_all(run.stdout)) == definitions.definitions()


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    run = subprocess.run(
        ["sh", "-c", f"{TRIMTAB} crds | head -n 1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert run.stdout.startswith("#")
    assert run.stderr == ""


@pytest.mark.parametrize("line", ["crds", "get --help", "demo --duration 1"])
def test_a_reader_that_is_gone_is_no_failure(line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run(
            [TRIMTAB, *line.split()],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)

    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("module", ["numpy", "yaml", "rich", "trimtab.core.model.quantities"])
def test_printing_the_version_loads_nothing_heavy(module: str) -> None:
    program = (
        "import sys; from trimtab.cli.main import main; "
        f"main(['version']); sys.exit({module!r} in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )

    assert run.returncode == 0
