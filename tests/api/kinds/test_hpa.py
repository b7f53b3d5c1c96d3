"""HorizontalPodAutoscalers on the wire."""

import json
from typing import Any

import pytest

from trimtab.api.kinds.hpa import decode_horizontal
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.autoscalers import Held
from trimtab.core.model.hpa import Horizontal
from trimtab.core.model.resources import Resource

Json = dict[str, Any]

CPU, MEMORY = Resource.CPU, Resource.MEMORY
UTILIZATION = {"type": "Utilization", "averageUtilization": 80}


def a_document(*metrics: Json) -> bytes:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 10, "metrics": list(metrics)}
    return json.dumps({"metadata": {"namespace": "shop", "name": "hpa"}, "spec": spec}).encode()


def of_pods(name: str, target: Json = UTILIZATION) -> Json:
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def of_container(name: str, container: str) -> Json:
    source = {"name": name, "container": container, "target": UTILIZATION}
    return {"type": "ContainerResource", "containerResource": source}


@pytest.mark.parametrize(
    ("metrics", "resources", "container_resources"),
    [
        pytest.param([of_pods("cpu")], {CPU}, set(), id="utilization of CPU"),
        pytest.param(
            [of_pods("memory", {"type": "AverageValue", "averageValue": "1Gi"})],
            {MEMORY},
            set(),
            id="an average of memory",
        ),
        pytest.param(
            [of_container("cpu", "app"), of_pods("memory")],
            {MEMORY},
            {Held(CPU, "app")},
            id="CPU of one container, memory of all",
        ),
        pytest.param([of_pods("nvidia.com/gpu")], set(), set(), id="another resource"),
        pytest.param(
            [{"type": "External", "external": {"metric": {"name": "queue"}}}],
            set(),
            set(),
            id="something that is outside of the cluster",
        ),
        pytest.param(
            [{"type": "Pods", "pods": {"metric": {"name": "cpu"}}}],
            set(),
            set(),
            id="a metric of pods that only has the name of a resource",
        ),
        pytest.param([], set(), set(), id="nothing at all"),
    ],
)
def test_only_resources_that_we_change_are_read(
    metrics: list[Json], resources: set[Resource], container_resources: set[Held]
) -> None:
    decoded = decode_horizontal(a_document(*metrics))

    assert decoded == Horizontal(
        "shop",
        "hpa",
        "Deployment",
        "web",
        frozenset(resources),
        frozenset(container_resources),
    )


def test_an_object_without_anything_scales_nothing() -> None:
    assert decode_horizontal(b"{}") == Horizontal("", "", "", "")


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_horizontal(b'{"spec": []}')
