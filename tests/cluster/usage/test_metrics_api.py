import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.fakes.silent_server import SilentServer

from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError
from trimtab.cluster.ports import UsageSource
from trimtab.cluster.usage.metrics_api import MetricsApi

ALL = "/apis/metrics.k8s.io/v1beta1/pods"


def metrics_of(pod: str, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "default", "name": pod},
        "timestamp": "2026-08-22T12:00:00Z",
        "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": memory}}],
    }


class Server(SilentServer):
    def __init__(self, path: str, *items: dict[str, Any]) -> None:
        self._path = path
        self._items = items

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        assert parameters is None
        if path != self._path:
            raise ApiError(f"GET {path}", Status(code=503))
        return json.dumps({"items": self._items}).encode()


async def read(source: UsageSource) -> UsageColumns:
    return await source.fetch()


async def test_the_newest_reading_of_every_container_comes_in_columns() -> None:
    server = Server(ALL, metrics_of("a", "250m", "64Mi"), metrics_of("b", "1500000n", "1024Ki"))

    columns = await read(MetricsApi(server))

    assert columns.pods == ("a", "b")
    assert columns.cpu_millicores == (250, 2)
    assert columns.memory_bytes == (64 * 2**20, 2**20)


async def test_one_namespace_alone_can_be_asked_for() -> None:
    path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
    server = Server(path, metrics_of("a", "1", "1"))

    assert (await read(MetricsApi(server, namespace="default"))).pods == ("a",)


async def test_f28_metrics_that_cannot_be_read_do_not_hide_the_others() -> None:
    server = Server(ALL, metrics_of("bad", "lots", "1"), metrics_of("b", "1", "1"))
    source = MetricsApi(server)

    columns = await read(source)

    assert columns.pods == ("b",)
    assert [each.name for each in source.unreadable] == ["bad"]


async def test_f13_metrics_of_nothing_are_no_samples() -> None:
    assert await read(MetricsApi(Server(ALL))) == UsageColumns()


async def test_a_metrics_api_that_is_not_there_is_an_error_of_ours() -> None:
    with pytest.raises(ApiError):
        await read(MetricsApi(Server("/elsewhere")))
