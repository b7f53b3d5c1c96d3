"""Signals of pressure from kubelets over real HTTP: slow, failing and odd nodes among them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pytest
from aiohttp import web
from support.fakes.clocks import StillClock
from support.makers.records import NOW
from support.servers.api_server import Asked, Response, Unfinished, a_client, ok, refused, serving

from trimtab.api.usage import cadvisor
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.usage.kubelet_pressure import KubeletPressure
from trimtab.core.model.estimation import Measure, PressureSettings

WEB = ("a", "web-0", "app")
PERIODS, THROTTLED = "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"
STALLED = "container_pressure_memory_stalled_seconds_total"
ODD = """\
container_cpu_cfs_periods_total{container="app",namespace="a",pod="web-0",id="/x"} much
container_cpu_cfs_periods_total{container="app",namespace="a",pod="web-0",id="/x"
container_cpu_cfs_periods_total{container="app",id="/x"} 5
container_cpu_cfs_periods_total{container="",namespace="a",pod="web-0",id="/pod"} 5
container_cpu_cfs_periods_total{container="POD",namespace="a",pod="web-0",id="/pause"} 5
"""


def a_line(
    name: str, value: object, pod: str = "web-0", *, run: str = "/1", at: float | None = None
) -> str:
    labels = f'container="app",id="{run}",namespace="a",pod="{pod}"'
    end = "" if at is None else f" {int(at * 1000)}"
    return f"{name}{{{labels}}} {value}{end}\n"


@dataclass
class Nodes:
    """Pages of metrics by node; an API server that passes them on, if that is permitted."""

    pages: dict[str, Response | str] = field(default_factory=dict)
    is_allowed: bool = True

    def answer(self, asked: Asked) -> Response:
        if asked.path.endswith("/selfsubjectaccessreviews"):
            spec = asked.json["spec"]["resourceAttributes"]
            assert (spec["verb"], spec["resource"], spec["subresource"]) == (
                *("get", "nodes"),
                "proxy",
            )
            return ok({"status": {"allowed": self.is_allowed}})
        name = asked.path.split("/")[4]
        assert asked.path == f"/api/v1/nodes/{name}/proxy/metrics/cadvisor"
        page = self.pages[name]
        return web.Response(text=page) if isinstance(page, str) else page


@dataclass
class Scene:
    nodes: Nodes
    clock: StillClock
    source: KubeletPressure
    asked: list[Asked]

    async def strengths(self) -> dict[tuple[str, str, str], dict[Measure, float]]:
        """Read once, a minute after the time before."""
        self.clock.moment += timedelta(minutes=1)
        found = await self.source.fetch()
        return {place: dict(each.strengths) for place, each in found.by_container.items()}


@asynccontextmanager
async def a_scene(*nodes: str, within: float = 60) -> AsyncIterator[Scene]:
    given, clock = Nodes(dict.fromkeys(nodes, "")), StillClock()
    async with serving(given.answer) as server, a_client(server.url) as client:
        source = KubeletPressure(
            client,
            partial(list, nodes),
            clock,
            PressureSettings(),
            timedelta(seconds=within),
        )
        yield Scene(given, clock, source, server.asked)


async def test_two_pages_of_a_node_make_strengths() -> None:
    async with a_scene("one") as scene:
        begin = a_line(PERIODS, 100) + a_line(THROTTLED, 10) + a_line(STALLED, 1)
        end = a_line(PERIODS, 700) + a_line(THROTTLED, 310) + a_line(STALLED, 7)
        scene.nodes.pages["one"] = begin
        first = await scene.strengths()
        scene.nodes.pages["one"] = end
        second = await scene.strengths()
        third = await scene.strengths()

    assert first == third == {}
    assert second == {WEB: {Measure.THROTTLED: 0.5, Measure.MEMORY_STALLED: pytest.approx(0.1)}}


async def test_the_time_of_the_kubelet_counts_where_it_says_one() -> None:
    begin = NOW.timestamp()
    async with a_scene("one") as scene:
        scene.nodes.pages["one"] = a_line(STALLED, 0, at=begin)
        await scene.strengths()
        # It has not measured again: no interval of nothing.
        assert await scene.strengths() == {}
        scene.nodes.pages["one"] = a_line(STALLED, 4, at=begin + 40)
        assert await scene.strengths() == {WEB: {Measure.MEMORY_STALLED: pytest.approx(0.1)}}


async def test_a_restart_of_a_container_is_no_growth() -> None:
    async with a_scene("one") as scene:
        scene.nodes.pages["one"] = a_line(STALLED, 50)
        await scene.strengths()
        scene.nodes.pages["one"] = a_line(STALLED, 40) + a_line(STALLED, 90, run="/2")
        assert await scene.strengths() == {}


async def test_without_the_right_no_node_is_asked() -> None:
    async with a_scene("one") as scene:
        scene.nodes.is_allowed = False
        with pytest.raises(ClusterError, match="get nodes/proxy"):
            await scene.source.fetch()

    assert [each.method for each in scene.asked] == ["POST"]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(refused(403), id="refused"),
        pytest.param(refused(404), id="gone"),
        pytest.param(Unfinished(b"cont"), id="cut off"),
        pytest.param("\x00\xff<html>", id="no metrics"),
        pytest.param("# HELP x\n" + "some_other_metric 1\n" * 500_000, id="ten megabytes"),
        pytest.param(ODD, id="odd lines"),
    ],
)
async def test_a_bad_node_stops_no_other_one(page: Response | str) -> None:
    async with a_scene("bad", "good") as scene:
        for value in (0, 30):
            scene.nodes.pages = {
                "bad": page if isinstance(page, str | Unfinished) else _again(page),
                "good": a_line(STALLED, value),
            }
            found = await scene.strengths()

    assert found == {WEB: {Measure.MEMORY_STALLED: pytest.approx(0.5)}}


def _again(page: web.StreamResponse) -> web.StreamResponse:
    # An answer can be sent once.
    return refused(page.status)


async def test_a_slow_node_keeps_no_answer_back_and_comes_first_the_next_time() -> None:
    async with a_scene("a", "b", "c", within=0.5) as scene:
        for value in (0, 30):
            scene.nodes.pages = {
                "a": a_line(STALLED, value),
                "b": Unfinished(is_silent=True),
                "c": a_line(STALLED, value, "web-1"),
            }
            found = await scene.strengths()

    assert sorted(found) == [WEB, ("a", "web-1", "app")]


async def test_an_error_of_every_node_is_an_error() -> None:
    async with a_scene("one") as scene:
        scene.nodes.pages["one"] = refused(403)
        with pytest.raises(ClusterError):
            await scene.source.fetch()


async def test_the_silence_of_every_node_is_an_error() -> None:
    names = [f"node-{number}" for number in range(6)]
    async with a_scene(*names, within=0.5) as scene:
        scene.nodes.pages = {name: Unfinished(is_silent=True) for name in names}
        with pytest.raises(ClusterError, match=r"no answer of node node-0 within 0\.5 s"):
            await scene.source.fetch()


def test_odd_lines_are_counted_and_left_out() -> None:
    found = cadvisor.decode_counters((ODD + a_line(PERIODS, "1e3")).encode())

    assert found.by_series == {(*WEB, "/1"): {PERIODS: 1000.0}}
    assert found.unreadable == 3
