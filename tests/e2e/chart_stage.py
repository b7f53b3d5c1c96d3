"""The chart under test: values that people may have, and helm and kubectl on a real server."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from rig import chart, programs, waiting
from rig.controlplane import ControlPlane

Json = dict[str, Any]

COMPONENTS = ("recommender", "updater", "admissionController", "roles")
FOREIGN = {
    "monitoring.coreos.com": ("ServiceMonitor", "PodMonitor", "PrometheusRule"),
    "cert-manager.io": ("Certificate", "Issuer"),
}
"""Kinds that others bring into a cluster."""

OURS = (
    "verticalpodautoscalers.autoscaling.k8s.io",
    "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
)
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_MONITORING = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"}
_COMPONENT = {
    "replicas": 3,
    "extraEnv": [{"name": "A", "value": "b"}],
    "annotations": {"a": "b"},
    "podAnnotations": {"c": "d"},
    "podLabels": {"e": "f"},
    "updateStrategy": {"type": "Recreate"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
        },
        {
            "maxSkew": 2,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"mine": "yes"}},
        },
    ],
    "volumes": [{"name": "more", "emptyDir": {}}],
    "volumeMounts": [{"name": "more", "mountPath": "/more"}],
    "serviceAccount": {"labels": {"g": "h"}, "annotations": {"i": "j"}, "name": ""},
    "podDisruptionBudget": {"maxUnavailable": "50%"},
}
_HERE = {"namespace": "{{ .Release.Namespace }}"}
EVERYTHING: Json = {
    "commonLabels": {"team": "platform"},
    "podLabels": {"scrape": "yes"},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "system-cluster-critical",
    "image": {"tag": "sha256:" + "0" * 64},
    "crds": {"annotations": {"k": "l"}},
    "rbac": {"extraRules": [{"apiGroups": ["x"], "resources": ["y"], "verbs": ["get"]}]},
    "metrics": {
        "readers": [{"name": "prometheus", "namespace": "monitoring"}],
        "serviceMonitor": {**_MONITORING, "relabelings": [{"action": "labeldrop", "regex": "pod"}]},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Trimtab"}},
    },
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "egress": [{"ports": [{"port": 6443, "protocol": "TCP"}]}],
    },
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", **_HERE}},
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: text, namespace: {{ .Release.Name }}}}",
    ],
    **{name: dict(_COMPONENT, enabled=True) for name in COMPONENTS},
}
EVERYTHING["admissionController"] |= {
    "certManager": {"enabled": True, "createSelfSignedIssuer": {"enabled": True}},
    "mutatingWebhookConfiguration": {"failurePolicy": "Fail", "annotations": {"m": "n"}},
}
EVERYTHING["recommender"]["extraArgs"] = ["--use-external-metrics", "--storage=prometheus"]

_SELECTORS = {
    "namespaceSelector": {"matchLabels": {"vpa": "yes"}},
    "objectSelector": {"matchLabels": {"vpa": "yes"}},
}
_LIKE_THE_ORIGINAL_S: Json = {
    "admissionController": {
        "registerWebhook": False,
        "certGen": {"enabled": True, "image": {"tag": "v1"}},
        "tls": {"secretName": "vpa-tls-certs"},
        "extraArgs": ["--v=4", "--reload-cert=true"],
        "podDisruptionBudget": {"enabled": True, "minAvailable": 1, "maxUnavailable": None},
        "priorityClassName": None,
    },
    "recommender": {
        "replicas": 2,
        "leaderElection": {"enabled": None, "resourceNamespace": "kube-system"},
        "extraArgs": ["--memory-saver=true", "--pod-recommendation-min-memory-mb=32"],
    },
    "updater": {
        "extraArgs": ["--in-place-skip-disruption-budget=true"],
        "leaderElection": {"resourceName": "vpa-updater-lease"},
    },
}
_LIKE_ANOTHER_CHART_S: Json = {
    "recommender": {
        "replicaCount": 1,
        "extraArgs": {"v": "4", "pod-recommendation-min-cpu-millicores": 15},
        "podDisruptionBudget": {"maxUnavailable": 1},
    },
    "updater": {"replicaCount": 3, "extraArgs": {"eviction-rate-burst": 2000000}},
    "admissionController": {"enabled": False},
}
_NAMESPACED: Json = yaml.safe_load(
    (chart.CHART / "values-namespaced.yaml").read_text(encoding="utf-8")
)
_BROUGHT = {"enabled": True, "tls": {"existingSecret": "webhook"}}

_OF_ALL = """
affinity annotations enabled extraArgs extraEnv image.pullPolicy image.repository image.tag logLevel
nodeSelector podAnnotations podDisruptionBudget.enabled podDisruptionBudget.maxUnavailable
podDisruptionBudget.minAvailable podLabels priorityClassName replicas resources revisionHistoryLimit
serviceAccount.annotations serviceAccount.create serviceAccount.labels tolerations
topologySpreadConstraints
"""
_OF_LEADERS = "enabled leaseDuration renewDeadline resourceName resourceNamespace retryPeriod"
_OF_THE_WEBHOOK = """
certGen certManager.annotations certManager.createSelfSignedIssuer.enabled certManager.duration
certManager.enabled certManager.issuerRef.group certManager.issuerRef.kind
certManager.issuerRef.name certManager.privateKey.algorithm certManager.privateKey.size
certManager.renewBefore hostNetwork mutatingWebhookConfiguration.annotations
mutatingWebhookConfiguration.failurePolicy mutatingWebhookConfiguration.namespaceSelector
mutatingWebhookConfiguration.objectSelector mutatingWebhookConfiguration.timeoutSeconds
registerWebhook service.annotations service.name service.ports tls.secretName volumeMounts volumes
"""
_OF_THE_CHART = """
commonLabels containerSecurityContext crds.enabled crds.keep extraObjects fullnameOverride
imagePullSecrets nameOverride podSecurityContext rbac.create rbac.extraRules
"""
ORIGINAL_KEYS = (
    *_OF_THE_CHART.split(),
    *(f"{name}.{key}" for name in COMPONENTS[:3] for key in _OF_ALL.split()),
    *(f"{name}.leaderElection.{key}" for name in COMPONENTS[:2] for key in _OF_LEADERS.split()),
    *(f"admissionController.{key}" for key in _OF_THE_WEBHOOK.split()),
)
"""All values of the original's chart 0.13.0."""

CASES: Mapping[str, Json] = {
    "defaults": {},
    "everything": EVERYTHING,
    "pod-monitor": {
        "metrics": {
            "podMonitor": _MONITORING,
            "service": {"enabled": False},
            "tokenSecret": {"name": "scraping"},
        }
    },
    "open-pages": {
        "metrics": {"secure": False, "serviceMonitor": _MONITORING},
        "networkPolicy": {"enabled": False},
    },
    "own-selectors": {
        "admissionController": {
            "registerWebhook": False,
            "mutatingWebhookConfiguration": _SELECTORS,
        }
    },
    "own-certificate": {"admissionController": _BROUGHT},
    "own-accounts": {
        "rbac": {"create": False},
        **{name: {"serviceAccount": {"create": False, "name": "default"}} for name in COMPONENTS},
    },
    "one-namespace": _NAMESPACED,
    "webhook-of-one": {**_NAMESPACED, "roles": {"enabled": True}, "admissionController": _BROUGHT},
    "as-original": _LIKE_THE_ORIGINAL_S,
    "as-another": _LIKE_ANOTHER_CHART_S,
    **{
        f"only-{only.lower()}": {name: {"enabled": name == only} for name in COMPONENTS}
        for only in COMPONENTS
    },
}
"""Values by names that are names of releases and namespaces, too."""


@cache
def render(name: str) -> list[Json]:
    """The objects that the chart makes of a case; nobody changes them."""
    text = chart.render(namespace=name, release=name, values=json.dumps(CASES[name]))
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(objects: Iterable[Json], *kinds: str) -> list[Json]:
    return [each for each in objects if each["kind"] in kinds]


@dataclass(frozen=True, slots=True)
class Tools:
    """helm and kubectl, as the administrator or as somebody else."""

    plane: ControlPlane
    folder: Path
    kubeconfig: Path

    def run(
        self, program: str, *arguments: str, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        command = [str(programs.find(program)), f"--kubeconfig={self.kubeconfig}", *arguments]
        homes = {f"HELM_{each}_HOME": str(self.folder) for each in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **homes},
        )

    def helm(self, *arguments: str) -> str:
        done = self.run("helm", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: Json) -> str:
        """What kubectl says; it refuses fields that the server does not know."""
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        done = self.run("kubectl", "apply", "--server-side", "-f", "-", given=json.dumps(listed))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read(self, path: str) -> Json | None:
        """What is at a path, as the administrator sees it; None if there is nothing."""
        status, body = self.plane.request("GET", path)
        assert status in (200, 404), body
        return json.loads(body) if status == 200 else None

    def wait_until_served(self, *groups: str) -> None:
        """Wait until objects of these groups can be created."""
        for group in groups:
            self.plane.wait_for(f"/apis/{group}/v1", lambda found: found["resources"])

    def remove_definitions(self) -> None:
        """Take our definitions away, as in a cluster that never had them."""
        for path in (f"{_DEFINITIONS}/{name}" for name in OURS):
            self.plane.request("DELETE", path)
            waiting.wait_for(partial(self.read, path), lambda found: found is None)

    def wait_until_created(self, manifest: Json) -> Json:
        """The object, as soon as the server knows all of its fields."""
        path = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers"
        body = json.dumps(manifest).encode()
        strict = f"{path}?fieldValidation=Strict"
        _, answer = waiting.wait_for(
            lambda: self.plane.request("POST", strict, body), lambda said: said[0] == 201
        )
        created: Json = json.loads(answer)
        return created


def foreign_definitions() -> list[Json]:
    """CRDs for objects of any shape, of the kinds that others bring."""
    return [_definition(group, kind) for group, kinds in FOREIGN.items() for kind in kinds]


def _definition(group: str, kind: str) -> Json:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }
