"""The page on which an updater tells why something is done about pods, or nothing."""

import json
from typing import Any

from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UP, an_updater, planning
from support.makers.plans import several, snapshot_of
from support.makers.records import NOW, an_autoscaler

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.updates.plan import plan
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.updater.controller import Updater
from trimtab.updater.last_plan import Look
from trimtab.updater.pages import MOST_PODS, show_page


def page(updater: Updater, **query: str) -> Any:
    settings = planning().plan
    shown = show_page(updater.last_look, settings, 3, {"namespace": "default", **query})
    return json.loads(shown)


def decisive(pod: dict[str, Any]) -> list[str]:
    return [each["check"] for each in pod["checks"] if each.get("decisive")]


def test_a_plan_is_explained_pod_by_pod() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        await updater.tick()
        shown = page(updater, autoscaler="web")

        assert [each["action"] for each in shown["pods"]] == ["Evict", "Hold"]
        assert decisive(shown["pods"][1]) == ["disruptionBudget"]
        assert (shown["source"], shown["waiting"]) == ("updater", 3)
        verdicts = {each["verdict"] for pod in shown["pods"] for each in pod["checks"]}
        assert "unknown" not in verdicts

    run_virtually(scene())


def test_only_what_is_asked_for_is_explained() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        updater = an_updater(cluster)
        await updater.tick()
        names = [each["pod"] for each in page(updater)["pods"]]

        assert [each["pod"] for each in page(updater, pod=names[1])["pods"]] == names[1:]
        assert page(updater, autoscaler="other")["pods"] == []
        assert page(updater, namespace="elsewhere")["pods"] == []

    run_virtually(scene())


def test_an_updater_that_has_not_planned_yet_has_nothing_to_explain() -> None:
    async def scene() -> None:
        assert page(an_updater(UpdaterCluster())) is None

    run_virtually(scene())


def test_what_a_pause_withholds_is_explained_by_the_pause() -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=2)
        cluster.autoscale(UP)
        updater = an_updater(cluster, planning(paused=True))
        await updater.tick()
        shown = show_page(
            updater.last_look, planning(paused=True).plan, 0, {"namespace": "default"}
        )
        (first, _) = json.loads(shown)["pods"]

        assert (first["action"], first["reason"]) == ("Hold", "Paused")
        assert decisive(first) == ["pause"]

    run_virtually(scene())


def test_of_very_many_pods_those_come_that_the_plan_names_first() -> None:
    snapshot = snapshot_of(several(MOST_PODS + 5), an_autoscaler(UP))
    settings = PlanSettings()
    outcomes = plan(snapshot, settings, NOW)
    look = Look(snapshot, outcomes, NOW)
    shown = json.loads(show_page(look, settings, 0, {"namespace": "default"}))
    last = outcomes[-1].pod.name
    alone = json.loads(show_page(look, settings, 0, {"namespace": "default", "pod": last}))

    assert shown["leftOut"] == 5
    assert {each["pod"] for each in shown["pods"]} == {
        each.pod.name for each in outcomes[:MOST_PODS]
    }
    assert [each["pod"] for each in alone["pods"]] == [last]
    assert "leftOut" not in alone


def test_a_pod_that_came_since_the_plan_is_left_for_the_next_one() -> None:
    snapshot = snapshot_of(several(1), an_autoscaler(UP))
    newer = Hold(several(2)[1], an_autoscaler(UP).identity, HoldReason.POD_DISRUPTION_BUDGET)
    look = Look(snapshot, [*plan(snapshot, PlanSettings(), NOW), newer], NOW)
    shown = json.loads(show_page(look, PlanSettings(), 0, {"namespace": "default"}))

    assert [each["pod"] for each in shown["pods"]] == ["web-0"]
