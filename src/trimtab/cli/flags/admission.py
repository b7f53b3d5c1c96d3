"""The admission controller's own flags: the original's, and a few that it does not have.

Defaults are the original's, but for the timeout (D13). Flags that the original does not have stand
in a group of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trimtab.admission.settings import AdmissionSettings
from trimtab.cli.flags.common import ClusterFlags
from trimtab.cli.flags.types import (
    Cpu,
    Named,
    Span,
    Switch,
    Text,
    Whole,
    flag_group,
    flag_groups,
    split_names,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.sizing.boost_room import MAX_PRIORITY

_OWN_NAMESPACE: Final = "NAMESPACE"
"""Environment variable in which manifests name the namespace of the pod."""


@flag_group("Admission", order=1)
@dataclass(frozen=True, slots=True)
class ServingFlags:
    """Flags for addresses, the startup boost and the status lease."""

    address: Named = ":8944"
    """Where /metrics, /health-check and /readyz are served, without TLS."""
    port: Whole = 8000
    """Where the API server asks, with TLS."""
    max_allowed_cpu_boost: Cpu = None
    """The most CPU that a startup boost may come to."""
    status_lease_name: Named = "vpa-admission-controller"
    """The lease by which updaters know that new pods get their size."""
    status_lease_namespace: Text = ""
    """Its namespace; if not given, that in the variable NAMESPACE, or else kube-system."""
    status_lease_update_interval: Span = timedelta(seconds=10)
    """How often it is renewed."""


@flag_group("TLS", order=2)
@dataclass(frozen=True, slots=True)
class TlsFlags:
    """Flags for the TLS of the webhook server."""

    client_ca_file: Named = "/etc/tls-certs/caCert.pem"
    """The file of the authority that signed the certificate; callers are not checked by it."""
    tls_cert_file: Named = "/etc/tls-certs/serverCert.pem"
    """The file of the certificate; without it the admission controller makes its own."""
    tls_private_key: Named = "/etc/tls-certs/serverKey.pem"
    """The file of its key."""
    reload_cert: Switch = False
    """Reload the files when they change."""
    tls_ciphers: Text = ""
    """Ciphers for TLS 1.2 by their names in Go, separated by commas or colons."""
    min_tls_version: Named = "tls1_2"
    """The oldest version of TLS that is spoken: tls1_2 or tls1_3."""


@flag_group("Registration", order=3)
@dataclass(frozen=True, slots=True)
class RegistrationFlags:
    """Flags for the registration of the webhook."""

    register_webhook: Switch = True
    """Register the webhook with the API server."""
    register_by_url: Switch = False
    """Register the webhook by a URL instead of a Service."""
    webhook_service: Named = "vpa-webhook"
    """The Service of the webhook, in the namespace that the variable NAMESPACE names."""
    webhook_address: Text = ""
    """The beginning of the URL, with its scheme."""
    webhook_port: Text = ""
    """The port of the URL."""
    webhook_timeout_seconds: Whole = 5
    """How long the API server waits for an answer."""
    webhook_failure_policy_fail: Switch = False
    """Refuse every new pod while the webhook does not answer."""
    webhook_labels: Text = ""
    """Labels of the registration, as key:value,..."""


@flag_group("Care", order=4)
@dataclass(frozen=True, slots=True)
class CareFlags:
    """Flags that the original does not have."""

    allow_overlapping_autoscalers: Switch = False
    """Warn of autoscalers that may select the same pods, instead of refusing the second one."""
    hpa_conflict: HpaConflict = HpaConflict.HOLD
    """Where a HorizontalPodAutoscaler scales on a resource: leave that as it is, or change it."""
    cap_to_largest_node: Switch = True
    """Make no pod larger than the largest node; off where larger nodes come when needed."""
    max_boosted_priority: Whole = MAX_PRIORITY
    """Highest priority of pods that get a startup boost; others could preempt pods for it."""
    bind_address: Text = ""
    """The address that --port is on; all of this machine if not given."""
    webhook_client_ca_file: Text = ""
    """The file of the authority whose certificates callers of --port must show; all may call
    without."""
    webhook_keys: Named = "trimtab-webhook-keys"
    """The Secret of the keys that we make where there is no certificate file."""
    webhook_inject_ca_from: Text = ""
    """The Certificate of cert-manager, as namespace/name, whose CA the API server shall trust."""
    self_test: Switch = True
    """Renew the status lease only while a trial pod gets our patch."""
    workers: Whole = 1
    """How many processes answer; 0 for one per core. Each has a view of the cluster of its own."""


@flag_groups
@dataclass(frozen=True, slots=True)
class AdmissionFlags:
    """All flags of the admission controller besides the common ones."""

    serving: ServingFlags = ServingFlags()
    tls: TlsFlags = TlsFlags()
    registration: RegistrationFlags = RegistrationFlags()
    care: CareFlags = CareFlags()


def to_settings(
    cluster: ClusterFlags,
    flags: AdmissionFlags,
    environment: Mapping[str, str],
    gates: FeatureGates,
) -> AdmissionSettings:
    """Return the settings that the flags describe; a SettingsError if they are invalid."""
    usual, serving = AdmissionSettings(), flags.serving
    place = serving.status_lease_namespace or environment.get(_OWN_NAMESPACE)
    return AdmissionSettings(
        gates=gates,
        max_boost_millicores=serving.max_allowed_cpu_boost,
        max_boosted_priority=flags.care.max_boosted_priority,
        hpa_conflict=flags.care.hpa_conflict,
        caps_to_nodes=flags.care.cap_to_largest_node,
        namespace=cluster.vpa_object_namespace,
        ignored_namespaces=split_names(cluster.ignored_vpa_object_namespaces),
        allows_overlapping=flags.care.allow_overlapping_autoscalers,
        status_lease_name=serving.status_lease_name,
        status_lease_namespace=place or usual.status_lease_namespace,
        status_lease_interval=serving.status_lease_update_interval,
    )
