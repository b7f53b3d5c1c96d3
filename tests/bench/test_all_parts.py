"""One command measures everything that the page tells."""

import importlib
import sys
from pathlib import Path

import pytest

from bench import __main__ as everything

PARTS = {**everything.ALONE, **everything.CONTESTS}


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_module_that_says_what_it_measures(part: str) -> None:
    assert importlib.import_module(f"bench.{part}").__doc__


def test_every_file_of_results_has_a_part_that_renews_it() -> None:
    results = Path(everything.__file__).parent / "results"

    assert {path.stem for path in results.iterdir()} == set(PARTS)


def test_the_help_says_how_long_all_of_it_takes() -> None:
    minutes = sum(PARTS.values())

    assert 100 < minutes < 180
    assert f"about {minutes} minutes" in everything.make_parser().format_help().replace("\n", " ")


def test_a_part_that_fails_does_not_keep_the_others_from_being_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tmp_path / "told"
    failed = everything.run_all(
        {
            "worse": [sys.executable, "-c", "raise SystemExit(1)"],
            "fine": [sys.executable, "-c", f"open({str(told)!r}, 'w').close()"],
        },
        {"fine": 8},
    )

    assert failed == ["worse"]
    assert told.exists()
    assert "part 2 of 2: fine; " in (said := capsys.readouterr().err)
    assert said.count("about 8 min to go") == 2
