"""Checks of the components: their Deployments, the holders of their leases, and rivals."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from trimtab.core.diagnosis import durations
from trimtab.core.diagnosis.findings import Finding, Severity, Unseen, ok, unknown

_AHEAD: Final = timedelta(seconds=5)
_STATUS_PATIENCE: Final = timedelta(minutes=1)
"""Time for which an updater trusts a status lease."""
_MANY_RESTARTS: Final = 5


class Component(StrEnum):
    """Component of the autoscaler that runs in a cluster."""

    RECOMMENDER = "recommender"
    UPDATER = "updater"
    ADMISSION = "admission-controller"
    ROLES = "roles"


NEEDED: Final = (Component.RECOMMENDER, Component.UPDATER, Component.ADMISSION)
LEASES: Final = {
    Component.RECOMMENDER: "vpa-recommender-lease",
    Component.UPDATER: "vpa-updater",
    Component.ROLES: "trimtab-roles",
}
"""The leases by which copies take turns, unless flags name others."""
STATUS_LEASE: Final = "vpa-admission-controller"


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease of a component."""

    namespace: str
    name: str
    holder: str = ""
    is_ours: bool = True
    """True if the name of the holder shows that it is Trimtab."""
    renewed_at: datetime | None = None
    duration: timedelta = timedelta(seconds=15)

    @property
    def place(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """All leases with names of ours."""

    now: datetime
    leases: Sequence[HeldLease]


@dataclass(frozen=True, slots=True)
class Installed:
    """A Deployment that runs a component, of ours or of the original."""

    namespace: str
    name: str
    component: Component
    is_ours: bool = True
    wanted: int = 1
    ready: int = 1
    troubles: tuple[str, ...] = ()
    """Problems of its pods."""
    restarts: int = 0
    """Those of its worst pod."""
    account: str = "default"
    """The ServiceAccount of its pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of its pods."""
    watched: str = ""
    """The only namespace that it looks at; empty for all."""
    is_secure: bool = False
    """True if it serves its pages with TLS, to callers with a token."""

    @property
    def place(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"


def check_leases(facts: LeaseFacts) -> Iterator[Finding]:
    """Check the leases of leaders, and the status lease of the admission controller."""
    status = [one for one in facts.leases if one.name == STATUS_LEASE]
    if not status:
        yield Finding(
            Severity.PROBLEM,
            f"there is no lease {STATUS_LEASE}: no admission controller has said that new pods "
            "get their size, so updaters evict no pods",
            "start the admission controller; its log says why its self-test fails",
        )
    for one in status:
        yield from _check_status(one, facts.now)
    for one in facts.leases:
        if one.name != STATUS_LEASE:
            yield from _check_leader(one, facts.now)


def _check_status(lease: HeldLease, now: datetime) -> Iterator[Finding]:
    silence = _silence(lease, now)
    if silence > max(_STATUS_PATIENCE, 3 * lease.duration):
        yield Finding(
            Severity.PROBLEM,
            f"it was last renewed {durations.brief(silence)} ago, by "
            f"{lease.holder or 'an unknown holder'}: new pods do not get their size, and updaters "
            "evict no pods",
            "look at the admission controller: its log says why its self-test fails",
            lease.place,
        )
    else:
        yield ok(f"{lease.place} is renewed by {lease.holder}")
    yield from _check_holder_clock(lease, now)


def _check_leader(lease: HeldLease, now: datetime) -> Iterator[Finding]:
    silence = _silence(lease, now)
    is_fresh = silence <= 2 * lease.duration
    if not lease.holder:
        text = "it has no holder; its component does not run, or waits for its turn"
        yield Finding(Severity.NOTE, text, "kubectl get pods -A | grep -i trimtab", lease.place)
    elif not is_fresh:
        yield Finding(
            Severity.WARNING,
            f"{lease.holder} has not renewed it for {durations.brief(silence)}: no copy leads",
            "look whether that component runs, and whether it may update leases",
            lease.place,
        )
    elif not lease.is_ours:
        yield Finding(
            Severity.PROBLEM,
            f"it is held by {lease.holder}, which is not Trimtab; while that lasts ours waits",
            "stop the other autoscaler, or start ours with --leader-elect-resource-name",
            lease.place,
        )
    else:
        yield ok(f"{lease.place} is held by {lease.holder}")
    if is_fresh and lease.holder:
        yield from _check_holder_clock(lease, now)


def is_held(lease: HeldLease, now: datetime) -> bool:
    """Return True if the lease has a holder and has not expired."""
    # Leaders renew theirs several times in its duration, but a status lease is renewed just once.
    patience = 2 * lease.duration if lease.name == STATUS_LEASE else lease.duration
    return bool(lease.holder) and _silence(lease, now) <= patience


def _silence(lease: HeldLease, now: datetime) -> timedelta:
    return timedelta.max if lease.renewed_at is None else now - lease.renewed_at


def _check_holder_clock(lease: HeldLease, now: datetime) -> Iterator[Finding]:
    if lease.renewed_at is not None and lease.renewed_at - now > _AHEAD:
        ahead = durations.brief(lease.renewed_at - now)
        yield Finding(
            Severity.WARNING,
            f"the clock of {lease.holder} is {ahead} ahead: it renewed this in the future",
            "let all machines follow one time server (chronyc tracking)",
            lease.place,
        )


def check_components(facts: Sequence[Installed]) -> Iterator[Finding]:
    """Check that our components run, are ready and restart rarely."""
    ours = [one for one in facts if one.is_ours]
    if not ours:
        yield Finding(
            Severity.NOTE,
            "no Deployment here runs a component of Trimtab; they may run elsewhere",
            "install the chart, or use trimtab run",
        )
        return
    running = {one.component for one in facts if one.wanted}
    for component in NEEDED:
        if component not in running:
            text = f"there is no {component}"
            yield Finding(Severity.WARNING, text, f"helm upgrade with {component} enabled")
    for one in ours:
        yield from _check_health(one)


def _check_health(one: Installed) -> Iterator[Finding]:
    describe = f"kubectl -n {one.namespace} describe deployment {one.name}"
    if not one.wanted:
        remedy = f"kubectl -n {one.namespace} scale deployment {one.name} --replicas=1"
        yield Finding(Severity.WARNING, "it is scaled to nothing", remedy, one.place)
    elif one.ready < one.wanted:
        yield Finding(
            Severity.PROBLEM if not one.ready else Severity.WARNING,
            f"{one.ready} of {one.wanted} copies are ready{_tell(one.troubles)}",
            describe,
            one.place,
        )
    elif one.restarts >= _MANY_RESTARTS:
        yield Finding(
            Severity.WARNING,
            f"a copy was restarted {one.restarts} times{_tell(one.troubles)}",
            f"kubectl -n {one.namespace} logs --previous deployment/{one.name}",
            one.place,
        )
    else:
        yield ok(f"{one.place}: {one.ready} of {one.wanted} copies of the {one.component} ready")


def _tell(troubles: tuple[str, ...]) -> str:
    return f": {'; '.join(troubles[:3])}" if troubles else ""


def check_other_installations(
    facts: Sequence[Installed] | Unseen, leases: LeaseFacts | Unseen
) -> Iterator[Finding]:
    """Check that no other autoscaler works beside Trimtab."""
    if isinstance(facts, Unseen):
        yield unknown(facts)
    else:
        yield from _check_rivals(facts)
    if isinstance(leases, Unseen):
        yield unknown(leases)
    else:
        yield from _check_twins([one for one in leases.leases if is_held(one, leases.now)])


def _check_rivals(facts: Sequence[Installed]) -> Iterator[Finding]:
    ours = {one.component for one in facts if one.is_ours and one.wanted}
    for one in facts:
        if one.is_ours or not one.wanted:
            continue
        stop = f"kubectl -n {one.namespace} scale deployment {one.name} --replicas=0"
        if one.component in ours:
            text = f"the original's {one.component} runs beside ours: both act on the same pods"
            yield Finding(Severity.PROBLEM, text, stop, one.place)
        else:
            text = f"the original's {one.component} runs here, and none of ours"
            yield Finding(Severity.NOTE, text, stop, one.place)
    yield from _check_doubles(facts, ours)


def _check_doubles(
    facts: Sequence[Installed], components: Collection[Component]
) -> Iterator[Finding]:
    for component in sorted(components):
        same = [one for one in facts if one.is_ours and one.wanted and one.component == component]
        if len(same) > 1:
            places = ", ".join(one.place for one in same)
            yield Finding(
                Severity.WARNING,
                f"several Deployments run the {component}: {places}; each needs pods of its own "
                "(--vpa-object-namespace, --recommender-name) or one lease for all",
                "remove all but one, or let each look at namespaces of its own",
            )


def _check_twins(leases: Sequence[HeldLease]) -> Iterator[Finding]:
    places = defaultdict(list)
    for one in leases:
        places[one.name].append(one)
    for name, twins in sorted(places.items()):
        if len(twins) > 1:
            holders = ", ".join(f"{one.place} (by {one.holder})" for one in twins)
            yield Finding(
                Severity.WARNING,
                f"the lease {name} is held in several namespaces: {holders}; two installations may "
                "act on the same pods",
                "keep one of them, or let each look at namespaces of its own",
            )
