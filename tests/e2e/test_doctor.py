"""`trimtab doctor` on a real API server: one thing is broken at a time, and found."""

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.worlds import World, a_small_world
from support.makers.certificates import Pair, a_pair, an_authority
from support.stages import admission as admission_stage
from support.stages import components
from support.stages.components import SLOW_SECONDS, TRIMTAB, an_account, install

from rig import controlplane, metrics_server, programs, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from rig.prometheus import Prometheus
from trimtab.core.diagnosis.components import LEASES, STATUS_LEASE
from trimtab.core.diagnosis.registry import CHECKS

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
MERGE_PATCH = "application/merge-patch+json"
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    "/verticalpodautoscalers.autoscaling.k8s.io"
)
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def ask(kubeconfig: Path, *arguments: str) -> tuple[int, dict[str, Json]]:
    """The exit code, and what was found by the name of the check."""
    done = subprocess.run(
        [TRIMTAB, "doctor", "--kubeconfig", kubeconfig, "-o", "json", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "80"},
    )
    assert done.stdout, done.stderr
    return done.returncode, {one["name"]: one for one in json.loads(done.stdout)["checks"]}


def examine(kubeconfig: Path, check: str, *arguments: str) -> tuple[str, str]:
    """How bad one check came out, and all that it said."""
    code, found = ask(kubeconfig, *arguments, "--check", check)
    (one,) = found.values()
    assert code == (3 if one["severity"] == "problem" else 0)
    return one["severity"], "\n".join(
        f"{each['subject']}: {each['text']}" for each in one["findings"]
    )


def patch(plane: ControlPlane, path: str, change: Json) -> None:
    status, body = plane.request("PATCH", path, json.dumps(change).encode(), MERGE_PATCH)
    assert status == 200, body


@pytest.fixture
def world(cluster: ControlPlane, namespace: str) -> World:
    """A Deployment with its pods and an autoscaler that recommends something."""
    target = {"cpu": "200m", "memory": "200Mi"}
    recommended = [{"containerName": "app", "target": target}]
    status = {"recommendation": {"containerRecommendations": recommended}}
    return a_small_world(cluster, namespace, status)


def _autoscale(world: World, name: str, target: str) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    manifest = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"targetRef": reference},
    }
    world.plane.create(world.autoscaler.rpartition("/")[0], manifest)


def _scale_horizontally(world: World) -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "wide"},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 3, "metrics": [metric]},
    }
    path = f"/apis/autoscaling/v2/namespaces/{world.namespace}/horizontalpodautoscalers"
    world.plane.create(path, manifest)


def _limit(world: World) -> None:
    item = {"type": "Container", "max": {"cpu": "150m"}, "default": {"cpu": "150m"}}
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}}
    path = f"/api/v1/namespaces/{world.namespace}/limitranges"
    world.plane.create(path, {**manifest, "spec": {"limits": [item]}})


# Of two autoscalers that were created within a second, the one whose name comes first is in charge.
_BREAKS: list[tuple[str, str, str, Callable[[World], None]]] = [
    ("conflicts", "warning", "/web2: it matches pods of", lambda w: _autoscale(w, "web2", "web")),
    ("targets", "problem", "Deployment/gone is not there", lambda w: _autoscale(w, "lost", "gone")),
    ("recommendations", "note", "/lost: no recommendation yet", lambda _: None),
    ("hpa", "warning", "HorizontalPodAutoscaler wide", _scale_horizontally),
    ("limits", "warning", "allows 150m", _limit),
]


def test_what_is_wrong_with_autoscalers_is_found(world: World) -> None:
    kubeconfig, where = world.plane.kubeconfig, ("-n", world.namespace)
    names = [name for name, *_ in _BREAKS]
    code, before = ask(kubeconfig, *where, "--check", *names)

    assert code == 0
    assert {name: one["severity"] for name, one in before.items()} == dict.fromkeys(names, "ok")
    for name, severity, text, break_it in _BREAKS:
        break_it(world)
        found, told = examine(kubeconfig, name, *where)

        assert (found, text in told) == (severity, True), told


def mend(plane: ControlPlane, remedy: str) -> None:
    """Type what the doctor says."""
    folders = (TRIMTAB.parent, programs.find("kubectl").parent)
    environment = {
        "PATH": ":".join(map(str, folders)),
        "KUBECONFIG": str(plane.kubeconfig),
        # kubectl remembers there what the server can do.
        "HOME": str(plane.directory),
    }
    subprocess.run(["/bin/sh", "-c", remedy], env=environment, check=True, capture_output=True)


def test_a_definition_that_lost_a_field_is_found_and_mended(cluster: ControlPlane) -> None:
    install(cluster)
    before = examine(cluster.kubeconfig, "crds")
    _, body = cluster.request("GET", DEFINITION)
    versions = json.loads(body)["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["selector"]
    patch(cluster, DEFINITION, {"spec": {"versions": versions}})
    broken = examine(cluster.kubeconfig, "crds")
    _, found = ask(cluster.kubeconfig, "--check", "crds")
    mend(cluster, found["crds"]["findings"][0]["remedy"])

    assert before[0] == "ok"
    assert broken[0] == "problem"
    assert "drops them: spec.selector" in broken[1]
    assert examine(cluster.kubeconfig, "crds")[0] == "ok"


def test_a_metrics_api_that_is_gone_is_found(cluster: ControlPlane) -> None:
    path = f"{metrics_server.REGISTRATION_PATH}/{metrics_server.REGISTRATION_NAME}"
    _, body = cluster.request("GET", path)
    registration = json.loads(body)
    kept = {key: registration[key] for key in ("apiVersion", "kind", "spec")}
    cluster.request("DELETE", path)
    try:
        waiting.wait_for(
            lambda: examine(cluster.kubeconfig, "metrics"),
            lambda told: told[0] == "problem" and "does not answer" in told[1],
            patience_seconds=SLOW_SECONDS,
        )
    finally:
        name = {"metadata": {"name": metrics_server.REGISTRATION_NAME}}
        cluster.create(metrics_server.REGISTRATION_PATH, {**kept, **name})
        cluster.wait_for(path, metrics_server.is_available)
    waiting.wait_for(
        lambda: examine(cluster.kubeconfig, "metrics")[0],
        lambda severity: severity in ("ok", "warning"),
        patience_seconds=SLOW_SECONDS,
    )


@contextmanager
def _admission(plane: ControlPlane, namespace: str, folder: Path) -> Iterator[None]:
    """An admission controller that makes its own keys, and is asked at a URL."""
    (port,) = controlplane.free_ports(1)
    flags = (
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        "--register-by-url",
        f"--webhook-address=https://{LOOPBACK}",
        f"--webhook-port={port}",
        f"--vpa-object-namespace={namespace}",
        f"--status-lease-namespace={namespace}",
        "--status-lease-update-interval=1s",
        *(f"--{flag}={folder / 'none'}" for flag in ("tls-cert-file", "tls-private-key")),
        f"--client-ca-file={folder / 'none'}",
    )
    try:
        with components.running("admission-controller", plane.kubeconfig, folder, *flags):
            yield
    finally:
        plane.request("DELETE", f"{REGISTRATIONS}/vpa-webhook-config")


def _forget_leases(plane: ControlPlane) -> None:
    """Remove the leases of components that ran before: doctor looks at those of all namespaces."""
    names = {STATUS_LEASE, *LEASES.values()}
    api = "/apis/coordination.k8s.io/v1"
    _, body = plane.request("GET", f"{api}/leases")
    for metadata in [each["metadata"] for each in json.loads(body)["items"]]:
        if metadata["name"] in names:
            place = f"{api}/namespaces/{metadata['namespace']}/leases"
            plane.request("DELETE", f"{place}/{metadata['name']}")


def test_a_webhook_is_seen_to_work_and_to_fail(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    install(cluster)
    _forget_leases(cluster)
    kubeconfig = cluster.kubeconfig
    checks = ("webhook", "certificate", "leases", "other-webhooks")
    nothing = examine(kubeconfig, "webhook")
    with _admission(cluster, namespace, tmp_path):
        well = waiting.wait_for(
            lambda: ask(kubeconfig, "--check", *checks),
            lambda told: {one["severity"] for one in told[1].values()} == {"ok"},
            patience_seconds=SLOW_SECONDS,
        )
    assert nothing[0] == "problem"
    assert "no webhook is registered" in nothing[1]
    assert well[0] == 0
    assert "came back with our patch" in str(well[1]["webhook"])
    assert "is valid for" in str(well[1]["certificate"])


@contextmanager
def _showing(pair: Pair, folder: Path) -> Iterator[int]:
    """The port of a server that shows a certificate, and says nothing else."""
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_text(text, encoding="utf-8")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = ThreadingHTTPServer((LOOPBACK, 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_certificates_that_nobody_should_believe_are_found(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    ours, stranger = an_authority(), an_authority()
    rules = [
        {
            "operations": ["CREATE"],
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
        }
    ]
    told = {}
    for name, authority, ends_in in (
        ("sound", ours, timedelta(days=30)),
        ("late", ours, timedelta(days=2)),
        ("ended", ours, -timedelta(minutes=1)),
        ("strange", stranger, timedelta(days=30)),
    ):
        pair = a_pair(authority, name, ends_in)
        with (
            _showing(pair, tmp_path) as port,
            admission_stage.registered(
                cluster, f"doctor-{namespace}", port=port, bundle=ours.certificate, rules=rules
            ),
        ):
            told[name] = examine(cluster.kubeconfig, "certificate")
    with admission_stage.registered(
        cluster, f"doctor-{namespace}", port=1, bundle=ours.certificate, rules=rules
    ):
        unreachable = examine(cluster.kubeconfig, "certificate")

    assert [severity for severity, _ in told.values()] == ["ok", "warning", "problem", "problem"]
    assert "the certificate late ends in" in told["late"][1]
    assert "the certificate ended has ended" in told["ended"][1]
    assert "no authority of the caBundle has signed the certificate strange" in told["strange"][1]
    assert unreachable[0] == "unknown"


def test_who_may_not_look_is_told_which_right_is_missing(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    install(cluster)
    stranger = an_account(cluster, namespace, [], tmp_path)
    code, found = ask(stranger, "-n", namespace)
    strict, _ = ask(stranger, "-n", namespace, "--strict")
    severities = {name: one["severity"] for name, one in found.items()}
    blind = {"crds", "leases", "webhook", "metrics", "targets", "hpa", "limits", "components"}

    assert set(severities) == {check.name for check in CHECKS}
    assert (code, strict) == (1, 3)
    assert {severities[name] for name in blind} == {"unknown"}
    assert {severities["server"], severities["clock"]} == {"ok"}
    assert "you may not list pods" in str(found["targets"])
    assert "may not" in found["rights"]["findings"][0]["text"]


def test_rights_of_components_are_asked_of_the_api_server(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    rules = yaml.safe_load(
        (ROOT / "charts/trimtab/files/rbac/updater.yaml").read_text(encoding="utf-8")
    )
    lacking = [rule for rule in rules if "pods/eviction" not in rule["resources"]]
    an_account(cluster, namespace, lacking, tmp_path, everywhere=True)
    container = {"name": "updater", "image": "trimtab", "args": ["updater"]}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trimtab-updater"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "updater"}},
            "template": {
                "metadata": {"labels": {"app": "updater"}},
                "spec": {"containers": [container]},
            },
        },
    }
    cluster.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", manifest)
    severity, told = examine(cluster.kubeconfig, "rights", "--as-components")
    (line,) = [line for line in told.splitlines() if "the work of the updater (updater)" in line]

    assert severity == "problem"
    assert line.startswith(f"{namespace}/default: may not create pods/eviction, which")


def test_a_prometheus_that_has_what_history_needs_is_seen(
    cluster: ControlPlane, world: World, fake_prometheus: Prometheus
) -> None:
    world.wait_until_measured()
    address = ("--prometheus-address", fake_prometheus.address)
    found = waiting.wait_for(
        lambda: examine(cluster.kubeconfig, "history", *address),
        lambda told: told[0] != "problem",
        patience_seconds=SLOW_SECONDS,
    )
    nowhere = ("--prometheus-address", f"http://{LOOPBACK}:1")

    assert "has the series that are needed" in found[1]
    assert examine(cluster.kubeconfig, "history", *nowhere)[0] == "problem"
