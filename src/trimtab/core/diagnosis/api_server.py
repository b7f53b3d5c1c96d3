"""Checks of the API server itself: its version, clock, permissions, and our kinds of objects."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.diagnosis.durations import brief
from trimtab.core.diagnosis.findings import Finding, Severity, Unseen, ok, unknown

_CLOSE: Final = timedelta(seconds=5)
"""Maximum difference that the network and a Date header in seconds make of equal clocks."""
_FAR: Final = timedelta(minutes=5)
"""Clocks that differ by more spoil certificates and the age of samples."""
_APPLY_CRDS: Final = "trimtab crds | kubectl apply --server-side --force-conflicts -f -"
_SHOWN_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Version and features that the API server reports."""

    version: str
    can_resize: bool | Unseen
    """True if pods can be resized in place."""


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """One moment on two clocks."""

    here: datetime
    there: datetime

    @property
    def skew(self) -> timedelta:
        """Time by which the server's clock is ahead."""
        return self.there - self.here


@dataclass(frozen=True, slots=True)
class Rights:
    """Permissions that one user or ServiceAccount lacks for one purpose."""

    holder: str
    """`you`, or the name of a ServiceAccount."""
    purpose: str
    """Use of the permissions."""
    missing: tuple[str, ...] | Unseen
    """Permissions such as `list pods`."""
    is_optional: bool = False
    """True if everything else works without them."""


@dataclass(frozen=True, slots=True)
class Definition:
    """One CustomResourceDefinition as it is, beside what it should be."""

    name: str
    is_there: bool = True
    is_established: bool = True
    serves_v1: bool = True
    stores_v1: bool = True
    missing_fields: tuple[str, ...] = ()
    """Paths of fields that ours has and that one has not."""
    managers: tuple[str, ...] = ()
    """Field managers that own a part of its spec, and hold it against a server-side apply."""


def check_server(facts: ServerFacts, wants_resize: Sequence[str] = ()) -> Iterator[Finding]:
    """Check that the server can resize pods in place, as the modes of some autoscalers need."""
    if isinstance(facts.can_resize, Unseen):
        yield unknown(facts.can_resize)
        return
    if facts.can_resize:
        yield ok(f"Kubernetes {facts.version} answers, and can resize pods in place")
        return
    text = f"Kubernetes {facts.version} cannot resize pods in place (1.33 and later can)"
    if not wants_resize:
        yield Finding(Severity.NOTE, f"{text}; pods are brought to their size by eviction")
    for subject in wants_resize:
        yield Finding(
            Severity.WARNING,
            f"{text}, but the mode of this autoscaler asks for it",
            "use the mode Recreate, or upgrade the cluster",
            subject,
        )


def check_clock(facts: ClockFacts) -> Iterator[Finding]:
    """Check that both clocks show the same time."""
    skew = facts.skew
    if abs(skew) <= _CLOSE:
        return
    direction = "ahead of" if skew > timedelta() else "behind"
    yield Finding(
        Severity.PROBLEM if abs(skew) > _FAR else Severity.WARNING,
        f"the API server's clock is {brief(abs(skew))} {direction} the clock of this machine; "
        "certificates, leases and the age of samples are judged by such clocks",
        "let all machines follow one time server (chronyc tracking)",
    )


def check_rights(facts: Iterable[Rights]) -> Iterator[Finding]:
    """Check that users and ServiceAccounts have all permissions that they need."""
    for one in facts:
        if isinstance(one.missing, Unseen):
            yield unknown(one.missing, one.holder)
        elif one.missing:
            yield Finding(
                Severity.NOTE if one.is_optional else Severity.PROBLEM,
                f"may not {', '.join(one.missing)}, which is needed for {one.purpose}",
                f"bind a role that allows it to {one.holder}; the chart's roles do",
                one.holder,
            )
        else:
            yield ok(f"{one.holder}: has every right that is needed for {one.purpose}")


def check_definitions(facts: Iterable[Definition]) -> Iterator[Finding]:
    """Check that our CustomResourceDefinitions exist, are complete and are served."""
    for one in facts:
        if not one.is_there:
            text = "this CustomResourceDefinition is missing: there can be no such objects"
            yield Finding(Severity.PROBLEM, text, _APPLY_CRDS, one.name)
        elif not one.serves_v1 or not one.is_established:
            text = "its version v1 is not served, so such objects can be neither read nor written"
            yield Finding(Severity.PROBLEM, text, _APPLY_CRDS, one.name)
        else:
            yield from _flaws(one)


def _flaws(one: Definition) -> Iterator[Finding]:
    # The remedy is a command to copy, so the reason for its flag belongs to the text.
    owners = ""
    if one.managers:
        owners = f" (to mend it needs --force-conflicts: {' and '.join(one.managers)} owns fields)"
    if not one.stores_v1:
        text = f"objects are stored in another version than v1{owners}"
        yield Finding(Severity.WARNING, text, _APPLY_CRDS, one.name)
    if one.missing_fields:
        shown = ", ".join(one.missing_fields[:_SHOWN_FIELDS])
        rest = len(one.missing_fields) - _SHOWN_FIELDS
        more = f" and {rest} more" if rest > 0 else ""
        text = (
            f"these fields are unknown to it, so the API server drops them: {shown}{more}{owners}"
        )
        yield Finding(Severity.PROBLEM, text, _APPLY_CRDS, one.name)
