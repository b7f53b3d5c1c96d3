"""Metrics and pages with TLS and rights, by the word of a real API server.

Components are fresh processes. The API server passes requests on to them as to pods, which it never
does to a loopback address, so they listen at one of documentation's that only this machine has.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.rights_stage import Account
from e2e.worlds import World, a_template
from support.stages.components import (
    READING,
    ROOT,
    SLOW_SECONDS,
    TRIMTAB,
    Json,
    Run,
    Secured,
    install,
    rules_of,
    running,
)

from rig import controlplane, waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

HOST = "198.51.100.77"
PAGES = ("/plan", "/metrics", "/explain/pods")
ADMINISTRATING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


def rules_of_role(name: str) -> list[Json]:
    """The rules of a ClusterRole that the chart makes."""
    text = (ROOT / "deploy/trimtab.yaml").read_text(encoding="utf-8")
    (found,) = [
        each
        for each in yaml.safe_load_all(text)
        if each and (each["kind"], each["metadata"]["name"]) == ("ClusterRole", name)
    ]
    rules: list[Json] = found["rules"]
    return rules


@dataclass(frozen=True, slots=True)
class Scene:
    """An updater that runs as its own account, and some callers."""

    plane: ControlPlane
    namespace: str
    updater: Run
    shown: Secured
    scraper: Account
    stranger: Account
    pages: Account

    def ask_as(self, account: Account, path: str) -> tuple[int, str]:
        return self.shown.ask(path, {"Authorization": f"Bearer {account.fetch_token()}"})

    def fetch_narrow(self, account: Account) -> str:
        """A token for pages alone."""
        spec = {"audiences": ["trimtab"], "expirationSeconds": 600}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account.name}/token"
        return str(self.plane.create(path, asked)["status"]["token"])

    def ask_through_server(self, path: str, pod: str) -> tuple[int, str]:
        proxied = f"/api/v1/namespaces/{self.namespace}/pods/https:{pod}:/proxy{path}"
        status, body = self.plane.request("GET", proxied)
        return status, body.decode()


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    """An address of this machine alone."""
    added = subprocess.run(
        ["ip", "address", "add", f"{HOST}/32", "dev", "lo"], capture_output=True, check=False
    )
    if added.returncode != 0:
        pytest.skip("no address can be added to this machine")
    yield HOST
    subprocess.run(["ip", "address", "del", f"{HOST}/32", "dev", "lo"], check=True)


@pytest.fixture(scope="module")
def scene(
    cluster: ControlPlane, host: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    install(cluster)
    folder = tmp_path_factory.mktemp("pages")
    (port,) = controlplane.free_ports(1)
    with cluster.own_namespace() as namespace:
        accounts = {
            name: Account(cluster, namespace, name)
            for name in ("updater", "scraper", "stranger", "trimtab-pages")
        }
        accounts["updater"].allow_everywhere(
            [*rules_of_role("trimtab-updater"), *rules_of("updater-own")]
        )
        accounts["scraper"].allow_everywhere(rules_of_role("trimtab-metrics-reader"))
        accounts["trimtab-pages"].allow_everywhere(rules_of_role("trimtab-pages-reader"))
        world = World(cluster, namespace)
        world.deploy(a_template())
        world.autoscale()
        shown = Secured(host, port)
        flags = ("--updater-interval=1s", "--use-admission-controller-status=false")
        kubeconfig = accounts["updater"].write_kubeconfig(folder)
        try:
            with running("updater", kubeconfig, folder, *flags, secured=shown) as run:
                yield Scene(
                    cluster,
                    namespace,
                    run,
                    shown,
                    accounts["scraper"],
                    accounts["stranger"],
                    accounts["trimtab-pages"],
                )
        finally:
            for account in accounts.values():
                account.leave()


@pytest.fixture(scope="module")
def installed(scene: Scene) -> str:
    """A pod of a Deployment that runs the updater, as far as the API server knows."""
    labels = {"app.kubernetes.io/part-of": "trimtab", "app.kubernetes.io/component": "updater"}
    container = {
        "name": "updater",
        "image": "trimtab",
        "args": ["updater", "--metrics-secure"],
        "ports": [{"containerPort": scene.shown.port, "name": "metrics"}],
    }
    template = {
        "metadata": {"labels": labels},
        # No node: the pod is where we say.
        "spec": {"containers": [container], "schedulerName": "none"},
    }
    place = f"namespaces/{scene.namespace}"
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trimtab-updater", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    scene.plane.create(f"/apis/apps/v1/{place}/deployments", deployment)
    pod: Json = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] = {"name": "trimtab-updater-0", "labels": labels}
    scene.plane.create(f"/api/v1/{place}/pods", pod)
    status = {"status": {"podIP": scene.shown.host, "podIPs": [{"ip": scene.shown.host}]}}
    path = f"/api/v1/{place}/pods/trimtab-updater-0/status"
    answer = scene.plane.request(
        "PATCH", path, json.dumps(status).encode(), "application/merge-patch+json"
    )
    assert answer[0] == 200, answer
    return "trimtab-updater-0"


def explain(kubeconfig: Path, scene: Scene, *arguments: str) -> Any:
    where = ["--components-namespace", scene.namespace]
    command = [str(TRIMTAB), "explain", "web", "-n", scene.namespace, "-o", "json", *where]
    done = subprocess.run(
        [*command, "--kubeconfig", str(kubeconfig), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", PAGES)
def test_who_has_no_token_sees_nothing(scene: Scene, path: str) -> None:
    status, text = scene.shown.ask(path)
    forged, _ = scene.shown.ask(path, {"Authorization": "Bearer forged"})

    assert (status, forged) == (401, 401)
    assert text.startswith(f"{path} needs a token")


def test_an_account_without_the_right_is_refused_by_name(scene: Scene) -> None:
    status, text = scene.ask_as(scene.stranger, "/metrics")

    assert status == 403
    name = f"system:serviceaccount:{scene.namespace}:stranger"
    assert text.startswith(f"{name} may not get /metrics")


def test_an_account_with_the_right_to_scrape_reads_metrics_and_nothing_else(scene: Scene) -> None:
    status, text = scene.ask_as(scene.scraper, "/metrics")

    assert status == 200
    assert "# TYPE process_resident_memory_bytes gauge\n" in text
    assert [scene.ask_as(scene.scraper, path)[0] for path in PAGES] == [403, 200, 403]


def test_a_token_for_pages_opens_pages_and_not_the_api_server(scene: Scene) -> None:
    token = scene.fetch_narrow(scene.pages)
    opened = [scene.shown.ask(path, {"Trimtab-Token": token})[0] for path in PAGES]
    as_bearer, _ = scene.shown.ask("/plan", {"Authorization": f"Bearer {token}"})
    from_outside, _ = scene.shown.ask("/plan", {"Trimtab-Token": scene.scraper.fetch_token()})
    there, _ = replace(scene.plane, token=token).request("GET", "/api/v1/namespaces")

    assert opened == [200, 403, 200]
    assert (as_bearer, from_outside) == (401, 401)
    assert there == 401


def test_a_kubelet_needs_neither_tls_nor_a_token(scene: Scene) -> None:
    assert scene.updater.wait_until("/readyz", (200, "OK").__eq__) == (200, "OK")
    assert scene.updater.ask("/health-check") == (200, "OK")
    plain = replace(scene.updater, secured=None)
    assert [plain.ask(path)[0] for path in PAGES] == [404] * 3


def test_the_api_server_passes_no_credentials_on(scene: Scene, installed: str) -> None:
    status, text = scene.ask_through_server("/plan", installed)

    assert (status, text.startswith("/plan needs a token")) == (401, True)


def test_explain_finds_a_secured_component_through_the_api_server(
    scene: Scene, installed: str
) -> None:
    found = waiting.wait_for(
        lambda: explain(scene.plane.kubeconfig, scene),
        lambda told: told["plan"]["source"] == "updater",
        patience_seconds=SLOW_SECONDS,
    )

    assert found["plan"]["remarks"][0] == f"answered by the pod {installed} in {scene.namespace}"


@pytest.mark.usefixtures("installed")
def test_explain_asks_a_secured_component_at_its_address(scene: Scene) -> None:
    address = f"https://{scene.shown.host}:{scene.shown.port}"
    found = waiting.wait_for(
        lambda: explain(scene.plane.kubeconfig, scene, "--from", address),
        lambda told: told["plan"]["source"] == "updater",
        patience_seconds=SLOW_SECONDS,
    )

    assert [each["pod"] for each in found["plan"]["pods"]]


def test_who_has_the_role_for_it_gets_explanations_of_components(
    scene: Scene, installed: str, tmp_path: Path
) -> None:
    person = Account(scene.plane, scene.namespace, "reader")
    person.allow_in(scene.namespace, [*rules_of("people-view", "people-explain"), *READING])
    try:
        found = explain(person.write_kubeconfig(tmp_path), scene)
    finally:
        person.leave()

    assert found["plan"]["source"] == "updater"
    assert found["plan"]["remarks"][0] == f"answered by the pod {installed} in {scene.namespace}"


def test_explain_says_what_it_lacks_where_it_gets_no_token(
    scene: Scene, installed: str, tmp_path: Path
) -> None:
    del installed
    rules = [*rules_of("people-view"), {**ADMINISTRATING[0], "verbs": ["get", "list", "watch"]}]
    person = Account(scene.plane, scene.namespace, "person")
    person.allow_everywhere(rules)
    try:
        found = explain(person.write_kubeconfig(tmp_path), scene)
    finally:
        person.leave()

    assert found["plan"]["source"] == "cluster"
    assert any("serviceaccounts/token" in remark for remark in found["plan"]["remarks"])


def test_doctor_still_knows_the_component(scene: Scene, installed: str) -> None:
    del installed
    done = subprocess.run(
        [str(TRIMTAB), "doctor", "--kubeconfig", str(scene.plane.kubeconfig), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert f"{scene.namespace}/trimtab-updater" in done.stdout, done.stderr


def test_a_component_that_may_not_ask_for_reviews_stays_closed_and_says_why(
    cluster: ControlPlane, host: str, tmp_path: Path
) -> None:
    (port,) = controlplane.free_ports(1)
    shown = Secured(host, port)
    with cluster.own_namespace() as namespace:
        account = Account(cluster, namespace, "updater")
        account.allow_everywhere(rules_of("updater", "updater-cluster"))
        kubeconfig = account.write_kubeconfig(tmp_path)
        try:
            with running("updater", kubeconfig, tmp_path, secured=shown):
                token = account.fetch_token()
                status, text = shown.ask("/plan", {"Authorization": f"Bearer {token}"})
        finally:
            account.leave()

    assert status == 503
    assert "missing right: create tokenreviews.authentication.k8s.io" in text
