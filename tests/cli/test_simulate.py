import pytest

from trimtab.cli.main import main


def test_one_seed_tells_what_was_drawn_and_what_became_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = main(["simulate", "--seed", "1", "--hours", "1"])

    first, *faults, last = capsys.readouterr().out.splitlines()
    assert code == 0
    assert first.startswith("seed 1: ")
    assert all(fault.startswith("  ") for fault in faults)
    assert last.startswith("seed 1: all well in ")
    assert "digest " in last


@pytest.mark.parametrize("flag", ["seeds", "hours", "jobs"])
def test_a_number_that_makes_no_sense_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    code = main(["simulate", f"--{flag}", "0"])

    assert code == 2
    assert capsys.readouterr().err == f"trimtab: --{flag} must be at least 1, not 0\n"
