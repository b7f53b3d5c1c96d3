"""The workloads that components are measured on, as objects: two pods of two containers each.

Everything follows from a workload's number, so that each run and each side meets the same. No
controller is needed: what one would have made is written down here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random
from typing import Final

import numpy as np

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS, BucketScheme
from trimtab.core.histogram.checkpoint import MAX_WEIGHT, AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.size_bounds import MAX_CONTAINERS

PODS: Final = 2
CONTAINERS: Final = ("app", "proxy")
WORST_CONTAINERS: Final = tuple(f"app-{number:03}" for number in range(MAX_CONTAINERS))
PER_NAMESPACE: Final = 100
CPU_SPREAD: Final = 0.15
"""The standard deviation of the logarithm of a container's usage."""
MEMORY_SPREAD: Final = 0.002
"""Working sets are much steadier than that."""
WIDE_SWING: Final = 0.5
"""Wide usage lies anywhere between half and one and a half times the average."""
USUAL_MILLICORES: Final = 100
USUAL_BYTES: Final = 128 * 1024 * 1024
NODE: Final = "bench-node"
NO_UID: Final = "00000000-0000-4000-8000-000000000000"
"""Of an owner by whose name alone it is known."""
_HASH: Final = "7d4b9c8f6d"
_DAYS: Final = 8
_HISTORY_BUCKETS: Final = range(-9, 10)
_EVEN_SAMPLES: Final = 10_000
_TICKS_PER_DAY: Final = 24 * 60
_CPU_WEIGHT: Final = 0.1
"""What one sample of a container weighs that asks for so many cores."""
_DECAYED_DAYS: Final = 1.44
"""What endless days weigh together that halve from each to the one before."""

Manifest = dict[str, object]
Amounts = Mapping[str, Mapping[str, str]]
"""By container what it asks for, by resource."""


@dataclass(frozen=True, slots=True)
class Appetite:
    """What a container uses on average."""

    cpu_cores: float
    memory_bytes: float


class Swing(StrEnum):
    """How far usage moves from one reading to the next."""

    NARROW = "narrow"
    """CPU by 15 %, memory by next to nothing, around the average."""
    WIDE = "wide"
    """Both by up to half of the average, every amount as likely."""

    def draw(self, appetite: Appetite, chance: Random) -> Appetite:
        """Draw one reading."""
        match self:
            case Swing.NARROW:
                cpu = math.exp(chance.gauss(0.0, CPU_SPREAD))
                memory = math.exp(chance.gauss(0.0, MEMORY_SPREAD))
            case Swing.WIDE:
                cpu = chance.uniform(1 - WIDE_SWING, 1 + WIDE_SWING)
                memory = chance.uniform(1 - WIDE_SWING, 1 + WIDE_SWING)
        return Appetite(appetite.cpu_cores * cpu, appetite.memory_bytes * memory)


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment with its pods and its autoscaler."""

    number: int

    @property
    def namespace(self) -> str:
        """Where it is."""
        return f"bench-{self.number // PER_NAMESPACE:03}"

    @property
    def name(self) -> str:
        """The name of its Deployment and of its autoscaler."""
        return f"web-{self.number:05}"

    @property
    def owner(self) -> str:
        """The name of its ReplicaSet."""
        return f"{self.name}-{_HASH}"

    @property
    def pods(self) -> list[str]:
        """The names of its pods."""
        return [f"{self.owner}-{index:05}" for index in range(PODS)]

    @property
    def labels(self) -> dict[str, str]:
        """What its pods have in common."""
        return {"app": self.name, "team": self.namespace}

    def appetites(self) -> Mapping[str, Appetite]:
        """What each container of its pods uses."""
        own = Random(self.number)
        return {
            name: Appetite(own.uniform(0.02, 0.5), own.uniform(50e6, 500e6)) for name in CONTAINERS
        }


def deployment(workload: Workload) -> Manifest:
    """The Deployment."""
    spec = {"replicas": PODS, "selector": {"matchLabels": workload.labels}}
    return _object(
        workload, "apps/v1", "Deployment", spec={**spec, "template": _template(workload)}
    )


def replica_set(workload: Workload, deployment_uid: str = NO_UID) -> Manifest:
    """The ReplicaSet, as a Deployment would have made it."""
    labels = {**workload.labels, "pod-template-hash": _HASH}
    template = _template(workload)
    template["metadata"] = {"labels": labels}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            **_metadata(workload, workload.owner),
            "labels": labels,
            "ownerReferences": [_controller("Deployment", workload.name, deployment_uid)],
        },
        "spec": {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template},
    }


def pod(workload: Workload, name: str, owner_uid: str = NO_UID) -> Manifest:
    """A pod, as a ReplicaSet would have made it and a scheduler would have placed it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_metadata(workload, name),
            "labels": {**workload.labels, "pod-template-hash": _HASH},
            "ownerReferences": [_controller("ReplicaSet", workload.owner, owner_uid)],
        },
        "spec": {**_pod_spec(usual(workload)), "nodeName": NODE},
    }


def mortal_pod(workload: Workload, name: str, owner_uid: str, amounts: Amounts) -> Manifest:
    """A placed pod that asks for so much, and is gone as soon as anybody evicts it."""
    spec = {**_pod_spec(amounts), "nodeName": NODE, "terminationGracePeriodSeconds": 0}
    return {**pod(workload, name, owner_uid), "spec": spec}


def new_pod(workload: Workload, name: str, owner_uid: str) -> Manifest:
    """A pod as a ReplicaSet makes it, which nobody has placed yet."""
    return {**pod(workload, name, owner_uid), "spec": _pod_spec(usual(workload))}


def recast_pod(model: Manifest, workload: Workload, owner_uid: str, variant: int) -> Manifest:
    """A pod of a workload like one that an API server has completed; each variant asks for more."""
    made = new_pod(workload, workload.pods[0], owner_uid)
    metadata, spec = model["metadata"], model["spec"]
    own = made["metadata"]
    assert isinstance(metadata, dict)
    assert isinstance(own, dict)
    assert isinstance(spec, dict)
    asked = {"cpu": f"{USUAL_MILLICORES + 1 + variant}m", "memory": str(USUAL_BYTES)}
    containers = [{**each, "resources": {"requests": asked}} for each in spec["containers"]]
    uid = f"{workload.number:08x}-{variant:04x}-4000-8000-000000000000"
    return {
        **model,
        "metadata": {**metadata, **own, "uid": uid},
        "spec": {**spec, "containers": containers},
    }


def running_status(now: datetime) -> Manifest:
    """What a kubelet would say of a pod that runs."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": moment,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": moment} for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": name,
                "image": "none",
                "imageID": "none",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": moment}},
            }
            for name in CONTAINERS
        ],
    }


def autoscaler(workload: Workload) -> Manifest:
    """The autoscaler of a workload; it only recommends."""
    return _autoscaler(workload, "Off")


def acting_autoscaler(workload: Workload) -> Manifest:
    """The autoscaler of a workload; it gives pods their size."""
    return _autoscaler(workload, "Recreate")


def recommended_status(workload: Workload) -> Manifest:
    """What a recommender would say of a workload."""
    kinds = ("lowerBound", "target", "uncappedTarget", "upperBound")
    told = [
        {"containerName": name, **dict.fromkeys(kinds, amounts)}
        for name, amounts in enough(workload).items()
    ]
    return {"recommendation": {"containerRecommendations": told}}


def enough(workload: Workload) -> Amounts:
    """What is recommended for the containers of a workload."""
    return {
        name: {
            "cpu": f"{appetite.cpu_cores * 1000:.0f}m",
            "memory": f"{appetite.memory_bytes:.0f}",
        }
        for name, appetite in workload.appetites().items()
    }


def usual(_workload: Workload) -> Amounts:
    """What the containers of every workload ask for before anybody has recommended anything."""
    asked = {"cpu": f"{USUAL_MILLICORES}m", "memory": str(USUAL_BYTES)}
    return dict.fromkeys(CONTAINERS, asked)


def worst_autoscaler(workload: Workload) -> Manifest:
    """An autoscaler with a policy and a boost for each container of the largest pod."""
    made = _autoscaler(workload, "Recreate")
    boost = {"cpu": {"type": "Factor", "factor": 2}}
    policies = [
        {"containerName": name, "minAllowed": {"cpu": "10m"}, "startupBoost": boost}
        for name in WORST_CONTAINERS
    ]
    spec = made["spec"]
    assert isinstance(spec, dict)
    return {**made, "spec": {**spec, "resourcePolicy": {"containerPolicies": policies}}}


def worst_status() -> Manifest:
    """What a recommender would say of the largest pod."""
    amounts = {"cpu": "200m", "memory": "200Mi"}
    told = [{"containerName": name, "target": amounts} for name in WORST_CONTAINERS]
    return {"recommendation": {"containerRecommendations": told}}


def worst_pod(workload: Workload, owner_uid: str, variant: int) -> Manifest:
    """The largest pod that the webhook sizes; another variant asks for something else."""
    asked = {"cpu": f"{100 + variant}m", "memory": str(USUAL_BYTES)}
    made = new_pod(workload, workload.pods[0], owner_uid)
    return {**made, "spec": _pod_spec(dict.fromkeys(WORST_CONTAINERS, asked))}


def urgency(workload: Workload) -> tuple[bool, float]:
    """How urgently pods with the usual amounts want what is recommended, as the original has it.

    Those that would grow come first, and of these those that are off by the larger share.
    """
    wanted = workload.appetites().values()
    cpu = [each.cpu_cores * 1000 / USUAL_MILLICORES for each in wanted]
    memory = [each.memory_bytes / USUAL_BYTES for each in wanted]
    shares = [abs(sum(amounts) / len(CONTAINERS) - 1) for amounts in (cpu, memory)]
    return max(*cpu, *memory) > 1, sum(shares)


def checkpoints(
    workload: Workload, now: datetime, swing: Swing = Swing.NARROW
) -> Iterator[Checkpoint]:
    """Eight days of history of each container, around what it uses."""
    samples = PODS * _TICKS_PER_DAY
    # Both sides move references by whole half-lives only.
    reference = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, appetite in workload.appetites().items():
        cpu, memory = _histories(appetite, swing)
        aggregate = AggregateCheckpoint(
            cpu_histogram=HistogramCheckpoint(
                reference, cpu, samples * _CPU_WEIGHT * _DECAYED_DAYS
            ),
            memory_histogram=HistogramCheckpoint(reference, memory, PODS * _DECAYED_DAYS),
            first_sample_start=now - timedelta(days=_DAYS),
            last_sample_start=now - timedelta(minutes=1),
            total_samples_count=samples * _DAYS,
            last_update_time=now,
        )
        yield Checkpoint(workload.namespace, workload.name, name, aggregate)


def _histories(appetite: Appetite, swing: Swing) -> tuple[dict[int, int], dict[int, int]]:
    """The weights of buckets of CPU usage and of daily memory peaks."""
    match swing:
        case Swing.NARROW:
            cpu = _spread(CPU_BUCKETS, appetite.cpu_cores, CPU_SPREAD)
            return cpu, _spread(MEMORY_BUCKETS, appetite.memory_bytes, MEMORY_SPREAD)
        case Swing.WIDE:
            least, most = (part * appetite.cpu_cores for part in (1 - WIDE_SWING, 1 + WIDE_SWING))
            # Of the readings of a day the largest is close to the largest that there can be.
            peak = (1 + WIDE_SWING) * appetite.memory_bytes
            return _even(CPU_BUCKETS, least, most), _even(MEMORY_BUCKETS, 0.995 * peak, peak)


def _even(scheme: BucketScheme, least: float, most: float) -> dict[int, int]:
    """The weights of buckets of which every amount between two is as likely."""
    found = np.bincount(scheme.find(np.linspace(least, most, _EVEN_SAMPLES)))
    weights = np.rint(MAX_WEIGHT * found / found.max()).astype(np.int64)
    return {bucket: weight for bucket, weight in enumerate(weights.tolist()) if weight}


def _spread(scheme: BucketScheme, mean: float, spread: float) -> dict[int, int]:
    """The weights of buckets around a mean."""
    middle = int(scheme.find(np.array([mean]))[0])
    step = math.log(scheme.ratio) / spread
    weights = {
        middle + place: round(MAX_WEIGHT * math.exp(-((place * step) ** 2) / 2))
        for place in _HISTORY_BUCKETS
    }
    return {bucket: weight for bucket, weight in weights.items() if bucket >= 0 and weight}


def _autoscaler(workload: Workload, mode: str) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name}
    spec: Manifest = {"targetRef": target, "updatePolicy": {"updateMode": mode}}
    return _object(workload, "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", spec=spec)


def _object(workload: Workload, version: str, kind: str, *, spec: Manifest) -> Manifest:
    metadata = _metadata(workload, workload.name)
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _metadata(workload: Workload, name: str) -> Manifest:
    return {"name": name, "namespace": workload.namespace}


def _controller(kind: str, name: str, uid: str) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def _template(workload: Workload) -> Manifest:
    return {"metadata": {"labels": workload.labels}, "spec": _pod_spec(usual(workload))}


def _pod_spec(amounts: Amounts) -> Manifest:
    containers = [
        {"name": name, "image": "none", "resources": {"requests": requests}}
        for name, requests in amounts.items()
    ]
    return {"containers": containers, "automountServiceAccountToken": False}
