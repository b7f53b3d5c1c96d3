"""Registration of the webhook with the API server: the wanted object, given the present one.

The plan changes a registration only where it differs, so that there is no moment without one.
Fields that an operator tuned in the object itself stay until the settings change: an annotation of
the registration holds the settings of the last write. `keyring` decides which authorities the API
server trusts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.model.validation import SettingsError

MAIN: Final = "vpa.k8s.io"
"""The original's name of the one webhook."""
SELF_TEST: Final = "self-test.vpa.k8s.io"
"""A webhook for our own test pods, where the main one leaves out the namespace that they are in."""
SELF_TEST_LABEL: Final = "trimtab.dev/self-test"
"""The label of a test pod; its value is different each time."""
REGISTERED_AS: Final = "trimtab.dev/registered-as"
"""The annotation of a registration with the settings by which it was last written."""
INJECTIONS: Final = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)
"""With one of these annotations cert-manager maintains the bundle."""
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_ORIGINAL_TIMEOUT_SECONDS: Final = 30
"""The original's default: a registration that has it was not tuned."""
_LONGEST_TIMEOUT_SECONDS: Final = 30
"""No API server waits longer."""


class FailurePolicy(StrEnum):
    """The API server's decision about a pod when the webhook does not answer."""

    IGNORE = "Ignore"
    FAIL = "Fail"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """The Service in front of the webhook."""

    namespace: str
    name: str
    port: int = 443


Address: TypeAlias = ServiceAddress | str
"""Where the API server reaches the webhook: a Service, or a URL."""


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """The requests that the API server sends to the webhook."""

    operations: tuple[str, ...]
    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"


PODS: Final = WebhookRule(("CREATE",), ("",), ("v1",), ("pods",))
AUTOSCALERS: Final = WebhookRule(
    ("CREATE", "UPDATE"), ("autoscaling.k8s.io",), ("*",), ("verticalpodautoscalers",)
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One entry of a registration."""

    name: str
    address: Address
    bundle: str = ""
    """The authorities by which the API server trusts the webhook, PEM."""
    rules: tuple[WebhookRule, ...] = (PODS, AUTOSCALERS)
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    timeout_seconds: int = 5
    namespaces: Selector = field(default_factory=Selector)
    objects: Selector = field(default_factory=Selector)


@dataclass(frozen=True, slots=True)
class Registration:
    """A MutatingWebhookConfiguration."""

    name: str
    webhooks: tuple[Webhook | None, ...] = ()
    """In the order of the object; None for one that is not ours."""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Webhook | None:
        """Return the webhook of that name."""
        return next((each for each in self.webhooks if each and each.name == name), None)

    @property
    def is_injected(self) -> bool:
        """True if cert-manager maintains the bundle."""
        return any(name in self.annotations for name in INJECTIONS)


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """Settings of the registration; defaults are the original's, except the timeout."""

    address: Address
    """`--webhook-service`, or `--register-by-url` with `--webhook-address` and `--webhook-port`."""
    name: str = "vpa-webhook-config"
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    """`--webhook-failure-policy-fail`."""
    timeout_seconds: int = 5
    """`--webhook-timeout-seconds`: the longest time that a pod waits for the webhook."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """`--webhook-labels`."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    selected_namespace: str = ""
    """`--vpa-object-namespace`."""
    injected_from: str = ""
    """Namespace and name of a cert-manager certificate; cert-manager then maintains the bundle."""
    test_namespace: str = ""
    """The namespace of our own test pods; empty if there are none."""

    def __post_init__(self) -> None:
        """Refuse settings that the API server would refuse."""
        if not 1 <= self.timeout_seconds <= _LONGEST_TIMEOUT_SECONDS:
            problem = f"is not from 1 to {_LONGEST_TIMEOUT_SECONDS}"
            raise SettingsError("webhook_timeout_seconds", self.timeout_seconds, problem)
        if isinstance(self.address, str) and not self.address.startswith("https://"):
            raise SettingsError("webhook_address", self.address, "does not begin with https://")

    @property
    def namespaces(self) -> Selector:
        """The namespaces whose pods the API server sends to the webhook."""
        if self.ignored_namespaces:
            return _of_namespaces(Operator.NOT_IN, *sorted(self.ignored_namespaces))
        if self.selected_namespace:
            return _of_namespaces(Operator.IN, self.selected_namespace)
        return Selector()


def plan_registration(
    found: Registration | None, settings: RegistrationSettings, bundle: str
) -> Registration:
    """Return the wanted registration; equal to the one found if nothing must change.

    The bundle is for new webhooks; others keep theirs.
    """
    base = found or Registration(settings.name)
    remembered = base.annotations.get(REGISTERED_AS, "")
    main = base.find(MAIN)
    # A bundle is replaced by `with_bundle` alone, in the order that `keyring` decides.
    bundle = main.bundle if main and main.bundle else bundle
    wanted = [_wanted_main(settings, main, remembered, bundle)]
    if _needs_own_test(wanted[0], settings):
        wanted.append(_wanted_test(settings, base.find(SELF_TEST), wanted[0], bundle))
    injection = {INJECTIONS[0]: settings.injected_from} if settings.injected_from else {}
    return replace(
        base,
        webhooks=_merged(base.webhooks, {each.name: each for each in wanted}),
        labels={**base.labels, **settings.labels},
        annotations={**base.annotations, **injection, REGISTERED_AS: _format_settings(settings)},
    )


def with_bundle(registration: Registration, bundle: str) -> Registration:
    """Return the registration with another bundle for all webhooks that are ours."""
    webhooks = tuple(each and replace(each, bundle=bundle) for each in registration.webhooks)
    return replace(registration, webhooks=webhooks)


def _wanted_main(
    settings: RegistrationSettings, found: Webhook | None, remembered: str, bundle: str
) -> Webhook:
    wanted = Webhook(
        name=MAIN,
        address=settings.address,
        bundle=bundle,
        failure_policy=settings.failure_policy,
        timeout_seconds=settings.timeout_seconds,
        namespaces=settings.namespaces,
    )
    if found is None:
        return wanted
    if remembered == _format_settings(settings):
        # The settings are unchanged, so any difference was tuned by hand.
        return replace(
            wanted,
            failure_policy=found.failure_policy,
            timeout_seconds=found.timeout_seconds,
            namespaces=found.namespaces,
        )
    # Registered by the original, which remembers no settings: keep what an operator has tuned.
    if not remembered and found.timeout_seconds != _ORIGINAL_TIMEOUT_SECONDS:
        return replace(wanted, timeout_seconds=found.timeout_seconds)
    return wanted


def _needs_own_test(main: Webhook, settings: RegistrationSettings) -> bool:
    namespace = settings.test_namespace
    return bool(namespace) and not main.namespaces.matches({_NAMESPACE_LABEL: namespace})


def _wanted_test(
    settings: RegistrationSettings, found: Webhook | None, main: Webhook, bundle: str
) -> Webhook:
    return Webhook(
        name=SELF_TEST,
        address=settings.address,
        bundle=found.bundle if found and found.bundle else bundle,
        rules=(PODS,),
        timeout_seconds=main.timeout_seconds,
        namespaces=_of_namespaces(Operator.IN, settings.test_namespace),
        objects=Selector((LabelRequirement(SELF_TEST_LABEL, Operator.EXISTS),)),
    )


def _merged(
    found: tuple[Webhook | None, ...], wanted: Mapping[str, Webhook]
) -> tuple[Webhook | None, ...]:
    # Foreign entries keep their places: patches of the list go by index.
    kept = tuple(each and wanted.get(each.name, each) for each in found)
    present = {each.name for each in found if each}
    return (*kept, *(each for name, each in wanted.items() if name not in present))


def _of_namespaces(operator: Operator, *names: str) -> Selector:
    return Selector((LabelRequirement(_NAMESPACE_LABEL, operator, names),))


def _format_settings(settings: RegistrationSettings) -> str:
    """Format the settings that may be tuned by hand in the object."""
    return json.dumps(
        {
            "failurePolicy": settings.failure_policy,
            "timeoutSeconds": settings.timeout_seconds,
            "ignoredNamespaces": sorted(settings.ignored_namespaces),
            "selectedNamespace": settings.selected_namespace,
        },
        sort_keys=True,
    )
