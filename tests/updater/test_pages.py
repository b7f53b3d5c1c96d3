"""The page that shows the last plan."""

import json
from typing import Any

import pytest
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, minutes

from trimtab.core.changes.change import Change
from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Unboost
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation
from trimtab.updater.decisions import Decisions
from trimtab.updater.pages import show_plan
from trimtab.updater.reports import PlanMade, TickReport

WANTED = {"app": Allocation(amounts(200, 200 * MIB), amounts(400))}
CHANGE = Change(scale_up=True, outside_bounds=True, relative_difference=1.23456)


def pod_named(name: str, namespace: str = "default") -> Any:
    container = a_container(name="app", requests=amounts(100, 100 * MIB))
    return a_pod(container, name=name, namespace=namespace, uid=f"{namespace}-{name}")


EVICTION = Evict(
    pod_named("b"), AutoscalerName("default", "web"), CHANGE, quick_oom=True, wanted=WANTED
)
OUTCOMES: list[Outcome] = [
    EVICTION,
    Hold(pod_named("a"), AutoscalerName("default", "web"), HoldReason.TOO_YOUNG, Change()),
    Hold(
        pod_named("a", "shop"),
        AutoscalerName("shop", "web"),
        HoldReason.PAUSED,
        CHANGE,
        withheld=EVICTION,
    ),
    Unboost(pod_named("b", "shop"), None, ("app",), {}),
]


def page(query: dict[str, str] | None = None, *, is_paused: bool = False) -> Any:
    decisions = Decisions()
    decisions.hear(PlanMade(NOW - minutes(5), OUTCOMES, {}, is_all=True))
    report = TickReport(NOW, is_admission_alive=True, waiting=3)
    return json.loads(show_plan(OUTCOMES, decisions, report, query or {}, is_paused=is_paused))


def test_the_page_has_one_entry_for_each_pod_in_the_order_of_names() -> None:
    shown = page()

    assert [(each["namespace"], each["pod"]) for each in shown["pods"]] == [
        ("default", "a"),
        ("default", "b"),
        ("shop", "a"),
        ("shop", "b"),
    ]
    assert shown["actions"] == {"Hold": 2, "Evict": 1, "Unboost": 1}
    assert shown["holds"] == {"Paused": 1, "TooYoung": 1}
    assert shown["plannedAt"] == "2026-08-22T12:00:00Z"
    assert (shown["isAdmissionAlive"], shown["isPaused"], shown["waiting"]) == (True, False, 3)
    assert page(is_paused=True)["isPaused"]


def test_an_act_is_shown_with_what_it_is_about_and_since_when() -> None:
    shown = page()["pods"][1]

    assert shown == {
        "namespace": "default",
        "pod": "b",
        "autoscaler": "web",
        "action": "Evict",
        "since": "2026-08-22T11:55:00Z",
        "quickOom": True,
        "change": {"scaleUp": True, "outsideBounds": True, "relativeDifference": 1.2346},
        "current": {"app": {"requests": {"cpu": "100m", "memory": "100Mi"}}},
        "wanted": {
            "app": {"requests": {"cpu": "200m", "memory": "200Mi"}, "limits": {"cpu": "400m"}}
        },
    }


def test_a_hold_is_shown_with_its_reason_and_what_it_keeps_from_being_done() -> None:
    young, _, paused, _ = page()["pods"]

    assert (young["action"], young["reason"]) == ("Hold", "TooYoung")
    assert "wanted" not in young
    assert (paused["reason"], paused["withheld"]) == ("Paused", "Evict")
    assert paused["wanted"]["app"]["requests"] == {"cpu": "200m", "memory": "200Mi"}


@pytest.mark.parametrize(
    ("query", "pods"),
    [
        pytest.param({"namespace": "shop"}, ["shop/a", "shop/b"], id="a namespace"),
        pytest.param({"autoscaler": "web"}, ["default/a", "default/b", "shop/a"], id="a name"),
        pytest.param({"autoscaler": "shop/web"}, ["shop/a"], id="a full name"),
        pytest.param({"namespace": "shop", "autoscaler": "web"}, ["shop/a"], id="both"),
        pytest.param({"namespace": "none"}, [], id="nothing that is there"),
        pytest.param({"other": "x"}, 4, id="what nobody knows"),
    ],
)
def test_only_what_is_asked_for_is_shown_and_counted(
    query: dict[str, str], pods: list[str] | int
) -> None:
    shown = page(query)
    names = [f"{each['namespace']}/{each['pod']}" for each in shown["pods"]]

    assert len(names) == pods if isinstance(pods, int) else names == pods
    assert sum(shown["actions"].values()) == len(names)


def test_before_the_first_plan_there_is_nothing_to_show() -> None:
    report = TickReport(NOW, is_blind=True)
    shown = json.loads(show_plan((), Decisions(), report, {}))

    assert (shown["plannedAt"], shown["isBlind"], shown["pods"]) == (None, True, [])


def test_the_page_says_why_a_boost_ends_and_until_when_a_pod_is_held() -> None:
    pods = {(each["namespace"], each["pod"]): each for each in page()["pods"]}
    until = NOW + minutes(1)
    name = AutoscalerName("default", "web")
    held: list[Outcome] = [Hold(pod_named("a"), name, HoldReason.BOOST_ACTIVE, until=until)]
    shown = json.loads(show_plan(held, Decisions(), TickReport(NOW), {}, is_paused=False))

    assert pods["shop", "b"]["reason"] == "BoostOver"
    assert pods["default", "a"].get("until") is None
    assert shown["pods"][0]["until"] == "2026-08-22T12:01:00Z"
