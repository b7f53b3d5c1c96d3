"""Our components as real processes, and what they need on a real API server."""

import http.client
import json
import os
import re
import signal
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from operator import contains
from pathlib import Path
from typing import Any

import yaml

from rig import controlplane, processes, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from rig.processes import Process

Json = dict[str, Any]

ROOT = Path(__file__).parents[3]
TRIMTAB = Path(sys.executable).parent / "trimtab"
SLOW_SECONDS = 90
"""Metrics come every ten seconds, from the second reading on, on a machine that does much else."""
RULES = ROOT / "charts/trimtab/files/rbac"
PLACES = ("cluster", "namespace", "own", "keys", "registration")
"""What the names of the lists of a component end with, beside the one that is only its name."""
READING = [
    {
        "apiGroups": ["", "apps", "batch", "autoscaling.k8s.io"],
        "resources": [
            "pods",
            "limitranges",
            "replicationcontrollers",
            "deployments",
            "replicasets",
            "statefulsets",
            "daemonsets",
            "jobs",
            "cronjobs",
            "verticalpodautoscalers",
        ],
        "verbs": ["list", "watch"],
    }
]
"""The least that somebody needs who looks at autoscalers and their pods."""
PROBES = ("/health-check", "/readyz")
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Secured:
    """Where a component shows metrics and pages with TLS, to callers with a right."""

    host: str
    port: int
    token: str = ""
    """Of a caller who may read all."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags for that, beside those of a health address."""
        return (f"--address={self.host}:{self.port}", "--metrics-secure")

    def ask(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=10, context=context)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class Run:
    """A component that runs."""

    process: Process
    port: int
    secured: Secured | None = None

    def ask(self, path: str) -> tuple[int, str]:
        if self.secured is not None and path not in PROBES:
            return self.secured.ask(path, {"Authorization": f"Bearer {self.secured.token}"})
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metric(self, series: str) -> float:
        """The value of a series; 0 while there is none."""
        _, text = self.ask("/metrics")
        found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def leads(self) -> bool:
        _, text = self.ask("/metrics")
        return re.search(r"^trimtab_leading\{.*\} 1\.0$", text, re.MULTILINE) is not None

    def wait_until(self, path: str, holds: Callable[[tuple[int, str]], object]) -> tuple[int, str]:
        return waiting.wait_for(lambda: self.ask(path), holds, patience_seconds=SLOW_SECONDS)

    @property
    def pid(self) -> int:
        """The component itself: below the one that minds it."""
        return children(self.process.popen.pid)[0]

    def kill(self) -> None:
        """End it as the kernel does."""
        os.kill(self.pid, signal.SIGKILL)
        self.process.popen.wait(30)

    def end(self) -> int:
        """End it as a kubelet does; its exit code."""
        self.process.popen.terminate()
        return self.process.popen.wait(30)


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


@contextmanager
def running(
    component: str,
    kubeconfig: Path,
    folder: Path,
    *flags: str,
    name: str = "",
    secured: Secured | None = None,
) -> Iterator[Run]:
    """A component for as long as the block lasts; secured, it shows plain probes only."""
    (port,) = controlplane.free_ports(1)
    shown = [f"--address={LOOPBACK}:{port}"]
    if secured is not None:
        shown = [f"--health-address={LOOPBACK}:{port}", *secured.flags]
    given = [f"--kubeconfig={kubeconfig}", *shown, *flags]
    command = [component, "--v=5", *given]
    with processes.running(TRIMTAB, command, folder, name=name or component) as process:
        run = Run(process, port, secured)
        process.wait_until(lambda: run.ask("/health-check")[0] == 200)
        yield run


def install(plane: ControlPlane) -> None:
    """Our CRDs, served by the API server."""
    text = (ROOT / "deploy/crds.yaml").read_text(encoding="utf-8")
    for document in yaml.safe_load_all(text):
        define(plane, document)


def define(plane: ControlPlane, definition: Json) -> None:
    """Apply a CRD on the server's side, and return when objects of it can be created."""
    path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
    applied = f"{path}?fieldManager=rig&force=true"
    body = json.dumps(definition).encode()
    status, answer = plane.request("PATCH", applied, body, "application/apply-patch+yaml")
    assert status in (200, 201), answer
    plane.wait_for(path, is_established)


def is_established(definition: Json) -> bool:
    """Whether objects of a definition can be created."""
    conditions = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def rules_of(*lists: str) -> list[Json]:
    """The rules of the chart's lists with those names; a list that there is not has none."""
    paths = [RULES / f"{name}.yaml" for name in lists]
    read = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    return [rule for rules in read for rule in rules]


def rights_of(component: str) -> list[Json]:
    """All that a component may have to do, wherever it runs."""
    return rules_of(component, *(f"{component}-{place}" for place in PLACES))


@dataclass(frozen=True, slots=True)
class Lacking:
    """A right that is not given, and what is told of it."""

    group: str
    resource: str
    verb: str
    told: str

    def taken_from(self, rules: Iterable[Json]) -> list[Json]:
        """The rules without this right, one for each resource and verb."""
        single = [
            {**rule, "resources": [resource], "verbs": [verb]}
            for rule in rules
            for resource, verb in product(rule["resources"], rule["verbs"])
        ]
        left = [rule for rule in single if not self._is(rule)]
        assert len(left) < len(single)
        return left

    def _is(self, rule: Json) -> bool:
        named = (rule["apiGroups"], rule["resources"], rule["verbs"])
        return all(map(contains, named, (self.group, self.resource, self.verb)))


def an_account(
    plane: ControlPlane,
    namespace: str,
    rights: list[Json],
    folder: Path,
    *,
    everywhere: bool = False,
) -> Path:
    """The kubeconfig of an account that may do only that: in its namespace, or everywhere."""
    name, accounts = namespace, f"/api/v1/namespaces/{namespace}/serviceaccounts"
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    plane.create(f"/apis/{_RBAC}/v1/clusterroles", {**role, "rules": rights})
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding" if everywhere else "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": name}],
    }
    place = "clusterrolebindings" if everywhere else f"namespaces/{name}/rolebindings"
    plane.create(f"/apis/{_RBAC}/v1/{place}", binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.create(f"{accounts}/default/token", asked)["status"]["token"]
    document = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
