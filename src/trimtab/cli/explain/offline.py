"""Explanations from the objects of the cluster, without asking a component."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from trimtab.api.explain.pods import PlanOrigin, PlansFrom, PodsPage
from trimtab.api.explain.recommendation import NumbersFrom, NumbersPage, Origin
from trimtab.cli.commands.read_cluster import ClusterView
from trimtab.cli.errors import FailedError
from trimtab.cli.explain.remote import ExplainQuery
from trimtab.cli.runtime import cluster_problems
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.core.explain import pod_checks
from trimtab.core.explain.pod_checks import PlanView
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.updates.checks.check import REMEMBERED, CheckKind
from trimtab.recommender import pages as recommender_pages
from trimtab.recommender import restore
from trimtab.recommender.settings import RecommenderSettings
from trimtab.updater import pages as updater_pages
from trimtab.updater.admission_liveness import AdmissionLiveness
from trimtab.updater.observe import Observer
from trimtab.updater.settings import UpdaterSettings
from trimtab.updater.state import UpdaterMemory

_DISPENSABLE: Final = {
    "verticalpodautoscalercheckpoints": "checkpoints cannot be read: no history is known",
    "limitranges": "limit ranges cannot be read: as if there were none",
    "resourcequotas": "resource quotas cannot be read: as if there were none",
    "namespaces": "the namespace cannot be read: as if it paused nothing",
}
"""Kinds that an explanation can do without, and the remark for each."""
_ASIDE: Final = {
    "nodes": "nodes cannot be read: as if any pod fitted on one",
    "horizontalpodautoscalers": "horizontal autoscalers cannot be read: as if there were none",
}
"""The same for kinds that the listing of the cluster does not wait for."""
_MOMENT: Final = timedelta(milliseconds=50)
_PATIENCE: Final = timedelta(seconds=3)


def scope_of(namespace: str) -> Scope:
    """Return the scope of all that an explanation may need of a namespace."""
    return Scope(namespace, nodes=True, quotas=True, namespaces=True, horizontals=True)


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """A view of the cluster, and the plan that a newly started updater would make of it."""

    cluster: LiveCluster
    view: PlanView
    now: datetime
    remarks: tuple[str, ...]

    def autoscaler(self, name: AutoscalerName) -> Autoscaler | None:
        """Return the autoscaler of a name; None if there is none."""
        return self.cluster.autoscalers.find(*name)

    def has_pod(self, namespace: str, name: str) -> bool:
        """Return True if the pod exists."""
        return self.cluster.pods.find(namespace, name) is not None

    def governor(self, namespace: str, name: str) -> Autoscaler | None:
        """Return the autoscaler that governs a pod; None if there is none."""
        for each in self.view.context.snapshot.pods:
            if (each.pod.namespace, each.pod.name) == (namespace, name):
                return matching.governor_of(self.view.index, each.workload, each.pod.labels)
        return None

    def rivals(self, autoscaler: AutoscalerName) -> list[AutoscalerName]:
        """Return the autoscalers that govern pods which this one matches, too."""
        index = self.view.index
        matches = (
            matching.match_autoscalers(index, each.workload, each.pod.labels)
            for each in self.view.context.snapshot.pods
        )
        conflicts = matching.find_conflicts(matches, matching.acts_on_running_pods)
        return [each.stronger for each in conflicts if each.weaker == autoscaler]


async def survey(sight: ClusterView, clock: RealClock, server: str) -> ObservedCluster:
    """Plan from the views of the cluster; a FailedError if a required kind is missing."""
    for path, error in sight.unseen.items():
        if _resource_of(path) not in _DISPENSABLE:
            raise FailedError(cluster_problems.explain_problem(error or TimeoutError(), server))
    cluster, now = sight.cluster, clock.now()
    await _wait_for_the_rest(cluster, clock)
    settings = UpdaterSettings()
    alive = await _is_admission_alive(cluster, settings, clock)
    observer = Observer(cluster, settings, UpdaterMemory())
    seen = await observer.observe(now, admission_alive=alive is not False)
    unknown = REMEMBERED | ({CheckKind.ADMISSION} if alive is None else frozenset())
    # A new updater counts no pod that is not ready; a running one does.
    snapshot = replace(seen.snapshot, settling=frozenset())
    view = pod_checks.view_plan(snapshot, settings.plan, now, unknown=unknown)
    return ObservedCluster(cluster, view, now, tuple(_list_remarks(sight)))


async def explain_numbers(around: ObservedCluster, autoscaler: Autoscaler) -> NumbersPage | None:
    """Explain the numbers that a newly started recommender would publish."""
    # An autoscaler has the same checkpoints for every recommender.
    name = next(iter(autoscaler.recommenders), RecommenderSettings().name)
    settings = replace(RecommenderSettings(), name=name)
    knowledge = await restore.recall(around.cluster, settings, around.now)
    # Held targets start with the first estimate.
    knowledge.publications.renew()
    saved = [
        each.aggregate.last_update_time
        for each in around.cluster.checkpoints
        if (each.namespace, each.autoscaler_name) == autoscaler.identity
        and each.aggregate.last_update_time is not None
    ]
    origin = Origin(
        NumbersFrom.CHECKPOINTS,
        around.now,
        min(saved, default=None),
        has_default_settings=True,
        remarks=around.remarks,
    )
    return recommender_pages.explain(knowledge, autoscaler.identity, settings, origin)


def explain_pods(around: ObservedCluster, question: ExplainQuery) -> PodsPage:
    """Explain all checks of pods, with the answers of a newly started updater."""
    origin = PlanOrigin(
        PlansFrom.CLUSTER,
        around.now,
        around.view.context.settings,
        has_default_settings=True,
        remarks=around.remarks,
    )
    return updater_pages.explain(around.view, origin, question.parameters())


async def _wait_for_the_rest(cluster: LiveCluster, clock: RealClock) -> None:
    """Wait briefly for nodes and horizontal autoscalers, which bound what a plan may do."""
    ends_at = clock.elapsed() + _PATIENCE
    while clock.elapsed() < ends_at:
        lacking = {_resource_of(path) for path in cluster.shortcomings()}
        if lacking.issuperset(_list_unlisted(cluster)):
            return
        await clock.sleep(_MOMENT)


def _list_unlisted(cluster: LiveCluster) -> Iterator[str]:
    stores = (cluster.nodes, cluster.horizontals)
    return (name for name, store in zip(_ASIDE, stores, strict=True) if store.age() is None)


async def _is_admission_alive(
    cluster: LiveCluster, settings: UpdaterSettings, clock: RealClock
) -> bool | None:
    """Return True if the admission controller works; None if its lease cannot be read."""
    place = settings.admission_lease_namespace, settings.admission_lease_name
    try:
        lease = await cluster.fetch_lease(*place)
    except ClusterError:
        return None
    # The lease may have another place, which only the component's flags name.
    return None if lease is None else await AdmissionLiveness(cluster, settings, clock).is_alive()


def _list_remarks(sight: ClusterView) -> Iterator[str]:
    for path in sight.unseen:
        yield _DISPENSABLE[_resource_of(path)]
    for name in _list_unlisted(sight.cluster):
        yield _ASIDE[name]


def _resource_of(path: str) -> str:
    """Return the resource of a path; the path of one namespace ends with its name."""
    place, _, last = path.rpartition("/")
    return "namespaces" if place.endswith("/namespaces") else last
