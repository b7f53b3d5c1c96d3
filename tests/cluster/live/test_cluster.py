"""The whole adapter against a model of an API server on loopback."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from support.fakes.clocks import StillClock
from support.makers.records import minutes
from support.makers.wire_examples import AUTOSCALER, CHECKPOINT, DEPLOYMENT, LIMIT_RANGE, NODE, POD
from support.servers.api_server import (
    Asked,
    Response,
    Server,
    Unfinished,
    a_client,
    ok,
    refused,
    serving,
)

from trimtab.api.kinds.workloads import WELL_KNOWN_KINDS
from trimtab.cluster.errors import ForbiddenError, TooManyRequestsError
from trimtab.cluster.live import cluster as adapter
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.ports import Cluster
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.core.model.pods import WorkloadName

Json = dict[str, Any]
IN_DEFAULT = {"namespace": "default", "name": "bounds"}
OBJECTS: Mapping[str, list[Json]] = {
    "pods": [POD],
    "verticalpodautoscalers": [AUTOSCALER],
    "verticalpodautoscalercheckpoints": [CHECKPOINT],
    "limitranges": [
        {**LIMIT_RANGE, "metadata": IN_DEFAULT},
        {**LIMIT_RANGE, "metadata": {**IN_DEFAULT, "namespace": "other"}},
    ],
    "deployments": [DEPLOYMENT],
    "nodes": [NODE],
}


def show_everything(asked: Asked) -> Response:
    if "watch" in asked.query:
        return Unfinished(is_silent=True)
    items = OBJECTS.get(asked.path.rpartition("/")[2], [])
    return ok({"metadata": {"resourceVersion": "7"}, "items": items})


@asynccontextmanager
async def watched(
    server: Server, scope: Scope | None = None
) -> AsyncIterator[tuple[LiveCluster, StillClock]]:
    clock = StillClock()
    async with a_client(server.url, clock=clock) as client:
        cluster = LiveCluster(client, scope or Scope(), clock=clock, random=Random(1))
        running = asyncio.create_task(cluster.run())
        try:
            yield cluster, clock
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def paths_of(server: Server) -> set[str]:
    return {asked.path for asked in server.asked}


async def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def look(cluster: Cluster) -> tuple[int, int, int]:
    """What a component sees through the port."""
    return (
        len(list(cluster.pods)),
        len(list(cluster.autoscalers)),
        len(list(cluster.checkpoints)),
    )


async def test_every_kind_is_listed_and_seen_through_the_port() -> None:
    async with serving(show_everything) as server, watched(server) as (cluster, clock):
        await cluster.synced()
        clock.moment += minutes(1)

        assert await look(cluster) == (1, 1, 1)
        assert len(cluster.limit_ranges("default")) == 1
        assert cluster.limit_ranges("nowhere") == []
        assert await cluster.owners.workload(WorkloadName("default", "Deployment", "web"))
        assert cluster.age() == minutes(1)
        assert cluster.problems() == {}
        assert "/api/v1/pods" in paths_of(server)
        assert "/apis/batch/v1/cronjobs" in paths_of(server)


async def test_a_view_has_no_age_before_all_kinds_were_listed() -> None:
    def all_but_jobs(asked: Asked) -> Response:
        is_late = asked.path.endswith("/jobs")
        return Unfinished(is_silent=True) if is_late else show_everything(asked)

    async with serving(all_but_jobs) as server, watched(server) as (cluster, _):
        await wait_for(lambda: cluster.pods.age() is not None)

        assert cluster.age() is None


async def test_what_was_never_listed_is_told_with_what_keeps_it() -> None:
    def hide_pods(asked: Asked) -> Response:
        is_hidden = asked.path.endswith("/pods")
        return refused(403) if is_hidden else show_everything(asked)

    async with serving(hide_pods) as server, watched(server) as (cluster, _):
        before = set(cluster.unseen().values())
        await wait_for(lambda: None not in cluster.unseen().values())
        after = cluster.unseen()

    assert before == {None}
    assert list(after) == ["/api/v1/pods"]
    assert isinstance(after["/api/v1/pods"], ForbiddenError)


async def test_leases_are_watched_only_by_who_asks_and_never_those_of_nodes() -> None:
    scope = Scope(autoscalers=False, checkpoints=False, leases=True, kinds=("Deployment",))
    async with serving(show_everything) as server, watched(server, scope) as (cluster, _):
        await cluster.synced()
        lists = [asked for asked in server.asked if asked.path.endswith("/leases")]
        kinds = [each.name.kind for each in cluster.workloads()]

        assert {each.query["fieldSelector"] for each in lists} == {
            "metadata.namespace!=kube-node-lease"
        }
        assert kinds == ["Deployment"]
        assert not any("autoscaling" in path or "batch" in path for path in paths_of(server))


async def test_only_what_is_wanted_is_watched() -> None:
    scope = Scope("default", pods=False, checkpoints=False, limit_ranges=False)
    async with serving(show_everything) as server, watched(server, scope) as (cluster, _):
        await cluster.synced()

        assert await look(cluster) == (0, 1, 0)
        assert all("/namespaces/default/" in path for path in paths_of(server))
        resources = {path.rpartition("/")[2] for path in paths_of(server)}
        assert resources.isdisjoint({"pods", "limitranges", "verticalpodautoscalercheckpoints"})


async def test_f37_a_component_for_one_namespace_asks_for_nothing_outside_of_it() -> None:
    scope = Scope("default", memory_evictions=True)
    async with serving(show_everything) as server, watched(server, scope) as (cluster, _):
        await cluster.synced()
        await MetricsApi(cluster._client, "default").fetch()

        # However many others there are: no list of all, and none of namespaces.
        assert all("/namespaces/default/" in path for path in paths_of(server))


async def test_the_only_namespace_is_fetched_by_its_name() -> None:
    def show_the_namespace(asked: Asked) -> Response:
        is_one = asked.path == "/api/v1/namespaces/default"
        return ok({"metadata": {"name": "default"}}) if is_one else show_everything(asked)

    scope = Scope("default", namespaces=True)
    async with serving(show_the_namespace) as server, watched(server, scope) as (cluster, _):
        await cluster.synced()

        assert [each.name for each in cluster.namespaces] == ["default"]
        assert "/api/v1/namespaces" not in paths_of(server)


async def test_nodes_are_not_asked_for_by_who_knows_that_it_may_not() -> None:
    def say_no(asked: Asked) -> Response:
        is_question = asked.path.endswith("/selfsubjectaccessreviews")
        return ok({"status": {"allowed": False}}) if is_question else show_everything(asked)

    async with serving(say_no) as server, watched(server, Scope(nodes=True)) as (cluster, _):
        await cluster.synced()
        await wait_for(cluster.shortcomings)
        (error,) = cluster.shortcomings().values()

        assert isinstance(error, ForbiddenError)
        assert str(error.right) == "list nodes"
        assert "/api/v1/nodes" not in paths_of(server)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(lambda: ok({"status": {"allowed": False}}), id="we may not"),
        pytest.param(lambda: refused(404), id="there is no such API"),
    ],
)
async def test_horizontal_autoscalers_that_cannot_be_seen_keep_nobody_waiting(
    refusal: Callable[[], Response],
) -> None:
    def hide(asked: Asked) -> Response:
        is_hidden = asked.path.endswith(("/selfsubjectaccessreviews", "/horizontalpodautoscalers"))
        return refusal() if is_hidden else show_everything(asked)

    async with serving(hide) as server, watched(server, Scope(horizontals=True)) as (cluster, _):
        await wait_for(cluster.shortcomings)
        await wait_for(lambda: cluster.age() is not None)
        await cluster.synced()

        assert list(cluster.horizontals) == []
        assert cluster.problems() == {}


async def test_nobody_acts_before_horizontal_autoscalers_are_listed() -> None:
    def all_but_these(asked: Asked) -> Response:
        is_late = asked.path.endswith("/horizontalpodautoscalers")
        return refused(503) if is_late else show_everything(asked)

    scope = Scope("default", horizontals=True)
    async with serving(all_but_these) as server, watched(server, scope) as (cluster, _):
        await wait_for(cluster.shortcomings)
        await wait_for(lambda: cluster.pods.age() is not None)

        assert cluster.age() is None
        place = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
        assert place in paths_of(server)


async def test_quotas_that_may_not_be_seen_keep_nobody_waiting() -> None:
    def hide(asked: Asked) -> Response:
        is_hidden = asked.path.endswith(("/selfsubjectaccessreviews", "/resourcequotas"))
        return refused(403) if is_hidden else show_everything(asked)

    scope = Scope(optional_quotas=True)
    async with serving(hide) as server, watched(server, scope) as (cluster, _):
        await wait_for(cluster.shortcomings)
        await wait_for(lambda: cluster.age() is not None)
        await cluster.synced()

        assert list(cluster.quotas("default")) == []
        assert cluster.problems() == {}
        assert cluster.shortcomings().keys() == {"/api/v1/resourcequotas"}


async def test_nobody_acts_before_quotas_that_may_be_seen_are_listed() -> None:
    def all_but_these(asked: Asked) -> Response:
        is_late = asked.path.endswith("/resourcequotas")
        return refused(503) if is_late else show_everything(asked)

    scope = Scope(optional_quotas=True)
    async with serving(all_but_these) as server, watched(server, scope) as (cluster, _):
        await wait_for(cluster.shortcomings)
        await wait_for(lambda: cluster.pods.age() is not None)

        assert cluster.age() is None


async def test_quotas_that_one_component_needs_are_no_choice_for_another() -> None:
    def hide(asked: Asked) -> Response:
        is_hidden = asked.path.endswith("/resourcequotas")
        return refused(403) if is_hidden else show_everything(asked)

    scope = Scope(quotas=True, optional_quotas=True)
    async with serving(hide) as server, watched(server, scope) as (cluster, _):
        await wait_for(cluster.problems)

        assert cluster.problems().keys() == {"/api/v1/resourcequotas"}


async def test_pods_that_do_not_run_yet_can_be_left_out() -> None:
    scope = Scope(pending_pods=False)
    async with serving(show_everything) as server, watched(server, scope) as (cluster, _):
        await cluster.synced()

        asked = [asked.query for asked in server.asked if asked.path == "/api/v1/pods"]
        assert asked[0]["fieldSelector"] == "status.phase!=Pending"


async def test_f43_a_missing_right_is_named_with_the_path_that_needs_it() -> None:
    message = (
        'limitranges is forbidden: User "x" cannot list resource "limitranges" in API group ""'
        " at the cluster scope"
    )

    def forbid(asked: Asked) -> Response:
        is_forbidden = asked.path.endswith("/limitranges")
        return refused(403, message=message) if is_forbidden else show_everything(asked)

    async with serving(forbid) as server, watched(server) as (cluster, _):
        await wait_for(cluster.problems)
        problems = cluster.problems()

        (error,) = problems.values()
        assert problems.keys() == {"/api/v1/limitranges"}
        assert isinstance(error, ForbiddenError)
        assert str(error.right) == "list limitranges"
        assert cluster.age() is None


async def test_nodes_are_seen_by_those_who_ask_for_them_in_whatever_namespace() -> None:
    scope = Scope("default", nodes=True)
    async with serving(show_everything) as server:
        async with watched(server) as (others, _):
            await others.synced()
            asked_by_others = paths_of(server)
        async with watched(server, scope) as (cluster, _):
            await wait_for(lambda: list(cluster.nodes))

            assert [node.name for node in cluster.nodes] == ["node-0"]
    assert "/api/v1/nodes" not in asked_by_others


async def test_f43_nodes_that_may_not_be_seen_are_a_shortcoming_and_no_problem() -> None:
    message = (
        'nodes is forbidden: User "x" cannot list resource "nodes" in API group ""'
        " at the cluster scope"
    )

    def forbid(asked: Asked) -> Response:
        is_forbidden = asked.path.endswith("/nodes")
        return refused(403, message=message) if is_forbidden else show_everything(asked)

    async with serving(forbid) as server, watched(server, Scope(nodes=True)) as (cluster, _):
        await cluster.synced()
        await wait_for(cluster.shortcomings)
        (error,) = cluster.shortcomings().values()

        assert isinstance(error, ForbiddenError)
        assert str(error.right) == "list nodes"
        assert cluster.problems() == {}
        assert cluster.age() is not None


async def test_a_server_that_is_busy_is_told_as_a_problem_until_it_answers() -> None:
    busy = ["/api/v1/pods"]

    def be_busy(asked: Asked) -> Response:
        return refused(429, after_seconds=120) if asked.path in busy else show_everything(asked)

    async with serving(be_busy) as server, watched(server) as (cluster, clock):
        began = clock.moment
        await wait_for(cluster.problems)
        assert isinstance(cluster.problems()["/api/v1/pods"], TooManyRequestsError)

        busy.clear()
        await cluster.synced()

        assert cluster.problems() == {}
        assert clock.moment - began >= timedelta(seconds=30)


def test_there_is_a_place_for_every_well_known_kind() -> None:
    assert sorted(adapter._WORKLOADS) == sorted(WELL_KNOWN_KINDS)
