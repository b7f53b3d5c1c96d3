"""One command measures everything that the page tells."""

import importlib
from pathlib import Path

import pytest

from bench import __main__ as everything


@pytest.mark.parametrize("part", [*everything.ALONE, *everything.CONTESTS])
def test_every_part_is_a_module_that_says_what_it_measures(part: str) -> None:
    assert importlib.import_module(f"bench.{part}").__doc__


def test_every_file_of_results_has_a_part_that_renews_it() -> None:
    results = Path(everything.__file__).parent / "results"
    parts = {*everything.ALONE, *everything.CONTESTS}

    assert {path.stem for path in results.glob("*.json")} <= parts
