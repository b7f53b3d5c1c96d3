"""The fake node: what it is created as, and when it can be used."""

from typing import Any

import pytest

from rig import fake_node


def a_node(*, ready: str = "True", taints: list[str] | None = None) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    spec = {"taints": [{"key": key} for key in taints]} if taints else {}
    return {"spec": spec, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("node", "is_freed", "expected"),
    [
        pytest.param(a_node(), True, True, id="ready and free of taints"),
        pytest.param(a_node(ready="False"), True, False, id="not ready"),
        pytest.param({"spec": {}, "status": {}}, True, False, id="without conditions"),
        pytest.param(a_node(taints=["not-ready"]), True, False, id="still tainted"),
        pytest.param(a_node(taints=["not-ready"]), False, True, id="nobody takes the taint"),
        pytest.param(a_node(taints=[fake_node.ONLY_FOR]), True, True, id="kept for some pods"),
    ],
)
def test_a_node_can_be_used_once_it_is_ready_and_freed(
    node: dict[str, Any], *, is_freed: bool, expected: bool
) -> None:
    assert fake_node.is_schedulable(node, is_freed=is_freed) is expected


def test_the_fake_node_is_large_and_says_that_it_is_fake() -> None:
    node = fake_node.manifest()

    assert node["metadata"]["name"] == fake_node.NAME
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    assert node["status"]["allocatable"] == {"cpu": "10k", "memory": "100Ti", "pods": "100k"}


def test_a_node_that_is_kept_for_some_pods_has_the_taint_that_these_tolerate() -> None:
    node = fake_node.manifest("small", {"cpu": "4"}, only_for="one-test")
    demands = fake_node.demands("one-test")

    (taint,), (toleration,) = node["spec"]["taints"], demands["tolerations"]
    assert (taint["key"], taint["value"]) == (toleration["key"], toleration["value"])
    assert demands["nodeSelector"].items() <= node["metadata"]["labels"].items()
    assert node["status"]["allocatable"] == {"cpu": "4"}
