"""What the real world is made of: manifests, as people would write them."""

from collections.abc import Sequence
from typing import Any

from contract.world import CUSTOM_KIND

from trimtab.api.wire.quantities import encode_amounts
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.resources import Resources

Json = dict[str, Any]

RESOURCES = {"requests": {"cpu": "100m", "memory": "100Mi"}}

RIGHTS: Sequence[tuple[str, str, str]] = (
    ("", "pods", "list watch patch create"),
    ("", "pods/eviction", "create"),
    ("", "pods/resize", "patch"),
    ("", "events", "list watch create patch"),
    ("", "limitranges", "list watch"),
    ("", "namespaces", "get"),
    ("", "nodes", "list watch"),
    ("", "resourcequotas", "list watch"),
    ("", "secrets", "get create patch"),
    ("", "replicationcontrollers", "list watch"),
    ("apps", "daemonsets", "list watch"),
    ("apps", "deployments", "list watch"),
    ("apps", "replicasets", "list watch"),
    ("apps", "statefulsets", "list watch"),
    ("batch", "cronjobs", "list watch"),
    ("batch", "jobs", "list watch"),
    ("autoscaling", "horizontalpodautoscalers", "list watch"),
    ("autoscaling.k8s.io", "verticalpodautoscalers", "list watch"),
    ("autoscaling.k8s.io", "verticalpodautoscalers/status", "patch"),
    (
        "autoscaling.k8s.io",
        "verticalpodautoscalercheckpoints",
        "get list watch create patch delete",
    ),
    ("coordination.k8s.io", "leases", "get list watch create update"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get create patch"),
    ("metrics.k8s.io", "pods", "list"),
    ("example.com", "rollouts/scale", "get"),
)
"""Everything that the adapter asks for: API group, resource and verbs."""


def role(name: str, *, without: tuple[str, str, str] | None) -> Json:
    """The role with all rights, or with all but one (group, resource, verb)."""
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for group, resource, verbs in RIGHTS
        for verb in verbs.split()
        if (group, resource, verb) != without
    ]
    return {"metadata": {"name": name}, "rules": rules}


def role_binding(name: str, user: str) -> Json:
    group = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def narrow_level(name: str) -> Json:
    """A priority level at which one request is served at a time, and others are turned away."""
    turns = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0}
    limited = {**turns, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


def flow_to_level(name: str, user: str) -> Json:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{**everything, "clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    level = {"name": name}
    spec = {"priorityLevelConfiguration": level, "matchingPrecedence": 2, "rules": [rule]}
    return {"metadata": {"name": name}, "spec": spec}


def broken_webhook(name: str, user: str) -> Json:
    """A webhook at which the server fails whenever that user writes: nobody listens there."""
    every_write = {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*/*"],
    }
    webhook = {
        "name": "broken.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [every_write],
        "matchConditions": [
            {"name": "user", "expression": f"request.userInfo.username == {user!r}"}
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def pod_template(app: str) -> Json:
    container = {"name": "app", "image": "none", "resources": RESOURCES}
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}


def workload(kind: str, name: str, replicas: int) -> Json:
    """A workload of a well-known kind."""
    selector = {"matchLabels": {"app": name}}
    spec: Json = {"template": pod_template(name)}
    match kind:
        case "Deployment" | "StatefulSet" | "ReplicaSet":
            spec |= {"selector": selector, "replicas": replicas}
        case "ReplicationController":
            spec |= {"selector": {"app": name}, "replicas": replicas}
        case "DaemonSet":
            spec |= {"selector": selector}
        case "Job":
            spec = job_spec(name, replicas)
        case _:
            # It never starts a job by itself; the test makes one, as `kubectl create job` does.
            spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job_spec(name, replicas)}}
            spec["suspend"] = True
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"metadata": {"name": name}, "spec": spec}


def job_spec(app: str, replicas: int) -> Json:
    template = pod_template(app)
    template["spec"]["restartPolicy"] = "Never"
    return {"parallelism": replicas, "completions": replicas, "template": template}


def owned_by(owner: Json, api_version: str, kind: str) -> list[Json]:
    metadata = owner["metadata"]
    named = {"apiVersion": api_version, "kind": kind, "name": metadata["name"]}
    return [{**named, "uid": metadata["uid"], "controller": True}]


def limit_range(name: str, item: LimitRangeItem) -> Json:
    limits: Json = {"type": item.type}
    for field, amounts in (("min", item.min), ("max", item.max), ("default", item.default)):
        if amounts is not None:
            limits[field] = {
                kind: f"{amount}m" if kind == "cpu" else str(amount)
                for kind, amount in amounts.items()
            }
    return {"metadata": {"name": name}, "spec": {"limits": [limits]}}


def horizontal(name: str, target: WorkloadName, container: str) -> Json:
    """One that never does anything: it wants as many pods as there are at most."""
    reference = {"apiVersion": "apps/v1", "kind": target.kind, "name": target.name}
    aim = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    metric = {"type": "Resource", "resource": aim}
    if container:
        metric = {"type": "ContainerResource", "containerResource": {**aim, "container": container}}
    spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 1, "metrics": [metric]}
    return {"metadata": {"name": name}, "spec": spec}


def disruption_budget(app: str, min_available: int) -> Json:
    spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": app}}}
    return {"metadata": {"name": app}, "spec": spec}


def starved(namespace: str, pod: str, *, memory_bytes: int, name: str) -> Json:
    """What a kubelet writes about a pod that it evicts for want of memory."""
    annotations = {
        "offending_containers": "app",
        "offending_containers_usage": str(memory_bytes),
        "starved_resource": "memory",
    }
    return {
        "metadata": {"name": name, "annotations": annotations},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": pod},
        "reason": "Evicted",
        "type": "Warning",
    }


def rollouts() -> Json:
    """The definition of the custom kind, which can be scaled and may look like anything."""
    group, _, version = CUSTOM_KIND[0].partition("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
        "subresources": {"status": {}, "scale": scale},
    }
    spec = {
        "group": group,
        "names": {"plural": "rollouts", "singular": "rollout", "kind": CUSTOM_KIND[1]},
        "scope": "Namespaced",
        "versions": [served],
    }
    return {"metadata": {"name": f"rollouts.{group}"}, "spec": spec}


def quota(name: str, requests: Resources) -> Json:
    hard = {f"requests.{kind}": amount for kind, amount in encode_amounts(requests).items()}
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


def node(described: Node) -> Json:
    """A node that nobody keeps: its machine does not exist."""
    taints = [
        {"key": one.key, "value": one.value, "effect": one.effect} for one in described.taints
    ]
    return {
        "metadata": {"name": described.name, "labels": dict(described.labels)},
        "spec": {"taints": taints, "unschedulable": described.is_unschedulable},
        "status": {"allocatable": encode_amounts(described.allocatable)},
    }
