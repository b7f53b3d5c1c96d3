"""A fleet of workloads on an API server: made fast, and brought back to where each side starts.

Neither controllers nor kubelets run, so that nothing moves but what is measured; what they would
have done is written by `workloads`.
"""

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar

import aiohttp
import yaml

from bench import workloads
from bench.telling import say
from bench.workloads import Manifest, Swing, Workload
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.api.kinds.checkpoints import encode_checkpoint
from trimtab.cluster.http import paths

CRDS: Final = Path(__file__).parents[1] / "deploy/crds.yaml"
AT_ONCE: Final = 16
_CRDS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"
_SAY_EVERY_SECONDS: Final = 10.0
_SERVED_AFTER_TRIES: Final = 300
_ENDLESS: Final = aiohttp.ClientTimeout(total=None)

ItemT = TypeVar("ItemT")


class FleetError(RuntimeError):
    """A request that the API server refused."""


class Fleet:
    """The workloads of one control plane."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self._root = f"https://{LOOPBACK}:{plane.port}"
        self._session = session
        self.workloads: list[Workload] = []

    @property
    def size(self) -> int:
        """How many autoscalers there are."""
        return len(self.workloads)

    async def grow(self, size: int) -> None:
        """Make workloads until there are so many."""
        new = [Workload(number) for number in range(self.size, size)]
        known = {workload.namespace for workload in self.workloads}
        fresh = {workload.namespace for workload in new} - known
        await self._each("namespaces", sorted(fresh), self._add_namespace)
        await self._each("workloads", new, self._add)
        self.workloads += new

    async def forget(self) -> None:
        """Let it be as if nobody had recommended anything yet: no checkpoint, no status."""
        await self._delete_checkpoints()
        await self._each("statuses taken away", self.workloads, self._clear_status)

    async def remember(self, swing: Swing = Swing.NARROW) -> None:
        """Let every container have a history of eight days in its checkpoint."""
        await self._delete_checkpoints()
        now = datetime.now(UTC)

        async def write(workload: Workload) -> None:
            for checkpoint in workloads.checkpoints(workload, now, swing):
                path = paths.checkpoints(checkpoint.namespace)
                await self.send("POST", path, encode_checkpoint(checkpoint))

        await self._each("histories", self.workloads, write)

    async def wait_until_recommended(self) -> None:
        """Return as soon as every autoscaler has a recommendation."""
        missing = {(workload.namespace, workload.name) for workload in self.workloads}
        listed = json.loads(await self.send("GET", paths.autoscalers()))
        missing -= {key_of(found) for found in listed["items"] if _is_recommended(found)}
        version = listed["metadata"]["resourceVersion"]
        if missing:
            async for _, changed in self.watch(paths.autoscalers(), version):
                if _is_recommended(changed):
                    missing.discard(key_of(changed))
                if not missing:
                    return

    async def send(
        self, method: str, path: str, body: bytes | None = None, content_type: str = _JSON
    ) -> bytes:
        """What the API server answers; a FleetError if it refuses."""
        async with self._session.request(
            method, self._root + path, data=body, headers={"Content-Type": content_type}
        ) as answer:
            text = await answer.read()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise FleetError(f"{method} {path}: {text.decode(errors='replace')}")
        return text

    async def install_crds(self) -> None:
        """Let the API server know autoscalers and checkpoints."""
        manifests = list(yaml.safe_load_all(CRDS.read_text(encoding="utf-8")))
        for manifest in manifests:
            await self._create(_CRDS_PATH, manifest)
        for path in (paths.autoscalers(), paths.checkpoints()):
            await self._wait_until_served(path)

    async def _wait_until_served(self, path: str) -> None:
        for _ in range(_SERVED_AFTER_TRIES):
            with suppress(FleetError):
                await self.send("GET", path)
                return
            await asyncio.sleep(0.1)
        raise FleetError(f"{path} is not served")

    async def _add_namespace(self, name: str) -> None:
        metadata = {"metadata": {"name": name}}
        await self._create("/api/v1/namespaces", {**metadata, "kind": "Namespace"})
        # Without its account no pod is let in.
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        await self._create(accounts, {"metadata": {"name": "default"}, "kind": "ServiceAccount"})

    async def _add(self, workload: Workload) -> None:
        space = workload.namespace
        of_apps = f"/apis/apps/v1/namespaces/{space}"
        await self._create(f"{of_apps}/deployments", workloads.deployment(workload))
        await self._create(f"{of_apps}/replicasets", workloads.replica_set(workload))
        for name in workload.pods:
            await self._run(workload, workloads.pod(workload, name))
        await self._create(paths.autoscalers(space), workloads.autoscaler(workload))

    async def _run(self, workload: Workload, pod: Manifest) -> None:
        """Make a pod of a workload, and say of it what a kubelet would."""
        await self._create(paths.pods(workload.namespace), pod)
        path = paths.item(paths.pods(workload.namespace), name_of(pod), "status")
        status = {"status": workloads.running_status(datetime.now(UTC))}
        await self.send("PATCH", path, json.dumps(status).encode(), MERGE)

    async def _create(self, path: str, manifest: Manifest) -> None:
        await self.send("POST", path, json.dumps(manifest).encode())

    async def _clear_status(self, workload: Workload) -> None:
        path = paths.item(paths.autoscalers(workload.namespace), workload.name, "status")
        await self.send("PATCH", path, b'{"status":null}', MERGE)

    async def _delete_checkpoints(self) -> None:
        await self._delete_all("checkpoints", paths.checkpoints)

    async def _delete_all(self, title: str, path_in: Callable[[str], str]) -> None:
        """Let there be none of a kind in the namespaces of the workloads."""
        spaces = [name for name, _ in groupby(each.namespace for each in self.workloads)]

        async def delete(namespace: str) -> None:
            await self.send("DELETE", path_in(namespace))

        await self._each(f"namespaces without {title}", spaces, delete)

    async def watch(self, path: str, version: str) -> AsyncIterator[tuple[str, Manifest]]:
        """What happens to objects after a version: of each event the kind and the object."""
        query = f"?watch=true&resourceVersion={version}"
        url = self._root + path + query
        async with self._session.get(url, timeout=_ENDLESS) as answer:
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise FleetError(f"watch {path}: {event['object']}")
                yield event["type"], event["object"]

    async def _each(
        self, title: str, items: Sequence[ItemT], act: Callable[[ItemT], Awaitable[None]]
    ) -> None:
        """Do it to each, some at a time, and say now and then how far that is."""
        waiting = iter(items)
        done, began, said = 0, time.monotonic(), time.monotonic()

        async def work(given: Iterable[ItemT]) -> None:
            nonlocal done, said
            for item in given:
                await act(item)
                done += 1
                if time.monotonic() - said > _SAY_EVERY_SECONDS:
                    said = time.monotonic()
                    say(f"{done} of {len(items)} {title}")

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(work(waiting))
        say(f"{len(items)} {title} in {time.monotonic() - began:.1f} s")


FleetT = TypeVar("FleetT", bound=Fleet)


@asynccontextmanager
async def manned(plane: ControlPlane, kind: type[FleetT]) -> AsyncIterator[FleetT]:
    """An empty fleet of a kind on a control plane, which knows autoscalers."""
    trust = ssl.create_default_context(cafile=plane.certificates.authority)
    headers = {"Authorization": f"Bearer {plane.token}"}
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(
        headers=headers,
        timeout=timeout,
        connector=aiohttp.TCPConnector(ssl=trust, limit=2 * AT_ONCE),
        read_bufsize=2**22,
    ) as session:
        fleet = kind(plane, session)
        await fleet.install_crds()
        yield fleet


def name_of(found: Manifest) -> str:
    """What an object is called."""
    return key_of(found)[1]


def key_of(found: Manifest) -> tuple[str, str]:
    """Where an object is, and what it is called."""
    metadata = found["metadata"]
    assert isinstance(metadata, dict)
    return metadata["namespace"], metadata["name"]


def _is_recommended(found: Manifest) -> bool:
    status = found.get("status")
    return isinstance(status, dict) and bool(status.get("recommendation"))
