"""What an explanation is made from where no component is asked: what the cluster shows."""

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
from trimtab.core.explain.update_checks import REMEMBERED, CheckKind
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.recommender import pages as numbers
from trimtab.recommender import restore
from trimtab.recommender.settings import RecommenderSettings
from trimtab.updater import pages as plans
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
"""What an explanation can do without, and what follows from that."""
_ASIDE: Final = {
    "nodes": "nodes cannot be read: as if any pod fitted on one",
    "horizontalpodautoscalers": "horizontal autoscalers cannot be read: as if there were none",
}
"""The same of what nobody waits for who lists the rest."""
_MOMENT: Final = timedelta(milliseconds=50)
_PATIENCE: Final = timedelta(seconds=3)


def scope_of(namespace: str) -> Scope:
    """All that an explanation may need of a namespace."""
    return Scope(namespace, nodes=True, quotas=True, namespaces=True, horizontals=True)


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The cluster as it was seen, and a plan as an updater would make it that remembers nothing."""

    cluster: LiveCluster
    view: PlanView
    now: datetime
    remarks: tuple[str, ...]

    def autoscaler(self, name: AutoscalerName) -> Autoscaler | None:
        """An autoscaler that is there."""
        return self.cluster.autoscalers.find(*name)

    def has_pod(self, namespace: str, name: str) -> bool:
        """Whether there is such a pod."""
        return self.cluster.pods.find(namespace, name) is not None

    def governor(self, namespace: str, name: str) -> Autoscaler | None:
        """The autoscaler that governs a pod."""
        for each in self.view.context.snapshot.pods:
            if (each.pod.namespace, each.pod.name) == (namespace, name):
                return matching.governor_of(self.view.index, each.workload, each.pod.labels)
        return None

    def rivals(self, autoscaler: AutoscalerName) -> list[AutoscalerName]:
        """The autoscalers that govern pods which this one matches, too."""
        index = self.view.index
        matches = (
            matching.match_autoscalers(index, each.workload, each.pod.labels)
            for each in self.view.context.snapshot.pods
        )
        conflicts = matching.find_conflicts(matches, matching.acts_on_running_pods)
        return [each.stronger for each in conflicts if each.weaker == autoscaler]


async def survey(sight: ClusterView, clock: RealClock, server: str) -> ObservedCluster:
    """What there is to see; a FailedError if that is not enough."""
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
    # One that has just started counts on no pod that is not ready; one that runs does.
    snapshot = replace(seen.snapshot, settling=frozenset())
    view = pod_checks.view_plan(snapshot, settings.plan, now, unknown=unknown)
    return ObservedCluster(cluster, view, now, tuple(_list_remarks(sight)))


async def explain_numbers(around: ObservedCluster, autoscaler: Autoscaler) -> NumbersPage | None:
    """How the numbers come about that a recommender would publish that started now."""
    # Whoever recommends to the autoscaler, its checkpoints are the same.
    name = next(iter(autoscaler.recommenders), RecommenderSettings().name)
    settings = replace(RecommenderSettings(), name=name)
    knowledge = await restore.recall(around.cluster, settings, around.now)
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
    return numbers.explain(knowledge, autoscaler.identity, settings, origin)


def explain_pods(around: ObservedCluster, question: ExplainQuery) -> PodsPage:
    """All checks of pods, as an updater would answer them that remembers nothing."""
    origin = PlanOrigin(
        PlansFrom.CLUSTER,
        around.now,
        around.view.context.settings,
        has_default_settings=True,
        remarks=around.remarks,
    )
    return plans.explain(around.view, origin, question.parameters())


async def _wait_for_the_rest(cluster: LiveCluster, clock: RealClock) -> None:
    """Nobody else waits for nodes and horizontal autoscalers, but both bound what is done."""
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
    """Whether new pods get their size; None if that cannot be seen from here."""
    place = settings.admission_lease_namespace, settings.admission_lease_name
    try:
        lease = await cluster.fetch_lease(*place)
    except ClusterError:
        return None
    # Only its flags say where else it would be.
    return None if lease is None else await AdmissionLiveness(cluster, settings, clock).is_alive()


def _list_remarks(sight: ClusterView) -> Iterator[str]:
    for path in sight.unseen:
        yield _DISPENSABLE[_resource_of(path)]
    for name in _list_unlisted(sight.cluster):
        yield _ASIDE[name]


def _resource_of(path: str) -> str:
    """What is listed at a path; a namespace itself is read by its name."""
    place, _, last = path.rpartition("/")
    return "namespaces" if place.endswith("/namespaces") else last
