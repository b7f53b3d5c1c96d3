"""Targets of autoscalers on an API server, and the reviews that it would send of their pods.

Each target is a Deployment with its ReplicaSet, and an autoscaler that has a recommendation. Pods
are made as a dry run, so that they look as webhooks see them: with all defaults filled in.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import product
from random import Random
from typing import Final

import aiohttp

from bench import workloads
from bench.fleet import MERGE, Fleet
from bench.workloads import Manifest, Workload
from rig.controlplane import ControlPlane
from trimtab.cluster.http import paths

STRANGERS: Final = tuple(Workload(number) for number in range(99_900, 99_920))
"""Workloads without an autoscaler."""
LARGEST: Final = Workload(99_800)
"""The workload with the largest pods that the webhook sizes."""
_VARIANTS: Final = 20
"""So many pods of it come in turn: each is another one than the last."""
VARIANTS_PER_TARGET: Final = 4
"""Sizes of the pods of each target where all targets are asked about."""
_SAMPLE: Final = 100
"""Pods of so many targets are asked about in turn."""


class TargetFleet(Fleet):
    """Workloads that autoscalers are for, and some that none is for; nobody runs them."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        super().__init__(plane, session)
        self._owner_uids: dict[Workload, str] = {}
        """Of the ReplicaSets."""

    async def settle_strangers(self) -> None:
        """Make the workloads without an autoscaler."""
        for namespace in sorted({one.namespace for one in STRANGERS}):
            await self._add_namespace(namespace)
        for one in STRANGERS:
            await self._add_owners(one)

    async def settle_largest(self) -> None:
        """Make the workload with the largest pods, and its autoscaler."""
        await self._add_namespace(LARGEST.namespace)
        await self._add_owners(LARGEST)
        place = paths.autoscalers(LARGEST.namespace)
        await self._create(place, workloads.worst_autoscaler(LARGEST))
        body = json.dumps({"status": {"conditions": None, **workloads.worst_status()}}).encode()
        await self.send("PATCH", paths.item(place, LARGEST.name, "status"), body, MERGE)

    async def list_worst_reviews(self) -> list[str]:
        """Reviews of the largest pods that the webhook sizes, none like the one before."""
        uid = self._owner_uids[LARGEST]
        made = [workloads.worst_pod(LARGEST, uid, variant) for variant in range(_VARIANTS)]
        return [_write(await self._fill_in(LARGEST, each)) for each in made]

    async def list_reviews(self) -> list[str]:
        """Reviews of pods that an autoscaler is for."""
        return await self._review(self.workloads[:: -(-self.size // _SAMPLE)])

    async def scatter_reviews(self) -> Iterator[str]:
        """Reviews of pods of all targets, of each in some sizes, in random order."""
        # Completed once: tens of thousands of dry runs would say the same but for the names.
        model = await self._try_pod(self.workloads[0])
        chosen = list(product(self.workloads, range(VARIANTS_PER_TARGET)))
        Random(self.size).shuffle(chosen)
        return (
            _write(workloads.recast_pod(model, one, self._owner_uids[one], variant))
            for one, variant in chosen
        )

    async def list_strange_reviews(self) -> list[str]:
        """Reviews of pods of the workloads without an autoscaler."""
        return await self._review(STRANGERS)

    async def _review(self, chosen: Iterable[Workload]) -> list[str]:
        return [_write(await self._try_pod(one)) for one in chosen]

    async def _try_pod(self, workload: Workload) -> Manifest:
        """A pod of the workload, as the API server completes it."""
        made = workloads.new_pod(workload, workload.pods[0], self._owner_uids[workload])
        return await self._fill_in(workload, made)

    async def _fill_in(self, workload: Workload, made: Manifest) -> Manifest:
        path = f"{paths.pods(workload.namespace)}?dryRun=All"
        found: Manifest = json.loads(await self.send("POST", path, json.dumps(made).encode()))
        return found

    async def _add(self, workload: Workload) -> None:
        await self._add_owners(workload)
        path = paths.autoscalers(workload.namespace)
        await self._create(path, workloads.acting_autoscaler(workload))
        await self._recommend(workload)

    async def _recommend(self, workload: Workload) -> None:
        """Let the status of an autoscaler be what a recommender says, and nothing else."""
        path = paths.item(paths.autoscalers(workload.namespace), workload.name, "status")
        status = {"conditions": None, **workloads.recommended_status(workload)}
        await self.send("PATCH", path, json.dumps({"status": status}).encode(), MERGE)

    async def _add_owners(self, workload: Workload) -> None:
        of_apps = f"/apis/apps/v1/namespaces/{workload.namespace}"
        uid = await self._add_owner(f"{of_apps}/deployments", workloads.deployment(workload))
        replica_set = workloads.replica_set(workload, uid)
        self._owner_uids[workload] = await self._add_owner(f"{of_apps}/replicasets", replica_set)

    async def _add_owner(self, path: str, manifest: Manifest) -> str:
        made = json.loads(await self.send("POST", path, json.dumps(manifest).encode()))
        uid: str = made["metadata"]["uid"]
        return uid


def _write(pod: Manifest) -> str:
    return json.dumps(review(pod), separators=(",", ":"))


def review(pod: Manifest) -> Manifest:
    """What an API server asks when a controller creates the pod."""
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    account = "system:serviceaccount:kube-system:replicaset-controller"
    groups = [
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        "system:authenticated",
    ]
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": metadata["uid"],
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": account, "groups": groups},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }
