"""The updater's metrics: their names are the original's, and they follow its plans and acts."""

import asyncio
import re
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY, generate_latest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, UP, planning
from support.readers.metrics_page import differences

from reference.original_metrics import UPDATER
from trimtab.api.wire.status_errors import Status
from trimtab.cli.runtime.pages import format_metrics
from trimtab.cluster.errors import ApiError, ClusterError, ForbiddenError
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.updater.controller import Updater
from trimtab.updater.decisions import Decisions
from trimtab.updater.metrics import UpdaterMeter, size_log2
from trimtab.updater.reports import News
from trimtab.updater.settings import UpdaterSettings

TICKS = 'vpa_updater_execution_latency_seconds_count{step="total"}'
EVICTED = (
    'vpa_updater_evicted_pods_total{update_mode="Recreate",vpa_name="web",'
    'vpa_namespace="default",vpa_size_log2="1"}'
)


ABSENT = 'vpa_updater_admission_controller_status_invalid_total{{reason="{}"}}'


def read_all() -> dict[str, float]:
    text = generate_latest(REGISTRY).decode()
    return {
        name: float(value) for name, value in re.findall(r"^(\w[^\n]*) (\S+)$", text, re.MULTILINE)
    }


class Metered:
    """A small cluster whose updater is counted, and what has grown: metrics outlive tests."""

    def __init__(
        self, settings: UpdaterSettings = UNPACED, mode: UpdateMode = UpdateMode.RECREATE
    ) -> None:
        self.cluster = UpdaterCluster()
        self.cluster.deploy()
        self.cluster.autoscale(UP, mode=mode)
        self.updater = Updater(
            self.cluster, settings=settings, clock=self.cluster.clock, tell=self._tell
        )
        self._decisions = Decisions()
        self._meter = UpdaterMeter(lambda: self.updater.report.waiting)
        self._before = read_all()

    async def tick(self) -> None:
        await self.updater.tick()
        await asyncio.sleep(60)

    def grown(self, series: str) -> float:
        return read_all().get(series, 0.0) - self._before.get(series, 0.0)

    def _tell(self, news: News) -> None:
        self._meter.note(news, self._decisions.hear(news), self._decisions.held)


def gauge(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"vpa_updater_{name}", labels)


def test_every_metric_is_what_it_is_in_the_original() -> None:
    async def scene() -> None:
        metered = Metered(mode=UpdateMode.IN_PLACE)
        refusal = ForbiddenError("PATCH", Status(code=403, message="node is too small"))
        metered.cluster.refusals["resize"] = [refusal]
        await metered.tick()
        await metered.tick()
        metered = Metered()
        metered.cluster.refusals["evict"] = [ApiError("POST", Status(code=500))]
        await metered.tick()
        # Gauges are of the last plan.
        await Metered().tick()

        assert differences(format_metrics().decode(), UPDATER) == {}

    run_virtually(scene())


def test_an_eviction_is_counted_for_its_autoscaler_and_as_an_act() -> None:
    async def scene() -> None:
        metered = Metered()
        await metered.tick()
        labels = {"vpa_size_log2": "1", "update_mode": "Recreate"}

        assert metered.grown(EVICTED) == 1
        assert metered.grown('vpa_updater_acts_total{act="Evict",result="Done"}') == 1
        assert metered.grown(TICKS) == 1
        assert gauge("controlled_pods_total", **labels) == 2
        assert gauge("evictable_pods_total", **labels) == 1
        assert gauge("vpas_with_evictable_pods_total", **labels) == 1
        assert gauge("vpas_with_evicted_pods_total", **labels) == 1

    run_virtually(scene())


def test_a_resize_is_counted_by_the_size_of_its_autoscaler_alone() -> None:
    async def scene() -> None:
        metered = Metered(mode=UpdateMode.IN_PLACE)
        await metered.tick()
        series = (
            'vpa_updater_in_place_updated_pods_total{vpa_name="web",vpa_namespace="default",'
            'vpa_size_log2="1"}'
        )

        assert metered.grown(series) == 2
        assert gauge("in_place_updatable_pods_total", vpa_size_log2="1") == 2
        assert gauge("vpas_with_in_place_updated_pods_total", vpa_size_log2="1") == 1
        assert gauge("vpas_with_in_place_updated_pods_total", vpa_size_log2="19") == 0

    run_virtually(scene())


def test_holds_are_counted_when_they_begin_and_shown_while_they_last() -> None:
    async def scene() -> None:
        metered = Metered(planning(paused=True))
        await metered.tick()
        await metered.tick()

        assert metered.grown('vpa_updater_holds_total{reason="Paused"}') == 1
        assert metered.grown('vpa_updater_holds_total{reason="BudgetSpent"}') == 1
        assert gauge("held_pods", reason="Paused") == 1
        assert gauge("held_pods", reason="Surge") == 0

    run_virtually(scene())


@pytest.mark.parametrize(
    ("mode", "act", "error", "series"),
    [
        pytest.param(
            UpdateMode.RECREATE,
            "evict",
            ApiError("POST", Status(code=500)),
            'failed_eviction_attempts_total{reason="EvictionError",update_mode="Recreate",'
            'vpa_name="web",vpa_namespace="default",vpa_size_log2="1"}',
            id="an eviction",
        ),
        pytest.param(
            UpdateMode.IN_PLACE,
            "resize",
            ApiError("PATCH", Status(code=500)),
            'failed_in_place_update_attempts_total{reason="InPlaceUpdateError",'
            'vpa_name="web",vpa_namespace="default",vpa_size_log2="1"}',
            id="a resize",
        ),
        pytest.param(
            UpdateMode.IN_PLACE,
            "resize",
            ForbiddenError("PATCH", Status(code=403, message="node is too small")),
            'failed_in_place_update_attempts_total{reason="InPlaceUpdateInfeasible",'
            'vpa_name="web",vpa_namespace="default",vpa_size_log2="1"}',
            id="a resize that will never be possible",
        ),
    ],
)
def test_what_the_server_does_not_do_is_counted_with_the_reasons_of_the_original(
    mode: UpdateMode, act: str, error: ClusterError, series: str
) -> None:
    async def scene() -> None:
        metered = Metered(mode=mode)
        metered.cluster.refusals[act] = [error]
        await metered.tick()

        assert metered.grown(f"vpa_updater_{series}") == 1

    run_virtually(scene())


def test_an_autoscaler_that_is_gone_takes_its_series_with_it() -> None:
    async def scene() -> None:
        metered = Metered()
        await metered.tick()
        before = EVICTED in read_all()
        metered.cluster.drop_autoscaler()
        await metered.tick()

        assert before
        assert EVICTED not in read_all()

    run_virtually(scene())


def test_ticks_without_an_admission_controller_are_counted_by_reason() -> None:
    async def scene() -> None:
        metered = Metered(replace(UNPACED, uses_admission_status=True))
        await metered.tick()
        refusal = ForbiddenError("GET lease", Status(code=403))
        metered.cluster.refusals["fetch_lease"] = [refusal]
        await metered.tick()
        # Nobody renews the lease.
        await metered.tick()
        await metered.tick()

        assert metered.grown(ABSENT.format("error")) == 1
        assert metered.grown(ABSENT.format("invalid")) == 2

    run_virtually(scene())


def test_ticks_without_a_view_are_counted_and_do_not_count_as_ticks() -> None:
    async def scene() -> None:
        metered = Metered()
        metered.cluster.view_age = None
        await metered.tick()

        assert metered.grown("vpa_updater_blind_ticks_total") == 1
        assert metered.grown(TICKS) == 0

    run_virtually(scene())


@pytest.mark.parametrize(
    ("pods", "label"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1 << 20, 20), (1 << 30, 20)]
)
def test_the_label_of_a_size_is_its_logarithm_up_to_twenty(pods: int, label: int) -> None:
    assert size_log2(pods) == label
