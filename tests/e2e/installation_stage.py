"""A whole installation, each component under its own account, and a day's work for all of them."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random

import pytest
import yaml
from e2e.rights_stage import COMPONENTS, Account
from support.makers.certificates import a_pair, an_authority
from support.stages import components
from support.stages.admission import JSON_PATCH, OBSERVED, REGISTRATIONS, age_keys
from support.stages.components import ROOT, SLOW_SECONDS, Json, Run, Secured, rules_of
from support.stages.manifests import rollouts
from support.stages.roles import Cast
from support.stages.updater import SMALL, TARGET, Stage, requests

from rig import controlplane, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.api.kinds import events
from trimtab.api.kinds.pods import decode_pod
from trimtab.cluster.auth.connection import find_connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.live.missing_permissions import MissingRights
from trimtab.cluster.live.writes import EventLog
from trimtab.core.model.pods import Pod

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REGISTRATION = f"{REGISTRATIONS}/vpa-webhook-config"
BY_HAND = [{"name": "by-hand"}]
"""For autoscalers whose recommendations a test writes itself."""
_POLICIES = {
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_USED = {"kwok.x-k8s.io/usage-cpu": "150m", "kwok.x-k8s.io/usage-memory": "400Mi"}
_BOOSTED = {
    "vpaCpuStartupBoost/c0": json.dumps({"requests": SMALL, "limits": {}}),
    "vpaUpdates": "Pod resources updated by boosted: container 0: cpu request",
}
_PASSED = 'vpa_admission_controller_self_tests_total{outcome="Passed"}'


class Reach(StrEnum):
    """How much of the cluster an installation is for."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"


@dataclass(slots=True)
class Installation:
    """All components, each as its own account, with exactly the rights of the chart."""

    plane: ControlPlane
    folder: Path
    reach: Reach
    own: str
    """The namespace where it runs."""
    served: str
    """The namespace with workloads: another one, unless the installation is for one alone."""
    accounts: dict[str, Account] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def found_accounts(self) -> None:
        """An account for each component, bound to its roles as the chart does it."""
        for name in COMPONENTS:
            account = self.accounts[name] = Account(self.plane, self.own, name)
            own = [f"{name}-own"]
            if self.reach is Reach.CLUSTER:
                wide = (name, f"{name}-cluster", f"{name}-registration", "pages")
                account.allow_everywhere(rules_of(*wide))
                account.allow_in(self.own, rules_of(*own, f"{name}-keys"))
            else:
                account.allow_in(self.own, rules_of(name, f"{name}-namespace", *own))

    @contextmanager
    def narrowed(self) -> Iterator[None]:
        """The policy of the security page that takes more away than roles can."""
        ours = {"trimtab-system:trimtab-": f"{self.own}:", "trimtab-changes-no-specs": self.own}
        for kind, path in _POLICIES.items():
            (manifest,) = _read_page(kind, ours)
            self.plane.create(path, manifest)
        try:
            yield
        finally:
            for path in _POLICIES.values():
                self.plane.request("DELETE", f"{path}/{self.own}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """All components, for as long as the block lasts."""
        with ExitStack() as stack:
            start = partial(self._start, stack)
            start("admission-controller", *self._webhook_flags(stack))
            quick = ["--leader-elect", f"--leader-elect-resource-namespace={self.own}"]
            gone = "--checkpoints-gc-interval=1s"
            start("recommender", *quick, gone, "--recommender-interval=1s")
            place = f"--admission-controller-status-lease-namespace={self.own}"
            start("updater", *quick, place, "--updater-interval=1s", "--eviction-rate-limit=0")
            start("roles", *quick)
            yield

    def _start(self, stack: ExitStack, name: str, *flags: str) -> None:
        kubeconfig = self.accounts[name].write_kubeconfig(self.folder)
        only = [f"--vpa-object-namespace={self.own}"] if self.reach is Reach.NAMESPACE else []
        secured = None
        if self.reach is Reach.CLUSTER:
            (port,) = controlplane.free_ports(1)
            secured = Secured(LOOPBACK, port, self.plane.token)
        run = components.running(name, kubeconfig, self.folder, *only, *flags, secured=secured)
        self.runs[name] = stack.enter_context(run)

    def _webhook_flags(self, stack: ExitStack) -> Sequence[str]:
        (port,) = controlplane.free_ports(1)
        flags = (
            f"--bind-address={LOOPBACK}",
            f"--port={port}",
            f"--status-lease-namespace={self.own}",
            "--status-lease-update-interval=1s",
            *(f"--{flag}={self.folder / name}" for flag, name in _FILES.items()),
        )
        if self.reach is Reach.CLUSTER:
            url = ("--register-by-url", f"--webhook-address=https://{LOOPBACK}")
            stack.callback(self.plane.request, "DELETE", REGISTRATION)
            return (*flags, *url, f"--webhook-port={port}")
        self._register(port, self._write_files())
        stack.callback(self.plane.request, "DELETE", f"{REGISTRATIONS}/{self.own}")
        return (*flags, "--register-webhook=false")

    def _write_files(self) -> str:
        """The authority of a certificate that somebody else has made."""
        authority = an_authority()
        pair = a_pair(authority, "webhook")
        texts = (pair.certificate, pair.key, authority.certificate)
        for name, text in zip(_FILES.values(), texts, strict=True):
            (self.folder / name).write_text(text, encoding="utf-8")
        return authority.certificate

    def _register(self, port: int, authority: str) -> None:
        """Register the webhook as an administrator does, by the word of the security page."""
        (manifest,) = _read_page("MutatingWebhookConfiguration", {"shop": self.own})
        manifest["metadata"]["name"] = self.own
        (webhook,) = manifest["webhooks"]
        bundle = base64.b64encode(authority.encode()).decode()
        webhook["clientConfig"] = {"url": f"https://{LOOPBACK}:{port}", "caBundle": bundle}
        self.plane.create(REGISTRATIONS, manifest)


def _read_page(kind: str, renamed: dict[str, str]) -> list[Json]:
    """The manifests of a kind on the security page, with names of ours in the place of others."""
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8")
    for name, ours in renamed.items():
        text = text.replace(name, ours)
    blocks = "\n---\n".join(re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    return [each for each in yaml.safe_load_all(blocks) if each["kind"] == kind]


_FILES = {"tls-cert-file": "tls.crt", "tls-private-key": "tls.key", "client-ca-file": "ca.crt"}


class Day:
    """Work for every right: workloads, and what happens to them."""

    def __init__(self, installation: Installation) -> None:
        self.it = installation
        self.plane = installation.plane
        self.stage = Stage(self.plane, installation.served)
        self.cast = Cast(self.stage)
        namespace = f"namespaces/{installation.served}"
        self.checkpoints = (
            f"/apis/autoscaling.k8s.io/v1/{namespace}/verticalpodautoscalercheckpoints"
        )
        self._rollouts = f"/apis/example.com/v1/{namespace}/rollouts"
        self._pods = f"/api/v1/{namespace}/pods"

    def prepare(self) -> None:
        """What is there before anybody comes."""
        self._deploy_measured()
        self._roll_out()
        self.stage.deploy("resizable", SMALL)
        self.stage.autoscale(name="resizable", mode="InPlaceOrRecreate", recommenders=BY_HAND)
        self.evicted = set(self.stage.deploy("evictable", SMALL))
        self.stage.autoscale(name="evictable", mode="Recreate", recommenders=BY_HAND)
        # A single pod is not evicted, and the autoscaler says so.
        self.stage.deploy("single", SMALL, replicas=1)
        self.stage.autoscale(name="single", mode="Recreate", recommenders=BY_HAND)
        boost = {"cpu": {"type": "Factor", "factor": 3, "duration": "1s"}}
        self.stage.autoscale(name="boosted", mode="Off", startupBoost=boost, recommenders=BY_HAND)
        template = _a_template("c0", {**SMALL, "cpu": "300m"}, _BOOSTED)
        self.stage.start(template, name="boosted", replicas=1)
        self.cast.start(2)
        self.cast.name_lease()
        self.cast.hold("db-1")

    def play(self) -> None:
        """Return when everybody has done everything that they are for."""
        self._see_recommendations()
        self._see_updates()
        self.cast.wait_for_leaders("db-1")
        self.cast.hold("db-0")
        self.cast.wait_for_leaders("db-0")
        self.count_events()
        if self.it.reach is Reach.CLUSTER:
            self._disturb_webhook()
        for run in self.it.runs.values():
            run.wait_until("/readyz", (200, "OK").__eq__)
            assert run.ask("/metrics")[0] == 200

    def count_events(self) -> None:
        """Let an event come again, which the updater tells after five minutes at the earliest."""
        told = decode_pod(json.dumps(self.stage.pods("resizable")[0]).encode())
        kubeconfig = self.it.accounts["updater"].write_kubeconfig(self.it.folder)
        failures = asyncio.run(_emit_twice(kubeconfig, told))
        assert failures == 0

    def _deploy_measured(self) -> None:
        """A Deployment that is measured; a checkpoint that is broken, and one that nobody needs."""
        self._save_checkpoint("measured", {"cpuHistogram": {"bucketWeights": {"0": "much"}}})
        self._save_checkpoint("deleted", {})
        template = _a_template("app", SMALL, _USED)
        self.stage.start(template, name="measured", replicas=1)
        self._observe({"apiVersion": "apps/v1", "kind": "Deployment", "name": "measured"})

    def _save_checkpoint(self, autoscaler: str, status: Json) -> None:
        manifest = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": {"name": f"{autoscaler}-app"},
            "spec": {"vpaObjectName": autoscaler, "containerName": "app"},
            "status": status,
        }
        self.plane.create(self.checkpoints, manifest)

    def _roll_out(self) -> None:
        """A workload of a kind that nobody here knows, with a pod, and an autoscaler for it."""
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        self.plane.request("POST", _DEFINITIONS, json.dumps({**kind, **rollouts()}).encode())
        self.plane.wait_for(self._rollouts, bool)
        made = {"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "custom"}}
        status = {"replicas": 1, "selector": "app=custom"}
        owner = self.plane.create(self._rollouts, {**made, "spec": {"replicas": 1}})
        patch = json.dumps([{"op": "add", "path": "/status", "value": status}]).encode()
        self.plane.request("PATCH", f"{self._rollouts}/custom/status", patch, JSON_PATCH)
        reference = {**made, "name": "custom", "uid": owner["metadata"]["uid"], "controller": True}
        del reference["metadata"]
        metadata = {
            "name": "custom-0",
            "labels": {"app": "custom"},
            "annotations": dict(_USED),
            "ownerReferences": [reference],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", **_a_template("app", SMALL, _USED)}
        self.plane.create(self._pods, {**pod, "metadata": metadata})
        self._observe({"apiVersion": "example.com/v1", "kind": "Rollout", "name": "custom"})

    def _observe(self, target: Json) -> None:
        """An autoscaler that only recommends."""
        manifest = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": target["name"]},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}},
        }
        self.plane.create(self.cast.autoscalers, manifest)

    def _see_recommendations(self) -> None:
        for name in ("measured", "custom"):
            self.cast.wait_for_target(name)
            path = f"{self.checkpoints}/{name}-app"
            self.plane.wait_for(path, _is_learned, patience_seconds=SLOW_SECONDS)
        waiting.wait_for(
            lambda: self.plane.request("GET", f"{self.checkpoints}/deleted-app")[0],
            (404).__eq__,
            patience_seconds=SLOW_SECONDS,
        )

    def _see_updates(self) -> None:
        self.stage.wait_for_pods(lambda pods: requests(pods) == [[TARGET]] * 2, "resizable")
        self.stage.wait_for_pods(lambda pods: not any(map(_is_boosted, pods)), "boosted")
        self.stage.wait_for_pods(self._has_successor, "evictable")
        self.stage.condition("UpdatesHeld", "single")

    def _has_successor(self, pods: list[Json]) -> bool:
        """Whether an evicted pod has a successor that the admission controller has seen."""
        return any(
            pod["metadata"]["uid"] not in self.evicted
            and OBSERVED in pod["metadata"].get("annotations", {})
            for pod in pods
        )

    def _disturb_webhook(self) -> None:
        """Let the certificate be old, and let somebody change the registration."""
        secret = f"/api/v1/namespaces/{self.it.own}/secrets/trimtab-webhook-keys"
        _, before = self.plane.request("GET", secret)
        age_keys(self.plane, secret, "shown", timedelta(days=31))
        shown = json.loads(before)["data"]["serverCert.pem"]
        self.plane.wait_for(
            secret,
            lambda found: found["data"]["serverCert.pem"] != shown,
            patience_seconds=SLOW_SECONDS,
        )
        rules = [{"op": "remove", "path": "/webhooks/0/rules/1"}]
        self.plane.request("PATCH", REGISTRATION, json.dumps(rules).encode(), JSON_PATCH)
        self.plane.wait_for(
            REGISTRATION,
            lambda found: len(found["webhooks"][0]["rules"]) > 1,
            patience_seconds=SLOW_SECONDS,
        )
        run = self.it.runs["admission-controller"]
        waiting.wait_for(lambda: run.metric(_PASSED), bool, patience_seconds=SLOW_SECONDS)


@contextmanager
def after_a_day(
    plane: ControlPlane, folder: Path, reach: Reach, patch: pytest.MonkeyPatch
) -> Iterator[Installation]:
    """An installation that has done everything it is for, and has ended."""
    components.install(plane)
    with ExitStack() as stack:
        own = stack.enter_context(plane.own_namespace())
        is_wide = reach is Reach.CLUSTER
        served = stack.enter_context(plane.own_namespace()) if is_wide else own
        patch.setenv("NAMESPACE", own)
        it = Installation(plane, folder, reach, own, served)
        it.found_accounts()
        for account in it.accounts.values():
            stack.callback(account.leave)
        if is_wide:
            stack.enter_context(it.narrowed())
        day = Day(it)
        day.prepare()
        with it.running():
            day.play()
        for account in it.accounts.values():
            account.note_requests()
        yield it


async def _emit_twice(kubeconfig: Path, pod: Pod) -> int:
    """How many of two equal events, ten minutes apart, could not be told."""
    clock = RealClock()
    way = find_connection(str(kubeconfig), environment={}, clock=clock)
    budget = RequestBudget(clock, rate=0, burst=1)
    async with Client(way, clock=clock, random=Random(1), budget=budget) as client:
        log = EventLog(client, MissingRights())
        for later in (timedelta(), timedelta(minutes=10)):
            await log.emit(events.resized(pod, clock.now() + later))
        return log.failures


def _a_template(container: str, requested: Json, annotations: dict[str, str]) -> Json:
    resources = {"requests": requested}
    containers = [{"name": container, "image": "none", "resources": resources}]
    return {"metadata": {"annotations": dict(annotations)}, "spec": {"containers": containers}}


def _is_learned(checkpoint: Json) -> bool:
    return bool(checkpoint.get("status", {}).get("totalSamplesCount"))


def _is_boosted(pod: Json) -> bool:
    return any("vpaCpuStartupBoost" in name for name in pod["metadata"].get("annotations", {}))
