"""Loading: the served autoscalers with their targets, and the pods that feed them.

Loading is level-based: each tick scans whole stores, and only changed objects cost work.
An autoscaler that cannot be read still exists, and one that names another recommender may come
back. A target that is missing for a moment loses nothing. The state of a deleted autoscaler lasts
as long as its checkpoints. They hold samples that are also in memory, and would count twice if the
autoscaler came back and restored them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Owners
from trimtab.core.histogram import oom_floors
from trimtab.core.model import nodes
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Container, ContainerKind, Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.model.selectors import Selector
from trimtab.core.recommendation import targets
from trimtab.core.recommendation.conditions import Unsupported, UnsupportedReason
from trimtab.core.recommendation.cost import starts
from trimtab.core.sizing import startup_boost
from trimtab.core.usage import checkpoint_extras, checkpoint_rotation
from trimtab.core.usage.checkpoint_rotation import Turn
from trimtab.core.usage.containers import PodName
from trimtab.recommender.checkpoints import owner_of
from trimtab.recommender.oom_observer import PodKey
from trimtab.recommender.reports import Problem, ResourceSource, Step, TickReport
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import AutoscalerState, RecommenderState

_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class Autoscalers(Protocol):
    """Source of autoscalers."""

    def __iter__(self) -> Iterator[Autoscaler]:
        """Iterate over all readable autoscalers."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Autoscalers that exist but cannot be read."""


class AutoscalerLoader:
    """Keeps the autoscaler states in step with the store of autoscalers."""

    def __init__(
        self,
        autoscalers: Autoscalers,
        owners: Owners,
        settings: RecommenderSettings,
        *,
        checkpoints: Iterable[Checkpoint] = (),
    ) -> None:
        self._autoscalers = autoscalers
        self._owners = owners
        self._settings = settings
        self._checkpoints = checkpoints

    async def load(self, state: RecommenderState, now: datetime) -> TickReport:
        """Add or update the state of every autoscaler that is served, or was."""
        existing, problems = set(), []
        for autoscaler in self._autoscalers:
            name = autoscaler.identity
            existing.add(name)
            is_ours = self._settings.serves(autoscaler)
            subject = state.subjects.get(name)
            if subject is None and not is_ours:
                continue
            verdict, problem = await self._select_pods(autoscaler)
            problems += [] if problem is None else [problem]
            if subject is None:
                subject = _meet(state, autoscaler, verdict, now)
            else:
                _renew(state, subject, autoscaler, verdict)
            subject.is_ours = is_ours
        _forget_deleted(state, existing, self._autoscalers.unreadable, self._checkpoints)
        return TickReport(autoscalers=len(state.served), problems=tuple(problems))

    async def _select_pods(
        self, autoscaler: Autoscaler
    ) -> tuple[Selector | Unsupported, Problem | None]:
        try:
            return await self._find_selector(autoscaler), None
        except ClusterError as error:
            unchecked = Unsupported(UnsupportedReason.TARGET_UNCHECKED, str(error))
            return unchecked, Problem(Step.LOAD_AUTOSCALERS, _text(autoscaler.identity), error)

    async def _find_selector(self, autoscaler: Autoscaler) -> Selector | Unsupported:
        target, topmost, workload = autoscaler.target, None, None
        if target is not None:
            name = WorkloadName(autoscaler.namespace, target.kind, target.name)
            workload = await self._owners.workload(name, target.api_version)
        if workload is not None:
            topmost = await self._owners.topmost(workload)
        return targets.select_pods(
            autoscaler, workload, topmost, selectors_enabled=self._settings.gates.pod_selector
        )


def load_pods(
    state: RecommenderState, pods: Iterable[Pod], settings: RecommenderSettings, now: datetime
) -> TickReport:
    """Track the existing pods; mark those that are gone, to leave once their kills are counted."""
    view, given = state.pods, list(pods)
    reads: Counter[ResourceSource] = Counter()
    # Cheap for unchanged records: list comparison checks identity first.
    if given != view.given or state.selection_changed or view.leaving:
        view.given = given
        reads = _load_changed(state, given, settings, now)
    state.oom_watch.forget(state.oom_watch.gone(view.present), now)
    checkpoint_extras.settle_expected(state.usage)
    leaving = sum((name.namespace, name.name) in view.tracked for name in view.leaving)
    return TickReport(pods=len(view.tracked) - leaving, resource_reads=reads)


def load_nodes(
    state: RecommenderState, listed: Iterable[Node], settings: RecommenderSettings
) -> None:
    """Limit what is believed and what kills ask for to the largest node's memory.

    Without nodes the settings decide.
    """
    most, margin = settings.oom_ceiling_bytes, settings.recommendations.margin_fraction
    # A node without allocatable memory has not reported any yet.
    if largest := nodes.largest_allocatable(listed).get(Resource.MEMORY, 0):
        most = min(most, oom_floors.highest_need(largest, margin))
    state.oom_ceiling_bytes = most
    state.usage.log.ceiling_bytes = most


def delete_removed_pods(state: RecommenderState) -> None:
    """Stop tracking the pods that are gone; their samples stay."""
    view = state.pods
    # In a fixed order: rows that become free are used again, and their order is that of sums.
    for name in sorted(view.leaving, key=lambda name: (name.namespace, name.name)):
        state.usage.forget(name)
        pod = view.tracked.pop((name.namespace, name.name), None)
        for container in () if pod is None else pod.containers:
            state.pods.counted_kills.pop((name.namespace, name.name, container.name), None)
    view.ended -= view.leaving
    view.leaving = set()


def track(state: RecommenderState, pod: Pod, now: datetime) -> None:
    """Link a pod's containers to the aggregates of its labels."""
    name = PodName(pod.namespace, pod.name)
    names = [container.name for container in pod.containers]
    state.usage.track(name, pod.labels, names, now, created_at=pod.created_at)
    limits = {each.name: each.current.limits or {} for each in pod.containers}
    state.usage.note_requests(name, _usual_requests(pod), limits)
    state.usage.note_starts(name, starts.start_ends(pod, state.cost))


def _usual_requests(pod: Pod) -> dict[str, Resources]:
    """Return the requests of containers, without startup boosts: those are not for good."""
    requests = {each.name: each.current.requests or {} for each in pod.containers}
    for name in startup_boost.boosted_containers(pod):
        usual = startup_boost.before_boost(pod, name)
        if usual is not None and name in requests:
            requests[name] = startup_boost.with_cpu_of(requests[name], usual.requests)
    return requests


def is_wanted(state: RecommenderState, pod: Pod) -> bool:
    """True if any autoscaler selects the pod."""
    labels = tuple(sorted(pod.labels.items()))
    return state.usage.links.has_learner(pod.namespace, labels)


def _load_changed(
    state: RecommenderState, pods: Iterable[Pod], settings: RecommenderSettings, now: datetime
) -> Counter[ResourceSource]:
    view = state.pods
    ours = {name for name in {pod.namespace for pod in pods} if settings.covers(name)}
    present = view.present = {
        (pod.namespace, pod.name): pod
        for pod in pods
        # A pod that has not started uses nothing, and may never run with these containers.
        if pod.phase is not PodPhase.PENDING and pod.namespace in ours
    }
    reads: Counter[ResourceSource] = Counter()
    for key, pod in present.items():
        # Stores keep unchanged pods as the same object, so identity is enough.
        if view.tracked.get(key) is not pod:
            reads.update(map(_source_of, pod.containers))
            _load_pod(state, key, pod, now, is_thrifty=settings.memory_saver)
    view.leaving |= {PodName(*key) for key in view.tracked.keys() - present.keys()}
    view.unmatched = {key: pod for key, pod in view.unmatched.items() if key in present}
    state.selection_changed = False
    return reads


def _load_pod(
    state: RecommenderState, key: PodKey, pod: Pod, now: datetime, *, is_thrifty: bool
) -> None:
    view = state.pods
    # A tracked pod stays tracked: its autoscaler may be missing for a moment only.
    if is_thrifty and key not in view.tracked:
        if view.unmatched.get(key) is pod and not state.selection_changed:
            return
        if not is_wanted(state, pod):
            view.unmatched[key] = pod
            return
        view.unmatched.pop(key, None)
    state.oom_watch.look(pod)
    track(state, pod, now)
    view.tracked[key] = pod
    name = PodName(*key)
    view.leaving.discard(name)
    if pod.phase in _ENDED:
        view.ended.add(name)
    else:
        view.ended.discard(name)


def _source_of(container: Container) -> ResourceSource:
    is_sidecar = container.kind is ContainerKind.SIDECAR
    if container.status is None:
        return ResourceSource.SIDECAR_SPEC if is_sidecar else ResourceSource.SPEC
    return ResourceSource.SIDECAR_STATUS if is_sidecar else ResourceSource.STATUS


def _meet(
    state: RecommenderState,
    autoscaler: Autoscaler,
    verdict: Selector | Unsupported,
    now: datetime,
) -> AutoscalerState:
    # Our own status writes change the object; what is learned by must not change with them.
    learned = _without_status(autoscaler)
    subject = AutoscalerState(autoscaler, learned, verdict, turn=Turn(now))
    state.subjects[autoscaler.identity] = subject
    state.usage.learn(learned, targets.selector_to_learn_by(verdict, None))
    state.publications.held.offer_status(autoscaler)
    state.selection_changed = True
    return subject


def _renew(
    state: RecommenderState,
    subject: AutoscalerState,
    autoscaler: Autoscaler,
    verdict: Selector | Unsupported,
) -> None:
    is_same_object = subject.autoscaler is autoscaler
    if is_same_object and subject.verdict == verdict:
        return
    if not is_same_object:
        learned = _without_status(autoscaler)
        subject.learned = subject.learned if learned == subject.learned else learned
        subject.autoscaler = autoscaler
    subject.verdict = verdict
    known = state.usage.links.learners[autoscaler.identity]
    selector = targets.selector_to_learn_by(verdict, known.last_selector)
    if selector is not None and known.last_selector not in (None, selector):
        subject.is_about_others = True
    state.selection_changed |= selector != known.selector
    state.usage.learn(subject.learned, selector)


def _forget_deleted(
    state: RecommenderState,
    existing: set[AutoscalerName],
    unreadable: Sequence[Unreadable],
    checkpoints: Iterable[Checkpoint],
) -> None:
    hidden = {AutoscalerName(one.namespace, one.name) for one in unreadable}
    for name in state.subjects.keys() - existing:
        # An autoscaler that cannot be read gets no status, but its samples stay.
        state.subjects[name].is_ours = False
    deleted = checkpoint_rotation.find_orphans(state.subjects, existing, hidden)
    kept = {owner_of(each) for each in checkpoints} if deleted else set()
    for name in sorted(deleted & kept):
        # Its checkpoints are still there, and would be restored if it came back.
        _retire(state, state.subjects[name])
    for name in deleted - kept:
        del state.subjects[name]
        state.usage.unlearn(name)


def _retire(state: RecommenderState, subject: AutoscalerState) -> None:
    """Keep the samples of a deleted autoscaler, but none of its policies."""
    if not subject.learned.policies:
        return
    subject.learned = replace(subject.learned, policies=())
    selector = state.usage.links.learners[subject.name].selector
    state.usage.learn(subject.learned, selector)


def _without_status(autoscaler: Autoscaler) -> Autoscaler:
    return replace(
        autoscaler,
        resource_version="",
        recommendation=None,
        conditions=(),
        observed_generation=None,
    )


def _text(name: AutoscalerName) -> str:
    return f"{name.namespace}/{name.name}"
