"""The webhook as the API server sees it: registered, believed and tested, whatever happens."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import pytest
from support.makers.certificates import Pair, a_pair, an_authority
from support.stages import components
from support.stages.admission import age_keys
from support.stages.components import SLOW_SECONDS, Run

from rig import controlplane, waiting
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from trimtab.api.admission.dry_run_pod import encode_trial_pod
from trimtab.api.kinds.secrets import split_bundle
from trimtab.api.kinds.webhook_configurations import decode_registration, encode_registration
from trimtab.core.webhook.registration import (
    MAIN,
    Registration,
    RegistrationSettings,
    ServiceAddress,
    plan_registration,
)

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REGISTRATION = f"{REGISTRATIONS}/vpa-webhook-config"
MERGE_PATCH = "application/merge-patch+json"
PASSED = 'vpa_admission_controller_self_tests_total{outcome="Passed"}'
UNCHANGED = 'vpa_admission_controller_self_tests_total{outcome="Unchanged"}'
GREETINGS = 20
"""So many connections do not all come to the same one of a few processes."""
RELOAD_LINES = (
    "New certificate found, reloading",
    "New client CA found, reloading and patching webhook",
    "Successfully patched webhook with new client CA",
)
HELD_SECONDS = 180
"""A rotation waits for half a minute until the new authority is known everywhere."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A namespace in which the admission controller runs, and for whose pods it is asked."""

    plane: ControlPlane
    namespace: str
    folder: Path

    @property
    def secret(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/trimtab-webhook-keys"

    @property
    def lease(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return f"{path}/vpa-admission-controller"

    @contextmanager
    def controller(self, *flags: str, port: int = 0, name: str = "") -> Iterator["Controller"]:
        """An admission controller that is asked at a URL, for as long as the block lasts."""
        (port,) = (port,) if port else controlplane.free_ports(1)
        given = (
            f"--bind-address={LOOPBACK}",
            f"--port={port}",
            "--register-by-url",
            f"--webhook-address=https://{LOOPBACK}",
            f"--webhook-port={port}",
            f"--vpa-object-namespace={self.namespace}",
            f"--status-lease-namespace={self.namespace}",
            "--status-lease-update-interval=1s",
            f"--tls-cert-file={self.folder / 'tls.crt'}",
            f"--tls-private-key={self.folder / 'tls.key'}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            *flags,
        )
        with components.running(
            "admission-controller", self.plane.kubeconfig, self.folder, *given, name=name
        ) as run:
            yield Controller(run, port)

    def registration(self) -> Registration:
        status, body = self.plane.request("GET", REGISTRATION)
        assert status == 200, body
        return decode_registration(body)

    def bundle(self) -> dict[str, str]:
        webhook = self.registration().find(MAIN)
        assert webhook
        return split_bundle(webhook.bundle)

    def register(self, port: int, bundle: str) -> None:
        """Register it by hand."""
        settings = RegistrationSettings(
            f"https://{LOOPBACK}:{port}", selected_namespace=self.namespace
        )
        made = encode_registration(plan_registration(None, settings, bundle))
        status, body = self.plane.request("POST", REGISTRATIONS, made)
        assert status == 201, body

    def try_pod(self) -> tuple[int, bytes]:
        """What the API server says to a pod that is not made."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?dryRun=All"
        return self.plane.request("POST", path, encode_trial_pod({}), timeout_seconds=40)

    def try_nonsense(self) -> tuple[int, bytes]:
        """What the API server says to an autoscaler that makes no sense."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        policies = [{"containerName": "*", "minAllowed": {"requests": {"cpu": "50m"}}}]
        manifest = {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "nonsense"},
            "spec": {"targetRef": target, "resourcePolicy": {"containerPolicies": policies}},
        }
        path = f"/apis/autoscaling.k8s.io/v1/namespaces/{self.namespace}/verticalpodautoscalers"
        return self.plane.request("POST", path, json.dumps(manifest).encode())

    def age_keys(self, part: str, span: timedelta) -> None:
        """Let what the keyring holds have been made long ago."""
        age_keys(self.plane, self.secret, part, span)

    def renewed_at(self) -> str:
        """When the status lease was last renewed; nothing if there is none."""
        status, body = self.plane.request("GET", self.lease)
        return str(json.loads(body)["spec"].get("renewTime", "")) if status == 200 else ""

    def keep_files(self, authority: Pair, pair: Pair) -> None:
        texts = {"ca.crt": authority.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
        for name, text in texts.items():
            (self.folder / f"{name}.new").write_text(text, encoding="utf-8")
            (self.folder / f"{name}.new").replace(self.folder / name)


@dataclass(frozen=True, slots=True)
class Controller:
    """An admission controller that runs."""

    run: Run
    port: int

    def shown(self) -> str:
        """The certificate that it shows now."""
        return ssl.get_server_certificate((LOOPBACK, self.port))

    def shows_none_of(self, certificate: str) -> bool:
        """Whether no process of it shows the certificate any more: many are asked."""
        return all(self.shown() != certificate for _ in range(GREETINGS))

    def wait_until_it_listens(self) -> str:
        """The certificate that it shows as soon as it does."""

        def look() -> str:
            with suppress(OSError):
                return self.shown()
            return ""

        return waiting.wait_for(look, bool, patience_seconds=SLOW_SECONDS)

    def wait_for(self, series: str, more_than: float = 0) -> float:
        """The value of a series as soon as it is large enough."""
        return waiting.wait_for(
            lambda: self.run.metric(series),
            lambda value: value > more_than,
            patience_seconds=SLOW_SECONDS,
        )


@dataclass
class Load:
    """Pods that are created all the time, by several at once, and one who doubts the webhook.

    API servers keep their connections; who doubts makes a new one each time, and believes what
    the registration said a moment before.
    """

    scene: Scene
    port: int
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    greetings: list[str] = field(default_factory=list)
    """What came of each handshake; empty if it was good."""

    def __enter__(self) -> Self:
        self._ends = threading.Event()
        works = (self._create, self._create, self._create, self._doubt)
        self._threads = [threading.Thread(target=work) for work in works]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _create(self) -> None:
        while not self._ends.is_set():
            self.answers.append(self.scene.try_pod())

    def _doubt(self) -> None:
        while not self._ends.is_set():
            trust = ssl.create_default_context(cadata="".join(self.scene.bundle().values()))
            try:
                with (
                    socket.create_connection((LOOPBACK, self.port)) as plain,
                    trust.wrap_socket(plain, server_hostname=LOOPBACK),
                ):
                    self.greetings.append("")
            except ssl.SSLCertVerificationError as error:
                self.greetings.append(str(error))

    def go_on(self, count: int = 50) -> None:
        """Return when so many more pods have been created."""
        wanted = len(self.answers) + count
        waiting.wait_for(
            lambda: len(self.answers), lambda made: made >= wanted, patience_seconds=SLOW_SECONDS
        )

    def failures(self) -> list[object]:
        """All that went wrong."""
        refused = [answer for answer in self.answers if answer[0] != 201]
        return [*refused, *filter(None, self.greetings)]


@pytest.fixture
def scene(
    cluster: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    components.install(cluster)
    monkeypatch.setenv("NAMESPACE", namespace)
    yield Scene(cluster, namespace, tmp_path)
    cluster.request("DELETE", REGISTRATION)


def until(look: Callable[[], object], patience_seconds: float = HELD_SECONDS) -> None:
    waiting.wait_for(look, bool, patience_seconds=patience_seconds)


@pytest.mark.parametrize(
    "workers", [pytest.param(1, id="one process"), pytest.param(3, id="three processes")]
)
def test_f39_certificate_and_authority_change_under_load_without_a_failed_admission(
    scene: Scene, workers: int
) -> None:
    flags = ("--webhook-failure-policy-fail", f"--workers={workers}")
    with scene.controller(*flags) as controller:
        controller.wait_for(PASSED)
        first, first_bundle = controller.shown(), scene.bundle()
        with Load(scene, controller.port) as load:
            load.go_on()
            scene.age_keys("shown", timedelta(days=31))
            until(lambda: controller.shows_none_of(first))
            second, second_bundle = controller.shown(), scene.bundle()
            load.go_on()
            scene.age_keys("authority", timedelta(days=250))
            until(lambda: controller.shows_none_of(second))
            load.go_on()
        last_bundle = scene.bundle()

    assert load.failures() == []
    assert second_bundle == first_bundle
    assert len(last_bundle) == 2
    assert first_bundle.keys() < last_bundle.keys()


def test_f39_files_are_swapped_under_load_without_a_failed_admission(scene: Scene) -> None:
    """Row A26, too: the log has the original's lines, and what makes no sense is still denied."""
    old, new = an_authority(), an_authority()
    scene.keep_files(old, a_pair(old, "old"))
    with scene.controller("--webhook-failure-policy-fail", "--reload-cert") as controller:
        controller.wait_for(PASSED)
        first = controller.shown()
        with Load(scene, controller.port) as load:
            load.go_on()
            scene.keep_files(new, a_pair(new, "new"))
            until(lambda: controller.shown() != first)
            load.go_on()
            status, said = scene.try_nonsense()

    said_in_log = controller.run.process.log.read_text(encoding="utf-8")
    assert load.failures() == []
    assert [line for line in RELOAD_LINES if line not in said_in_log] == []
    assert status == 422
    assert b'admission webhook \\"vpa.k8s.io\\" denied the request' in said
    assert split_bundle(new.certificate).keys() < scene.bundle().keys()


def test_f40_pods_are_created_while_the_webhook_hangs_and_when_it_is_killed(scene: Scene) -> None:
    with scene.controller("--webhook-timeout-seconds=1") as controller:
        controller.wait_for(PASSED)
        with controller.run.process.paused():
            hanging = scene.try_pod()
        controller.run.kill()
        gone = scene.try_pod()

    assert (hanging[0], gone[0]) == (201, 201)
    webhook = scene.registration().find(MAIN)
    assert webhook
    assert webhook.timeout_seconds == 1


def test_f40_a_timeout_that_was_tuned_by_hand_outlives_a_restart(scene: Scene) -> None:
    with scene.controller() as controller:
        controller.wait_for(PASSED)
    patch = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 2}]
    scene.plane.request(
        "PATCH", REGISTRATION, json.dumps(patch).encode(), "application/json-patch+json"
    )
    tuned = scene.registration()
    with scene.controller(port=controller.port) as controller:
        controller.wait_for(PASSED)

    assert scene.registration() == tuned


def spoil_bundle(scene: Scene) -> None:
    """Let the API server believe somebody else."""
    bundle = base64.b64encode(an_authority().certificate.encode()).decode()
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
    scene.plane.request(
        "PATCH", REGISTRATION, json.dumps(patch).encode(), "application/json-patch+json"
    )


def delete_registration(scene: Scene) -> None:
    scene.plane.request("DELETE", REGISTRATION)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(spoil_bundle, id="the API server believes somebody else"),
        pytest.param(delete_registration, id="nobody is asked"),
    ],
)
def test_f16_the_status_lease_is_not_renewed_while_no_pod_gets_our_patch(
    scene: Scene, spoil: Callable[[Scene], None]
) -> None:
    authority = an_authority()
    scene.keep_files(authority, a_pair(authority, "webhook"))
    with scene.controller("--register-webhook=false") as controller:
        controller.wait_for(UNCHANGED)
        never = scene.renewed_at()
        scene.register(controller.port, authority.certificate)
        until(scene.renewed_at)
        spoil(scene)
        # What was under way by then may still have passed.
        controller.wait_for(UNCHANGED, controller.run.metric(UNCHANGED) + 1)
        before = scene.renewed_at()
        controller.wait_for(UNCHANGED, controller.run.metric(UNCHANGED) + 2)
        after = scene.renewed_at()
        delete_registration(scene)
        scene.register(controller.port, authority.certificate)
        until(lambda: scene.renewed_at() != after)

    assert never == ""
    assert before == after != ""


def test_what_we_register_ourselves_comes_back_after_it_was_spoilt(scene: Scene) -> None:
    with scene.controller() as controller:
        passed = controller.wait_for(PASSED)
        spoil_bundle(scene)
        unchanged = controller.wait_for(UNCHANGED, controller.run.metric(UNCHANGED))
        passed = controller.wait_for(PASSED, controller.run.metric(PASSED))
        delete_registration(scene)
        controller.wait_for(UNCHANGED, unchanged)
        controller.wait_for(PASSED, passed)


def test_the_self_test_passes_where_pods_are_restricted_and_the_quota_is_full(
    scene: Scene,
) -> None:
    path = f"/api/v1/namespaces/{scene.namespace}"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch = json.dumps({"metadata": {"labels": restricted}}).encode()
    scene.plane.request("PATCH", path, patch, MERGE_PATCH)
    with scene.controller() as controller:
        controller.wait_for(PASSED)
        quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}}}
        scene.plane.create(f"{path}/resourcequotas", quota)
        until(lambda: scene.try_pod()[0] == 403)
        before = controller.run.metric(PASSED)
        controller.wait_for(PASSED, before + 2)

    assert controller.run.metric(UNCHANGED) == 0


def test_trial_pods_have_their_own_webhook_where_only_another_namespace_is_selected(
    scene: Scene,
) -> None:
    with scene.controller("--vpa-object-namespace=default") as controller:
        controller.wait_for(PASSED)
        names = [each.name for each in scene.registration().webhooks if each]

    assert names == [MAIN, "self-test.vpa.k8s.io"]


def test_when_the_certificate_ends_is_shown_as_a_metric(scene: Scene) -> None:
    with scene.controller() as controller:
        controller.wait_for(PASSED)
        end = controller.run.metric("vpa_admission_controller_certificate_expiry_timestamp_seconds")

    assert datetime.fromtimestamp(end, UTC) > datetime.now(UTC) + timedelta(days=59)


def test_copies_that_start_at_once_agree_on_one_certificate(scene: Scene) -> None:
    apart = "--register-webhook=false"
    with scene.controller(apart, name="one") as one, scene.controller(apart, name="two") as two:
        shown = {one.wait_until_it_listens(), two.wait_until_it_listens()}

    assert len(shown) == 1


def test_a_registration_by_service_is_written_once_and_left_alone(scene: Scene) -> None:
    with scene.controller("--register-by-url=false") as controller:
        until(lambda: scene.plane.can_read(REGISTRATION))
        before = scene.registration()
        # Nobody is behind that Service; so many seconds are more than one look.
        controller.wait_for(UNCHANGED, 15)

    webhook = before.find(MAIN)
    assert webhook
    assert webhook.address == ServiceAddress(scene.namespace, "vpa-webhook")
    assert scene.registration() == before
