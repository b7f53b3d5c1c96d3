"""One full example of every object that we decode, with its decoder, for tests over all kinds."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from trimtab.api.admission import reviews
from trimtab.api.kinds import (
    autoscalers,
    checkpoints,
    evictions,
    leases,
    limits,
    nodes,
    pods,
    workloads,
)
from trimtab.api.kinds import nodes as namespaces
from trimtab.api.usage import external_metrics, pod_metrics
from trimtab.core.model.resources import Resource

Json = Any


def encoded(value: Json) -> bytes:
    return json.dumps(value).encode()


OWNED = {
    "name": "web",
    "namespace": "default",
    "uid": "u-1",
    "resourceVersion": "7",
    "generation": 3,
    "creationTimestamp": "2026-08-01T00:00:00Z",
    "labels": {"app": "web"},
    "annotations": {"note": "kept"},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web-1",
            "uid": "y",
            "controller": True,
        },
    ],
}

AUTOSCALER = {
    "metadata": OWNED,
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "selector": {
            "matchLabels": {"role": "leader"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        },
        "updatePolicy": {
            "updateMode": "InPlaceOrRecreate",
            "minReplicas": 1,
            "evictAfterOOMSeconds": 90,
            "evictionRequirements": [
                {
                    "resources": ["cpu", "memory"],
                    "changeRequirement": "TargetHigherThanRequests",
                }
            ],
        },
        "resourcePolicy": {
            "containerPolicies": [
                {
                    "containerName": "app",
                    "mode": "Auto",
                    "minAllowed": {"cpu": "100m", "memory": "64Mi"},
                    "maxAllowed": {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": "1"},
                    "controlledResources": ["cpu"],
                    "controlledValues": "RequestsOnly",
                    "oomBumpUpRatio": "1.5",
                    "oomMinBumpUp": "50Mi",
                    "memoryAggregationIntervalSeconds": 3600,
                    "memoryAggregationIntervalCount": 4,
                    "startupBoost": {"cpu": {"type": "Quantity", "quantity": "500m"}},
                }
            ]
        },
        "recommenders": [{"name": "slow"}],
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}},
    },
    "status": {
        "recommendation": {
            "containerRecommendations": [
                {
                    "containerName": "app",
                    "target": {"cpu": "250m", "memory": "262144k"},
                    "lowerBound": {"cpu": "100m"},
                    "upperBound": {"cpu": "1"},
                    "uncappedTarget": {"cpu": "300m"},
                }
            ]
        },
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-08-02T00:00:00Z",
                "reason": "r",
                "message": "m",
            }
        ],
    },
}

_RUN = {
    "reason": "OOMKilled",
    "startedAt": "2026-08-01T00:00:00Z",
    "finishedAt": "2026-08-01T00:01:00Z",
}

POD = {
    "metadata": OWNED,
    "spec": {
        "nodeName": "node-1",
        "nodeSelector": {"disk": "fast"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        },
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "app",
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"cpu": "200m", "nvidia.com/gpu": 1},
                },
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            }
        ],
        "initContainers": [
            {"name": "setup", "resources": {"requests": {"cpu": "5"}}},
            {
                "name": "proxy",
                "restartPolicy": "Always",
                "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
            },
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-08-01T00:00:05Z",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-08-01T00:00:09Z"},
            {"type": "PodResizeInProgress", "status": "True", "reason": "", "message": ""},
        ],
        "containerStatuses": [
            {
                "name": "app",
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-08-01T00:02:00Z"}},
                "lastState": {"terminated": _RUN},
                "resources": {"requests": {"cpu": "90m"}},
            }
        ],
        "initContainerStatuses": [{"name": "proxy", "state": {"terminated": _RUN}}],
    },
}

LIMIT_RANGE = {
    "spec": {
        "limits": [
            {"type": "Container", "min": {"cpu": "1m"}, "max": {"cpu": 1}, "default": {"cpu": "2"}}
        ]
    }
}

QUOTA = {
    "metadata": {"name": "team", "namespace": "shop"},
    "spec": {"hard": {"requests.cpu": "4", "pods": "20"}},
    "status": {
        "hard": {"requests.cpu": "4", "limits.memory": "8Gi", "pods": "20"},
        "used": {"requests.cpu": "3500m", "limits.memory": "9Gi", "pods": "7"},
    },
}
NAMESPACE = {
    "metadata": {
        "name": "shop",
        "annotations": {"trimtab.dev/paused": "true", "owner": "somebody"},
    }
}
NODE = {
    "metadata": {"name": "node-0", "labels": {"kubernetes.io/arch": "amd64"}},
    "spec": {
        "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}, {"key": "drained"}],
        "unschedulable": True,
    },
    "status": {
        "allocatable": {"cpu": "3920m", "memory": "7000Mi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "8Gi"},
    },
}

_HISTOGRAM = {
    "referenceTimestamp": "2026-08-01T00:00:00Z",
    "bucketWeights": {"8": 10000, "25": 77},
    "totalWeight": 0.07278265914210938,
}

CHECKPOINT = {
    "apiVersion": "autoscaling.k8s.io/v1",
    "kind": "VerticalPodAutoscalerCheckpoint",
    "metadata": {"name": "web-app", "namespace": "default"},
    "spec": {"vpaObjectName": "web", "containerName": "app"},
    "status": {
        "lastUpdateTime": "2026-08-02T00:00:00Z",
        "version": "v3",
        "cpuHistogram": _HISTOGRAM,
        "memoryHistogram": {"referenceTimestamp": None},
        "firstSampleStart": "2026-08-01T00:00:00Z",
        "lastSampleStart": "2026-08-01T12:00:00Z",
        "totalSamplesCount": 720,
    },
}

DEPLOYMENT = {
    "metadata": OWNED,
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "replicas": 3},
    "status": {"desiredNumberScheduled": 5, "numberReady": 4},
}
REPLICATION_CONTROLLER = {"metadata": OWNED, "spec": {"selector": {"app": "web"}, "replicas": 2}}
CRON_JOB = {
    "metadata": OWNED,
    "spec": {"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"job": "nightly"}}}}}},
}
SCALE = {"metadata": OWNED, "spec": {"replicas": 9}, "status": {"selector": "app=web,!old"}}

LEASE: Json = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "lock", "namespace": "kube-system", "resourceVersion": "9"},
    "spec": {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-08-01T00:00:00.000001Z",
        "renewTime": "2026-08-01T00:00:10.123456Z",
        "leaseTransitions": 2,
    },
}

POD_METRICS = {
    "metadata": {"name": "web-0", "namespace": "default"},
    "timestamp": "2026-08-01T00:00:00Z",
    "window": "15s",
    "containers": [{"name": "app", "usage": {"cpu": "123456789n", "memory": "100Ki"}}],
}
POD_METRICS_LIST = {"metadata": {}, "items": [POD_METRICS]}

EXTERNAL_METRIC = {
    "metricName": "pod_cpu",
    "metricLabels": {"pod": "web-0", "name": "app"},
    "timestamp": "2026-08-01T00:00:00Z",
    "window": 60,
    "value": "150m",
}
EXTERNAL_METRICS = {"metadata": {}, "items": [EXTERNAL_METRIC]}

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "r-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "name": "web-0",
        "operation": "CREATE",
        "object": POD,
        "oldObject": None,
    },
}

EVICTION_EVENT = {
    "metadata": {
        "creationTimestamp": "2026-08-01T00:00:00Z",
        "annotations": {
            "offending_containers": "app,proxy,log",
            "offending_containers_usage": "1Gi,5Mi,7Ki",
            "starved_resource": "memory,ephemeral-storage,memory",
        },
    },
    "reason": "Evicted",
    "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0"},
}

DECODERS: dict[str, tuple[Callable[[bytes], object], Json]] = {
    "autoscaler": (autoscalers.decode_autoscaler, AUTOSCALER),
    "pod": (pods.decode_pod, POD),
    "limit range": (limits.decode_limit_range, LIMIT_RANGE),
    "node": (nodes.decode_node, NODE),
    "quota": (limits.decode_quota, QUOTA),
    "namespace": (namespaces.decode_namespace, NAMESPACE),
    "checkpoint": (checkpoints.decode_checkpoint, CHECKPOINT),
    "deployment": (partial(workloads.decode_workload, "Deployment"), DEPLOYMENT),
    "replication controller": (
        partial(workloads.decode_workload, "ReplicationController"),
        REPLICATION_CONTROLLER,
    ),
    "cron job": (partial(workloads.decode_workload, "CronJob"), CRON_JOB),
    "scale": (partial(workloads.decode_scale, "Rollout"), SCALE),
    "lease": (leases.decode_lease, LEASE),
    "metrics": (pod_metrics.decode_pod_metrics, POD_METRICS_LIST),
    "external metrics": (
        partial(external_metrics.decode_external_metrics, Resource.CPU),
        EXTERNAL_METRICS,
    ),
    "review": (reviews.decode_review, REVIEW),
    "eviction": (evictions.decode_memory_evictions, EVICTION_EVENT),
}
