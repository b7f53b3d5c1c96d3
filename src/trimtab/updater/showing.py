"""The last plan as a page for people and programs: one entry for each pod, as JSON."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from trimtab.api.encoding import Written, encode
from trimtab.api.explained_pods import (
    ShownAllocation,
    ShownChange,
    show_allocation,
    show_change,
)
from trimtab.api.times import format_time
from trimtab.core.outcomes import Evict, Hold, Outcome, Resize, Unboost, wanted_in_the_end
from trimtab.core.pods import Wanted
from trimtab.updater.decisions import Decisions
from trimtab.updater.reports import TickReport, count_holds, count_kinds

NameT = TypeVar("NameT", bound=str)


class _Entry(Written, frozen=True, kw_only=True):
    namespace: str
    pod: str
    autoscaler: str | None = None
    action: str
    """`Evict`, `Resize`, `Unboost` or `Hold`."""
    reason: str | None = None
    """Of a hold, or why a startup boost ends."""
    detail: str | None = None
    """The words of the kubelet or the API server behind the reason."""
    withheld: str | None = None
    """What would be done but for the reason."""
    since: str | None = None
    until: str | None = None
    """When another look is worth it although nothing happens."""
    quick_oom: bool = False
    change: ShownChange | None = None
    current: Mapping[str, ShownAllocation] | None = None
    wanted: Mapping[str, ShownAllocation] | None = None


class _Page(Written, frozen=True, kw_only=True):
    planned_at: str | None
    is_blind: bool
    is_admission_alive: bool
    is_surging: bool
    surging_namespaces: Sequence[str]
    is_paused: bool
    waiting: int
    """Acts that the pace does not allow yet."""
    actions: Mapping[str, int]
    holds: Mapping[str, int]
    pods: Sequence[_Entry]


def show_plan(
    outcomes: Iterable[Outcome],
    decisions: Decisions,
    report: TickReport,
    query: Mapping[str, str],
    *,
    is_paused: bool = False,
) -> bytes:
    """The page, with the pods of `?namespace=` and `?autoscaler=` alone where these are asked for.

    An autoscaler is asked for by its name, or by its namespace and name with a slash between them.
    """
    chosen = [each for each in outcomes if _is_asked_for(each, query)]
    chosen.sort(key=lambda each: (each.pod.namespace, each.pod.name))
    return encode(
        _Page(
            planned_at=None if report.is_blind else format_time(report.at),
            is_blind=report.is_blind,
            is_admission_alive=report.is_admission_alive,
            is_surging=bool(report.surging),
            surging_namespaces=sorted(report.surging),
            is_paused=is_paused,
            waiting=report.waiting,
            actions=_ranked(count_kinds(chosen)),
            holds=_ranked(count_holds(chosen)),
            pods=[_entry(each, decisions.since(each)) for each in chosen],
        )
    )


def encode_wanted(wanted: Wanted | None) -> dict[str, dict[str, Mapping[str, str]]]:
    """What containers shall have, as people write it."""
    shown = {name: show_allocation(each) for name, each in (wanted or {}).items()}
    return {
        name: {
            kind: amounts
            for kind, amounts in (("requests", each.requests), ("limits", each.limits))
            if amounts
        }
        for name, each in shown.items()
    }


def _is_asked_for(outcome: Outcome, query: Mapping[str, str]) -> bool:
    namespace, autoscaler = query.get("namespace"), query.get("autoscaler")
    if namespace and outcome.pod.namespace != namespace:
        return False
    if not autoscaler:
        return True
    name = outcome.autoscaler
    return name is not None and autoscaler in (name.name, f"{name.namespace}/{name.name}")


def _entry(outcome: Outcome, since: datetime | None) -> _Entry:
    pod, autoscaler = outcome.pod, outcome.autoscaler
    return _Entry(
        namespace=pod.namespace,
        pod=pod.name,
        autoscaler=None if autoscaler is None else autoscaler.name,
        action=type(outcome).__name__,
        reason=_reason(outcome),
        detail=outcome.detail or None if isinstance(outcome, Hold) else None,
        withheld=_withheld(outcome),
        since=None if since is None else format_time(since),
        until=_until(outcome),
        quick_oom=isinstance(outcome, Evict | Resize) and outcome.quick_oom,
        change=_show_change(outcome),
        current={each.name: show_allocation(each.current) for each in pod.containers},
        wanted=_show_wanted(outcome),
    )


def _reason(outcome: Outcome) -> str | None:
    match outcome:
        case Hold(reason=reason):
            return reason.value
        case Unboost(cause=cause):
            return cause.value
        case Evict() | Resize():
            return None


def _until(outcome: Outcome) -> str | None:
    until = outcome.until if isinstance(outcome, Hold) else None
    return None if until is None else format_time(until)


def _withheld(outcome: Outcome) -> str | None:
    if not isinstance(outcome, Hold) or outcome.withheld is None:
        return None
    return type(outcome.withheld).__name__


def _show_change(outcome: Outcome) -> ShownChange | None:
    change = None if isinstance(outcome, Unboost) else outcome.change
    return None if change is None else show_change(change)


def _show_wanted(outcome: Outcome) -> Mapping[str, ShownAllocation] | None:
    wanted = wanted_in_the_end(outcome)
    return (
        None if wanted is None else {name: show_allocation(each) for name, each in wanted.items()}
    )


def _ranked(counts: Mapping[NameT, int]) -> dict[str, int]:
    """The most frequent first."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return {str(name): counts[name] for name in names}
