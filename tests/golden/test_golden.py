"""Every recorded answer of the original, case by case, against ours.

The cases of the set NAME, whatever their file, are checked by `NAME_set.differences(case)`, which
lists where our answer differs as lines `path: ours != theirs`. A difference is a failure unless the
table of deviations covers it.
"""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from golden import recommendation_set
from golden.deviations import DEVIATIONS, Deviation
from golden.usage_cases import has_reading_of_zero_bytes

OWN_DIR = Path(__file__).parent


def load(directory: Path) -> list[tuple[str, dict[str, Any]]]:
    """All cases of all sets of a directory, with the name of their set."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.json"))]
    return [
        (content["set"], case) for content in map(json.loads, texts) for case in content["cases"]
    ]


def differences(set_name: str, case: dict[str, Any]) -> list[str]:
    """Where our answer to a case differs from the original's."""
    checker = importlib.import_module(f"golden.{set_name}_set")
    found: list[str] = checker.differences(case)
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "golden_case" in metafunc.fixturenames:
        cases = load(metafunc.config.getoption("--golden-dir"))
        ids = [f"{set_name}: {case['name']}" for set_name, case in cases]
        metafunc.parametrize("golden_case", cases, ids=ids)


def test_our_answer_is_the_original_s_or_a_decision_says_why(
    golden_case: tuple[str, dict[str, Any]],
) -> None:
    set_name, case = golden_case
    found = differences(set_name, case)
    allowed = [
        deviation.where
        for deviation in DEVIATIONS
        if deviation.set == set_name and deviation.applies(case)
    ]

    assert [line for line in found if not any(re.match(where, line) for where in allowed)] == []


def test_the_directory_holds_cases(request: pytest.FixtureRequest) -> None:
    assert load(request.config.getoption("--golden-dir"))


@pytest.mark.parametrize(
    "deviation", DEVIATIONS, ids=[f"{entry.set} {entry.decision}" for entry in DEVIATIONS]
)
def test_each_deviation_is_still_needed(deviation: Deviation) -> None:
    needed = [
        case["name"]
        for set_name, case in load(OWN_DIR)
        if set_name == deviation.set
        and deviation.applies(case)
        and any(re.match(deviation.where, line) for line in differences(set_name, case))
    ]

    assert needed


def test_keeping_peaks_of_zero_gives_the_original_s_memory_histograms() -> None:
    wanted = next(one for one in DEVIATIONS if one.applies is has_reading_of_zero_bytes)
    cases = [
        case
        for set_name, case in load(OWN_DIR)
        if set_name == "recommendation" and has_reading_of_zero_bytes(case)
    ]
    found = [
        line
        for case in cases
        for line in recommendation_set.differences(case, keeps_zero_peaks=True)
        if re.match(wanted.where, line)
    ]

    assert cases
    assert found == []
