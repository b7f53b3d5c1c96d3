"""Checks of the webhook: its registration, a trial pod, its certificate, and other webhooks.

Other packages read the certificates; here only their subjects and times are known.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.diagnosis.durations import brief
from trimtab.core.diagnosis.findings import Finding, Severity, Unseen, ok, unknown
from trimtab.core.webhook.registration import MAIN, SELF_TEST, Registration, ServiceAddress

_SOON: Final = timedelta(days=7)
"""Certificates of our own making are replaced weeks before they end."""
_LONG_TIMEOUT_SECONDS: Final = 10
_NO_TRIAL: Final = Unseen("no trial pod was sent")
_REGISTERS_AGAIN: Final = "; the admission controller creates it again"
_USUAL_NAMESPACE: Final = "kube-system"
_RESTART: Final = "kubectl rollout restart deployment of the admission controller"


@dataclass(frozen=True, slots=True)
class Mutator:
    """One webhook that may change pods."""

    configuration: str
    name: str
    sees_new_pods: bool = True
    sees_autoscalers: bool = True
    fails_closed: bool = False
    """True if pods cannot be created while it does not answer."""
    is_reinvoked: bool = False
    timeout_seconds: int = 10

    @property
    def is_ours(self) -> bool:
        """True if it has the name that Trimtab and the original use."""
        return self.name == MAIN

    @property
    def is_stranger(self) -> bool:
        """True if it is neither that webhook nor the one for our own test pods."""
        return self.name not in (MAIN, SELF_TEST)


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of a dry-run creation of a pod."""

    has_passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """Webhooks that see new pods, and evidence that ours is reached."""

    mutators: Sequence[Mutator]
    """All webhooks that see new pods or are ours, in the order of the API server's calls."""
    ready_addresses: int | Unseen | None = None
    """Number of ready copies behind the Service; None if the webhook is called by URL."""
    trial: Trial | Unseen = _NO_TRIAL

    @property
    def ours(self) -> Mutator | None:
        """The first webhook of ours; None if none is registered."""
        return next((one for one in self.mutators if one.is_ours), None)


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate, and the span in which it is valid."""

    name: str
    """Its subject."""
    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The certificate that the webhook serves, and the authorities that the API server trusts."""

    now: datetime
    authorities: Sequence[Certificate]
    """Those in the webhook's registration."""
    shown: Certificate | Unseen
    is_believed: bool | Unseen
    """True if one of the authorities has signed the served certificate."""


def list_trial_namespaces(registration: Registration, leases: Sequence[str]) -> list[str]:
    """List namespaces where the admission controller may run, given those of status leases.

    It answers only test pods of its own namespace. Its test webhook names that namespace, and so
    does its Service; where there is neither, its lease is a good guess.
    """
    test, main = registration.find(SELF_TEST), registration.find(MAIN)
    if test is not None:
        return [name for one in test.namespaces.requirements for name in one.values]
    if main is not None and isinstance(main.address, ServiceAddress):
        return [main.address.namespace]
    return list(dict.fromkeys((*leases, _USUAL_NAMESPACE)))


def check_webhook(facts: WebhookFacts) -> Iterator[Finding]:
    """Check that a pod that is created now gets its size."""
    ours = facts.ours
    if ours is None:
        yield Finding(
            Severity.PROBLEM,
            "no webhook is registered, so new pods keep the requests of their templates",
            "start the admission controller with --register-webhook (the chart does)",
        )
        return
    yield from _flaws(ours)
    yield from _reach(facts)


def _flaws(ours: Mutator) -> Iterator[Finding]:
    if not ours.sees_new_pods:
        yield Finding(
            Severity.PROBLEM,
            "the registration leaves out CREATE of pods: no new pod comes to us",
            f"kubectl delete mutatingwebhookconfiguration {ours.configuration}{_REGISTERS_AGAIN}",
            ours.configuration,
        )
    if not ours.sees_autoscalers:
        yield Finding(
            Severity.WARNING,
            "the registration leaves out autoscalers: they are not validated when they are written",
            f"kubectl delete mutatingwebhookconfiguration {ours.configuration}{_REGISTERS_AGAIN}",
            ours.configuration,
        )
    if ours.fails_closed:
        yield Finding(
            Severity.NOTE,
            "its failure policy is Fail: while it does not answer, no pod can be created",
            "run two copies, or start the admission controller with "
            "--webhook-failure-policy-fail=false",
            ours.configuration,
        )
    if ours.timeout_seconds > _LONG_TIMEOUT_SECONDS:
        yield Finding(
            Severity.WARNING,
            f"a new pod may wait {ours.timeout_seconds} s for it when it hangs",
            "start the admission controller with --webhook-timeout-seconds=5",
            ours.configuration,
        )


def _reach(facts: WebhookFacts) -> Iterator[Finding]:
    if facts.ready_addresses == 0:
        yield Finding(
            Severity.PROBLEM,
            "the webhook's Service has no ready copy, so no request is answered",
            "kubectl get pods: look why the admission controller is not ready",
        )
    elif isinstance(facts.ready_addresses, Unseen):
        yield unknown(facts.ready_addresses)
    if isinstance(facts.trial, Unseen):
        yield unknown(facts.trial)
    elif facts.trial.has_passed:
        yield ok("a trial pod (a dry run) came back with our patch")
    else:
        yield Finding(
            Severity.PROBLEM,
            f"a trial pod did not get our patch: {facts.trial.detail}",
            "trimtab doctor --check certificate webhook other-webhooks; then the log of the "
            "admission controller",
        )


def check_certificate(facts: CertificateFacts) -> Iterator[Finding]:
    """Check that the API server trusts the certificate, and will for a while."""
    if not facts.authorities:
        yield Finding(
            Severity.PROBLEM,
            "the registration holds no authority (caBundle), so the API server trusts no webhook",
            _RESTART,
        )
    # One valid authority is enough: a bundle may still have the authorities before it.
    elif all(one.ends_at <= facts.now for one in facts.authorities):
        yield Finding(
            Severity.PROBLEM, "every authority in the registration's caBundle has ended", _RESTART
        )
    if isinstance(facts.shown, Unseen):
        yield unknown(facts.shown)
        return
    yield from _age(facts.shown, facts.now)
    if facts.shown.ends_at <= facts.now:
        # No client trusts an expired certificate, whichever authority has signed it.
        return
    if isinstance(facts.is_believed, Unseen):
        yield unknown(facts.is_believed)
    elif not facts.is_believed:
        yield Finding(
            Severity.PROBLEM,
            f"no authority of the caBundle has signed the certificate {facts.shown.name}: the API "
            "server refuses the webhook's answers",
            _RESTART,
        )


def _age(shown: Certificate, now: datetime) -> Iterator[Finding]:
    left = shown.ends_at - now
    if left <= timedelta():
        yield Finding(
            Severity.PROBLEM,
            f"the certificate {shown.name} has ended {brief(-left)} ago",
            _RESTART,
        )
    elif shown.begins_at > now:
        yield Finding(
            Severity.PROBLEM,
            f"the certificate {shown.name} is valid only in {brief(shown.begins_at - now)}",
            "compare the clocks: trimtab doctor --check clock",
        )
    elif left < _SOON:
        yield Finding(
            Severity.WARNING,
            f"the certificate {shown.name} ends in {brief(left)} and was not replaced yet",
            "look at the log of the admission controller, or at cert-manager",
        )
    else:
        yield ok(f"the certificate {shown.name} is valid for {brief(left)}")


def check_other_webhooks(facts: WebhookFacts) -> Iterator[Finding]:
    """Find other webhooks that may change the resources of a pod after ours."""
    names = [one.configuration for one in facts.mutators if one.is_ours]
    if len(names) > 1:
        yield Finding(
            Severity.PROBLEM,
            f"more than one configuration asks an autoscaler's webhook: {', '.join(names)}; "
            "the one asked last wins",
            f"kubectl delete mutatingwebhookconfiguration {names[-1]} (the one that is not ours)",
        )
    place = next((at for at, one in enumerate(facts.mutators) if one.is_ours), None)
    # A webhook that is called again after others have changed a pod has the last word.
    if place is None or facts.mutators[place].is_reinvoked:
        return
    for one in facts.mutators[place + 1 :]:
        if one.sees_new_pods and one.is_stranger:
            yield Finding(
                Severity.NOTE,
                f"{one.name} is asked after us: containers that it adds get no size from us, and "
                "resources that it sets stay",
                f"if it does, set reinvocationPolicy: IfNeeded on the webhook {MAIN} (kubectl edit "
                f"mutatingwebhookconfiguration {names[0]}), so that we are asked again",
                one.configuration,
            )
