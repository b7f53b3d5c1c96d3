"""The pages about what is wrong: whatever they name is there."""

import re
from pathlib import Path
from typing import Final

import pytest
from cyclopts import App

from trimtab.cli.app import app
from trimtab.core.diagnosis.findings import Severity
from trimtab.core.diagnosis.registry import CHECKS
from trimtab.core.guards.convergence import Suspect
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.recommendation.conditions import ConditionReason, ConditionType, UnsupportedReason
from trimtab.core.updates.conditions import UpdateConditionType

DOCS: Final = Path(__file__).parents[3] / "docs"
PAGES: Final = ("doctor.md", "troubleshooting.md", "checkpoints.md")
_FENCE: Final = re.compile(r"```.*?```", re.DOTALL)
_FOREIGN: Final = frozenset(
    {"--field-selector", "--audience", "--previous", "--replicas", "--help"}
)
"""Flags of kubectl and of Prometheus."""
_OTHERS: Final = frozenset(
    {
        # Kubernetes' own words.
        "Deployment",
        "Ignore",
        "OOMKilled",
        # Steps, outcomes and events of components, each tested on its own page.
        "EvictedByVPA",
        "Flapping",
        "InPlaceUpdateInfeasible",
        "LoadMetrics",
        "UnknownHolder",
        # Update modes and answers of conditions.
        "False",
        "InPlace",
        "InPlaceOrRecreate",
        "Initial",
        "UpscaleOnly",
    }
)


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def quoted(page: str) -> set[str]:
    """All that stands in backticks on one line."""
    return set(re.findall(r"`([^`\n]+)`", _FENCE.sub("", read(page))))


def commands_of(page: str) -> list[list[str]]:
    """The words of every call of trimtab that a page shows."""
    shown = [line.partition("#")[0] for line in read(page).splitlines()]
    lines = [line for line in shown if line.startswith("trimtab ")]
    texts = [*lines, *(text for text in quoted(page) if text.startswith("trimtab "))]
    return [re.split(r"[ |]+", text.strip()) for text in texts]


def find_app(words: list[str]) -> App | None:
    found: App | None = app
    for word in words[1:3]:
        if found is None or word.startswith("-"):
            break
        names = set(found)
        if word in names:
            found = found[word]
        elif found is app:
            return None
    return found


def flags_of(command: App) -> set[str]:
    arguments = command.assemble_argument_collection()
    return {name for one in arguments for name in one.names} | {"--help", "-h"}


def all_flags() -> set[str]:
    names = [name for name in app if not name.startswith("-")]
    nested = [app[name] for name in names if app[name].default_command is not None]
    nested += [app["checkpoint"][name] for name in ("inspect", "export", "import")]
    return set().union(*(flags_of(one) for one in nested))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_the_page_exists_with_its_flags(page: str) -> None:
    calls = commands_of(page)

    assert calls
    for words in calls:
        command = find_app(words)
        assert command is not None, words
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        if command.default_command is not None:
            assert given <= flags_of(command), words


@pytest.mark.parametrize("page", PAGES)
def test_every_check_that_is_asked_for_exists(page: str) -> None:
    known = {check.name for check in CHECKS}
    for words in commands_of(page):
        if "--check" in words:
            after = words[words.index("--check") + 1 :]
            names = [word for word in after if re.fullmatch(r"[a-z-]+", word) and word[0] != "-"]
            assert set(names) & known, words
            assert names[0] in known, words


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_that_is_named_exists_in_some_command(page: str) -> None:
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z0-9-]+)", read(page))) - _FOREIGN

    assert named - all_flags() == set()


def test_every_metric_that_is_named_exists() -> None:
    known = read("metrics.md")
    named = re.findall(r"\b(?:vpa|trimtab)_[a-z0-9_]+", read("troubleshooting.md"))

    assert named
    assert [name for name in named if f"`{name}`" not in known] == []


def test_every_condition_and_reason_that_is_named_exists() -> None:
    known = {
        *(kind.value for kind in (*ConditionType, *UpdateConditionType)),
        *(reason.value for reason in (*ConditionReason, *UnsupportedReason, *HoldReason, *Suspect)),
        *_OTHERS,
    }
    words = {text for text in quoted("troubleshooting.md") if re.fullmatch(r"[A-Z]\w+", text)}
    # Columns of tables are in capitals.
    named = {word for word in words if not word.isupper()}

    assert named
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", read(page)):
        path, _, anchor = target.partition("#")
        file = DOCS / path if path else DOCS / page
        assert file.resolve().exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {
                re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in headings
            }
            assert anchor in anchors, target


def test_the_page_of_the_doctor_lists_every_check_as_it_asks() -> None:
    text = read("doctor.md")
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    severities = re.findall(r"^\| `(\w+)` \| [^|]+ \|$", text, re.MULTILINE)

    assert rows == [(check.name, check.asks) for check in CHECKS]
    assert severities == [severity.value for severity in Severity]
