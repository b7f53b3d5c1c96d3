"""Parts around the webhook server, by flags: keys, registration, self-test, status lease."""

import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from trimtab.admission import review
from trimtab.admission.metrics import SELF_TEST_PASSED, SELF_TESTS
from trimtab.admission.review import Probe
from trimtab.admission.server.tls import CertificateFiles, list_unknown_ciphers
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.webhook import self_test
from trimtab.admission.webhook.keys import FileKeys, Keys, SecretKeys
from trimtab.admission.webhook.self_test import Result, SelfTest
from trimtab.admission.webhook.status_lease import StatusLease
from trimtab.admission.webhook.upkeep import UpkeepSettings, WebhookUpkeep
from trimtab.cli.flags import types
from trimtab.cli.flags.admission import AdmissionFlags, RegistrationFlags, TlsFlags
from trimtab.cli.flags.common import ClusterFlags
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster
from trimtab.cluster.live.webhook_host import LiveWebhookHost
from trimtab.core.webhook.registration import (
    Address,
    FailurePolicy,
    RegistrationSettings,
    ServiceAddress,
)

_OWN_NAMESPACE: Final = "NAMESPACE"
_USUAL_NAMESPACE: Final = "kube-system"
_WORD_BYTES: Final = 8

_logger: Final = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookPlace:
    """The namespace of this process, and True if its keys come from files."""

    namespace: str
    has_files: bool


@dataclass(frozen=True, slots=True)
class WebhookSurroundings:
    """The parts around the webhook server."""

    certificates: WebhookUpkeep
    probe: Probe
    lease: StatusLease
    list_problems: Callable[[], Iterable[Exception]]


def find_place(tls: TlsFlags, environment: Mapping[str, str]) -> WebhookPlace:
    """Return our namespace, and True if the certificate file of the flags exists."""
    namespace = environment.get(_OWN_NAMESPACE) or _USUAL_NAMESPACE
    return WebhookPlace(namespace, Path(tls.tls_cert_file).exists())


def to_upkeep_settings(
    cluster: ClusterFlags, flags: AdmissionFlags, place: WebhookPlace
) -> UpkeepSettings:
    """Return the settings that the flags describe; a SettingsError if they are invalid."""
    given = flags.registration
    policy = FailurePolicy.FAIL if given.webhook_failure_policy_fail else FailurePolicy.IGNORE
    registration = RegistrationSettings(
        address=_address(given, place.namespace),
        failure_policy=policy,
        timeout_seconds=given.webhook_timeout_seconds,
        labels=parse_labels(given.webhook_labels),
        ignored_namespaces=types.split_names(cluster.ignored_vpa_object_namespaces),
        selected_namespace=cluster.vpa_object_namespace,
        injected_from=flags.care.webhook_inject_ca_from,
        test_namespace=place.namespace if flags.care.self_test else "",
    )
    # With certificate files and a manual registration, the operator maintains the bundle.
    keeps_bundle = given.register_webhook or not place.has_files
    return UpkeepSettings(registration, given.register_webhook, keeps_bundle)


def surround(
    flags: AdmissionFlags,
    settings: AdmissionSettings,
    upkeep: UpkeepSettings,
    place: WebhookPlace,
    *,
    cluster: LiveCluster,
    client: Client,
    clock: RealClock,
) -> WebhookSurroundings:
    """Build the parts around the server, without starting them."""
    host = LiveWebhookHost(client)
    has_test = flags.care.self_test
    test = SelfTest(host, place.namespace, make_word=_make_word, tell=_SelfTestNews())
    lease = StatusLease(
        cluster,
        settings,
        holder=socket.gethostname(),
        clock=clock,
        passes_test=test if has_test else _pass,
    )
    return WebhookSurroundings(
        WebhookUpkeep(host, _find_keys(flags, place, host), upkeep, clock=clock),
        self_test.make_probe(place.namespace) if has_test else review.no_probe,
        lease,
        lambda: [error for act, error in host.problems().items() if act != "try pod"],
    )


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels in `k1:v1,k2:v2`; none at all if any is malformed."""
    return _split_labels(text) or {}


def list_advice(flags: AdmissionFlags) -> Iterator[str]:
    """Yield warnings about flags whose effect may surprise."""
    tls = flags.tls
    # The default file exists only where an operator provides a certificate.
    if tls.tls_cert_file != TlsFlags().tls_cert_file and not Path(tls.tls_cert_file).exists():
        yield (
            f"--tls-cert-file: there is no file {tls.tls_cert_file},"
            " so the admission controller makes its own certificate"
        )
    unknown = list_unknown_ciphers(tls.tls_ciphers)
    if unknown:
        yield f"--tls-ciphers: unknown, and ignored: {', '.join(unknown)}"
    if _split_labels(flags.registration.webhook_labels) is None:
        labels = flags.registration.webhook_labels
        yield f"--webhook-labels: {labels!r} is not key:value,... and is ignored"


def _split_labels(text: str) -> dict[str, str] | None:
    pairs = [part.partition(":") for part in text.strip(" \"'").split(",") if part.strip()]
    if any(not key.strip() or not colon or ":" in value for key, colon, value in pairs):
        return None
    return {key.strip(): value.strip() for key, _, value in pairs}


def _address(given: RegistrationFlags, namespace: str) -> Address:
    if given.register_by_url:
        return f"{given.webhook_address}:{given.webhook_port}"
    return ServiceAddress(namespace, given.webhook_service)


def _find_keys(flags: AdmissionFlags, place: WebhookPlace, host: LiveWebhookHost) -> Keys:
    if not place.has_files:
        return SecretKeys(host, place.namespace, flags.care.webhook_keys)
    tls = flags.tls
    files = CertificateFiles(Path(tls.tls_cert_file), Path(tls.tls_private_key))
    return FileKeys(files, Path(tls.client_ca_file), reloads=tls.reload_cert)


class _SelfTestNews:
    """Counts every self-test, and logs an outcome that differs from the last one."""

    def __init__(self) -> None:
        self._last: Result | None = None

    def __call__(self, result: Result) -> None:
        SELF_TESTS.labels(result.outcome).inc()
        SELF_TEST_PASSED.set(result.has_passed)
        if self._last is None or self._last.outcome is not result.outcome:
            tell = _logger.info if result.has_passed else _logger.warning
            tell("self-test", outcome=result.outcome, detail=result.detail)
        self._last = result


def _make_word() -> str:
    return secrets.token_hex(_WORD_BYTES)


async def _pass() -> bool:
    return True
