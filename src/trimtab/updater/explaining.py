"""Why something is done about pods, or nothing: the page that an updater shows of some of them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from trimtab.api.encoding import encode
from trimtab.api.explained_pods import PlanOrigin, PlansFrom, PodsPage, show_pods
from trimtab.core import disruption
from trimtab.core.assessment import PlanSettings
from trimtab.core.boost_room import BoostRoom
from trimtab.core.hearing import PlanView, explain_pod, view_plan
from trimtab.core.newcomers import Newcomer, size_newcomer
from trimtab.core.snapshot import ObservedPod
from trimtab.updater.last_plan import Look

MOST_PODS: Final = 200
"""So many are explained at once."""


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
    """The pods of a view that a query asks for by `pod`, or by `autoscaler`.

    Of very many only those come that the plan names first: an updater has other things to do.
    """
    chosen = list(_choose(view, query))
    explained = [
        (explanation, _next(observed, view))
        for observed in chosen[:MOST_PODS]
        if (explanation := explain_pod(observed, view)) is not None
    ]
    return show_pods(explained, replace(origin, left_out=max(len(chosen) - MOST_PODS, 0)))


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


def _choose(view: PlanView, query: Mapping[str, str]) -> Iterator[ObservedPod]:
    """The pods that are asked for, in the order of the plan."""
    pod, autoscaler = query.get("pod"), query.get("autoscaler")
    observed = {each.pod.uid: each for each in view.context.snapshot.pods}
    for uid, outcome in view.outcomes.items():
        governor = None if outcome.autoscaler is None else outcome.autoscaler.name
        is_asked_for = pod in (None, "", outcome.pod.name) and autoscaler in (None, "", governor)
        # A pod that came since the last plan of all may be held already.
        if is_asked_for and uid in observed:
            yield observed[uid]


def _next(observed: ObservedPod, view: PlanView) -> Newcomer:
    context = view.context
    pod = observed.pod
    found = context.snapshot.quotas.get(pod.namespace, ())
    room = BoostRoom(context.limit_ranges_of(pod), quotas=found)
    owner = disruption.owner_of(pod)
    sizes = None if owner is None else context.snapshot.template_sizes.get(owner)
    return size_newcomer(observed, view.index, room, context.settings.gates, sizes)
