"""Where versions of Kubernetes differ in what matters to us: each run shows one of the two."""

import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from support.fakes.checkpoint_store import Checkpoints

from rig import stages
from rig.controlplane import ControlPlane
from trimtab.api.kinds.pods import decode_pod
from trimtab.cluster.auth.kubeconfig import load_kubeconfig
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ForbiddenError, InvalidError
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.writes import Acts
from trimtab.core.model.json_patch import Add

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

BEFORE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}
LOWER_LIMIT = (Add("/spec/containers/0/resources/limits/memory", "96Mi"),)
# More than the fake node has.
TOO_MUCH = (Add("/spec/containers/0/resources/requests/cpu", "20k"),)


def minor_version(plane: ControlPlane) -> int:
    _, body = plane.request("GET", "/version")
    return int(json.loads(body)["minor"])


@pytest.fixture
async def acts(cluster: ControlPlane) -> AsyncIterator[Acts]:
    clock = RealClock()
    connection = load_kubeconfig([cluster.kubeconfig], environment={}, clock=clock)
    budget = RequestBudget(clock, rate=0, burst=0)
    async with Client(connection, clock=clock, random=Random(1), budget=budget) as client:
        yield Acts(client, Checkpoints())


def start_pod(cluster: ControlPlane, namespace: str, **annotations: str) -> str:
    """The path of a pod that runs on the fake node."""
    containers = [{"name": "app", "image": "none", "resources": BEFORE}]
    metadata = {"name": "web", "annotations": annotations}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    cluster.create(pods, {**manifest, "spec": {"containers": containers}})
    cluster.wait_for(f"{pods}/web", reports_resources)
    return f"{pods}/web"


def reports_resources(pod: Json) -> bool:
    return any("resources" in each for each in pod["status"].get("containerStatuses", []))


async def test_a_resize_beyond_the_node_is_refused_by_the_server_or_left_to_the_kubelet(
    cluster: ControlPlane, namespace: str, acts: Acts
) -> None:
    path = start_pod(cluster, namespace, **{stages.ANNOTATION: "infeasible"})
    _, body = cluster.request("GET", path)
    refused: ForbiddenError | None = None
    try:
        await acts.resize(decode_pod(body), TOO_MUCH)
    except ForbiddenError as error:
        refused = error

    if minor_version(cluster) >= 36:
        assert refused is not None
        assert [cause.reason for cause in refused.causes] == ["NodeCapacity"]
        # No role would help, so nobody may take it for a missing right.
        assert refused.right is None
    else:
        assert refused is None
        assert cluster.wait_for(path, lambda pod: "PodResizePending" in json.dumps(pod["status"]))


async def test_a_lower_memory_limit_is_carried_out_or_invalid_in_the_oldest(
    cluster: ControlPlane, namespace: str, acts: Acts
) -> None:
    path = start_pod(cluster, namespace)
    _, body = cluster.request("GET", path)
    refused: InvalidError | None = None
    try:
        await acts.resize(decode_pod(body), LOWER_LIMIT)
    except InvalidError as error:
        refused = error

    if minor_version(cluster) >= 34:
        assert refused is None
        assert cluster.wait_for(path, lambda pod: "96Mi" in json.dumps(pod["status"]))
    else:
        assert refused is not None
        assert refused.causes[0].field == "spec.containers[0].resources.limits[memory]"
