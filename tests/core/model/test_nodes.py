import pytest
from support.makers.records import amounts

from trimtab.core.model.nodes import Node, Taint, largest_allocatable
from trimtab.core.model.resources import Resource, Resources


@pytest.mark.parametrize(
    ("nodes", "most"),
    [
        pytest.param((), {}, id="no node in sight tells nothing"),
        pytest.param(
            (Node("a", amounts(4000, 100)), Node("b", amounts(2000, 300))),
            amounts(4000, 300),
            id="each resource has its own largest node",
        ),
        pytest.param(
            (Node("a", {Resource.CPU: 4000}), Node("b")),
            amounts(4000),
            id="what nobody tells is not made up",
        ),
        pytest.param(
            (
                Node("a", amounts(1000, 100)),
                Node("b", amounts(2000, 200), is_unschedulable=True),
                Node("c", amounts(3000, 50), taints=(Taint("gpu", effect="NoSchedule"),)),
            ),
            amounts(3000, 200),
            id="nodes that take no pods just now count too",
        ),
    ],
)
def test_the_most_that_any_node_gives_is_known_of_each_resource(
    nodes: tuple[Node, ...], most: Resources
) -> None:
    assert largest_allocatable(nodes) == most
