"""The client and its acts against a real API server; the state of the world is what counts."""

import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from checkpoint_store import Checkpoints
from makers import MIB, NOW, amounts

from rig.controlplane import ControlPlane
from trimtab.api.autoscalers import decode_autoscaler
from trimtab.api.checkpoints import FINGERPRINT, Checkpoint, decode_checkpoint
from trimtab.api.events import Event, about_pod
from trimtab.api.leases import Lease
from trimtab.api.lists import decode_list
from trimtab.api.pods import decode_pod
from trimtab.cluster import paths
from trimtab.cluster.acting import Acts
from trimtab.cluster.budget import RequestBudget
from trimtab.cluster.client import Client
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import (
    BudgetError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Right,
    UnauthorizedError,
)
from trimtab.cluster.kubeconfig import load_kubeconfig
from trimtab.core.autoscalers import Condition, ContainerRecommendation
from trimtab.core.checkpoint import AggregateCheckpoint
from trimtab.core.operations import Add
from trimtab.core.pods import Pod

pytestmark = pytest.mark.e2e

Kubectl = Callable[..., str]
Json = dict[str, Any]


def a_client(kubeconfig: Path) -> Client:
    clock = RealClock()
    connection = load_kubeconfig([kubeconfig], environment={}, clock=clock)
    budget = RequestBudget(clock, rate=0, burst=0)
    return Client(connection, clock=clock, random=Random(1), budget=budget)


def changed_kubeconfig(plane: ControlPlane, folder: Path, **user: object) -> Path:
    document = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = user
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
async def client(control_plane: ControlPlane, applied_crds: str) -> AsyncIterator[Client]:
    assert applied_crds
    async with a_client(control_plane.kubeconfig) as opened:
        yield opened


@pytest.fixture
def acts(client: Client) -> Acts:
    return Acts(client, Checkpoints())


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"client-{secrets.token_hex(4)}"
    await create(client, "/api/v1/namespaces", "v1", "Namespace", {"metadata": {"name": name}})
    account = {"metadata": {"name": "default", "namespace": name}}
    path = paths.collection("v1", "serviceaccounts", name)
    await create(client, path, "v1", "ServiceAccount", account)
    return name


async def create(client: Client, path: str, version: str, kind: str, manifest: Json) -> Json:
    body = json.dumps({"apiVersion": version, "kind": kind, **manifest}).encode()
    created: Json = json.loads(await client.post(path, body))
    return created


async def a_node(client: Client, name: str) -> str:
    """The name of a node that nobody runs; since 1.36 only pods of a known node are resized."""
    room = {"cpu": "8", "memory": "8Gi"}
    manifest = {"metadata": {"name": name}, "status": {"allocatable": room, "capacity": room}}
    with suppress(ConflictError):
        await create(client, "/api/v1/nodes", "v1", "Node", manifest)
    return name


async def a_running_pod(client: Client, namespace: str, name: str = "web-0") -> Pod:
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}}
    spec = {
        "automountServiceAccountToken": False,
        "nodeName": await a_node(client, "some-node"),
        "containers": [{"name": "app", "image": "app", "resources": resources}],
    }
    metadata = {"name": name, "namespace": namespace, "labels": {"app": "web"}}
    manifest = {"metadata": metadata, "spec": spec}
    await create(client, paths.pods(namespace), "v1", "Pod", manifest)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-08-22T12:00:00Z"}
    status = {"phase": "Running", "conditions": [ready]}
    patch = [{"op": "add", "path": "/status", "value": status}]
    path = paths.item(paths.pods(namespace), name, "status")
    return decode_pod(await client.patch(path, json.dumps(patch).encode()))


async def fetch_pod(client: Client, pod: Pod) -> Pod:
    return decode_pod(await client.fetch(paths.item(paths.pods(pod.namespace), pod.name)))


async def an_autoscaler(client: Client, namespace: str) -> bytes:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    manifest = {"metadata": {"name": "web"}, "spec": {"targetRef": target}}
    path = paths.autoscalers(namespace)
    await create(client, path, "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", manifest)
    return await client.fetch(paths.item(path, "web"))


RECOMMENDATION = (ContainerRecommendation("app", amounts(250, 512 * MIB)),)
CONDITIONS = (Condition("RecommendationProvided", "True", last_transition_time=NOW),)


async def test_a_published_status_is_what_the_server_shows(
    client: Client, acts: Acts, namespace: str
) -> None:
    before = decode_autoscaler(await an_autoscaler(client, namespace))

    await acts.publish_status(before, RECOMMENDATION, CONDITIONS)
    after = decode_autoscaler(await client.fetch(paths.item(paths.autoscalers(namespace), "web")))

    assert after.recommendation == RECOMMENDATION
    assert after.conditions == CONDITIONS
    assert after.observed_generation == before.generation == 1


async def test_an_unchanged_status_leaves_the_object_in_its_version(
    client: Client, acts: Acts, namespace: str
) -> None:
    path = paths.item(paths.autoscalers(namespace), "web")
    before = decode_autoscaler(await an_autoscaler(client, namespace))
    await acts.publish_status(before, RECOMMENDATION, CONDITIONS)
    published = decode_autoscaler(await client.fetch(path))
    later = replace(CONDITIONS[0], last_transition_time=NOW + timedelta(milliseconds=300))

    await acts.publish_status(published, RECOMMENDATION, (later,))

    assert decode_autoscaler(await client.fetch(path)) == published


async def test_what_is_not_there_is_not_found(client: Client, namespace: str) -> None:
    with pytest.raises(NotFoundError, match='"nobody" not found'):
        await client.fetch(paths.item(paths.pods(namespace), "nobody"))


async def test_an_object_that_the_schema_refuses_names_the_field(
    client: Client, namespace: str
) -> None:
    spec = {
        "targetRef": {"kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Maybe"},
    }
    manifest = {"metadata": {"name": "web"}, "spec": spec}

    with pytest.raises(InvalidError) as caught:
        await create(
            client,
            paths.autoscalers(namespace),
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscaler",
            manifest,
        )

    assert caught.value.causes[0].field == "spec.updatePolicy.updateMode"


async def test_f43_a_missing_right_is_named_by_verb_and_resource(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    user = {"token": control_plane.token, "as": f"system:serviceaccount:{namespace}:default"}
    pod = Pod(namespace, "web-0", uid="1")

    async with a_client(changed_kubeconfig(control_plane, tmp_path, **user)) as nobody:
        acts = Acts(nobody, Checkpoints())
        with pytest.raises(ForbiddenError) as listing:
            await nobody.fetch(paths.autoscalers())
        with pytest.raises(ForbiddenError) as evicting:
            await acts.evict(pod)
        with pytest.raises(ForbiddenError) as leasing:
            await acts.fetch_lease("kube-system", "vpa-updater")

    group = "autoscaling.k8s.io"
    assert listing.value.right == Right("list", "verticalpodautoscalers", group)
    assert evicting.value.right == Right("create", "pods/eviction", "", namespace)
    assert leasing.value.right == Right("get", "leases", "coordination.k8s.io", "kube-system")


async def test_a_token_that_the_server_does_not_know_is_unauthorized(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with a_client(changed_kubeconfig(control_plane, tmp_path, token="guess")) as stranger:
        with pytest.raises(UnauthorizedError):
            await stranger.fetch(paths.pods())


async def test_a_token_file_that_is_replaced_lets_us_in_at_once(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired", encoding="utf-8")

    async with a_client(changed_kubeconfig(control_plane, tmp_path, tokenFile="token")) as client:
        token.write_text(control_plane.token, encoding="utf-8")
        data = await client.fetch("/version")

    assert json.loads(data)["major"] == "1"


async def test_an_exec_plugin_of_version_1_lets_us_in(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    version = "client.authentication.k8s.io/v1"
    credential = {
        "apiVersion": version,
        "kind": "ExecCredential",
        "status": {"token": control_plane.token},
    }
    plugin = {"apiVersion": version, "command": "/bin/echo", "args": [json.dumps(credential)]}

    async with a_client(changed_kubeconfig(control_plane, tmp_path, exec=plugin)) as client:
        data = await client.fetch(paths.pods(), {"limit": "1"})

    assert json.loads(data)["kind"] == "PodList"


async def test_a_pod_is_evicted_in_the_version_that_was_seen(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)

    await acts.evict(pod)

    assert (await fetch_pod(client, pod)).is_deleting


async def test_a_pod_that_changed_since_it_was_seen_is_not_evicted(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)
    await acts.patch_pod(pod, (Add("/metadata/annotations", {"touched": "true"}),))

    with pytest.raises(ConflictError):
        await acts.evict(pod)

    assert not (await fetch_pod(client, pod)).is_deleting


async def test_another_pod_of_the_same_name_is_not_evicted(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)

    with pytest.raises(ConflictError):
        await acts.evict(replace(pod, uid="another", resource_version=""))

    assert not (await fetch_pod(client, pod)).is_deleting


async def test_a_disruption_budget_that_is_spent_stops_an_eviction(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)
    selector = {"matchLabels": {"app": "web"}}
    manifest = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": selector}}
    path = paths.collection("policy/v1", "poddisruptionbudgets", namespace)
    await create(client, path, "policy/v1", "PodDisruptionBudget", manifest)
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    patch = [{"op": "add", "path": "/status", "value": status}]
    await client.patch(paths.item(path, "web", "status"), json.dumps(patch).encode())

    with pytest.raises(BudgetError, match="disruption budget"):
        await acts.evict(pod)

    assert not (await fetch_pod(client, pod)).is_deleting


async def test_a_resize_in_place_changes_the_requests_of_a_running_pod(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)

    await acts.resize(pod, (Add("/spec/containers/0/resources/requests/cpu", "250m"),))
    after = await fetch_pod(client, pod)

    assert after.uid == pod.uid
    assert after.containers[0].spec.requests == amounts(250, 100 * MIB)


async def test_a_resize_that_the_server_refuses_is_invalid_and_names_the_field(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)

    with pytest.raises(InvalidError) as caught:
        await acts.resize(pod, (Add("/spec/containers/0/resources/requests/cpu", "-1"),))

    assert caught.value.causes[0].field == "spec.containers[0].resources.requests[cpu]"


async def test_another_pod_of_the_same_name_is_not_resized(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)
    patch = (Add("/spec/containers/0/resources/requests/cpu", "250m"),)

    with pytest.raises(ConflictError):
        await acts.resize(replace(pod, uid="another"), patch)

    assert (await fetch_pod(client, pod)).resource_version == pod.resource_version


async def test_an_annotation_is_added_to_the_pod_that_was_seen(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)

    await acts.patch_pod(pod, (Add("/metadata/annotations", {"vpaInPlaceUpdated": "true"}),))

    assert (await fetch_pod(client, pod)).annotations == {"vpaInPlaceUpdated": "true"}


async def test_of_two_who_renew_the_same_version_of_a_lease_one_gets_a_conflict(
    acts: Acts, namespace: str
) -> None:
    created = await acts.write_lease(Lease(namespace, "vpa-updater", holder="first"))
    renewed = await acts.write_lease(replace(created, renewed_at=NOW))

    with pytest.raises(ConflictError):
        await acts.write_lease(replace(created, holder="second"))

    assert await acts.fetch_lease(namespace, "vpa-updater") == renewed


async def test_a_lease_that_exists_cannot_be_created_again(acts: Acts, namespace: str) -> None:
    assert await acts.fetch_lease(namespace, "vpa-updater") is None
    lease = Lease(namespace, "vpa-updater", holder="first")
    await acts.write_lease(lease)

    with pytest.raises(ConflictError):
        await acts.write_lease(replace(lease, holder="second"))


async def test_a_checkpoint_is_made_overwritten_and_deleted(
    client: Client, acts: Acts, namespace: str
) -> None:
    path = paths.item(paths.checkpoints(namespace), "web-app")
    first = Checkpoint(namespace, "web", "app", AggregateCheckpoint(total_samples_count=1))
    second = replace(
        first,
        aggregate=AggregateCheckpoint(total_samples_count=2),
        annotations={FINGERPRINT: "some"},
    )

    await acts.save_checkpoint(first)
    made = decode_checkpoint(await client.fetch(path))
    # The store does not know it yet, so the server says that it exists.
    await acts.save_checkpoint(second)
    overwritten = decode_checkpoint(await client.fetch(path))
    await acts.delete_checkpoint(namespace, "web-app")
    await acts.delete_checkpoint(namespace, "web-app")

    assert made.aggregate.total_samples_count == 1
    assert overwritten.aggregate.total_samples_count == 2
    assert overwritten.fingerprint == "some"
    with pytest.raises(NotFoundError):
        await client.fetch(path)


async def test_a_checkpoint_that_the_store_still_shows_is_made_again(
    client: Client, namespace: str
) -> None:
    checkpoint = Checkpoint(namespace, "web", "app", AggregateCheckpoint(total_samples_count=1))
    acts = Acts(client, Checkpoints(checkpoint))

    await acts.save_checkpoint(checkpoint)

    path = paths.item(paths.checkpoints(namespace), "web-app")
    assert decode_checkpoint(await client.fetch(path)).aggregate.total_samples_count == 1


async def test_an_event_that_repeats_is_one_object_with_a_count(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_running_pod(client, namespace)
    event = Event(about_pod(pod), "InPlaceResizeSkipped", "It would not fit.", NOW)

    await acts.emit(event)
    await acts.emit(replace(event, at=NOW + timedelta(minutes=6)))

    found = json.loads(await client.fetch(paths.collection("v1", "events", namespace)))["items"]
    assert [(each["count"], each["lastTimestamp"]) for each in found] == [
        (2, "2026-08-22T12:06:00Z")
    ]
    assert acts.lost_events == 0


async def test_a_list_comes_in_pages_and_a_watch_goes_on_from_it(
    client: Client, acts: Acts, namespace: str
) -> None:
    pods = [await a_running_pod(client, namespace, f"web-{number}") for number in range(3)]
    path = paths.pods(namespace)

    first = decode_list(await client.fetch(path, {"limit": "2"}), decode_pod)
    rest = {"limit": "2", "continue": first.continue_token}
    last = decode_list(await client.fetch(path, rest), decode_pod)
    await acts.patch_pod(pods[0], (Add("/metadata/annotations", {"touched": "true"}),))
    watch = {"watch": "true", "resourceVersion": last.resource_version, "timeoutSeconds": "5"}
    async with aclosing(await client.stream(path, watch)) as lines:
        event = json.loads(await anext(lines))

    assert [pod.name for pod in (*first.items, *last.items)] == ["web-0", "web-1", "web-2"]
    assert (event["type"], event["object"]["metadata"]["name"]) == ("MODIFIED", "web-0")
