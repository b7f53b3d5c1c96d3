"""The recipe of CONTRIBUTING for a flag, followed in a copy of the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLAGS, SETTINGS = "src/trimtab/cli/flags/admission.py", "src/trimtab/admission/settings.py"
PAGE, GENERATED = "docs/admission.md", "docs/flags.md"
SHOWN = "tests/cli/components/test_admission_page.py::test_the_page_has_every_flag_with_its_default"
READ = "tests/cli/flags/test_readers.py::test_every_flag_is_read_somewhere"
WRITTEN = "tests/reference/test_pages.py::test_a_page_is_what_make_docs_would_write"
NAMED_TESTS = (SHOWN.partition("::")[0], READ, WRITTEN)
FIELD = '    sample_size: Whole = 7\n    """Number of pods that are a sample."""\n'
HANDED_OVER = "        sample_size=flags.care.sample_size,\n"
SETTING = '    sample_size: int = 7\n    """`--sample-size`: number of pods."""\n'
ROW = "| `--sample-size` | `7` | Number of pods that are a sample. |\n"


def insert(path: Path, anchor: str, text: str) -> None:
    """Insert the text before the one place that has the anchor."""
    before, found, after = path.read_text(encoding="utf-8").partition(anchor)
    assert found
    path.write_text(f"{before}{text}{found}{after}", encoding="utf-8")


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Follow the recipe for a flag of the admission controller, from its first step to its last."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("src", "reference", "docs", "tests/cli", "tests/reference", "tests/support"):
        shutil.copytree(ROOT / folder, tree / folder)
    # Each runs pytest in a copy of the tree, and so would this one.
    (tree / "tests/reference/test_recipes.py").unlink()
    shutil.copy(ROOT / "pyproject.toml", tree)
    insert(tree / FLAGS, "    workers: Whole = 1\n", FIELD)
    insert(tree / FLAGS, "        hpa_conflict=flags.care.hpa_conflict,\n", HANDED_OVER)
    insert(tree / SETTINGS, "    caps_to_nodes: bool = True\n", SETTING)
    insert(tree / PAGE, "| `--workers` |", ROW)
    written = run(tree, "-m", "reference")
    assert written.returncode == 0, written.stderr
    return tree


def list_failures(tree: Path, *tests: str) -> set[str]:
    """Run the tests in the copy; return the names of those that fail."""
    done = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode in {0, 1}, done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert bool(failed) == bool(done.returncode), done.stdout
    return {line.split("::")[1].split("[")[0].split()[0] for line in failed}


def test_the_recipe_for_a_flag_names_the_tests_that_hold_it() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = guide.partition("**A flag of a component.**")[2].partition("**A reason")[0]

    assert "tests/cli/components/test_<component>_page.py" in recipe
    assert "tests/cli/flags/test_readers.py" in recipe
    assert "tests/reference/test_pages.py" in recipe


def test_a_flag_made_by_the_recipe_passes_the_tests_that_it_names(tree: Path) -> None:
    assert list_failures(tree, *NAMED_TESTS) == set()


@pytest.mark.parametrize(
    ("place", "text", "test"),
    [
        pytest.param(FLAGS, HANDED_OVER, READ, id="the flag is not handed over"),
        pytest.param(PAGE, ROW, SHOWN, id="the page has no row"),
        pytest.param(GENERATED, "`--sample-size`", WRITTEN, id="make docs has not run"),
    ],
)
def test_a_named_test_fails_where_a_step_of_the_recipe_is_left_out(
    tree: Path, place: str, text: str, test: str
) -> None:
    complete = (tree / place).read_text(encoding="utf-8")
    assert text in complete
    (tree / place).write_text(complete.replace(text, ""), encoding="utf-8")
    try:
        assert test.rpartition("::")[2] in list_failures(tree, test)
    finally:
        (tree / place).write_text(complete, encoding="utf-8")
