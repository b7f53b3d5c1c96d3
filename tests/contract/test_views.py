"""Stores, limit ranges and their age, however they are disturbed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from itertools import count

import pytest
from contract.stage import eventually, in_every_world, meanwhile
from contract.world import Link, World

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.cluster.errors import ClusterError, TooManyRequestsError, UnreachableError
from trimtab.core.histogram.checkpoint import AggregateCheckpoint
from trimtab.core.model.autoscalers import Held
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.nodes import Node, Taint
from trimtab.core.model.pods import PAUSED, Pod, WorkloadName
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import QuotaClaim, Side

SHORT = timedelta(milliseconds=5)
SECOND = timedelta(seconds=1)

Disturbance = Callable[[World, Link], Awaitable[None]]


async def cut_the_watch(world: World, link: Link) -> None:
    for _ in range(3):
        await link.cut()
        await world.clock.sleep(SECOND / 3)


async def be_silent(world: World, link: Link) -> None:
    async with link.silent():
        await world.clock.sleep(2 * SECOND)


async def be_busy(world: World, link: Link) -> None:
    async with link.busy():
        await link.cut()
        await world.clock.sleep(2 * SECOND)


async def restart_the_server(world: World, _link: Link) -> None:
    await world.restart()


async def forget_history(world: World, _link: Link) -> None:
    await world.forget_history()


every_disturbance = pytest.mark.parametrize(
    "disturb",
    [
        pytest.param(cut_the_watch, id="the watch is cut"),
        pytest.param(be_silent, id="nothing gets through"),
        pytest.param(be_busy, id="the server is busy"),
        pytest.param(restart_the_server, id="the server is restarted"),
        pytest.param(forget_history, id="history is forgotten"),
    ],
)


async def listed(world: World) -> dict[str, Pod]:
    return {pod.name: pod for pod in await world.list_pods()}


async def shows_the_truth(world: World, link: Link) -> bool:
    return {pod.name: pod for pod in link.cluster.pods} == await listed(world)


async def churn(world: World, steady: list[str]) -> None:
    """Make, change and delete pods, also while the server is not there."""
    for number in count():
        with suppress(ClusterError):
            await world.create_pod(f"churn-{number}", is_placed=False)
            await world.label_pod(steady[number % len(steady)], "turn", str(number))
            await world.delete_pod(f"churn-{number - 5}")
        await world.clock.sleep(SHORT)


async def watch_closely(world: World, link: Link, steady: list[str]) -> None:
    """Whatever is there all the time must be seen all the time."""
    while True:
        assert {pod.name for pod in link.cluster.pods} >= set(steady)
        await world.clock.sleep(SHORT)


@every_disturbance
@in_every_world
async def test_under_churn_a_view_equals_a_fresh_list_after_every_disturbance(
    world: World, disturb: Disturbance
) -> None:
    steady = [f"steady-{number}" for number in range(50)]
    for name in steady:
        await world.create_pod(name, is_placed=False)
    async with world.joined() as link:
        assert await shows_the_truth(world, link)
        async with meanwhile(watch_closely(world, link, steady)):
            async with meanwhile(churn(world, steady)):
                await world.clock.sleep(SECOND)
                await disturb(world, link)
                await world.clock.sleep(SECOND)
            await eventually(world, lambda: shows_the_truth(world, link))


@every_disturbance
@in_every_world
async def test_changes_tell_every_object_in_its_last_state(
    world: World, disturb: Disturbance
) -> None:
    await world.create_pod("old", is_placed=False)
    async with world.joined() as link:
        told: dict[str, Pod] = {}

        async def listen(changes: AsyncIterator[Pod]) -> None:
            async for pod in changes:
                told[pod.name] = pod

        async def make_more() -> None:
            for number in count():
                with suppress(ClusterError):
                    await world.create_pod(f"new-{number}", is_placed=False)
                await world.clock.sleep(SECOND / 5)

        async with meanwhile(listen(link.cluster.pods.changes())):
            async with meanwhile(make_more()):
                await disturb(world, link)
            unchanged = told.get("old")
            await world.label_pod("old", "turn", "second")
            await world.create_pod("last", is_placed=False)
            truth = await listed(world)
            await eventually(world, lambda: told == truth)

        assert unchanged is None


@in_every_world
async def test_what_is_deleted_is_found_no_longer(world: World) -> None:
    await world.create_pod("a", is_placed=False)
    async with world.joined() as link:
        pods = link.cluster.pods
        found = pods.find(world.namespace, "a")
        await world.delete_pod("a")
        await eventually(world, lambda: pods.find(world.namespace, "a") is None)

        assert found is not None
        assert pods.find("elsewhere", "a") is None


@in_every_world
async def test_autoscalers_come_and_go_in_the_view(world: World) -> None:
    await world.create_autoscaler("old", WorkloadName(world.namespace, "Deployment", "web"))
    async with world.joined() as link:
        autoscalers = link.cluster.autoscalers
        old = autoscalers.find(world.namespace, "old")
        await world.create_autoscaler("new", WorkloadName(world.namespace, "StatefulSet", "db"))
        await world.delete_autoscaler("old")
        await eventually(world, lambda: [each.name for each in autoscalers] == ["new"])

        assert old is not None
        assert old.target is not None
        assert (old.target.kind, old.target.name) == ("Deployment", "web")
        assert list(autoscalers) == list(await world.list_autoscalers())


@in_every_world
async def test_a_view_ages_while_nothing_gets_through_and_is_young_after_an_event(
    world: World,
) -> None:
    async with world.joined() as link:
        pods = link.cluster.pods
        async with link.silent():
            await world.clock.sleep(3 * SECOND)
            old = pods.age()
        await world.create_pod("a", is_placed=False)
        await eventually(world, lambda: pods.find(world.namespace, "a"))
        young, whole = pods.age(), link.cluster.age()

        assert old is not None
        assert young is not None
        assert whole is not None
        assert old >= 3 * SECOND
        assert young < 3 * SECOND <= whole


@in_every_world
async def test_a_checkpoint_that_cannot_be_read_is_there_all_the_same(world: World) -> None:
    async with world.joined() as link:
        cluster = link.cluster
        for container in ("good", "bad"):
            aggregate = AggregateCheckpoint(total_samples_count=1)
            await cluster.save_checkpoint(Checkpoint(world.namespace, "web", container, aggregate))
        await eventually(world, lambda: cluster.checkpoints.find(world.namespace, "web-bad"))
        before = list(cluster.checkpoints.unreadable)
        await world.spoil_checkpoint("web-bad")
        await world.spoil_checkpoint("web-new")
        await eventually(world, lambda: len(cluster.checkpoints.unreadable) == 2)

        assert before == []
        assert [each.written_name for each in cluster.checkpoints] == ["web-good"]
        assert cluster.checkpoints.find(world.namespace, "web-bad") is None
        assert {(each.namespace, each.name) for each in cluster.checkpoints.unreadable} == {
            (world.namespace, "web-bad"),
            (world.namespace, "web-new"),
        }


@in_every_world
async def test_limit_ranges_are_seen_in_their_namespace_alone(world: World) -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max={Resource.CPU: 2000})
    await world.create_limit_range("bounds", item)
    async with world.joined() as link:
        (found,) = link.cluster.limit_ranges(world.namespace)

        assert found.type is LimitRangeType.CONTAINER
        assert found.max == {Resource.CPU: 2000}
        assert list(link.cluster.limit_ranges("elsewhere")) == []


@in_every_world
async def test_horizontal_autoscalers_are_found_by_what_they_scale_until_they_are_gone(
    world: World,
) -> None:
    web = await world.create_workload("Deployment", "web")
    await world.scale_horizontally(web)
    async with world.joined() as link:
        index = link.cluster.horizontals.index(lambda each: each.target)
        (found,) = index.under(web)

        assert found.name == "hpa"
        assert found.claims == {Held(Resource.CPU)}

        await world.delete_horizontal()
        await eventually(world, lambda: not index.under(web))
        await world.scale_horizontally(web, container="app")
        await eventually(world, lambda: index.under(web))

        assert index.under(web)[0].claims == {Held(Resource.CPU, "app")}


@in_every_world
async def test_quotas_are_seen_with_what_their_pods_leave_of_them(world: World) -> None:
    await world.create_pod("a")
    await world.create_quota("team", {Resource.CPU: 1000})
    claim = QuotaClaim(Side.REQUESTS, Resource.CPU)
    async with world.joined() as link:
        quotas = link.cluster.quotas
        before = {quota.name: dict(quota.left) for quota in quotas(world.namespace)}
        await world.create_pod("b")
        await eventually(
            world, lambda: [each.left[claim] for each in quotas(world.namespace)] == [800]
        )

        assert before == {"team": {claim: 900}}
        assert list(quotas("elsewhere")) == []


@in_every_world
async def test_what_a_namespace_says_to_us_is_seen_as_soon_as_it_says_so(world: World) -> None:
    async with world.joined() as link:
        namespaces = link.cluster.namespaces
        before = namespaces.find("", world.namespace)
        await world.annotate_namespace(PAUSED, "true")
        await eventually(
            world, lambda: (found := namespaces.find("", world.namespace)) and found.is_paused
        )

        assert before is None or not before.is_paused


@in_every_world
async def test_pods_can_be_resized_where_the_server_says_so(world: World) -> None:
    async with world.joined() as link:
        assert await link.cluster.can_resize()


@in_every_world
async def test_nodes_are_seen_with_what_they_give_whatever_namespace_is_looked_at(
    world: World,
) -> None:
    gpu = Taint("gpu", "true", "NoSchedule")
    described = Node(
        f"{world.namespace}-large",
        {Resource.CPU: 3920, Resource.MEMORY: 7 * 2**30},
        labels={"size": "large"},
        taints=(gpu,),
        is_unschedulable=True,
    )
    async with world.joined() as link:
        nodes = link.cluster.nodes
        async with world.node(described):
            await eventually(world, lambda: nodes.find("", described.name))
            seen = nodes.find("", described.name)
        await eventually(world, lambda: nodes.find("", described.name) is None)
        # The others are there all the time.
        await eventually(world, lambda: list(nodes))

        assert seen is not None
        assert seen.allocatable == described.allocatable
        assert seen.labels.items() >= described.labels.items()
        # Where nothing is heard of a node, its controller adds a taint sooner or later.
        assert gpu in seen.taints
        assert seen.is_unschedulable


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        pytest.param("busy", TooManyRequestsError, id="a server that is busy"),
        pytest.param("silent", UnreachableError, id="a server that does not answer"),
    ],
)
@in_every_world
async def test_what_keeps_a_view_from_getting_newer_is_a_problem_until_it_is_over(
    world: World, how: str, kind: type[ClusterError]
) -> None:
    await world.create_pod("old", is_placed=False)
    async with world.joined() as link:
        before = dict(link.cluster.problems())
        async with link.busy() if how == "busy" else link.silent():
            await link.cut()
            await world.create_pod("new", is_placed=False)
            await eventually(world, lambda: kinds_of_problems(link) == {kind})
            seen = [pod.name for pod in link.cluster.pods]
        await eventually(world, lambda: link.cluster.pods.find(world.namespace, "new"))
        await eventually(world, lambda: not link.cluster.problems(), within=timedelta(minutes=5))

        assert before == {}
        assert seen == ["old"]


def kinds_of_problems(link: Link) -> set[type[Exception]]:
    return set(map(type, link.cluster.problems().values()))
