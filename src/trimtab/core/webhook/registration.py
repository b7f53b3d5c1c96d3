"""How the API server is told to ask us: the registration as it should be, given what is there.

A registration is changed where it differs and nowhere else, so that there is no moment without one.
What an operator has tuned in the object itself stays, until the settings change: the registration
remembers what the settings were. Whom the API server believes is decided in `keyring`.
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
"""What makes a pod a test pod; the value is different each time."""
REGISTERED_AS: Final = "trimtab.dev/registered-as"
"""On a registration: the settings by which it was last written."""
INJECTIONS: Final = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)
"""With one of these annotations cert-manager keeps the bundle."""
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_ORIGINAL_TIMEOUT_SECONDS: Final = 30
"""The original's default: whoever comes from it has not chosen that."""
_LONGEST_TIMEOUT_SECONDS: Final = 30
"""No API server waits longer."""


class FailurePolicy(StrEnum):
    """What happens to a pod when we do not answer."""

    IGNORE = "Ignore"
    FAIL = "Fail"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """We are behind a Service."""

    namespace: str
    name: str
    port: int = 443


Address: TypeAlias = ServiceAddress | str
"""Where we are asked: a Service, or a URL."""


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """What we are asked about."""

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
    """The authorities by which we are believed, PEM."""
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
    """In the order in which they stand there; None for one that somebody else made."""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Webhook | None:
        """The webhook of that name."""
        return next((each for each in self.webhooks if each and each.name == name), None)

    @property
    def is_injected(self) -> bool:
        """Whether cert-manager keeps the bundle."""
        return any(name in self.annotations for name in INJECTIONS)


@dataclass(frozen=True, slots=True)
class RegistrationSettings:
    """How we want to be asked; flags of the original have its defaults, but for the timeout."""

    address: Address
    """`--webhook-service`, or `--register-by-url` with `--webhook-address` and `--webhook-port`."""
    name: str = "vpa-webhook-config"
    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    """`--webhook-failure-policy-fail`."""
    timeout_seconds: int = 5
    """`--webhook-timeout-seconds`: a pod waits no longer than that for us."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """`--webhook-labels`."""
    ignored_namespaces: frozenset[str] = frozenset()
    """`--ignored-vpa-object-namespaces`."""
    selected_namespace: str = ""
    """`--vpa-object-namespace`."""
    injected_from: str = ""
    """The namespace and name of a certificate of cert-manager, which then keeps the bundle."""
    test_namespace: str = ""
    """Where our own test pods are tried; empty if there are none."""

    def __post_init__(self) -> None:
        """Refuse what the API server would refuse."""
        if not 1 <= self.timeout_seconds <= _LONGEST_TIMEOUT_SECONDS:
            problem = f"is not from 1 to {_LONGEST_TIMEOUT_SECONDS}"
            raise SettingsError("webhook_timeout_seconds", self.timeout_seconds, problem)
        if isinstance(self.address, str) and not self.address.startswith("https://"):
            raise SettingsError("webhook_address", self.address, "does not begin with https://")

    @property
    def namespaces(self) -> Selector:
        """The namespaces whose pods we are asked about."""
        if self.ignored_namespaces:
            return _of_namespaces(Operator.NOT_IN, *sorted(self.ignored_namespaces))
        if self.selected_namespace:
            return _of_namespaces(Operator.IN, self.selected_namespace)
        return Selector()


def plan_registration(
    found: Registration | None, settings: RegistrationSettings, bundle: str
) -> Registration:
    """The registration as it should be; equal to the one that was found if all is well.

    The bundle is for webhooks that are new; others keep theirs.
    """
    base = found or Registration(settings.name)
    remembered = base.annotations.get(REGISTERED_AS, "")
    main = base.find(MAIN)
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
    """The registration with another bundle for all webhooks that are ours."""
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
        # Nobody has changed the settings; what differs was tuned by hand.
        return replace(
            wanted,
            failure_policy=found.failure_policy,
            timeout_seconds=found.timeout_seconds,
            namespaces=found.namespaces,
        )
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
    kept = tuple(each and wanted.get(each.name, each) for each in found)
    present = {each.name for each in found if each}
    return (*kept, *(each for name, each in wanted.items() if name not in present))


def _of_namespaces(operator: Operator, *names: str) -> Selector:
    return Selector((LabelRequirement(_NAMESPACE_LABEL, operator, names),))


def _format_settings(settings: RegistrationSettings) -> str:
    """What may be tuned by hand, as the settings have it."""
    return json.dumps(
        {
            "failurePolicy": settings.failure_policy,
            "timeoutSeconds": settings.timeout_seconds,
            "ignoredNamespaces": sorted(settings.ignored_namespaces),
            "selectedNamespace": settings.selected_namespace,
        },
        sort_keys=True,
    )
