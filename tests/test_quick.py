"""The choice of tests for a change: by imports, nearest first, as far as the time reaches."""

import pytest
import quick

FILES = {
    "src/trimtab/core/sizing/capping.py": "",
    "src/trimtab/core/updates/plan.py": "from trimtab.core.sizing import capping",
    "src/trimtab/updater/tick.py": "def tick():\n    from trimtab.core.updates.plan import plan",
    "src/trimtab/core/report/rows.py": (
        "if TYPE_CHECKING:\n    from trimtab.core.sizing import capping"
    ),
    "tests/support/makers/records.py": "",
    "tests/golden/capping_set.py": "",
    "tests/core/sizing/test_capping.py": "from trimtab.core.sizing import capping",
    "tests/core/updates/test_plan.py": "from trimtab.core.updates import plan",
    "tests/updater/test_tick.py": "import support.makers.records\nimport trimtab.updater.tick",
    "tests/core/report/test_rows.py": "from trimtab.core.report.rows import rows",
    "tests/golden/test_golden.py": "",
    "tests/test_chart.py": 'CHART = "charts/trimtab/values.yaml"',
    "tests/e2e/test_capping.py": "from trimtab.core.sizing import capping",
}


@pytest.mark.parametrize(
    ("changed", "distances"),
    [
        pytest.param(
            "src/trimtab/core/sizing/capping.py",
            {
                "tests/core/sizing/test_capping.py": 1,
                "tests/core/updates/test_plan.py": 2,
                "tests/updater/test_tick.py": 3,
            },
            id="imports count, those in functions too, those for types do not",
        ),
        pytest.param(
            "tests/support/makers/records.py",
            {"tests/updater/test_tick.py": 1},
            id="helpers count as modules do",
        ),
        pytest.param(
            "tests/golden/capping_set.py",
            {"tests/golden/test_golden.py": 1},
            id="a helper that is found by its name serves the tests of its folder",
        ),
        pytest.param(
            "charts/trimtab/values.yaml",
            {"tests/test_chart.py": 1},
            id="a file that is no module concerns the tests that name it",
        ),
        pytest.param(
            "tests/core/report/test_rows.py",
            {"tests/core/report/test_rows.py": 0},
            id="a changed test is run itself",
        ),
    ],
)
def test_the_distance_of_a_test_is_the_number_of_imports(
    changed: str, distances: dict[str, int]
) -> None:
    assert quick.measure([changed], FILES) == distances


def test_nearest_tests_are_chosen_until_the_time_is_over_and_the_rest_is_named() -> None:
    near, beside, far, long = (
        *("tests/api/test_near.py", "tests/core/sizing/test_beside.py"),
        *("tests/api/test_far.py", "tests/api/test_long.py"),
    )
    changed = ["src/trimtab/core/sizing/capping.py"]
    distances = {far: 2, near: 1, beside: 1, long: 1}

    found = quick.select(changed, distances, {long: 60, near: 3, beside: 3, far: 3}, seconds=8)

    assert found == quick.Selection([*quick.ALWAYS, beside, near], [long, far])
    said = "\n".join(quick.describe(changed, found, distances))
    assert "leaves out 2: 1 at distance 1, 1 at distance 2" in said
