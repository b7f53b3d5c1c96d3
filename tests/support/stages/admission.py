"""An admission controller as a real process, asked by a real API server at a URL."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from e2e import json_server
from support.makers.certificates import a_pair, an_authority
from support.stages import components
from support.stages.components import SLOW_SECONDS, Run

from rig import controlplane, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

Json = dict[str, Any]

AUTOSCALING = "/apis/autoscaling.k8s.io/v1/namespaces"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
OBSERVED = "vpaObservedContainers"


@dataclass(frozen=True, slots=True)
class Webhook:
    """An admission controller that runs, and how the API server finds it."""

    run: Run
    port: int
    bundle: str

    @contextmanager
    def registered(self, plane: ControlPlane, name: str) -> Iterator[None]:
        """Let the API server ask it for as long as the block lasts."""
        rules = [
            _rule(["CREATE"], "", "v1", "pods"),
            _rule(["CREATE", "UPDATE"], "autoscaling.k8s.io", "*", "verticalpodautoscalers"),
        ]
        with registered(plane, name, port=self.port, bundle=self.bundle, rules=rules):
            yield


@contextmanager
def injecting(plane: ControlPlane, namespace: str, container: Json) -> Iterator[None]:
    """Add a container to all new pods of a namespace, when our own webhook was asked already."""
    patch = json.dumps([{"op": "add", "path": "/spec/containers/-", "value": container}])
    encoded = base64.b64encode(patch.encode()).decode()

    def answer(_: str, asked: bytes) -> Json:
        request = json.loads(asked)["request"]
        change = {"patchType": "JSONPatch", "patch": encoded}
        response = {"uid": request["uid"], "allowed": True}
        if request["namespace"] == namespace:
            response |= change
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return {**kind, "response": response}

    bundle = plane.certificates.authority.read_text(encoding="utf-8")
    rules = [_rule(["CREATE"], "", "v1", "pods")]
    # Webhooks are asked in the order of their names.
    with (
        json_server.serving(plane, answer) as port,
        registered(plane, "z-sidecars", port=port, bundle=bundle, rules=rules),
    ):
        yield


@contextmanager
def registered(
    plane: ControlPlane, name: str, *, port: int, bundle: str, rules: list[Json]
) -> Iterator[None]:
    """Let the API server ask a webhook for as long as the block lasts."""
    encoded = base64.b64encode(bundle.encode()).decode()
    webhook = {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}", "caBundle": encoded},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": rules,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    plane.create(REGISTRATIONS, {**kind, "metadata": {"name": name}, "webhooks": [webhook]})
    try:
        yield
    finally:
        plane.request("DELETE", f"{REGISTRATIONS}/{name}")


def _rule(operations: list[str], group: str, version: str, resource: str) -> Json:
    return {
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
    }


@contextmanager
def admission_controller(kubeconfig: Path, folder: Path, *flags: str) -> Iterator[Webhook]:
    """An admission controller with certificates from files, for as long as the block lasts."""
    authority = an_authority()
    pair = a_pair(authority, "webhook")
    (folder / "tls.crt").write_text(pair.certificate, encoding="utf-8")
    (folder / "tls.key").write_text(pair.key, encoding="utf-8")
    (folder / "ca.crt").write_text(authority.certificate, encoding="utf-8")
    (port,) = controlplane.free_ports(1)
    given = (
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key={folder / 'tls.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        "--register-webhook=false",
    )
    with components.running("admission-controller", kubeconfig, folder, *given, *flags) as run:
        run.wait_until("/readyz", lambda answer: answer[0] == 200)
        yield Webhook(run, port, authority.certificate)


def age_keys(plane: ControlPlane, secret: str, part: str, span: timedelta) -> None:
    """Let what the keyring in a Secret holds have been made long ago."""
    _, body = plane.request("GET", secret)
    data = json.loads(body)["data"]
    record = json.loads(base64.b64decode(data["keyring.json"]))
    aged = [record["shown"]] if part == "shown" else record["authorities"]
    for each in aged:
        each["madeAt"] = (datetime.fromisoformat(each["madeAt"]) - span).isoformat()
    text = base64.b64encode(json.dumps(record).encode()).decode()
    patch = json.dumps({"data": {"keyring.json": text}}).encode()
    status, body = plane.request("PATCH", secret, patch, MERGE_PATCH)
    assert status == 200, body


class Stage:
    """A namespace with one Deployment, `hamster`, and its autoscaler."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.autoscalers = f"{AUTOSCALING}/{namespace}/verticalpodautoscalers"
        self.pods = f"/api/v1/namespaces/{namespace}/pods"

    def limit(self, item: Json) -> None:
        """Let pods of the namespace have only so much."""
        path = f"/api/v1/namespaces/{self.namespace}/limitranges"
        manifest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"}}
        self.plane.create(path, {**manifest, "spec": {"limits": [item]}})
        self.plane.wait_for(f"{path}/bounds", bool)

    def autoscale(self, spec: Json, *, name: str = "hamster", target: str = "hamster") -> Json:
        """Create an autoscaler, and return it as it is stored."""
        return self.plane.create(self.autoscalers, an_autoscaler(spec, name, target))

    def try_autoscale(self, spec: Json, *, name: str = "hamster") -> tuple[int, Json]:
        """The answer to the creation of an autoscaler."""
        manifest = json.dumps(an_autoscaler(spec, name, "hamster")).encode()
        status, body = self.plane.request("POST", self.autoscalers, manifest)
        return status, json.loads(body)

    def recommend(self, targets: dict[str, Json], name: str = "hamster") -> None:
        """Write what a recommender would."""
        recommended = [
            {
                "containerName": container,
                "target": target,
                "lowerBound": target,
                "upperBound": target,
            }
            for container, target in targets.items()
        ]
        value = {"recommendation": {"containerRecommendations": recommended}}
        patch = json.dumps([{"op": "add", "path": "/status", "value": value}]).encode()
        path = f"{self.autoscalers}/{name}/status"
        status, body = self.plane.request("PATCH", path, patch, JSON_PATCH)
        assert status == 200, body

    def deploy(self, spec: Json, replicas: int = 1) -> None:
        """The Deployment with pods of that spec."""
        labels = {"app": "hamster"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "hamster"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        self.plane.create(f"/apis/apps/v1/namespaces/{self.namespace}/deployments", manifest)

    def observed_pod(self, holds: Callable[[Json], object] = lambda _: True) -> Json:
        """A pod that an autoscaler was found for; others came before their owner was known."""
        found: list[Json] = []

        def look() -> bool:
            _, body = self.plane.request("GET", self.pods)
            for pod in json.loads(body)["items"]:
                if "deletionTimestamp" in pod["metadata"]:
                    continue
                if OBSERVED in pod["metadata"].get("annotations", {}) and holds(pod):
                    found.append(pod)
                    return True
                self.plane.request("DELETE", f"{self.pods}/{pod['metadata']['name']}")
            return False

        waiting.wait_for(look, bool, patience_seconds=SLOW_SECONDS)
        return found[0]


def an_autoscaler(spec: Json, name: str, target: str) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"targetRef": reference, **spec},
    }
