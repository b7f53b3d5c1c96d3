"""What the role keeper tells: its log, its metrics and its page follow from its news."""

import json
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs
from support.makers.records import a_pod

from trimtab.core.model.pods import WorkloadName
from trimtab.core.roles import Post, RolePlan, Standing
from trimtab.roles import metrics
from trimtab.roles.logs import RoleLogger
from trimtab.roles.pages import show_roles
from trimtab.roles.reports import (
    Broken,
    Changed,
    Outdated,
    RoleChange,
    RoleChangeFailed,
    RoleReport,
    RolesPlanned,
    RoleViewNotReady,
    discard,
)

POST = Post(WorkloadName("default", "StatefulSet", "db"), "db-leader", frozenset({"uid-db"}))
FORMER, HOLDER = a_pod(name="db-0"), a_pod(name="db-1")
PLAN = RolePlan(POST, Standing.HELD, HOLDER, (FORMER,), HOLDER)
VACANT = RolePlan(POST, Standing.EXPIRED)
ABOUT = {"workload": "default/StatefulSet/db", "lease": "db-leader"}


def logged(*news: RoleReport) -> list[Any]:
    narrator = RoleLogger()
    with capture_logs() as said:
        for each in news:
            narrator.log(each)
    return [dict(each) for each in said]


@pytest.mark.parametrize(
    ("news", "event"),
    [
        pytest.param(Changed(PLAN, HOLDER, RoleChange.GIVE), "role changed", id="a change"),
        pytest.param(RoleChangeFailed(PLAN, ValueError("no")), "role not changed", id="a failure"),
        pytest.param(Outdated(PLAN), "lease not as seen", id="an old view"),
    ],
)
def test_each_event_says_which_workload_and_lease_it_is_about(news: RoleReport, event: str) -> None:
    (said,) = logged(news)

    assert said["event"] == event
    assert ABOUT.items() <= said.items()


def test_how_a_workload_stands_is_told_only_when_it_is_new() -> None:
    said = logged(RolesPlanned([PLAN]), RolesPlanned([PLAN]), RolesPlanned([VACANT]))

    assert [each["standing"] for each in said] == ["Held", "Expired"]
    assert [each["holder"] for each in said] == ["db-1", None]


def test_another_holder_is_news_although_the_role_is_still_held() -> None:
    other = RolePlan(POST, Standing.HELD, FORMER)

    assert [each["holder"] for each in logged(RolesPlanned([PLAN]), RolesPlanned([other]))] == [
        "db-1",
        "db-0",
    ]


def test_a_blind_tick_is_told_and_a_broken_one_was_told_by_the_loop() -> None:
    assert len(logged(RoleViewNotReady(), Broken(ValueError()))) == 1


def test_news_may_be_for_nobody() -> None:
    discard(RoleViewNotReady())


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_workloads_are_counted_by_how_they_stand() -> None:
    metrics.note(RolesPlanned([PLAN, VACANT, VACANT]))
    before = value("vpa_roles_workloads", standing="Expired")
    metrics.note(RolesPlanned([PLAN]))

    assert before == 2
    assert value("vpa_roles_workloads", standing="Expired") == 0
    assert value("vpa_roles_workloads", standing="Held") == 1


@pytest.mark.parametrize(
    ("news", "name", "labels"),
    [
        pytest.param(
            Changed(PLAN, HOLDER, RoleChange.TAKE),
            "vpa_roles_changes_total",
            {"change": "Take"},
            id="a role that was taken",
        ),
        pytest.param(
            RoleChangeFailed(PLAN, ValueError()),
            "vpa_roles_failed_changes_total",
            {},
            id="a failure",
        ),
        pytest.param(Outdated(PLAN), "vpa_roles_outdated_plans_total", {}, id="an old view"),
        pytest.param(RoleViewNotReady(), "vpa_roles_blind_ticks_total", {}, id="a blind tick"),
        pytest.param(Broken(ValueError()), "vpa_roles_failed_ticks_total", {}, id="a broken one"),
    ],
)
def test_each_kind_of_news_is_counted(news: RoleReport, name: str, labels: dict[str, str]) -> None:
    before = value(name, **labels)
    metrics.note(news)

    assert value(name, **labels) == before + 1


def test_the_page_shows_who_loses_the_role_and_who_gets_it() -> None:
    shown = json.loads(show_roles([PLAN], is_paused=True))

    assert shown == {
        "isPaused": True,
        "workloads": [
            {
                "namespace": "default",
                "kind": "StatefulSet",
                "name": "db",
                "lease": "db-leader",
                "standing": "Held",
                "holder": "db-1",
                "takes": ["db-0"],
                "gives": "db-1",
            }
        ],
    }
