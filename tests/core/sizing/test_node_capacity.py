"""No pod becomes larger than the largest node that could take it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import planned, several, snapshot_of, told
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.changes.outcomes import Resize
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model import limits
from trimtab.core.model.autoscalers import ContainerPolicy, UpdateMode
from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.nodes import Node, NodeExpression, NodeTerm, Placement, Taint, Toleration
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.capping import cap_for_pod
from trimtab.core.sizing.node_capacity import (
    Daemon,
    DaemonSize,
    NodeRooms,
    cpu_room,
    fit_node,
    largest_nodes,
)
from trimtab.core.updates.plan_settings import PlanSettings

GIB = 1024 * MIB


def room(cpu: int, memory: int) -> LimitRangeItem:
    return LimitRangeItem(LimitRangeType.NODE, max=amounts(cpu, memory))


def a_node(cpu: int, memory: int) -> Node:
    return Node(f"n-{cpu}-{memory}", amounts(cpu, memory))


def test_of_all_nodes_those_count_that_no_other_outdoes() -> None:
    nodes = [a_node(4000, 8 * GIB), a_node(2000, 4 * GIB), a_node(1000, 64 * GIB), Node("new")]

    assert set(map(str, largest_nodes(nodes))) == {
        str(room(1000, 64 * GIB)),
        str(room(4000, 8 * GIB)),
    }
    assert largest_nodes([]) == largest_nodes([Node("new")]) == ()


def fitted(*rooms: LimitRangeItem, **targets: Resources) -> dict[str, object]:
    """What becomes of the targets of a pod with a container for each, and one of 1000m beside."""
    containers = [a_container(name=name, requests=amounts(100, 100 * MIB)) for name in targets]
    beside = a_container(name="beside", requests=amounts(1000))
    entries = [a_recommendation(name, target=each, lower=each) for name, each in targets.items()]
    found, _ = fit_node(entries, a_pod(*containers, beside), rooms)
    return {entry.container_name: entry.target for entry in found}


def test_f21_a_size_that_fits_no_node_is_scaled_for_all_containers() -> None:
    a, b = amounts(3000, GIB), amounts(1000, 3 * GIB)

    assert fitted(room(5000, 4 * GIB), a=a, b=b) == {"a": a, "b": b}
    assert fitted(room(3000, 4 * GIB), a=a, b=b) == {
        "a": amounts(1500, GIB),
        "b": amounts(500, 3 * GIB),
    }


def test_f21_of_several_nodes_the_one_counts_on_which_the_least_is_lost() -> None:
    wanted = amounts(3000, 16 * GIB)

    assert fitted(room(16000, 8 * GIB), room(3800, 64 * GIB), a=wanted) == {
        "a": amounts(2800, 16 * GIB)
    }
    assert fitted(room(16000, 8 * GIB), room(4000, 64 * GIB), a=wanted) == {"a": wanted}


def test_f21_where_what_is_not_scaled_leaves_nothing_the_recommendation_stays() -> None:
    assert fitted(room(1000, GIB), a=amounts(500)) == {"a": amounts(500)}


def test_f21_a_capped_pod_lies_inside_its_bounds_and_the_note_says_why() -> None:
    pod = a_pod()
    wanted = a_recommendation(target=amounts(9000, GIB), lower=amounts(8000, GIB))
    policy = ContainerPolicy("app", min_allowed=amounts(8500))
    capped = cap_for_pod([wanted], pod, (policy,), [room(4000, 8 * GIB)])
    (entry,) = capped.recommendations

    assert entry.target == entry.lower_bound == amounts(4000, GIB)
    assert capped.notes == {"app": (Note(Resource.CPU, NoteKind.NODE_SIZE),)}


def test_f21_a_resize_and_a_new_pod_get_the_same_size_that_a_node_has() -> None:
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(9_999_000, GIB), lower=amounts(9_999_000, GIB)),
        mode=UpdateMode.IN_PLACE,
    )
    items = [room(4000, 8 * GIB)]
    pods = several(2)
    outcomes = planned(snapshot_of(pods, autoscaler, limit_ranges={"default": items}))
    resize, _ = [each for each in outcomes if isinstance(each, Resize)]
    patch = admission_patch(pods[0], autoscaler, gates=FeatureGates(), limit_ranges=items)

    assert resize.wanted["app"].requests == amounts(4000, GIB)
    added = {each.path: str(each.value) for each in patch if isinstance(each, Add)}
    assert added["/spec/containers/0/resources/requests/cpu"] == "4"
    assert any("cpu capped to fit the largest node" in value for value in added.values())


def test_f21_a_pod_that_has_all_a_node_gives_wants_nothing_more() -> None:
    full = several(2, containers=(a_container(requests=amounts(4000, GIB)),))
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(9_000, GIB), lower=amounts(8_000, GIB))
    )
    items = [room(4000, 8 * GIB)]

    assert set(told(planned(snapshot_of(full, autoscaler, limit_ranges={"default": items})))) == {
        "InsideBounds"
    }


@pytest.mark.parametrize(
    ("has", "target", "expected"),
    [
        pytest.param([7000], [7000], [7000], id="all it has"),
        pytest.param([6500], [7000], [6500], id="no growth above the cap"),
        pytest.param([7000], [6000], [6000], id="a recommendation may take from it"),
        pytest.param([1000], [7000], [4000], id="growth up to the cap"),
        pytest.param(
            [1000, 1000], [9000, 1000], [3000, 1000], id="one container keeps what it has"
        ),
        pytest.param([3000, 3000], [9000, 2000], [3000, 2000], id="what one loses is no room"),
        pytest.param([100, 100], [6000, 2000], [3000, 1000], id="in proportion where both grow"),
    ],
)
def test_a_cap_takes_nothing_from_a_pod_on_a_node(
    has: list[int], target: list[int], expected: list[int]
) -> None:
    containers = [
        a_container(name=f"c{number}", requests=amounts(cpu, GIB)) for number, cpu in enumerate(has)
    ]
    entries = [
        a_recommendation(f"c{number}", target=amounts(cpu, GIB), lower=amounts(cpu, GIB))
        for number, cpu in enumerate(target)
    ]
    pod = a_pod(*containers, node_name="unseen")
    found, notes = fit_node(entries, pod, [room(4000, 8 * GIB)])

    assert [entry.target[Resource.CPU] for entry in found] == expected
    assert [entry.lower_bound for entry in found] == [amounts(cpu, GIB) for cpu in expected]
    assert set(notes) == {
        f"c{number}" for number, cpu in enumerate(target) if expected[number] < cpu
    }


amount = st.integers(1, 10**6)


@given(
    st.lists(st.tuples(amount, amount), min_size=1, max_size=4),
    st.lists(st.tuples(amount, amount), min_size=1, max_size=4),
)
def test_no_cap_takes_from_a_running_pod_or_lets_it_grow_beyond_a_node(
    pods: list[tuple[int, int]], nodes: list[tuple[int, int]]
) -> None:
    containers = [
        a_container(name=f"c{number}", requests=amounts(has, 1))
        for number, (has, _) in enumerate(pods)
    ]
    entries = [
        a_recommendation(f"c{number}", target=amounts(target, 1))
        for number, (_, target) in enumerate(pods)
    ]
    rooms = largest_nodes(a_node(cpu, 100) for cpu, _ in nodes)
    found, _ = fit_node(entries, a_pod(*containers, node_name="one"), rooms)
    given_cpu = [entry.target[Resource.CPU] for entry in found]

    assert all(
        min(has, target) <= cpu <= target
        for cpu, (has, target) in zip(given_cpu, pods, strict=True)
    )
    most = max(cpu for cpu, _ in nodes)
    assert sum(given_cpu) <= max(most, sum(min(has, target) for has, target in pods))


@given(
    st.lists(st.tuples(amount, amount), min_size=1, max_size=4),
    st.lists(st.tuples(amount, amount), min_size=1, max_size=4),
)
def test_f21_whatever_is_wanted_a_node_can_take_it(
    wanted: list[tuple[int, int]], nodes: list[tuple[int, int]]
) -> None:
    names = [f"c{index}" for index in range(len(wanted))]
    pod = a_pod(*(a_container(name=name, requests=amounts(1, 1)) for name in names))
    entries = [
        a_recommendation(name, target=amounts(*each), lower=amounts(*each))
        for name, each in zip(names, wanted, strict=True)
    ]
    rooms = largest_nodes(a_node(*each) for each in nodes)
    found, _ = fit_node(entries, pod, rooms)
    totals = [sum(entry.target[kind] for entry in found) for kind in BOTH]

    assert any(
        all(total <= most for total, most in zip(totals, each, strict=True)) for each in nodes
    )
    assert all(
        entry.lower_bound is not None and entry.lower_bound[kind] <= entry.target[kind]
        for entry in found
        for kind in BOTH
    )


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.UPSCALE_ONLY])
def test_f21_a_recommendation_that_no_node_can_take_moves_pods_once_at_most(
    mode: UpdateMode,
) -> None:
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(9_000, GIB), lower=amounts(8_000, GIB)), mode=mode
    )
    given_room = {"default": [room(4000, 8 * GIB)]}
    small = several(2)
    moved = [
        structs.replace(pod, containers=(a_container(requests=amounts(4000, GIB)),))
        for pod in small
    ]

    assert {"Evict", "Resize"} & set(
        told(planned(snapshot_of(small, autoscaler, limit_ranges=given_room)))
    )
    assert not {"Evict", "Resize"} & set(
        told(planned(snapshot_of(moved, autoscaler, limit_ranges=given_room)))
    )


def tainted(cpu: int, key: str) -> Node:
    return Node(f"t-{cpu}", amounts(cpu, 64 * GIB), taints=(Taint(key, "", "NoSchedule"),))


@pytest.mark.parametrize(
    ("placement", "largest"),
    [
        pytest.param(None, 8000, id="no node with a taint counts"),
        pytest.param(Placement((("pool", "small"),)), 2000, id="only the pool it asks for"),
        pytest.param(Placement(tolerations=(Toleration("gpu", "Exists"),)), 64000, id="tolerated"),
        pytest.param(Placement((("pool", "empty"),)), None, id="none of those that there are"),
        pytest.param(
            Placement(terms=(NodeTerm(fields=(NodeExpression("metadata.name", "In", ("big",)),)),)),
            8000,
            id="the node of a pod of a DaemonSet",
        ),
    ],
)
def test_f21_only_nodes_count_that_the_pod_may_go_to(
    placement: Placement | None, largest: int | None
) -> None:
    nodes = [
        Node("big", amounts(8000, 64 * GIB)),
        Node("small", amounts(2000, 64 * GIB), labels={"pool": "small"}),
        tainted(64000, "gpu"),
    ]
    pod = structs.replace(a_pod(), placement=placement)
    rooms = NodeRooms(nodes)
    expected = () if largest is None else (room(largest, 64 * GIB),)

    assert rooms.for_pod(pod) == rooms.for_pod(pod) == expected


def test_f21_siblings_that_may_go_to_different_nodes_become_differently_large() -> None:
    nodes = [
        Node("big", amounts(8000, 64 * GIB)),
        Node("small", amounts(2000, 64 * GIB), labels={"pool": "small"}),
    ]
    free, bound = several(2)
    bound = structs.replace(bound, placement=Placement((("pool", "small"),)))
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(9000, GIB), lower=amounts(8500, GIB)),
        mode=UpdateMode.IN_PLACE,
    )
    settings = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
    outcomes = planned(snapshot_of([free, bound], autoscaler, rooms=NodeRooms(nodes)), settings)
    wanted = {
        each.pod.name: each.wanted["app"].requests for each in outcomes if isinstance(each, Resize)
    }

    assert wanted == {"web-0": amounts(8000, GIB), "web-1": amounts(2000, GIB)}


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(GIB, 4000, id="the node with the most cpu"),
        pytest.param(9 * GIB, 1000, id="the only node with so much memory"),
        pytest.param(99 * GIB, 4000, id="no node has so much memory"),
    ],
)
def test_the_room_for_cpu_is_that_of_nodes_with_enough_memory(memory: int, expected: int) -> None:
    assert cpu_room([room(4000, 8 * GIB), room(1000, 64 * GIB)], memory) == expected
    assert cpu_room([], memory) is None


AGENT = WorkloadName("default", "DaemonSet", "agent")
POOL = Placement((("pool", "small"),))
TOLERATING = Placement(tolerations=(Toleration(operator="Exists"),))


def daemon(cpu: int, name: str = "agent", placement: Placement | None = None) -> Daemon:
    return Daemon(AGENT._replace(name=name), amounts(cpu, GIB), placement)


@pytest.mark.parametrize(
    ("daemons", "expected"),
    [
        pytest.param([daemon(500)], room(3500, 7 * GIB), id="one DaemonSet"),
        pytest.param(
            [daemon(500), daemon(300, "logs")], room(3200, 6 * GIB), id="two that go everywhere"
        ),
        pytest.param([daemon(500, placement=POOL)], room(4000, 8 * GIB), id="one of another pool"),
        pytest.param(
            [daemon(500, placement=TOLERATING)], room(3500, 7 * GIB), id="one that tolerates all"
        ),
        pytest.param([daemon(4000)], room(4000, 8 * GIB), id="one that cannot run there itself"),
    ],
)
def test_d25_a_node_has_room_for_what_daemon_sets_leave(
    daemons: list[Daemon], expected: LimitRangeItem
) -> None:
    rooms = NodeRooms([a_node(4000, 8 * GIB)], daemons)

    assert rooms.for_pod(a_pod()) == (expected,)


def doubtful(cpu: int, share: float, name: str = "agent", lesser: int | None = None) -> Daemon:
    size = None if lesser is None else DaemonSize(amounts(lesser, 0))
    return Daemon(AGENT._replace(name=name), amounts(cpu, 0), None, share, size)


@pytest.mark.parametrize(
    ("daemons", "expected"),
    [
        pytest.param([doubtful(7500, 0.1)], 8000, id="a typo that runs nowhere"),
        pytest.param([doubtful(7500, 0.5)], 8000, id="a typo that is rolled out"),
        pytest.param([doubtful(800, 0.1)], 7200, id="a small one that is not ready"),
        pytest.param([doubtful(801, 0.1)], 8000, id="one that is no longer small"),
        pytest.param([doubtful(4000, 0.5)], 4000, id="one that misses a node"),
        pytest.param(
            [doubtful(500, 0.1, "a"), doubtful(7500, 0.1, "b"), doubtful(200, 0.1, "c")],
            7300,
            id="small ones count beside a typo",
        ),
        pytest.param(
            [doubtful(500, 0.1, name) for name in "abc"], 7500, id="many small ones are a large one"
        ),
        pytest.param([doubtful(5000, 0.5, lesser=300)], 7700, id="the smaller of two sizes"),
        pytest.param([doubtful(3000, 0.5, lesser=300)], 5000, id="the larger of two sizes"),
        pytest.param(
            [Daemon(AGENT, amounts(7000, 0)), doubtful(200, 0.1, "b")],
            1000,
            id="a part of what others leave",
        ),
    ],
)
def test_a_daemon_set_takes_as_much_of_a_node_as_is_believed(
    daemons: list[Daemon], expected: int
) -> None:
    rooms = NodeRooms([a_node(8000, 8 * GIB)], daemons)

    assert rooms.for_pod(a_pod()) == (room(expected, 8 * GIB),)


def test_a_pod_of_a_daemon_set_in_doubt_has_its_own_place() -> None:
    rooms = NodeRooms([a_node(8000, 8 * GIB)], [doubtful(700, 0.1), doubtful(100, 0.1, "logs")])
    own = a_pod(owner=OwnerReference("DaemonSet", "agent"))

    assert rooms.for_pod(own) == (room(7900, 8 * GIB),)


def test_d25_the_largest_node_is_that_with_most_beside_its_daemons() -> None:
    nodes = [a_node(4000, 8 * GIB), Node("gpu", amounts(4200, 8 * GIB), labels={"pool": "small"})]
    rooms = NodeRooms(nodes, [daemon(1000, placement=POOL)])

    assert rooms.for_pod(a_pod()) == (room(4000, 8 * GIB),)


def test_d25_a_pod_of_a_daemon_set_has_its_own_place() -> None:
    rooms = NodeRooms([a_node(4000, 8 * GIB)], [daemon(500), daemon(300, "logs")])
    own = a_pod(owner=OwnerReference("DaemonSet", "agent"))

    assert rooms.for_pod(own) == (room(3700, 7 * GIB),)
    assert rooms.for_pod(structs.replace(own, namespace="other")) == (room(3200, 6 * GIB),)


def test_rooms_stay_the_same_object_while_nothing_changes() -> None:
    nodes, daemons = (a_node(4000, 8 * GIB), a_node(2000, 8 * GIB)), (daemon(500),)
    rooms = NodeRooms(nodes, daemons)
    grown = (a_node(6000, 8 * GIB), nodes[1])

    assert rooms.renew(nodes, daemons) is rooms
    for renewed in (rooms.renew(grown, daemons), rooms.renew(nodes, (daemon(600),))):
        fresh = NodeRooms(renewed.nodes, renewed.daemons)
        assert renewed.for_pod(a_pod()) == fresh.for_pod(a_pod()) != rooms.for_pod(a_pod())


LESSER = DaemonSize(amounts(400, GIB), 1.0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(daemon(500), replace(daemon(500), share=0.1), 3500, id="no pod is ready now"),
        pytest.param(
            replace(daemon(500), share=0.5), replace(daemon(500), share=0.1), 3500, id="half were"
        ),
        pytest.param(replace(daemon(500), share=0.1), daemon(500), 3500, id="all are ready now"),
        pytest.param(
            daemon(600), replace(daemon(500), share=0.1), 4000, id="it asks for something else"
        ),
        pytest.param(
            daemon(500),
            replace(daemon(500), share=0.1, placement=TOLERATING),
            4000,
            id="it goes elsewhere",
        ),
        pytest.param(
            daemon(500, "logs"), replace(daemon(500), share=0.1), 4000, id="another ran before"
        ),
        pytest.param(
            daemon(500),
            replace(daemon(500), share=0.1, lesser=replace(LESSER, share=0.1)),
            4000,
            id="an autoscaler gives new pods less than those that were ready",
        ),
        pytest.param(
            replace(daemon(5000), share=0.5, lesser=LESSER),
            replace(daemon(6000), share=0.1, lesser=replace(LESSER, share=0.1)),
            3600,
            id="its smaller size is as before",
        ),
    ],
)
def test_d25_a_daemon_keeps_its_place_while_its_pods_are_not_ready(
    before: Daemon, after: Daemon, expected: int
) -> None:
    nodes = (a_node(4000, 8 * GIB),)
    rooms = NodeRooms(nodes, [before]).renew(nodes, (after,))

    assert limits.amount_of(rooms.for_pod(a_pod())[0].max, Resource.CPU) == expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(node_name="n-4000-1"), True, id="another node is as large"),
        pytest.param(a_pod(node_name="big"), False, id="only its own is large enough"),
        pytest.param(
            a_pod(
                node_name="n-4000-1",
                placement=Placement(
                    terms=(
                        NodeTerm(fields=(NodeExpression("metadata.name", "In", ("n-4000-1",)),)),
                    )
                ),
            ),
            False,
            id="it may go to its own alone",
        ),
    ],
)
def test_d25_a_successor_may_find_room_elsewhere(*, pod: Pod, expected: bool) -> None:
    nodes = [
        Node("big", amounts(8000, 64 * GIB)),
        Node("n-4000-1", amounts(4000, 8 * GIB)),
        Node("n-4000-2", amounts(4000, 8 * GIB)),
    ]
    wanted = amounts(6000 if pod.node_name == "big" else 3500, GIB)

    assert NodeRooms(nodes, [daemon(500)]).takes_elsewhere(pod, wanted) is expected


def test_where_no_node_is_known_nothing_speaks_against_another() -> None:
    assert NodeRooms(()).takes_elsewhere(a_pod(node_name="one"), amounts(9000))


def test_d25_the_overhead_of_a_pod_needs_room_too() -> None:
    pod = a_pod(overhead=amounts(500))
    wanted = a_recommendation(target=amounts(9000, GIB))
    (entry,) = cap_for_pod([wanted], pod, (), [room(4000, 8 * GIB)]).recommendations

    assert entry.target == amounts(3500, GIB)
