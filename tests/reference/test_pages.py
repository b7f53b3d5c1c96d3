"""The pages of reference: they are what the code says, and leave nothing out."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reference import exposed, flags_page, metrics_page, original_flags, original_metrics
from trimtab.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = dict(flags_page.list_commands(app))
METRICS = {one.name: one for metrics in exposed.list_metrics().values() for one in metrics}
ORIGINAL_METRICS = {
    **original_metrics.RECOMMENDER,
    **original_metrics.UPDATER,
    **original_metrics.ADMISSION,
}


@pytest.mark.parametrize(
    ("name", "write"),
    [
        pytest.param("flags.md", flags_page.write_page, id="flags"),
        pytest.param("metrics.md", metrics_page.write_page, id="metrics"),
    ],
)
def test_a_page_is_what_make_docs_would_write(name: str, write: Callable[[], str]) -> None:
    is_current = (DOCS / name).read_text(encoding="utf-8") == write()

    assert is_current, f"docs/{name} is not current: run `make docs`, and commit what it writes"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_of_every_command_says_what_it_means(name: str) -> None:
    rows = flags_page.list_rows(COMMANDS[name])

    assert [row.names[0] for row in rows if not row.text] == []


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        pytest.param("recommender", original_flags.RECOMMENDER, id="recommender"),
        pytest.param("updater", original_flags.UPDATER, id="updater"),
        pytest.param("admission-controller", original_flags.ADMISSION, id="admission controller"),
    ],
)
def test_the_page_of_flags_compares_every_flag_of_the_original(
    command: str, flags: Mapping[str, object]
) -> None:
    page = (DOCS / "flags.md").read_text(encoding="utf-8")
    section = page.partition(f"## trimtab {command}\n")[2].partition("\n## ")[0]
    rows = {line.split("`")[1]: line for line in section.splitlines() if line.startswith("| `")}

    assert {name for name in flags if name not in rows} == set()
    assert [name for name in flags if rows[name].endswith("| ours |")] == []


@pytest.mark.parametrize("name", ORIGINAL_METRICS)
def test_what_is_declared_has_the_type_and_the_labels_of_the_original(name: str) -> None:
    declared, original = METRICS[name], ORIGINAL_METRICS[name]

    assert (declared.kind, set(declared.labels)) == (original.kind, set(original.labels))


def test_every_metric_says_in_a_sentence_what_it_means() -> None:
    assert [name for name, one in METRICS.items() if not one.text.endswith(".")] == []


def test_the_crds_are_applied_in_the_same_way_wherever_somebody_is_advised_to() -> None:
    root = DOCS.parent
    folders = ("docs", "src/trimtab", "charts")
    kinds = ("*.md", "*.py", "*.txt")
    paths = [path for name in folders for kind in kinds for path in (root / name).rglob(kind)]
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "README.md", *paths)}
    advice = "trimtab crds | kubectl apply --server-side "
    advised = {path.name for path, text in texts.items() if advice in text}

    assert advised >= {"README.md", "run.md", "app.py", "cluster_problems.py", "NOTES.txt"}
    assert [
        path.name
        for path, text in texts.items()
        # Those that the original's installer has made belong to another field manager.
        if text.count(advice) != text.count(f"{advice}--force-conflicts -f -")
    ] == []
