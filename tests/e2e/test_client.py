"""The wire to a real API server: ways in, pages and watches, refusals, counted events.

What acts and views do there is part of the contract of all worlds, in `tests/contract`.
"""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from support.fakes.checkpoint_store import Checkpoints
from support.makers.records import NOW

from rig.controlplane import ControlPlane
from trimtab.api.kinds.events import Event, about_pod
from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.lists import decode_list
from trimtab.cluster.auth.kubeconfig import load_kubeconfig
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import InvalidError, NotFoundError, UnauthorizedError
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.writes import Acts
from trimtab.core.model.json_patch import Add
from trimtab.core.model.pods import Pod

pytestmark = pytest.mark.e2e

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


async def a_pod(client: Client, namespace: str, name: str = "web-0") -> Pod:
    """A pod that nobody runs."""
    spec = {"containers": [{"name": "app", "image": "app"}]}
    manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    created = await create(client, paths.pods(namespace), "v1", "Pod", manifest)
    return decode_pod(json.dumps(created).encode())


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


async def test_an_event_that_repeats_is_one_object_with_a_count(
    client: Client, acts: Acts, namespace: str
) -> None:
    pod = await a_pod(client, namespace)
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
    pods = [await a_pod(client, namespace, f"web-{number}") for number in range(3)]
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
