"""Room that a pod's own node has left for it."""

import pytest
from support.makers.records import MIB, a_container, a_pod, amounts

from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.node_use import NodeUse, Shortage, growth, without_growth_of

HAS = amounts(100, 100 * MIB)


def on(node: str) -> Pod:
    return a_pod(a_container(requests=HAS), node_name=node)


def node_with(left: Resources) -> NodeUse:
    """A node that has so much left for the pod, beside itself and others."""
    given = {kind: amount + 700 for kind, amount in left.items()}
    taken = {kind: HAS[kind] + 700 for kind in left}
    return NodeUse({"one": given}, {"one": taken})


@pytest.mark.parametrize(
    ("wanted", "left", "short"),
    [
        pytest.param(amounts(900, 100 * MIB), amounts(1000), {}, id="it fits"),
        pytest.param(amounts(1000), amounts(1000), {}, id="it just fits"),
        pytest.param(
            amounts(1001, 50 * MIB),
            amounts(1000, 10 * MIB),
            {Resource.CPU: Shortage(1001, 1000)},
            id="only what grows can be too much",
        ),
        pytest.param(amounts(50), amounts(10, 10), {}, id="shrinking fits on the fullest node"),
        pytest.param(amounts(9000), {}, {}, id="nothing is known of the node"),
        pytest.param(
            amounts(200), amounts(-50), {Resource.CPU: Shortage(200, -50)}, id="an overfull node"
        ),
    ],
)
def test_a_resize_needs_more_than_there_is(
    wanted: Resources, left: Resources, short: dict[Resource, Shortage]
) -> None:
    assert node_with(left).shortages(on("one"), {"app": Allocation(wanted)}) == short


def test_what_others_of_the_same_plan_claim_is_not_left() -> None:
    wanted = {"app": Allocation(amounts(900))}
    use = node_with(amounts(1000))

    assert use.shortages(on("one"), wanted, amounts(100)) == {}
    assert use.shortages(on("one"), wanted, amounts(101)) == {Resource.CPU: Shortage(900, 899)}


@pytest.mark.parametrize("node", ["", "two"])
def test_a_pod_without_a_node_that_is_known_lacks_nothing(node: str) -> None:
    assert node_with(amounts(10)).shortages(on(node), {"app": Allocation(amounts(9000))}) == {}


def test_a_node_whose_pods_have_not_been_seen_has_all_of_itself() -> None:
    use = NodeUse({"one": amounts(4000)})

    assert use.shortages(on("one"), {"app": Allocation(amounts(4001))}) == {
        Resource.CPU: Shortage(4001, 4000)
    }


def test_what_grows_is_counted_beyond_what_the_pod_has() -> None:
    assert growth(on("one"), {"app": Allocation(amounts(900, 50 * MIB))}) == amounts(800)


def test_without_growth_the_rest_is_still_wanted() -> None:
    pod = a_pod(a_container(requests=HAS), a_container(name="side", requests=HAS))
    wanted = {
        "app": Allocation(amounts(50, 900 * MIB), amounts(100, 1800 * MIB)),
        "side": Allocation(amounts(200, 60 * MIB)),
    }

    assert without_growth_of(pod, wanted, {Resource.MEMORY}) == {
        "app": Allocation(amounts(50), amounts(100)),
        "side": Allocation(amounts(200, 60 * MIB)),
    }
