from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from simulation.bare_cluster import (
    a_cluster,
    a_node,
    a_placed_pod,
    a_template,
    a_workload,
    a_world,
    passing,
    virtually,
)
from support.makers.records import MIB, a_container, amounts

from trimtab.core.model.nodes import Taint
from trimtab.core.model.pods import Allocation, Pod, PodPhase, ResizeState
from trimtab.core.model.resources import BOTH, Resources
from trimtab.simulation.nodes.scheduler import Scheduler
from trimtab.simulation.world.objects import NodeObject, reserved_total
from trimtab.simulation.world.virtual_time import run_virtually
from trimtab.simulation.world.world import World


def waiting(name: str = "new", *, cpu: int = 100, memory: int = 100 * MIB) -> Pod:
    container = a_container(requests=amounts(cpu, memory))
    return structs.replace(
        a_placed_pod(container, name=name),
        node_name="",
        phase=PodPhase.PENDING,
        ready_since=None,
        containers=(container,),
    )


def a_scheduled_world(*nodes: NodeObject) -> World:
    world = a_world()
    for node in nodes:
        world.nodes.put(node)
    Scheduler(world).start()
    return world


def place_of(world: World, name: str = "new") -> str:
    pod = world.pods.find("default", name)
    assert pod is not None
    return pod.node_name


@virtually
async def test_pods_are_spread_by_what_is_left_on_each_node() -> None:
    world = a_scheduled_world(a_node("b"), a_node("a"), a_node("large", cpu=16_000))
    places = []
    for number in range(7):
        world.pods.put(waiting(str(number), cpu=1000, memory=0))
        await passing(seconds=1)
        places.append(place_of(world, str(number)))

    assert places == ["a", "b", "large", "large", "a", "b", "large"]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(a_node(cpu=99), id="too little CPU"),
        pytest.param(a_node(memory=99 * MIB), id="too little memory"),
        pytest.param(a_node(max_pods=0), id="too many pods"),
        pytest.param(a_node(is_ready=False), id="a node that is not ready"),
    ],
)
@virtually
async def test_a_pod_waits_where_nothing_has_room_and_goes_where_room_appears(
    node: NodeObject,
) -> None:
    world = a_scheduled_world(node)
    world.pods.put(waiting())
    await passing(hours=1)
    before = place_of(world)
    world.nodes.put(a_node())
    await passing(seconds=1)

    assert before == ""
    assert place_of(world) == "node-0"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"phase": PodPhase.SUCCEEDED}, id="it is done"),
        pytest.param(
            {"containers": a_placed_pod(a_container(requests=amounts(900))).containers},
            id="it was made smaller",
        ),
    ],
)
@virtually
async def test_room_appears_when_a_pod_needs_less(change: dict[str, object]) -> None:
    world = a_scheduled_world(a_node(cpu=1000))
    large = world.pods.put(a_placed_pod(a_container(requests=amounts(950)), name="large"))
    world.pods.put(waiting())
    await passing(minutes=1)
    before = place_of(world)
    world.pods.put(structs.replace(large, **change))
    await passing(minutes=1)

    assert (before, place_of(world)) == ("", "node-0")


@virtually
async def test_room_appears_only_when_a_pod_is_gone_not_when_it_is_told_to() -> None:
    world = a_scheduled_world(a_node(cpu=1000))
    large = world.pods.put(a_placed_pod(a_container(requests=amounts(950)), name="large"))
    world.pods.put(waiting())
    world.pods.put(structs.replace(large, is_deleting=True))
    await passing(minutes=1)
    before = place_of(world)
    world.pods.delete("default", "large")
    await passing(minutes=1)

    assert (before, place_of(world)) == ("", "node-0")


@pytest.mark.parametrize(
    ("wanted", "there", "resize", "has_room"),
    [
        pytest.param(950, 100, None, False, id="what will be is taken"),
        pytest.param(100, 950, None, False, id="what still is is taken"),
        pytest.param(950, 100, ResizeState.INFEASIBLE, True, id="what cannot be is not"),
    ],
)
@virtually
async def test_a_resize_that_is_under_way_takes_what_it_may_need(
    wanted: int, there: int, resize: ResizeState | None, *, has_room: bool
) -> None:
    world = a_scheduled_world(a_node(cpu=1000))
    container = a_container(requests=amounts(wanted), status=Allocation(amounts(there)))
    world.pods.put(a_placed_pod(container, name="other", resize=resize))
    world.pods.put(waiting())
    await passing(minutes=1)

    assert bool(place_of(world)) is has_room


@virtually
async def test_a_pod_of_one_node_waits_for_that_node() -> None:
    world = a_scheduled_world(a_node("a"), a_node("b", cpu=50))
    pod = world.pods.put(waiting())
    world.templates[pod.uid] = a_template(node_name="b")
    await passing(minutes=1)
    before = place_of(world)
    world.nodes.put(a_node("b"))
    await passing(minutes=1)

    assert (before, place_of(world)) == ("", "b")


@virtually
async def test_a_pod_that_requests_nothing_fits_even_on_a_node_that_is_overfull() -> None:
    world = a_scheduled_world(a_node(cpu=100))
    world.pods.put(a_placed_pod(a_container(requests=amounts(500)), name="other"))
    world.pods.put(waiting(cpu=0, memory=0))
    await passing(minutes=1)

    assert place_of(world) == "node-0"


@virtually
async def test_pods_that_were_there_before_the_scheduler_are_counted_and_placed() -> None:
    world = a_world()
    world.nodes.put(a_node(cpu=1000))
    world.pods.put(a_placed_pod(a_container(requests=amounts(850)), name="other"))
    for name in ("first", "second"):
        world.pods.put(waiting(name))
    Scheduler(world).start()
    await passing(minutes=1)

    assert (place_of(world, "first"), place_of(world, "second")) == ("node-0", "")


@virtually
async def test_those_who_waited_longest_come_first() -> None:
    world = a_scheduled_world()
    for name in ("zebra", "ape"):
        world.pods.put(waiting(name, cpu=600))
        await passing(seconds=1)
    world.nodes.put(a_node(cpu=1000))
    await passing(minutes=1)

    assert (place_of(world, "zebra"), place_of(world, "ape")) == ("node-0", "")


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param({"is_unschedulable": True}, id="cordoned"),
        pytest.param({"taints": (Taint("gpu", effect="NoSchedule"),)}, id="tainted"),
    ],
)
@virtually
async def test_a_node_that_is_closed_takes_only_pods_that_are_made_for_it(
    closed: dict[str, object],
) -> None:
    world = a_scheduled_world(a_node("closed", **closed))  # type: ignore[arg-type]
    world.pods.put(waiting("any"))
    world.templates["mine"] = a_template(node_name="closed")
    world.pods.put(structs.replace(waiting("mine"), uid="mine"))
    await passing(seconds=1)

    assert (place_of(world, "any"), place_of(world, "mine")) == ("", "closed")


sizes = st.builds(amounts, st.integers(0, 1200), st.integers(0, 1200))


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, int, Resources]:
    what = draw(st.sampled_from(("pod", "pod", "pod", "gone", "done", "node", "lost", "no node")))
    return what, draw(st.integers(0, 9)), draw(sizes)


@given(st.lists(steps(), max_size=40))
@settings(deadline=None)
def test_no_node_is_ever_given_more_than_it_has(
    plan: list[tuple[str, int, Resources]],
) -> None:
    async def play() -> None:
        world = a_scheduled_world(NodeObject("n0", amounts(1000, 1000), max_pods=3))
        for what, number, size in plan:
            _take(world, what, number, size)
            await passing(milliseconds=200)
            _check(world)

    run_virtually(play())


def _take(world: World, what: str, number: int, size: Resources) -> None:
    name, node = f"p{number}", f"n{number % 3}"
    pod, place = world.pods.find("default", name), world.nodes.find("", node)
    match what:
        case "pod" if pod is None:
            container = a_container(requests=size)
            uid = world.new_uid()
            world.pods.put(structs.replace(waiting(name), containers=(container,), uid=uid))
        case "gone":
            world.pods.delete("default", name)
        case "done" if pod is not None:
            world.pods.put(structs.replace(pod, phase=PodPhase.SUCCEEDED))
        case "node" if place is None:
            world.nodes.put(NodeObject(node, size, max_pods=3))
        case "lost" | "node" if place is not None:
            world.nodes.put(replace(place, is_ready=what == "node"))
        case "no node" if not world.pods_by_node.count(node):
            world.nodes.delete("", node)


def _check(world: World) -> None:
    live = [pod for pod in world.pods if pod.phase is not PodPhase.SUCCEEDED]
    counts = Counter(pod.node_name for pod in live)
    free: dict[str, Resources] = {}
    for node in world.nodes:
        here = [pod for pod in live if pod.node_name == node.name]
        free[node.name] = {
            kind: node.capacity[kind] - sum(reserved_total(pod, kind) for pod in here)
            for kind in BOTH
        }
        assert all(free[node.name][kind] >= 0 for kind in BOTH)
        assert counts[node.name] <= node.max_pods
    for pod in live:
        fits = [
            node.name
            for node in world.nodes
            if node.is_ready
            and counts[node.name] < node.max_pods
            and all(reserved_total(pod, kind) <= free[node.name][kind] for kind in BOTH)
        ]
        # Nobody waits in vain.
        assert pod.node_name or not fits


@virtually
async def test_a_pod_tells_since_when_there_is_no_room_for_it() -> None:
    async with a_cluster(nodes=0) as cluster:
        cluster.world.add_workload(a_workload(replicas=1))
        await passing(minutes=1)
        (pod,) = cluster.pods("web")
        assert pod.unschedulable_since is not None
        assert pod.unschedulable_since.microsecond == 0
        cluster.world.nodes.put(a_node())
        await passing(minutes=1)
        (pod,) = cluster.pods("web")
        assert (pod.node_name, pod.unschedulable_since) == ("node-0", None)
