import pytest
from support.makers.records import MIB, amounts
from support.makers.wire_examples import NODE, encoded

from trimtab.api.kinds.nodes import decode_node
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.nodes import Node, Taint


def test_a_node_is_decoded_with_what_it_gives_and_what_it_keeps_away() -> None:
    assert decode_node(encoded(NODE)) == Node(
        "node-0",
        amounts(3920, 7000 * MIB),
        labels={"kubernetes.io/arch": "amd64"},
        taints=(Taint("gpu", "true", "NoSchedule"), Taint("drained")),
        is_unschedulable=True,
        pod_slots=110,
    )


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"metadata": {"name": "new"}}', id="nothing told"),
        pytest.param(
            b'{"metadata": {"name": "new"}, "spec": {}, "status": {"allocatable": {}}}',
            id="nothing in it",
        ),
        pytest.param(
            b'{"metadata": {"name": "new", "labels": null}, "spec": null, "status": null}',
            id="only nulls",
        ),
    ],
)
def test_a_node_that_has_told_nothing_yet_gives_nothing(data: bytes) -> None:
    assert decode_node(data) == Node("new")


def test_an_amount_that_is_none_is_named_by_its_path() -> None:
    with pytest.raises(DecodeError) as caught:
        decode_node(encoded({"status": {"allocatable": {"memory": "lots"}}}))

    assert caught.value.path == "status.allocatable[memory]"
