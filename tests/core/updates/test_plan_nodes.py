"""Plans ask for nothing that a pod's own node has no room for."""

from dataclasses import replace
from datetime import datetime

import pytest
from msgspec import structs
from support.makers.plans import by_pod, planned, several, snapshot_of, told
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Resize
from trimtab.core.explain.pod_checks import explain_pod, view_plan
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import Autoscaler, CpuBoost, UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.nodes import Node, NodeExpression, NodeTerm, Placement, Taint, Toleration
from trimtab.core.model.pods import (
    Allocation,
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.node_capacity import Daemon, NodeRooms
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.updates.checks.check import CheckKind
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

UP = a_recommendation(target=amounts(500), lower=amounts(400))
SETTINGS = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
EITHER = UpdateMode.IN_PLACE_OR_RECREATE
RESIZING = (UpdateMode.IN_PLACE, EITHER, UpdateMode.UPSCALE_ONLY)


def use(cpu: int, memory: int = 10_000 * MIB) -> NodeUse:
    """A node with so much left beside two pods of the usual size."""
    given = amounts(200 + cpu, 200 * MIB + memory)
    return NodeUse({"one": given}, {"one": amounts(200, 200 * MIB)})


def resizable(*, target: Resources, mode: UpdateMode) -> Autoscaler:
    wanted = a_recommendation(target=target, lower=target, upper=target)
    return an_autoscaler(wanted, mode=mode, min_replicas=1)


def crowd(mode: UpdateMode, node_use: NodeUse, **fields: object) -> Snapshot:
    pods = several(2, node_name="one")
    return snapshot_of(pods, an_autoscaler(UP, mode=mode), node_use=node_use, **fields)


@pytest.mark.parametrize("mode", RESIZING)
def test_growth_that_fits_is_asked_for(mode: UpdateMode) -> None:
    assert told(planned(crowd(mode, use(800)), SETTINGS)) == ["Resize", "Resize"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(UpdateMode.IN_PLACE, "ResizeInfeasible", id="InPlace waits for room"),
        pytest.param(EITHER, "Evict", id="InPlaceOrRecreate goes elsewhere"),
        pytest.param(UpdateMode.UPSCALE_ONLY, "Evict", id="UpscaleOnly goes elsewhere"),
    ],
)
def test_d25_growth_that_does_not_fit_is_not_asked_for(mode: UpdateMode, expected: str) -> None:
    assert told(planned(crowd(mode, use(100)), SETTINGS)) == [expected, expected]


@pytest.mark.parametrize(("room", "resized"), [(399, 0), (400, 1), (799, 1), (800, 2)])
def test_d25_pods_that_grow_on_one_node_share_what_it_has_left(room: int, resized: int) -> None:
    found = told(planned(crowd(UpdateMode.IN_PLACE, use(room)), SETTINGS))

    assert found.count("Resize") == resized
    assert found.count("ResizeInfeasible") == 2 - resized


def test_d25_it_goes_through_as_soon_as_there_is_room() -> None:
    before = planned(crowd(UpdateMode.IN_PLACE, use(0)), SETTINGS)
    after = planned(crowd(UpdateMode.IN_PLACE, use(800)), SETTINGS)

    assert (told(before), told(after)) == (["ResizeInfeasible"] * 2, ["Resize"] * 2)


def test_pods_of_nodes_that_nobody_has_seen_are_resized() -> None:
    assert told(planned(crowd(UpdateMode.IN_PLACE, NodeUse()), SETTINGS)) == ["Resize"] * 2


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, EITHER])
def test_d25_shrinking_is_never_held_by_a_full_node(mode: UpdateMode) -> None:
    pods = several(2, node_name="one")
    autoscaler = resizable(target=amounts(50, 50 * MIB), mode=mode)
    full = NodeUse({"one": amounts(10, 10)}, {"one": amounts(200, 200 * MIB)})

    assert told(planned(snapshot_of(pods, autoscaler, node_use=full), SETTINGS)) == ["Resize"] * 2


def test_d25_where_only_a_part_fits_that_part_is_asked_for() -> None:
    pods = several(2, node_name="one")
    autoscaler = resizable(target=amounts(50, 500 * MIB), mode=UpdateMode.IN_PLACE)
    outcomes = planned(snapshot_of(pods, autoscaler, node_use=use(0, 100 * MIB)), SETTINGS)

    assert [each.wanted["app"].requests for each in outcomes if isinstance(each, Resize)] == [
        amounts(50),
        amounts(50),
    ]


def test_d25_nothing_is_restarted_for_a_part() -> None:
    container = a_container(requests=amounts(100, 100 * MIB), restarts_on_resize=True)
    pods = several(2, node_name="one", containers=(container,))
    autoscaler = resizable(target=amounts(50, 500 * MIB), mode=UpdateMode.IN_PLACE)
    outcomes = planned(snapshot_of(pods, autoscaler, node_use=use(0, 100 * MIB)), SETTINGS)

    assert told(outcomes) == ["ResizeInfeasible"] * 2


def pinned(pod: Pod) -> Pod:
    only = NodeTerm(fields=(NodeExpression("metadata.name", "In", ("one",)),))
    return structs.replace(pod, placement=Placement(terms=(only,)))


def test_d25_a_pod_that_may_go_nowhere_else_is_not_evicted_for_room() -> None:
    pods = [pinned(pod) for pod in several(2, node_name="one")]
    snapshot = snapshot_of(pods, an_autoscaler(UP, mode=EITHER), node_use=use(100))

    assert told(planned(snapshot, SETTINGS)) == ["ResizeInfeasible"] * 2


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(600, "Evict", id="another node is large enough"),
        pytest.param(550, "ResizeInfeasible", id="a DaemonSet leaves too little of it"),
        pytest.param(400, "ResizeInfeasible", id="the other node is too small"),
    ],
)
def test_d25_a_pod_is_evicted_for_room_if_another_node_could_take_it(
    other: int, expected: str
) -> None:
    nodes = [Node("one", amounts(1000, 9000 * MIB)), Node("two", amounts(other, 9000 * MIB))]
    agent = Daemon(WorkloadName("default", "DaemonSet", "agent"), amounts(100))
    rooms = NodeRooms(nodes, [agent])
    snapshot = crowd(EITHER, use(100), rooms=rooms)

    assert told(planned(snapshot, SETTINGS)) == [expected] * 2


def place_on(other: Node, taken: int, *, own: int = 200) -> NodeUse:
    """A full node with two pods, and another of which other pods take so much CPU."""
    one = Node("one", amounts(300, 9000 * MIB))
    given = {node.name: node.allocatable for node in (one, other)}
    reserved = {"one": amounts(own, 200 * MIB), other.name: amounts(taken, 200 * MIB)}
    return NodeUse(given, reserved, nodes=(one, other))


TWO = Node("two", amounts(2000, 9000 * MIB))
NOT_READY = Taint("node.kubernetes.io/not-ready", effect="NoSchedule")


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("other", "taken", "evicted"),
    [
        pytest.param(TWO, 0, 2, id="room for both"),
        pytest.param(TWO, 1200, 1, id="room for one"),
        pytest.param(TWO, 1600, 0, id="large enough, but full"),
        pytest.param(replace(TWO, is_unschedulable=True), 0, 0, id="cordoned"),
        pytest.param(replace(TWO, taints=(NOT_READY,)), 0, 0, id="not ready"),
        pytest.param(replace(TWO, taints=(Taint("gpu", effect="NoExecute"),)), 0, 0, id="tainted"),
    ],
)
def test_a_pod_moves_only_to_a_node_that_has_room_now(
    other: Node, taken: int, evicted: int, mode: UpdateMode
) -> None:
    nodes = place_on(other, taken)
    found = told(planned(crowd(mode, nodes, rooms=NodeRooms(nodes.nodes)), SETTINGS))

    assert found == ["Evict"] * evicted + ["ResizeInfeasible"] * (2 - evicted)


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("slots", "evicted"),
    [
        pytest.param(None, 2, id="a node that does not say"),
        pytest.param(3, 2, id="a slot for each"),
        pytest.param(2, 1, id="one slot"),
        pytest.param(1, 0, id="no slot"),
    ],
)
def test_a_pod_moves_only_to_a_node_that_has_a_slot_for_it(
    mode: UpdateMode, slots: int | None, evicted: int
) -> None:
    nodes = replace(place_on(replace(TWO, pod_slots=slots), 0), pod_counts={"one": 2, "two": 1})
    snapshot = crowd(mode, nodes, rooms=NodeRooms(nodes.nodes))

    assert told(planned(snapshot, SETTINGS)) == ["Evict"] * evicted + ["ResizeInfeasible"] * (
        2 - evicted
    )
    assert explained(snapshot) == told(planned(snapshot, SETTINGS))


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
def test_a_pod_that_other_nodes_may_refuse_comes_back_only_to_its_own(mode: UpdateMode) -> None:
    nodes = place_on(TWO, 0)
    pods = several(2, node_name="one", has_unseen_demands=True)
    autoscaler = an_autoscaler(UP, mode=mode)
    snapshot = snapshot_of(pods, autoscaler, node_use=nodes, rooms=NodeRooms(nodes.nodes))

    assert told(planned(snapshot, SETTINGS)) == ["ResizeInfeasible"] * 2
    assert explained(snapshot) == ["ResizeInfeasible"] * 2


def test_a_pod_with_such_demands_is_evicted_if_its_own_node_has_room_and_a_slot() -> None:
    one = Node("one", amounts(2000, 9000 * MIB), pod_slots=2)
    nodes = NodeUse({"one": one.allocatable}, {"one": amounts(200, 200 * MIB)}, nodes=(one,))
    pods = several(2, node_name="one", has_unseen_demands=True, resize=ResizeState.INFEASIBLE)
    autoscaler = an_autoscaler(UP, mode=EITHER)
    refused = InfeasibleAttempt({"app": amounts(500)}, NOW - minutes(5))
    memory = PodMemory(ResizeMemory(infeasible=refused, resize_since=NOW - minutes(5)))
    memories = {(pod.uid, autoscaler.identity): memory for pod in pods}
    full, free = (
        snapshot_of(
            [structs.replace(pod, containers=(asking(500),)) for pod in pods],
            autoscaler,
            node_use=replace(nodes, pod_counts={"one": count}),
            pod_memory=memories,
        )
        for count in (3, 2)
    )

    assert told(planned(full, SETTINGS)) == ["ResizeInfeasible"] * 2
    assert told(planned(free, SETTINGS)) == ["Evict"] * 2


def asking(cpu: int) -> Container:
    """A container whose kubelet has not done the resize that its spec asks for."""
    has = Allocation(amounts(100, 100 * MIB))
    return a_container(requests=amounts(cpu, 100 * MIB), status=has)


def explained(snapshot: Snapshot, kind: CheckKind = CheckKind.RESIZE) -> list[str]:
    """What `explain` says of each pod: the reason of a check, or its only way."""
    view = view_plan(snapshot, SETTINGS, NOW)
    found = [explain_pod(each, view) for each in snapshot.pods]
    ways = [
        next(check.reason for check in each.checks if check.kind is kind) or each.way
        for each in found
        if each is not None
    ]
    return sorted(str(way) for way in ways)


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("left", "evicted"),
    [
        pytest.param(3000, 2, id="room for both boosts"),
        pytest.param(2999, 1, id="room for one boost"),
        pytest.param(1499, 0, id="room without a boost alone"),
    ],
)
def test_a_pod_moves_only_to_a_node_that_has_room_for_its_boost(
    mode: UpdateMode, left: int, evicted: int
) -> None:
    nodes = place_on(replace(TWO, allocatable=amounts(4000, 9000 * MIB)), 4000 - left)
    boost = CpuBoost(factor=3, duration=minutes(1))
    autoscaler = an_autoscaler(UP, mode=mode, boost=boost)
    pods = several(2, node_name="one")
    snapshot = snapshot_of(pods, autoscaler, node_use=nodes, rooms=NodeRooms(nodes.nodes))

    expected = ["Evict"] * evicted + ["ResizeInfeasible"] * (2 - evicted)
    assert told(planned(snapshot, SETTINGS)) == expected
    assert explained(snapshot) == expected


def test_without_the_gate_for_boosts_a_pod_needs_no_room_for_one() -> None:
    nodes = place_on(TWO, 1000)
    autoscaler = an_autoscaler(UP, mode=EITHER, boost=CpuBoost(factor=3, duration=minutes(1)))
    pods = several(2, node_name="one")
    snapshot = snapshot_of(pods, autoscaler, node_use=nodes, rooms=NodeRooms(nodes.nodes))
    gateless = replace(SETTINGS, gates=FeatureGates(cpu_startup_boost=False))

    assert told(planned(snapshot, gateless)) == ["Evict"] * 2


def test_a_resize_that_waits_for_long_moves_its_pod_only_to_free_room() -> None:
    asked = a_container(
        requests=amounts(500, 100 * MIB), status=Allocation(amounts(100, 100 * MIB))
    )
    pods = several(2, node_name="one", containers=(asked,), resize=ResizeState.DEFERRED)
    autoscaler = an_autoscaler(UP, mode=EITHER)
    memory = PodMemory(ResizeMemory(resize_since=NOW - minutes(6)))
    memories = {(pod.uid, autoscaler.identity): memory for pod in pods}
    full, free = (
        snapshot_of(pods, autoscaler, node_use=place_on(TWO, taken, own=1000), pod_memory=memories)
        for taken in (1600, 0)
    )

    assert told(planned(full, SETTINGS)) == ["ResizeDeferred"] * 2
    assert told(planned(free, SETTINGS)) == ["Evict"] * 2


@pytest.mark.parametrize("mode", [EITHER, UpdateMode.UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("ready_since", "expected"),
    [
        pytest.param(None, "Evict", id="a pod that is down has nothing to lose"),
        pytest.param(NOW - minutes(1), "ResizeInfeasible", id="a pod that is ready again waits"),
    ],
)
def test_after_an_oom_kill_only_a_pod_that_is_down_is_evicted_into_a_full_cluster(
    mode: UpdateMode, ready_since: datetime | None, expected: str
) -> None:
    killed = Termination("OOMKilled", NOW - minutes(3), NOW - minutes(2))
    container = a_container(requests=amounts(100, 100 * MIB), last_termination=killed)
    pods = several(2, node_name="one", containers=(container,), ready_since=ready_since)
    autoscaler = resizable(target=amounts(100, 20_000 * MIB), mode=mode)
    snapshot = snapshot_of(pods, autoscaler, node_use=place_on(TWO, 0))

    assert told(planned(snapshot, SETTINGS))[0] == expected
    assert explained(snapshot)[0] == expected


def test_recreate_evicts_into_a_full_cluster_so_that_nodes_are_added() -> None:
    snapshot = crowd(UpdateMode.RECREATE, place_on(TWO, 1600))

    assert told(planned(snapshot, SETTINGS)) == ["Evict"] * 2


BY_NAME = Placement(terms=(NodeTerm(fields=(NodeExpression("metadata.name", "In", ("one",)),)),))
BY_HOST = Placement(terms=(NodeTerm((NodeExpression("kubernetes.io/hostname", "In", ("one",)),)),))
BY_LABEL = Placement((("kubernetes.io/hostname", "one"),))
TOLERANT = replace(BY_NAME, tolerations=(Toleration(operator="Exists"),))
POOL = Placement((("pool", "blue"),))
AGENT = OwnerReference("DaemonSet", "agent")
FOO = Taint("foo", effect="NoSchedule")
PRESSURE = Taint("node.kubernetes.io/memory-pressure", effect="NoSchedule")
OPEN = Node(
    "one",
    amounts(2000, 9000 * MIB),
    labels={"kubernetes.io/hostname": "one", "pool": "blue"},
    pod_slots=9,
)


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
@pytest.mark.parametrize(
    ("node", "owner", "placement", "is_held"),
    [
        pytest.param(OPEN, AGENT, BY_NAME, False, id="an open node"),
        pytest.param(replace(OPEN, taints=(FOO,)), AGENT, BY_NAME, True, id="a new taint"),
        pytest.param(replace(OPEN, taints=(FOO,)), AGENT, TOLERANT, False, id="a tolerated taint"),
        pytest.param(
            replace(OPEN, is_unschedulable=True), AGENT, BY_NAME, False, id="DaemonSet, cordoned"
        ),
        pytest.param(
            replace(OPEN, taints=(PRESSURE,)), AGENT, BY_NAME, False, id="DaemonSet, pressure"
        ),
        pytest.param(
            replace(OPEN, taints=(NOT_READY,)), AGENT, BY_NAME, True, id="DaemonSet, not ready"
        ),
        pytest.param(
            replace(OPEN, allocatable=amounts(300, 9000 * MIB)), AGENT, BY_NAME, True, id="full"
        ),
        pytest.param(replace(OPEN, taints=(FOO,)), None, BY_NAME, True, id="bound by name"),
        pytest.param(replace(OPEN, taints=(FOO,)), None, BY_HOST, True, id="bound by hostname"),
        pytest.param(replace(OPEN, taints=(FOO,)), None, BY_LABEL, True, id="bound by selector"),
        pytest.param(replace(OPEN, is_unschedulable=True), None, BY_NAME, True, id="cordoned"),
        pytest.param(
            replace(OPEN, is_unschedulable=True), None, TOLERANT, False, id="tolerates a cordon"
        ),
        pytest.param(
            replace(OPEN, taints=(FOO,)), None, POOL, False, id="a pool that may get a new node"
        ),
    ],
)
def test_recreate_keeps_a_pod_whose_only_node_would_not_take_it_back(
    node: Node,
    owner: OwnerReference | None,
    placement: Placement,
    mode: UpdateMode,
    *,
    is_held: bool,
) -> None:
    owner = owner or OwnerReference("ReplicaSet", "web-1")
    pods = several(2, node_name="one", owner=owner, placement=placement)
    both = (node, TWO)
    nodes = NodeUse({each.name: each.allocatable for each in both}, USED, nodes=both)
    snapshot = snapshot_of(
        pods,
        an_autoscaler(UP, mode=mode),
        node_use=nodes,
        configured_replicas={WorkloadName("default", owner.kind, owner.name): 2},
    )

    expected = "NoNodeForSuccessor" if is_held else "Evict"
    assert told(planned(snapshot, SETTINGS)) == [expected] * 2
    assert explained(snapshot, CheckKind.EVICTION) == [expected] * 2


USED = {"one": amounts(200, 200 * MIB)}


def test_a_resize_that_waits_for_room_already_goes_on_as_before() -> None:
    waiting = a_pod(
        a_container(requests=amounts(500, 100 * MIB), status=Allocation(amounts(100, 100 * MIB))),
        node_name="one",
        resize=ResizeState.DEFERRED,
    )
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE, min_replicas=1)
    full = NodeUse({"one": amounts(300, 9000 * MIB)}, {"one": amounts(700, 300 * MIB)})

    assert told(planned(snapshot_of([waiting], autoscaler, node_use=full))) == ["ResizeDeferred"]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param(use(500), "Resize", id="with room"),
        pytest.param(use(300), "Resize", id="with room for memory alone"),
        pytest.param(use(500, 50 * MIB), "PodDisruptionBudget", id="without"),
    ],
)
def test_d25_a_rescue_in_place_needs_room_as_well(left: NodeUse, expected: str) -> None:
    last = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    dying = a_container(requests=amounts(100, 100 * MIB), last_termination=last)
    pods = [structs.replace(pod, containers=(dying,)) for pod in several(2, node_name="one")]
    cure = replace(UP, target=amounts(500, 200 * MIB))
    autoscaler = an_autoscaler(cure, mode=UpdateMode.RECREATE)
    refused = PodMemory(eviction=Retry(1, NOW + minutes(1)))
    snapshot = snapshot_of(
        pods,
        autoscaler,
        node_use=left,
        pod_memory={("uid-web-0", autoscaler.identity): refused},
    )

    assert by_pod(planned(snapshot, SETTINGS))["web-0"] == expected


LARGE = Node("large", amounts(8000, 9000 * MIB))
CLOSED = replace(LARGE, taints=(Taint("maintenance", "true", "NoSchedule"),))
LITTLE = Node("little", amounts(4000, 9000 * MIB))
OLD = minutes(13 * 60)


def on_large_node(
    target: Resources, mode: UpdateMode, nodes: tuple[Node, ...], **fields: object
) -> Snapshot:
    """Two old pods of seven cores on the large node."""
    container = a_container(requests=amounts(7000, 100 * MIB))
    pods = several(2, node_name="large", age=OLD, containers=(container,), **fields)
    wanted = a_recommendation(
        target=target, lower=amounts(6000, 90 * MIB), upper=amounts(9000, 200 * MIB)
    )
    given = {node.name: node.allocatable for node in nodes}
    return snapshot_of(
        pods,
        an_autoscaler(wanted, mode=mode),
        rooms=NodeRooms(nodes),
        node_use=NodeUse(given, {"large": amounts(14000, 200 * MIB)}, nodes),
    )


@pytest.mark.parametrize("mode", [*RESIZING, UpdateMode.RECREATE])
@pytest.mark.parametrize("target", [7000, 7500])
@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param((CLOSED, LITTLE), id="its node has got a taint"),
        pytest.param((LITTLE,), id="its node is not seen"),
    ],
)
def test_d25_a_cap_by_nodes_is_no_reason_to_touch_a_running_pod(
    nodes: tuple[Node, ...], target: int, mode: UpdateMode
) -> None:
    snapshot = on_large_node(amounts(target, 100 * MIB), mode, nodes)

    assert told(planned(snapshot, SETTINGS)) == ["InsideBounds"] * 2


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(4000, "NodesTooSmall", id="less than the pod has and needs"),
        pytest.param(6000, "Evict", id="what it needs"),
        pytest.param(8000, "Evict", id="what it has"),
    ],
)
def test_d25_no_pod_is_evicted_to_come_back_smaller_than_it_needs(
    other: int, expected: str
) -> None:
    nodes = (CLOSED, replace(LITTLE, allocatable=amounts(other, 9000 * MIB)))
    snapshot = on_large_node(amounts(7000, 300 * MIB), UpdateMode.RECREATE, nodes)

    assert told(planned(snapshot, SETTINGS)) == [expected] * 2


def test_d25_a_pod_without_a_node_is_cut_to_the_largest() -> None:
    snapshot = on_large_node(amounts(7000, 100 * MIB), UpdateMode.RECREATE, (LITTLE,))
    pods = [
        replace(each, pod=structs.replace(each.pod, node_name="", phase=PodPhase.PENDING))
        for each in snapshot.pods
    ]

    assert told(planned(replace(snapshot, pods=pods), SETTINGS)) == ["Evict"] * 2


def test_d25_other_resources_of_a_pod_beyond_the_cap_grow_in_place() -> None:
    snapshot = on_large_node(amounts(7000, 300 * MIB), UpdateMode.UPSCALE_ONLY, (CLOSED, LITTLE))
    outcomes = planned(snapshot, SETTINGS)

    assert [each.wanted["app"].requests for each in outcomes if isinstance(each, Resize)] == [
        {Resource.MEMORY: 300 * MIB}
    ] * 2
