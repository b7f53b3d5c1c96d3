"""Startup boosts where a LimitRange or a ResourceQuota bounds them: every pod is created (D19)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stages.admission import Webhook, admission_controller
from support.stages.components import Json, install
from support.stages.updater import Stage, updater

from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

HALF = {"cpu": "500m", "memory": "50Mi"}
TRIPLE = {"cpu": {"type": "Factor", "factor": 3, "duration": "4s"}}
LONG = {"cpu": {**TRIPLE["cpu"], "duration": "1h"}}
MARK = "vpaCpuStartupBoost/c0"


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    install(cluster)
    folder = tmp_path_factory.mktemp("admission")
    with (
        admission_controller(cluster.kubeconfig, folder) as it,
        it.registered(cluster, "vpa-webhook-config"),
    ):
        yield it


@pytest.fixture
def stage(webhook: Webhook, cluster: ControlPlane, namespace: str) -> Stage:
    assert webhook.port
    return Stage(cluster, namespace)


def allow(stage: Stage, **hard: str) -> None:
    """A quota of the namespace that has been counted once."""
    path = f"/api/v1/namespaces/{stage.namespace}/resourcequotas"
    spec = {"hard": {name.replace("_", "."): amount for name, amount in hard.items()}}
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}}
    stage.plane.create(path, {**manifest, "spec": spec})
    stage.plane.wait_for(f"{path}/team", lambda found: found.get("status", {}).get("used"))


def limits_and_requests(pods: list[Json]) -> set[tuple[str, str]]:
    found = [pod["spec"]["containers"][0]["resources"] for pod in pods]
    return {(each["requests"]["cpu"], each["limits"]["cpu"]) for each in found}


def words(pod: Json) -> str:
    text: str = pod["metadata"]["annotations"]["vpaUpdates"]
    return text


@pytest.mark.parametrize("of", ["Container", "Pod"])
def test_a_limit_range_cuts_boosts_and_keeps_no_pod_out(stage: Stage, of: str) -> None:
    stage.limit({"type": of, "max": {"cpu": "1"}})
    stage.autoscale(mode="Off", startupBoost=LONG)
    stage.deploy("web", HALF, limits=HALF, replicas=2)
    pods = stage.wait_until_observed(2)

    assert limits_and_requests(pods) == {("1", "1")}
    assert all("boost capped to fit the LimitRange" in words(pod) for pod in pods)


def test_a_container_with_the_default_limit_of_its_namespace_is_boosted_below_it(
    stage: Stage,
) -> None:
    bounds = {"type": "Container", "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}}
    stage.limit(bounds)
    stage.autoscale(mode="Off", startupBoost=LONG)
    stage.deploy("web", HALF, replicas=1)

    assert limits_and_requests(stage.wait_until_observed(1)) == {("1", "1")}


@pytest.mark.parametrize(
    ("hard", "most_millicores"),
    [
        pytest.param({"requests_cpu": "2"}, 2000, id="just enough without boosts"),
        pytest.param({"cpu": "3", "limits_cpu": "3"}, 3000, id="with some room"),
        pytest.param({"limits_cpu": "20"}, 6000, id="with all the room"),
    ],
)
def test_all_replicas_come_up_at_once_in_a_quota(
    stage: Stage, hard: dict[str, str], most_millicores: int
) -> None:
    allow(stage, **hard)
    stage.autoscale(mode="Off", startupBoost=LONG)
    stage.deploy("web", HALF, limits=HALF, replicas=4)
    pods = stage.wait_until_observed(4)
    sizes = [_millicores(pod) for pod in pods]

    assert min(sizes) >= 500
    assert sum(sizes) <= most_millicores
    if most_millicores == 2000:
        assert all("NOT boosted since no room is left" in words(pod) for pod in pods)
        assert not any(MARK in pod["metadata"]["annotations"] for pod in pods)
    if most_millicores == 6000:
        assert sizes == [1500] * 4


def test_an_updater_replaces_all_pods_in_a_tight_quota_one_by_one(
    stage: Stage, tmp_path: Path
) -> None:
    allow(stage, requests_cpu="2")
    stage.autoscale(mode="Off", startupBoost=TRIPLE)
    stage.deploy("web", HALF, limits=HALF, replicas=4)
    old = {pod["metadata"]["uid"] for pod in stage.wait_until_observed(4)}
    stage.promise_admission()
    stage.recommend({"cpu": "400m", "memory": "50Mi"})
    stage.edit({"updateMode": "Recreate"})
    with updater(stage.plane.kubeconfig, tmp_path, *stage.flags("--min-replicas=1")):
        pods = stage.wait_for_pods(
            lambda pods: (
                len(pods) == 4
                and not old & {pod["metadata"]["uid"] for pod in pods}
                and {_millicores(pod) for pod in pods} == {400}
            )
        )

    assert len(pods) == 4


def _millicores(pod: Json) -> int:
    text: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)
