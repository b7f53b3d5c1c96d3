import json
import signal
import subprocess
import sys

import pytest

from trimtab.cli.main import main

PROGRAM = "import sys; from trimtab.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_a_short_demo_is_a_log_with_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--duration", "0.5", "--speed", "600"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert any("first recommendation" in line for line in lines)
    assert any("the end:" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_program_gets_a_summary_and_people_get_the_rest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["demo", "--duration", "0.5", "--speed", "600", "--seed", "3", "--json"])

    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert code == 0
    assert summary["seed"] == 3
    assert 0 < summary["simulatedSeconds"] <= 300
    assert [each["name"] for each in summary["workloads"]][:2] == ["web", "orders"]
    assert "the end:" in printed.err


def test_whoever_has_seen_enough_still_gets_the_end() -> None:
    arguments = ["demo", "--duration", "600", "--speed", "60"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = next(line for line in process.stdout if "first recommendation" in line)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert first
    assert process.returncode == 0
    assert "the end:" in rest
    assert "Traceback" not in rest


@pytest.mark.parametrize("flag", ["duration", "speed"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0", " must be more than 0 and at most 1e+09, not 0"),
        ("-1", " must be more than 0 and at most 1e+09, not -1"),
        ("inf", ': "inf" is larger than a number may be'),
        ("nan", ': "nan" is not a number'),
    ],
)
def test_a_number_that_makes_no_sense_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], flag: str, value: str, problem: str
) -> None:
    code = main(["demo", f"--{flag}={value}"])

    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith(f"trimtab: --{flag}{problem}; see ")


def test_other_commands_do_not_wait_for_what_only_the_demo_needs() -> None:
    program = (
        "import sys; from trimtab.cli.main import main; main(['version']);"
        " sys.exit('rich' in sys.modules or 'trimtab.simulation.demo.demo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)

    assert done.returncode == 0
