"""Why something is done about pods, or nothing: the page that an updater shows of some of them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trimtab.api.encoding import encode
from trimtab.api.explained_pods import PlanOrigin, PlansFrom, PodsPage, show_pods
from trimtab.core.assessment import PlanSettings
from trimtab.core.hearing import PlanView, PodExplanation, explain_pod, view_plan
from trimtab.core.newcomers import Newcomer, size_newcomer
from trimtab.core.snapshot import ObservedPod
from trimtab.updater.last_plan import Look


def only_namespace(look: Look, namespace: str) -> Look:
    """What was seen and planned in one namespace: plans never reach beyond one."""
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
    """The pods of a view that a query asks for by `pod`, or by `autoscaler`."""
    return show_pods(_explained(view, query), origin)


def show_page(
    look: Look | None, settings: PlanSettings, waiting: int, query: Mapping[str, str]
) -> bytes:
    """The pods of `?namespace=` and `?autoscaler=` or `?pod=`, as JSON; `null` without a plan."""
    if look is None:
        return encode(None)
    part = only_namespace(look, query.get("namespace", ""))
    view = view_plan(part.snapshot, settings, part.at, outcomes=part.outcomes)
    origin = PlanOrigin(PlansFrom.UPDATER, part.at, settings, waiting=waiting)
    return encode(explain(view, origin, query))


def _explained(
    view: PlanView, query: Mapping[str, str]
) -> Iterator[tuple[PodExplanation, Newcomer]]:
    for observed in view.context.snapshot.pods:
        if query.get("pod") not in (None, "", observed.pod.name):
            continue
        explanation = explain_pod(observed, view)
        if explanation is not None and _is_asked_for(explanation, query):
            yield explanation, _next(observed, view)


def _is_asked_for(explanation: PodExplanation, query: Mapping[str, str]) -> bool:
    asked, autoscaler = query.get("autoscaler"), explanation.autoscaler
    return not asked or (autoscaler is not None and autoscaler.name == asked)


def _next(observed: ObservedPod, view: PlanView) -> Newcomer:
    context = view.context
    limit_ranges = context.limit_ranges_of(observed.pod)
    return size_newcomer(observed, view.index, limit_ranges, context.settings.gates)
