"""External metrics as usage: many pods in few requests, and no answer that spoils another."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from support.fakes.clocks import StillClock
from support.fakes.silent_server import SilentServer

from trimtab.api.usage.external_metrics import PodGroup
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError, ForbiddenError, UnreachableError
from trimtab.cluster.usage.external_metrics import AT_ONCE, MOST_PODS, ExternalMetricsApi, LateError
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector, equality

Json = dict[str, Any]
CPU_PATH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/pod_cpu"
MEMORY_PATH = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/pod_memory"
BOTH_METRICS = {Resource.CPU: "pod_cpu", Resource.MEMORY: "pod_memory"}
SECOND = timedelta(seconds=1)


def a_group(*pods: str) -> PodGroup:
    return PodGroup("default", Selector((equality("app", "web"),)), pods)


def a_value(pod: str, value: str = "150m", *, container: str = "app", told: bool = True) -> Json:
    labels = {"name": container, "pod": pod if told else ""}
    return {
        "metricLabels": {key: text for key, text in labels.items() if text},
        "timestamp": "2026-08-22T12:00:00Z",
        "value": value,
    }


class Server(SilentServer):
    """Knows a value of every pod that it is asked for, unless a test says otherwise."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.tell: Callable[[str, list[str]], list[Json]] = lambda _path, pods: [
            a_value(pod) for pod in pods
        ]
        self.under_way = 0
        self.most_under_way = 0

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is not None
        selector = parameters["labelSelector"]
        self.asked.append((path, selector))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        found = re.search(r"pod(?:=([^,]+)| in \(([^)]*)\))", selector)
        assert found is not None
        pods = [found[1]] if found[1] else found[2].split(",")
        return json.dumps({"items": self.tell(path, pods)}).encode()


def a_source(server: Server, metrics: Mapping[Resource, str] | None = None) -> ExternalMetricsApi:
    chosen = {Resource.CPU: "pod_cpu"} if metrics is None else metrics
    return ExternalMetricsApi(server, chosen, "name", StillClock())


def readings(columns: UsageColumns) -> set[tuple[str, str, int, int]]:
    return set(
        zip(
            columns.pods,
            columns.containers,
            columns.cpu_millicores,
            columns.memory_bytes,
            strict=True,
        )
    )


async def test_each_metric_is_asked_for_in_its_namespace_by_labels_and_pod() -> None:
    server = Server()
    server.tell = lambda path, pods: [a_value(pods[0], "7" if path == MEMORY_PATH else "150m")]
    columns = await a_source(server, BOTH_METRICS).fetch([a_group("web-0")])

    assert server.asked == [(CPU_PATH, "app=web,pod=web-0"), (MEMORY_PATH, "app=web,pod=web-0")]
    assert readings(columns) == {("web-0", "app", 150, 0), ("web-0", "app", 0, 7)}
    assert set(zip(columns.has_cpu, columns.has_memory, strict=True)) == {
        (True, False),
        (False, True),
    }
    assert columns.problems == ()


async def test_many_pods_come_with_few_requests_a_few_at_once() -> None:
    server = Server()
    groups = [a_group(*(f"web-{one}-{other}" for other in range(30))) for one in range(40)]
    columns = await a_source(server, BOTH_METRICS).fetch(groups)

    assert len(columns.pods) == 2 * 30 * 40
    assert len(server.asked) == 2 * 40
    assert server.most_under_way <= AT_ONCE


async def test_no_request_asks_for_more_pods_than_fit_into_it() -> None:
    server = Server()
    columns = await a_source(server).fetch([a_group(*map(str, range(MOST_PODS * 2 + 1)))])

    assert len(columns.pods) == MOST_PODS * 2 + 1
    assert len(server.asked) == 3


async def test_nothing_to_ask_is_nothing_asked() -> None:
    server = Server()

    assert await a_source(server).fetch([]) == UsageColumns()
    assert server.asked == []


def refuse_many(_path: str, pods: list[str]) -> list[Json]:
    if len(pods) > 1:
        raise ApiError("GET", Status(code=400))
    return [a_value(pods[0], told=False)]


def overlook_many(_path: str, pods: list[str]) -> list[Json]:
    return [a_value(pods[0])] if len(pods) == 1 else []


def mix_many(_path: str, pods: list[str]) -> list[Json]:
    return [a_value(pod, told=False) for pod in pods]


@pytest.mark.parametrize(
    "tell",
    [
        pytest.param(refuse_many, id="it refuses to answer for many"),
        pytest.param(overlook_many, id="it finds nobody when asked for many"),
        pytest.param(mix_many, id="it does not say whose a value is"),
    ],
)
async def test_a_server_that_does_not_take_many_pods_is_asked_one_by_one(
    tell: Callable[[str, list[str]], list[Json]],
) -> None:
    server = Server()
    server.tell = tell
    source = a_source(server)
    first = await source.fetch([a_group("a", "b", "c")])
    server.asked.clear()
    second = await source.fetch([a_group("a", "b", "c")])

    assert set(first.pods) == set(second.pods) == {"a", "b", "c"}
    assert [selector for _, selector in server.asked] == [
        f"app=web,pod={name}" for name in ("a", "b", "c")
    ]


async def test_once_many_were_answered_together_silence_is_just_silence() -> None:
    server = Server()
    source = a_source(server)
    await source.fetch([a_group("a", "b")])
    server.asked.clear()
    server.tell = lambda _path, _pods: []
    columns = await source.fetch([a_group("a", "b")])

    assert columns == UsageColumns()
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(a_value("web-0", container=""), id="no container"),
        pytest.param(a_value("other"), id="a pod that nobody asked for"),
    ],
)
async def test_a_value_that_belongs_to_nobody_is_left_out(value: Json) -> None:
    server = Server()
    server.tell = lambda _path, _pods: [value, a_value("web-1")]
    columns = await a_source(server).fetch([a_group("web-0", "web-1")])

    assert readings(columns) == {("web-1", "app", 150, 0)}


async def test_f28_an_answer_that_makes_no_sense_does_not_spoil_the_others() -> None:
    server = Server()
    server.tell = lambda _path, pods: [
        a_value(pod, "lots" if pod == "bad" else "150m") for pod in pods
    ]
    columns = await a_source(server).fetch([a_group("good", "bad", "fine")])

    assert set(columns.pods) == {"good", "fine"}
    assert len(columns.problems) == 1


async def test_f13_a_part_that_fails_is_told_and_the_rest_is_read() -> None:
    def fail_for_memory(path: str, pods: list[str]) -> list[Json]:
        if path == MEMORY_PATH:
            raise ApiError(f"GET {path}", Status(code=503))
        return [a_value(pod) for pod in pods]

    server = Server()
    server.tell = fail_for_memory
    columns = await a_source(server, BOTH_METRICS).fetch([a_group("a", "b")])

    assert readings(columns) == {("a", "app", 150, 0), ("b", "app", 150, 0)}
    assert [type(problem) for problem in columns.problems] == [ApiError]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(UnreachableError("GET", "cut"), id="no answer"),
        pytest.param(ForbiddenError("GET", Status(code=403)), id="no right"),
        pytest.param(ApiError("GET", Status(code=404)), id="no such metric"),
    ],
)
async def test_where_nothing_at_all_is_answered_the_error_says_why(error: ApiError) -> None:
    def fail(_path: str, _pods: list[str]) -> list[Json]:
        raise error

    server = Server()
    server.tell = fail
    with pytest.raises(type(error)) as caught:
        await a_source(server, BOTH_METRICS).fetch([a_group("a", "b")])

    assert caught.value is error


async def test_f35_a_slow_server_is_asked_for_a_bounded_time_and_everybody_has_a_turn() -> None:
    server = Server()
    source = a_source(server)
    clock = source.clock
    assert isinstance(clock, StillClock)

    def take_long(_path: str, pods: list[str]) -> list[Json]:
        clock.moment += 5 * SECOND
        return [a_value(pod) for pod in pods]

    server.tell = take_long
    source.within = 30 * SECOND
    groups = [a_group(f"web-{number}") for number in range(40)]
    told: set[str] = set()
    late = []
    for _ in range(5):
        columns = await source.fetch(groups)
        told |= set(columns.pods)
        late.append([type(problem) for problem in columns.problems])

    assert told == {f"web-{number}" for number in range(40)}
    assert late[0] == [LateError]
