"""The page about logs: it names every event that the code tells with its keys, and no other."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOGS = (
    (ROOT / "docs/observability.md")
    .read_text(encoding="utf-8")
    .partition("## Logs")[2]
    .partition("## Traces")[0]
)
LEVELS = {"debug", "info", "warning", "error", "exception", "tell", "may_tell"}
FOLDERS = ("recommender", "updater", "admission", "roles", "cli")
NO_KEYS = {"extra", "exc_info"}


@cache
def documented() -> dict[str, set[str]]:
    """By event the keys that the page says it has."""
    found = {}
    for line in LOGS.splitlines():
        if line.startswith("| `"):
            first, *_, keys = line.strip("|").split(" | ")
            for event in re.findall(r"`([^`]+)`", first):
                found[event] = set(re.findall(r"`([^`]+)`", keys))
    return found


@cache
def told() -> dict[str, set[str]]:
    """By event the keys that the code gives it by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in FOLDERS:
        for path in (ROOT / "src/trimtab" / folder).glob("*.py"):
            for event, keys in told_by(path):
                found[event] |= keys
    return found


def told_by(path: Path) -> Iterator[tuple[str, set[str]]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        node.target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not is_telling(call.func, path.stem):
            continue
        keys = {each.arg for each in call.keywords if each.arg} - NO_KEYS
        for given in call.args[: 2 if ast.unparse(call.func) == "News" else 1]:
            text = constants.get(given.id) if isinstance(given, ast.Name) else given
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value, keys


def is_telling(function: ast.expr, module: str) -> bool:
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value)
        return function.attr in LEVELS and owner.endswith(("_logger", "teller"))
    names = {"tell", "log", *(("News",) if module == "health" else ())}
    return isinstance(function, ast.Name) and function.id in names


def test_the_page_names_every_event_that_the_code_tells() -> None:
    assert told().keys() - documented().keys() == set()


def test_the_page_names_no_event_that_nobody_tells() -> None:
    assert documented().keys() - told().keys() == set()


@pytest.mark.parametrize("event", sorted(told().keys() - {"tick done"}))
def test_the_page_names_every_key_of_an_event(event: str) -> None:
    assert told()[event] - documented()[event] == set()


@pytest.mark.parametrize(
    "event",
    ["recommendation published", "act done", "pod held", "pod sized", "role changed", "self-test"],
)
def test_the_events_of_decisions_are_found_in_the_code(event: str) -> None:
    assert event in told()
