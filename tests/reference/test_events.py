"""The page about logs: it names every event that the code tells with its keys, and no other."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.makers.records import NOW, a_pod

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Act, Evict, Hold, Resize, Unboost
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import WorkloadName
from trimtab.core.roles import Post, RolePlan, Standing
from trimtab.roles import reports as role_news
from trimtab.roles.logs import RoleLogger
from trimtab.updater.actions import ActResult
from trimtab.updater.logs import log_report
from trimtab.updater.queue import Action
from trimtab.updater.reports import Acted, HeldWhileActing

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
ALWAYS = {"event", "log_level"}
WEB, POD = AutoscalerName("default", "web"), a_pod()
CHANGE = Change(scale_up=True, outside_bounds=True, relative_difference=1.0)
EVICT = Evict(POD, WEB, CHANGE)
ACTS = (EVICT, Resize(POD, WEB, {}, CHANGE), Unboost(POD, WEB, ("app",), {}))
PLAN = RolePlan(
    Post(WorkloadName("default", "StatefulSet", "db"), "db-leader", frozenset({"uid-db"})),
    Standing.HELD,
    POD,
    (POD,),
    POD,
)


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
        for path in (ROOT / "src/trimtab" / folder).rglob("*.py"):
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
        for given in call.args[: 2 if ast.unparse(call.func) == "ObstacleReport" else 1]:
            text = constants.get(given.id) if isinstance(given, ast.Name) else given
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value, keys


def is_telling(function: ast.expr, module: str) -> bool:
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value)
        return function.attr in LEVELS and owner.endswith(("_logger", "teller"))
    names = {"tell", "log", *(("ObstacleReport",) if module == "health" else ())}
    return isinstance(function, ast.Name) and function.id in names


def test_the_page_names_every_event_that_the_code_tells() -> None:
    assert told().keys() - documented().keys() == set()


def test_the_page_names_no_event_that_nobody_tells() -> None:
    assert documented().keys() - told().keys() == set()


@pytest.mark.parametrize("event", sorted(told().keys() - {"tick done"}))
def test_the_page_names_every_key_of_an_event(event: str) -> None:
    assert told()[event] - documented()[event] == set()


def keys_told_of_act(act: Act, result: ActResult) -> dict[str, set[str]]:
    with capture_logs() as said:
        log_report(Acted(NOW, Action(act, None, None, frozenset()), result, None), [act])
    return {one["event"]: one.keys() - ALWAYS for one in said}


@pytest.mark.parametrize("result", [ActResult.DONE, ActResult.OUTDATED, ActResult.FAILED])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: type(act).__name__)
def test_what_is_told_of_an_act_has_the_keys_of_the_page(act: Act, result: ActResult) -> None:
    found = keys_told_of_act(act, result)
    wanted = {event: set(documented()[event]) for event in found}
    if not isinstance(act, Unboost):
        wanted = {event: keys - {"cause"} for event, keys in wanted.items()}

    assert len(found) == 2
    assert found == wanted


def test_what_is_told_of_a_hold_has_the_keys_of_the_page() -> None:
    hold = Hold(POD, WEB, HoldReason.PAUSED, withheld=EVICT)
    with capture_logs() as said:
        log_report(HeldWhileActing(NOW, [hold]), [hold])

    assert [one.keys() - ALWAYS for one in said] == [documented()["pod held"]]


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(role_news.RolesPlanned([PLAN]), id="how it stands"),
        pytest.param(role_news.Changed(PLAN, POD, role_news.RoleChange.GIVE), id="a change"),
        pytest.param(role_news.RoleChangeFailed(PLAN, ValueError("no")), id="a failure"),
        pytest.param(role_news.Outdated(PLAN), id="an old view"),
    ],
)
def test_what_is_told_of_a_role_has_the_keys_of_the_page(news: role_news.RoleReport) -> None:
    with capture_logs() as said:
        RoleLogger().log(news)

    assert [one.keys() - ALWAYS for one in said] == [documented()[said[0]["event"]]]


@pytest.mark.parametrize(
    "event",
    ["recommendation published", "act done", "pod held", "pod sized", "role changed", "self-test"],
)
def test_the_events_of_decisions_are_found_in_the_code(event: str) -> None:
    assert event in told()
