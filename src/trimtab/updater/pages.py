"""The last plan as a page for people and programs: one entry for each pod, as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar

from trimtab.api.explain.pods import (
    PlanOrigin,
    PlansFrom,
    PodsPage,
    ShownAllocation,
    ShownChange,
    show_allocation,
    show_change,
    show_pods,
)
from trimtab.api.wire import codec, times
from trimtab.api.wire.codec import Written
from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize, Unboost, wanted_in_the_end
from trimtab.core.explain import next_pod, pod_checks
from trimtab.core.explain.next_pod import NextPod
from trimtab.core.explain.pod_checks import PlanView
from trimtab.core.guards import disruption_budgets
from trimtab.core.model.pods import TargetResources
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod
from trimtab.updater.decisions import Decisions
from trimtab.updater.last_plan import Look
from trimtab.updater.reports import TickReport, count_holds, count_kinds

NameT = TypeVar("NameT", bound=str)

_NONE_WAIT: Final[Mapping[str, int]] = {}


class _Entry(Written, frozen=True, kw_only=True):
    namespace: str
    pod: str
    autoscaler: str | None = None
    action: str
    """`Evict`, `Resize`, `Unboost` or `Hold`."""
    reason: str | None = None
    """Reason of a hold, or cause of the end of a startup boost."""
    detail: str | None = None
    """The message of the kubelet or the API server behind the reason."""
    withheld: str | None = None
    """Act that the reason prevents."""
    since: str | None = None
    until: str | None = None
    """Time at which another look is useful although nothing happens."""
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
    waiting_by_namespace: Mapping[str, int]
    """The same acts; namespaces take turns."""
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
    waiting: Mapping[str, int] = _NONE_WAIT,
) -> bytes:
    """Return the page; `?namespace=` and `?autoscaler=` select its pods.

    An autoscaler is given by its name, or by its namespace and name with a slash between them.
    """
    chosen = [each for each in outcomes if _is_asked_for(each, query)]
    chosen.sort(key=lambda each: (each.pod.namespace, each.pod.name))
    return codec.encode(
        _Page(
            planned_at=None if report.is_blind else times.format_time(report.at),
            is_blind=report.is_blind,
            is_admission_alive=report.is_admission_alive,
            is_surging=bool(report.surging),
            surging_namespaces=sorted(report.surging),
            is_paused=is_paused,
            waiting=report.waiting,
            waiting_by_namespace=waiting,
            actions=_ranked(count_kinds(chosen)),
            holds=_ranked(count_holds(chosen)),
            pods=[_entry(each, decisions.since(each)) for each in chosen],
        )
    )


def encode_wanted(wanted: TargetResources | None) -> dict[str, dict[str, Mapping[str, str]]]:
    """Format the sizes that containers shall have."""
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
        since=None if since is None else times.format_time(since),
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
    return None if until is None else times.format_time(until)


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
    """Sort the counts, the largest first."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    return {str(name): counts[name] for name in names}


MOST_PODS: Final = 200
"""Maximum number of pods that are explained at once."""


def only_namespace(look: Look, namespace: str) -> Look:
    """Return the part of a look that concerns one namespace: plans never reach beyond one."""
    pods = [each for each in look.snapshot.pods if each.pod.namespace == namespace]
    autoscalers = [
        each for each in look.snapshot.autoscalers if each.autoscaler.namespace == namespace
    ]
    return Look(
        replace(look.snapshot, pods=pods, autoscalers=autoscalers),
        [each for each in look.outcomes if each.pod.namespace == namespace],
        look.at,
    )


def explain(view: PlanView, origin: PlanOrigin, query: Mapping[str, str]) -> PodsPage:
    """Explain the pods of a view that a query selects by `pod` or by `autoscaler`.

    Only the first ones in the order of the plan are explained, since it takes the updater's time.
    """
    chosen = list(_choose(view, query))
    explained = [
        (explanation, _next(observed, view))
        for observed in chosen[:MOST_PODS]
        if (explanation := pod_checks.explain_pod(observed, view)) is not None
    ]
    return show_pods(explained, replace(origin, left_out=max(len(chosen) - MOST_PODS, 0)))


def show_page(
    look: Look | None, settings: PlanSettings, waiting: int, query: Mapping[str, str]
) -> bytes:
    """Return the pods of `?namespace=` and `?autoscaler=` or `?pod=`; `null` without a plan."""
    if look is None:
        return codec.encode(None)
    part = only_namespace(look, query.get("namespace", ""))
    view = pod_checks.view_plan(part.snapshot, settings, part.at, outcomes=part.outcomes)
    origin = PlanOrigin(PlansFrom.UPDATER, part.at, settings, waiting=waiting)
    return codec.encode(explain(view, origin, query))


def _choose(view: PlanView, query: Mapping[str, str]) -> Iterator[ObservedPod]:
    """Yield the selected pods, in the order of the plan."""
    pod, autoscaler = query.get("pod"), query.get("autoscaler")
    observed = {each.pod.uid: each for each in view.context.snapshot.pods}
    for uid, outcome in view.outcomes.items():
        governor = None if outcome.autoscaler is None else outcome.autoscaler.name
        is_asked_for = pod in (None, "", outcome.pod.name) and autoscaler in (None, "", governor)
        # A pod that came since the last plan of all may be held already.
        if is_asked_for and uid in observed:
            yield observed[uid]


def _next(observed: ObservedPod, view: PlanView) -> NextPod:
    context = view.context
    pod = observed.pod
    found = context.snapshot.quotas.get(pod.namespace, ())
    room = BoostRoom(context.limit_ranges_of(pod), quotas=found)
    owner = disruption_budgets.owner_of(pod)
    sizes = None if owner is None else context.snapshot.template_sizes.get(owner)
    return next_pod.size_newcomer(observed, view.index, room, context.settings.gates, sizes)
