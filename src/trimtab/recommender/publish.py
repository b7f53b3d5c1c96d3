"""Publishing: compute each autoscaler's status, and write the statuses that changed enough."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.cluster.ports import Cluster
from trimtab.core.model import hpa, matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.hpa import HpaClaim, HpaConflict, Scaling
from trimtab.core.model.matching import Conflict, ObservedAutoscaler
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.recommendation import PublishedRecommendation
from trimtab.core.model.selectors import Selector
from trimtab.core.recommendation import conditions, relearning, status_changes
from trimtab.core.recommendation.conditions import ConditionInputs
from trimtab.core.recommendation.status_changes import StatusChange, StatusText
from trimtab.core.usage import checkpoint_rotation, retention
from trimtab.recommender.reports import Step, TickReport
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import AutoscalerState, RecommenderState, WrittenStatus
from trimtab.recommender.writes import Writers


@dataclass(frozen=True, slots=True)
class _Draft:
    """A status that is to be written."""

    subject: AutoscalerState
    status: StatusText
    change: StatusChange


async def publish(
    state: RecommenderState,
    cluster: Cluster,
    writers: Writers,
    settings: RecommenderSettings,
    now: datetime,
) -> TickReport:
    """Write every status that changed enough, never-written and longest-waiting ones first."""
    held_back = _recommend(state, settings, now)
    drafts, waiting = _draft(state, settings, _find_scaling(cluster, settings), now)
    held_back |= waiting
    # False sorts first: what was never written. Then what was tried longest ago.
    drafts.sort(key=lambda draft: (draft.subject.written is not None, draft.subject.tried_at))

    async def write(draft: _Draft) -> None:
        autoscaler, status = draft.subject.autoscaler, draft.status
        # Before the write: a status that is always refused must not stay first in line.
        draft.subject.tried_at = now
        await cluster.publish_status(autoscaler, status.recommendation, status.conditions)
        draft.subject.written = WrittenStatus(status, autoscaler, now)

    named = [(_text(draft.subject.autoscaler), draft) for draft in drafts]
    written, problems = await writers.write(Step.PUBLISH, named, write)
    # A small change is written along with an important one of the same status.
    held_back -= {draft.subject.name for draft in drafts}
    return TickReport(published=len(written), held_back=len(held_back), problems=tuple(problems))


def _recommend(
    state: RecommenderState, settings: RecommenderSettings, now: datetime
) -> set[AutoscalerName]:
    """Update recommendations; return autoscalers whose small bound changes are deferred."""
    publications, subjects = state.publications, state.subjects
    publishing = settings.publishing
    changed = publications.refresh(publishing)
    # Another recommender publishes for those that are not ours; they are learned all the same.
    small_changes = {name for name in publications.small_changes if subjects[name].is_ours}
    drifting = small_changes & publications.drifting
    ripe = [
        name
        for names, patience in (
            (small_changes - drifting, publishing.patience),
            (drifting, publishing.drift_patience),
        )
        for name in status_changes.due_small_changes(
            {name: subjects[name].tried_at for name in names},
            now,
            patience,
            _share(state, settings, patience),
        )
    ]
    changed |= {name: publications.mark_published(name) for name in ripe}
    for name, recommendation in changed.items():
        subjects[name].recommendation = recommendation
    return small_changes - set(ripe)


def _share(state: RecommenderState, settings: RecommenderSettings, patience: timedelta) -> int:
    """Return the maximum number of changes deferred by `patience` that are published per tick."""
    return checkpoint_rotation.fair_share(
        len(state.subjects), rotation=patience, tick=settings.interval
    )


def _find_scaling(cluster: Cluster, settings: RecommenderSettings) -> Scaling | None:
    """Return the HPAs' scaling of workloads; None without HPAs, or if conflicts are ignored."""
    horizontals = () if settings.hpa_conflict is HpaConflict.IGNORE else tuple(cluster.horizontals)
    return hpa.scaling_among(horizontals, cluster.owners.known) if horizontals else None


def _claims(
    autoscaler: Autoscaler, recommendation: PublishedRecommendation, scaling: Scaling | None
) -> tuple[HpaClaim, ...]:
    target = autoscaler.target
    if target is None or scaling is None:
        return ()
    name = WorkloadName(autoscaler.namespace, target.kind, target.name)
    return hpa.find_claims(autoscaler, recommendation.containers, scaling.of(name))


def _draft(
    state: RecommenderState,
    settings: RecommenderSettings,
    scaling: Scaling | None,
    now: datetime,
) -> tuple[list[_Draft], set[AutoscalerName]]:
    """Return the statuses to write, and the autoscalers whose status changes are deferred."""
    stale = retention.find_stale(state.usage, now, settings.stale_after, ended=state.pods.ended)
    conflicts = _find_conflicts(state)
    found: dict[AutoscalerName, _Draft] = {}
    for name, subject in state.subjects.items():
        if not subject.is_ours:
            continue
        recommendation = _recommended(state, subject, settings, now)
        findings = ConditionInputs(
            recommendation,
            matches_pods=state.usage.has_pods(name),
            unsupported=subject.unsupported,
            conflicts=conflicts.get(name, ()),
            fetches_history=subject.fetches_history,
            history_problem=subject.history_problem,
            stale_containers=stale.get(name, ()),
            claims=_claims(subject.autoscaler, recommendation, scaling),
            holds_claimed=settings.hpa_conflict is HpaConflict.HOLD,
        )
        if subject.settled == (findings, subject.autoscaler):
            continue
        status, change = _decide(state, subject, findings, settings, now)
        if change is StatusChange.NONE:
            subject.settled = (findings, subject.autoscaler)
        else:
            found[name] = _Draft(subject, status, change)
    changes = {name: (draft.change, draft.subject.tried_at) for name, draft in found.items()}
    patience = settings.publishing.patience
    due = status_changes.list_due(changes, now, patience, _share(state, settings, patience))
    # In the order of the autoscalers: a simulated run of one seed must be the same each time.
    drafts = [draft for name, draft in found.items() if name in due]
    return drafts, found.keys() - due


def _decide(
    state: RecommenderState,
    subject: AutoscalerState,
    findings: ConditionInputs,
    settings: RecommenderSettings,
    now: datetime,
) -> tuple[StatusText, StatusChange]:
    autoscaler = subject.autoscaler
    wanted = StatusText(
        findings.recommendation.containers,
        conditions.renew_conditions(autoscaler, findings, now),
        autoscaler.generation or None,
    )
    stored = status_changes.stored_status(autoscaler)
    if subject.written is not None and subject.written.over is autoscaler:
        # The store does not show the written status yet.
        stored = subject.written.status
    change = status_changes.find_change(stored, wanted, settings.publishing)
    if change is StatusChange.MOVED:
        spans = state.publications.request_spans(subject.name)
        change = (
            StatusChange.BOUND if status_changes.passes_request(stored, wanted, spans) else change
        )
    return wanted, change


def _recommended(
    state: RecommenderState,
    subject: AutoscalerState,
    settings: RecommenderSettings,
    now: datetime,
) -> PublishedRecommendation:
    """Return an autoscaler's recommendation, or its published one if there is no better one.

    With an unsupported configuration, or without samples, the published recommendation stays.
    Without samples, containers that running pods no longer have are dropped.
    """
    known, published = subject.recommendation, subject.autoscaler.recommendation
    if published and subject.unsupported is not None:
        return PublishedRecommendation(published, known.without_samples)
    if published and not known.containers:
        live = state.usage.live_containers(subject.name)
        remaining = tuple(one for one in published if not live or one.container_name in live)
        return PublishedRecommendation(remaining, known.without_samples)
    if subject.relearning:
        _end_relearning(state, subject, settings)
    most = settings.recommendations.max_allowed
    kept = list_kept(state, subject, settings, now)
    return relearning.keep_up(known, subject.autoscaler, kept, most)


def list_kept(
    state: RecommenderState,
    subject: AutoscalerState,
    settings: RecommenderSettings,
    now: datetime,
) -> frozenset[str]:
    """Return containers whose recommendation must not fall below the published one for now."""
    kept = subject.relearning | _awaited(subject, settings, now)
    if kept and (live := state.usage.live_containers(subject.name)):
        return kept & live
    return kept


def _awaited(
    subject: AutoscalerState, settings: RecommenderSettings, now: datetime
) -> frozenset[str]:
    """Return all recommended containers while history is outstanding (F14).

    Once enough was learned without history to be trusted, nothing waits for it any longer.
    """
    since = subject.history_missed_at
    enough = settings.recommendations.cpu.confidence_interval
    if since is None or now - since >= enough:
        return frozenset()
    return frozenset(one.container_name for one in subject.autoscaler.recommendation or ())


def _end_relearning(
    state: RecommenderState, subject: AutoscalerState, settings: RecommenderSettings
) -> None:
    enough = settings.recommendations.cpu.confidence_interval
    name = subject.autoscaler.identity
    subject.relearning = frozenset(
        container
        for container in subject.relearning
        if not relearning.has_learned_enough(state.usage, (name, container), enough)
    )


def _find_conflicts(state: RecommenderState) -> Mapping[AutoscalerName, Sequence[Conflict]]:
    """Return conflicts of autoscalers over running pods of one target, by the names of both."""
    observed = [
        ObservedAutoscaler(subject.learned, subject.verdict)
        for subject in state.subjects.values()
        if subject.is_ours and isinstance(subject.verdict, Selector)
    ]
    targets = {
        (each.autoscaler.namespace, target.kind, target.name)
        for each in observed
        if (target := each.autoscaler.target) is not None
    }
    if len(targets) == len(observed):
        # The usual case: no two autoscalers share a target.
        return {}
    found: dict[AutoscalerName, list[Conflict]] = {}
    for siblings in matching.index_by_workload(observed).values():
        for conflict in _conflicts_among(state, siblings) if len(siblings) > 1 else ():
            found.setdefault(conflict.stronger, []).append(conflict)
            found.setdefault(conflict.weaker, []).append(conflict)
    return found


def _conflicts_among(
    state: RecommenderState, siblings: Sequence[ObservedAutoscaler]
) -> Iterable[Conflict]:
    links = state.usage.links
    feeders = state.usage.aggregates.ints("feeders")
    # By aggregate and not by pod: pods with the same labels match the same autoscalers.
    rows = [set(links.linked_rows(one.autoscaler.identity)) for one in siblings]
    matches = [
        [one for one, linked in zip(siblings, rows, strict=True) if row in linked]
        for row in sorted(set().union(*rows))
        if feeders[row]
    ]
    return matching.find_conflicts(matches, matching.acts_on_running_pods)


def _text(autoscaler: Autoscaler) -> str:
    return f"{autoscaler.namespace}/{autoscaler.name}"
