"""What the updater's log says of decisions, acts and ticks."""

import asyncio

import structlog
from structlog.typing import EventDict
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, planning

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, ConflictError
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.updater.controller import Updater
from trimtab.updater.decisions import Decisions
from trimtab.updater.logs import log_report
from trimtab.updater.reports import News
from trimtab.updater.settings import UpdaterSettings


class Narrated:
    """A small cluster whose updater is listened to."""

    def __init__(self, settings: UpdaterSettings = UNPACED) -> None:
        self.cluster = UpdaterCluster()
        self.cluster.deploy()
        self.cluster.autoscale(UP)
        self.updater = Updater(
            self.cluster, settings=settings, clock=self.cluster.clock, tell=self._tell
        )
        self._decisions = Decisions()

    async def tick(self) -> list[EventDict]:
        with structlog.testing.capture_logs() as told:
            await self.updater.tick()
        await asyncio.sleep(60)
        return list(told)

    def _tell(self, news: News) -> None:
        log_report(news, self._decisions.hear(news))


def named(told: list[EventDict], event: str) -> list[EventDict]:
    return [one for one in told if one["event"] == event]


def test_an_eviction_is_told_when_it_is_planned_and_when_it_is_done() -> None:
    async def scene() -> None:
        told = await Narrated().tick()
        subject = {"act": "Evict", "pod": "default/web-0", "autoscaler": "default/web"}

        assert named(told, "act planned") == [
            {"event": "act planned", "log_level": "info", **subject}
        ]
        assert named(told, "act done") == [
            {
                "event": "act done",
                "log_level": "info",
                **subject,
                "wanted": {"app": {"requests": {"cpu": "500m", "memory": "500Mi"}}},
            }
        ]

    run_virtually(scene())


def test_a_hold_is_told_once_and_a_pod_that_is_well_only_to_who_wants_to_know() -> None:
    async def scene() -> None:
        narrated = Narrated(planning(paused=True))
        narrated.cluster.deploy("idle")
        narrated.cluster.autoscale(UP, name="idle", mode=UpdateMode.OFF)
        first, second = await narrated.tick(), await narrated.tick()
        held = {one["pod"]: one for one in named(first, "pod held")}

        assert held["default/web-0"]["log_level"] == "info"
        assert held["default/web-0"]["reason"] == "Paused"
        assert held["default/web-0"]["withheld"] == "Evict"
        assert held["default/web-1"]["reason"] == "BudgetSpent"
        assert held["default/idle-0"]["log_level"] == "debug"
        assert [one["event"] for one in second] == ["tick done"]

    run_virtually(scene())


def test_a_refused_eviction_is_a_warning_with_its_error_and_a_budget_is_a_hold() -> None:
    async def scene() -> None:
        narrated = Narrated()
        status = Status(code=500, reason="InternalError", message="odd")
        narrated.cluster.refusals["evict"] = [ApiError("POST eviction", status)]
        failed = named(await narrated.tick(), "act failed")
        narrated.cluster.protected.add("web")
        protected = await narrated.tick()

        assert [(one["log_level"], one["result"]) for one in failed] == [("warning", "Failed")]
        assert "odd" in failed[0]["error"]
        assert named(protected, "act failed") == []
        assert [one["reason"] for one in named(protected, "pod held")] == ["PodDisruptionBudget"]

    run_virtually(scene())


def test_an_act_that_is_dropped_is_no_news_for_most() -> None:
    async def scene() -> None:
        narrated = Narrated()
        conflict = ConflictError("POST eviction", Status(code=409))
        narrated.cluster.refusals["evict"] = [conflict]
        (dropped,) = named(await narrated.tick(), "act dropped")

        assert (dropped["log_level"], dropped["result"]) == ("debug", "Outdated")

    run_virtually(scene())


def test_a_tick_is_told_in_numbers_and_one_without_a_view_as_such() -> None:
    async def scene() -> None:
        narrated = Narrated()
        (tick,) = named(await narrated.tick(), "tick done")
        narrated.cluster.view_age = None
        (blind,) = await narrated.tick()

        assert (tick["pods"], tick["autoscalers"]) == (2, 1)
        assert (tick["evictions"], tick["resizes"], tick["unboosts"], tick["holds"]) == (1, 0, 0, 1)
        assert blind["event"].startswith("nothing planned")

    run_virtually(scene())
