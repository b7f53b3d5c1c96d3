"""The world on a real API server, with real controllers and a fake node."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp
import yaml
from contract.real_link import RealLink
from contract.stage import Scenario
from contract.world import CUSTOM_KIND, Link
from support.servers.relay import LOOPBACK, relaying
from support.stages import manifests
from support.stages.administrator import (
    CLOCK,
    PATIENCE_SECONDS,
    Administrator,
    a_client,
    wait_until,
)
from support.stages.manifests import Json

from rig import stages
from rig.controlplane import ControlPlane, Part
from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.checkpoints import Checkpoint, decode_checkpoint
from trimtab.api.wire.lists import decode_list
from trimtab.cluster.errors import NotFoundError, Right
from trimtab.cluster.http import paths
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.live.webhook_host import LiveWebhookHost
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.cluster.watch.interning import decode_thrifty_pod
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod, PodPhase, ResizeState, WorkloadName
from trimtab.core.model.resources import Resources

if TYPE_CHECKING:
    from trimtab.cluster import ports

_CRDS = Path(__file__).parents[2] / "deploy/crds.yaml"
_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_USED_CPU = "kwok.x-k8s.io/usage-cpu"
_USED_MEMORY = "kwok.x-k8s.io/usage-memory"
_KINDS = {
    "CronJob": ("batch/v1", "cronjobs"),
    "DaemonSet": ("apps/v1", "daemonsets"),
    "Deployment": ("apps/v1", "deployments"),
    "Job": ("batch/v1", "jobs"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "ReplicationController": ("v1", "replicationcontrollers"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    CUSTOM_KIND[1]: (CUSTOM_KIND[0], "rollouts"),
}
_RESIZES = {
    ResizeState.DEFERRED: "deferred",
    ResizeState.INFEASIBLE: "infeasible",
    ResizeState.IN_PROGRESS: "in-progress",
    ResizeState.ERROR: "error",
}


class RealWorld:
    """A namespace of a real cluster."""

    def __init__(self, plane: ControlPlane, namespace: str, client: Client) -> None:
        self._plane = plane
        self._administrator = Administrator(client)
        self._links = 0
        self.namespace = namespace
        self.clock: ports.Clock = CLOCK

    def elapsed(self) -> timedelta:
        return CLOCK.elapsed()

    async def restart(self) -> None:
        await asyncio.to_thread(_restart_all, self._plane)
        # Custom kinds are served a moment after all others.
        await wait_until(lambda: self._administrator.is_served(self._path("Autoscaler")))
        await wait_until(lambda: self._administrator.is_served(self._path("Checkpoint")))

    async def forget_history(self) -> None:
        listed = await self._administrator.read("/api/v1/namespaces")
        url = f"http://{LOOPBACK}:{self._plane.ports.etcd}/v3/kv/compaction"
        order = {"revision": int(listed["metadata"]["resourceVersion"]), "physical": True}
        async with aiohttp.ClientSession() as session, session.post(url, json=order) as answer:
            assert answer.status == 200, await answer.text()
        # The server remembers by itself what its store has forgotten, until it is restarted.
        await self.restart()

    @asynccontextmanager
    async def joined(self, *, without: Right | None = None) -> AsyncIterator[Link]:
        self._links += 1
        user = f"{self.namespace}-{self._links}"
        async with AsyncExitStack() as stack:
            await self._let_in(stack, user, without)
            relay = await stack.enter_async_context(relaying(self._plane.port))
            client = await stack.enter_async_context(a_client(self._plane, relay.port, user))
            scope = Scope(
                self.namespace,
                leases=True,
                nodes=True,
                quotas=True,
                namespaces=True,
                memory_evictions=True,
                horizontals=True,
            )
            cluster = LiveCluster(client, scope, clock=CLOCK, random=Random(1))
            usage = MetricsApi(client, self.namespace)
            stack.push_async_callback(_end, asyncio.create_task(cluster.run()))
            if without is None:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await cluster.synced()
            yield RealLink(
                self._plane,
                self._administrator,
                user,
                client,
                relay,
                cluster,
                usage,
                LiveWebhookHost(client),
            )

    async def _let_in(self, stack: AsyncExitStack, user: str, without: Right | None) -> None:
        lacking = (without.group, without.resource, without.verb) if without else None
        existing = self._administrator.existing
        role = manifests.role(user, without=lacking)
        await stack.enter_async_context(existing(_ROLES, role))
        binding = manifests.role_binding(user, user)
        await stack.enter_async_context(existing(_BINDINGS, binding))
        await wait_until(lambda: self._may_read_usage(user))

    async def _may_read_usage(self, user: str) -> bool:
        """Whether the roles are in force by now; nobody lacks this right."""
        asked = {"group": "metrics.k8s.io", "resource": "pods", "verb": "list"}
        review = await self._administrator.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {"spec": {"user": user, "resourceAttributes": asked}},
        )
        return bool(review["status"]["allowed"])

    async def list_pods(self) -> Sequence[Pod]:
        data = await self._administrator.fetch(self._path("Pod"))
        return decode_list(data, decode_thrifty_pod).items

    async def list_autoscalers(self) -> Sequence[Autoscaler]:
        data = await self._administrator.fetch(self._path("Autoscaler"))
        return decode_list(data, decode_autoscaler).items

    async def list_checkpoints(self) -> Sequence[Checkpoint]:
        data = await self._administrator.fetch(self._path("Checkpoint"))
        return decode_list(data, decode_checkpoint).items

    async def create_pod(
        self, name: str, *, resize: ResizeState | None = None, is_placed: bool = True
    ) -> None:
        manifest = manifests.pod_template(name)
        manifest["metadata"]["name"] = name
        if resize is not None:
            manifest["metadata"]["annotations"] = {stages.ANNOTATION: _RESIZES[resize]}
        if not is_placed:
            manifest["spec"]["schedulerName"] = "nobody"
        await self._administrator.create(self._path("Pod"), manifest)
        if is_placed:
            await wait_until(lambda: self._runs(name, replicas=1))

    async def label_pod(self, name: str, label: str, value: str) -> None:
        changes = {"metadata": {"labels": {label: value}}}
        await self._administrator.change(self._path("Pod", name), changes)

    async def delete_pod(self, name: str) -> None:
        await self._administrator.delete(self._path("Pod", name) + "?gracePeriodSeconds=0")

    async def create_workload(self, kind: str, name: str, *, replicas: int = 1) -> WorkloadName:
        if kind == CUSTOM_KIND[1]:
            await self._create_rollout(name, replicas)
        else:
            created = await self._administrator.create(
                self._path(kind), manifests.workload(kind, name, replicas)
            )
            if kind == "CronJob":
                job = manifests.workload("Job", f"{name}-1", replicas)
                job["spec"] = manifests.job_spec(name, replicas)
                await self._create_owned("Job", job, created, ("batch/v1", kind))
        await wait_until(lambda: self._runs(name, replicas=replicas))
        return WorkloadName(self.namespace, kind, name)

    async def create_autoscaler(self, name: str, target: WorkloadName) -> None:
        reference = {"apiVersion": _KINDS[target.kind][0], "kind": target.kind, "name": target.name}
        manifest = {"metadata": {"name": name}, "spec": {"targetRef": reference}}
        manifest |= {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler"}
        await self._administrator.create(self._path("Autoscaler"), manifest)

    async def delete_autoscaler(self, name: str) -> None:
        await self._administrator.delete(self._path("Autoscaler", name))

    async def delete_registration(self, name: str) -> None:
        await self._administrator.delete(paths.item(_REGISTRATIONS, name))

    async def create_disruption_budget(self, app: str, *, min_available: int) -> None:
        path = paths.collection("policy/v1", "poddisruptionbudgets", self.namespace)
        await self._administrator.create(path, manifests.disruption_budget(app, min_available))

        async def holds() -> bool:
            budget = await self._administrator.read(paths.item(path, app))
            return bool(budget.get("status", {}).get("observedGeneration"))

        await wait_until(holds)

    async def scale_horizontally(self, target: WorkloadName, *, container: str = "") -> None:
        await self._administrator.create(
            self._horizontals, manifests.horizontal("hpa", target, container)
        )

    async def delete_horizontal(self) -> None:
        await self._administrator.delete(paths.item(self._horizontals, "hpa"))

    @property
    def _horizontals(self) -> str:
        return paths.collection("autoscaling/v2", "horizontalpodautoscalers", self.namespace)

    async def create_limit_range(self, name: str, item: LimitRangeItem) -> None:
        path = paths.collection("v1", "limitranges", self.namespace)
        await self._administrator.create(path, manifests.limit_range(name, item))

    async def create_quota(self, name: str, requests: Resources) -> None:
        path = paths.collection("v1", "resourcequotas", self.namespace)
        await self._administrator.create(path, manifests.quota(name, requests))

        async def is_counted() -> bool:
            found = await self._administrator.read(paths.item(path, name))
            return bool(found.get("status", {}).get("used"))

        await wait_until(is_counted)

    async def annotate_namespace(self, annotation: str, value: str) -> None:
        path = paths.item(paths.collection("v1", "namespaces"), self.namespace)
        await self._administrator.change(path, {"metadata": {"annotations": {annotation: value}}})

    @asynccontextmanager
    async def node(self, node: Node) -> AsyncIterator[None]:
        async with self._administrator.existing("/api/v1/nodes", manifests.node(node)):
            yield

    async def spoil_checkpoint(self, name: str) -> None:
        spoiled = {"status": {"cpuHistogram": {"bucketWeights": {"0": "many"}}}}
        manifest = {"metadata": {"name": name}, **spoiled}
        manifest |= {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
        }
        try:
            await self._administrator.change(self._path("Checkpoint", name), spoiled)
        except NotFoundError:
            await self._administrator.create(self._path("Checkpoint"), manifest)

    async def set_usage(self, pod: str, *, cpu_millicores: int, memory_bytes: int) -> None:
        usage = {_USED_CPU: f"{cpu_millicores}m", _USED_MEMORY: str(memory_bytes)}
        changes = {"metadata": {"annotations": usage}}
        await self._administrator.change(self._path("Pod", pod), changes)

    async def starve_pod(self, pod: str, *, memory_bytes: int) -> None:
        name = f"{pod}.{secrets.token_hex(8)}"
        event = manifests.starved(self.namespace, pod, memory_bytes=memory_bytes, name=name)
        await self._administrator.create(self._path("Event"), event)

    async def _create_rollout(self, name: str, replicas: int) -> None:
        api_version, kind = CUSTOM_KIND
        manifest = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"replicas": replicas},
        }
        created = await self._administrator.create(self._path(kind), manifest)
        status = {"status": {"replicas": replicas, "selector": f"app={name}"}}
        await self._administrator.change(self._path(kind, name) + "/status", status)
        replica_set = manifests.workload("ReplicaSet", f"{name}-1", replicas)
        replica_set["spec"]["selector"] = {"matchLabels": {"app": name}}
        replica_set["spec"]["template"] = manifests.pod_template(name)
        await self._create_owned("ReplicaSet", replica_set, created, CUSTOM_KIND)

    async def _create_owned(
        self, kind: str, manifest: Json, owner: Json, owner_kind: tuple[str, str]
    ) -> None:
        manifest["metadata"]["ownerReferences"] = manifests.owned_by(owner, *owner_kind)
        await self._administrator.create(self._path(kind), manifest)

    async def _runs(self, app: str, *, replicas: int) -> bool:
        """Whether so many pods run and report their resources, without which none is resized."""
        query = urlencode({"labelSelector": f"app={app}"})
        data = await self._administrator.fetch(f"{self._path('Pod')}?{query}")
        pods = decode_list(data, decode_thrifty_pod).items
        return len(pods) == replicas and all(map(_is_well, pods))

    def _path(self, kind: str, name: str = "") -> str:
        match kind:
            case "Autoscaler":
                path = paths.autoscalers(self.namespace)
            case "Checkpoint":
                path = paths.checkpoints(self.namespace)
            case "Pod":
                path = paths.pods(self.namespace)
            case "Event":
                path = paths.collection("v1", "events", self.namespace)
            case _:
                path = paths.collection(*_KINDS[kind], self.namespace)
        return paths.item(path, name) if name else path


def _restart_all(plane: ControlPlane) -> None:
    plane.restart_apiserver()
    # Left alone, these come back by themselves, after waiting for up to a minute.
    for part in (Part.CONTROLLERS, Part.SCHEDULER, Part.NODE):
        plane.processes[part].restart()


def _is_well(pod: Pod) -> bool:
    # The fake node ends pods of jobs as soon as they run.
    return pod.phase is PodPhase.SUCCEEDED or (
        pod.phase is PodPhase.RUNNING
        and pod.ready_since is not None
        and all(container.status is not None for container in pod.containers)
    )


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@asynccontextmanager
async def opened(plane: ControlPlane) -> AsyncIterator[RealWorld]:
    """A namespace of its own, in which pods are let in."""
    namespace = f"contract-{secrets.token_hex(4)}"
    path = paths.item("/api/v1/namespaces", namespace)
    async with a_client(plane, plane.port) as client:
        administrator = Administrator(client)
        await administrator.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        await wait_until(lambda: administrator.is_served(f"{path}/serviceaccounts/default"))
        try:
            yield RealWorld(plane, namespace, client)
        finally:
            await administrator.delete(path)


async def prepare(plane: ControlPlane) -> None:
    """Let the server know our kinds, one that can be scaled, and the metrics API."""
    ours = [document for document in yaml.safe_load_all(_CRDS.read_text("utf-8")) if document]
    async with a_client(plane, plane.port) as client:
        administrator = Administrator(client)
        for manifest in (*ours, manifests.rollouts()):
            await administrator.create(_DEFINITIONS, manifest)
        for place in (
            paths.autoscalers(),
            paths.checkpoints(),
            paths.collection(CUSTOM_KIND[0], "rollouts"),
        ):
            await wait_until(partial(administrator.is_served, place))


def play(plane: ControlPlane, scenario: Scenario) -> None:
    """Play the scenario in a namespace of its own."""

    async def run() -> None:
        async with opened(plane) as world:
            await scenario(world)

    try:
        asyncio.run(run())
    except BaseException as error:
        error.add_note(plane.last_words())
        raise
