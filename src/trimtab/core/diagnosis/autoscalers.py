"""Checks of autoscalers: whose pods they are for, who else scales them, and what they recommend."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.diagnosis import durations
from trimtab.core.diagnosis.findings import Finding, Severity
from trimtab.core.model import matching
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName, Condition, UpdateMode
from trimtab.core.model.matching import Conflict, ObservedAutoscaler
from trimtab.core.model.pods import Pod, WorkloadName
from trimtab.core.model.selectors import Selector
from trimtab.core.model.workloads import Workload
from trimtab.core.recommendation import targets
from trimtab.core.recommendation.conditions import ConditionType, Unsupported, UnsupportedReason
from trimtab.core.updates.conditions import UpdateConditionType

_PATIENCE: Final = timedelta(minutes=5)
"""Maximum time that a new autoscaler may take to get a recommendation."""
_TRUE: Final = "True"
_NONE: Final = "there are no autoscalers here, so there is nothing to look at"
_KINDS: Final = {"vpa": "autoscaler", "pod": "pod"}
"""Names for users, by kubectl's names of kinds."""


@dataclass(frozen=True, slots=True)
class Governed:
    """An autoscaler with its pods."""

    autoscaler: Autoscaler
    unsupported: Unsupported | None = None
    pods: tuple[Pod, ...] = ()
    """Those that its target and its selector match."""
    replicas: int | None = None
    """Number of pods that its target wants, if it counts them."""
    owned: frozenset[WorkloadName] = frozenset()
    """The workloads that its target owns."""

    @property
    def place(self) -> str:
        """Its namespace and name."""
        return "/".join(self.autoscaler.identity)


@dataclass(frozen=True, slots=True)
class Hidden:
    """An autoscaler or a pod that is there and cannot be read."""

    kind: str
    """As kubectl calls it: vpa or pod."""
    namespace: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class AutoscalerFacts:
    """All autoscalers that were looked at."""

    now: datetime
    governed: Sequence[Governed]
    conflicts: Sequence[Conflict] = ()
    unreadable: Sequence[Hidden] = ()


@dataclass(frozen=True, slots=True)
class FoundTarget:
    """An autoscaler, and what was found under the name of its target."""

    autoscaler: Autoscaler
    workload: Workload | None = None
    topmost: WorkloadName | None = None
    """Topmost owner of the workload."""
    owned: frozenset[WorkloadName] = frozenset()
    """The workloads that it owns itself."""


def gather(
    found: Sequence[FoundTarget],
    pods: Sequence[tuple[Pod, WorkloadName | None]],
    now: datetime,
    unreadable: Sequence[Hidden] = (),
) -> AutoscalerFacts:
    """Gather the facts about autoscalers, given each pod with its topmost workload."""
    verdicts = {
        one.autoscaler.identity: targets.select_pods(one.autoscaler, one.workload, one.topmost)
        for one in found
    }
    observed = [
        ObservedAutoscaler(one.autoscaler, one.workload.selector)
        for one in found
        if one.workload and isinstance(verdicts[one.autoscaler.identity], Selector)
    ]
    index = matching.index_by_workload(observed)
    matches = [
        (pod, matching.match_autoscalers(index, workload, pod.labels)) for pod, workload in pods
    ]
    members: defaultdict[AutoscalerName, list[Pod]] = defaultdict(list)
    for pod, matched in matches:
        for each in matched:
            members[each.autoscaler.identity].append(pod)
    governed = [_govern(one, verdicts, members) for one in found]
    conflicts = matching.find_conflicts(
        (matched for _, matched in matches), matching.acts_on_running_pods
    )
    return AutoscalerFacts(
        now, sorted(governed, key=lambda one: one.place), conflicts, tuple(unreadable)
    )


def _govern(
    one: FoundTarget,
    verdicts: Mapping[AutoscalerName, Selector | Unsupported],
    members: Mapping[AutoscalerName, Sequence[Pod]],
) -> Governed:
    name = one.autoscaler.identity
    verdict = verdicts[name]
    return Governed(
        one.autoscaler,
        verdict if isinstance(verdict, Unsupported) else None,
        tuple(members.get(name, ())),
        one.workload.replicas if one.workload else None,
        one.owned,
    )


def check_conflicts(facts: AutoscalerFacts) -> Iterator[Finding]:
    """Find autoscalers that match the same pods."""
    for conflict in facts.conflicts:
        yield Finding(
            Severity.WARNING,
            f"it matches pods of {'/'.join(conflict.stronger)} too, and only that one acts on them",
            f"kubectl -n {conflict.weaker.namespace} delete vpa {conflict.weaker.name}, or give "
            "both a spec.selector that keeps them apart",
            "/".join(conflict.weaker),
        )


def check_targets(facts: AutoscalerFacts) -> Iterator[Finding]:
    """Find autoscalers without pods, and the causes."""
    if not (facts.governed or facts.unreadable):
        yield Finding(Severity.NOTE, _NONE)
    for hidden in facts.unreadable:
        shown = f"kubectl -n {hidden.namespace} get {hidden.kind} {hidden.name} -o yaml"
        yield Finding(
            Severity.PROBLEM,
            f"this {_KINDS[hidden.kind]} cannot be read, so nothing is done for it:"
            f" {hidden.problem}",
            f"{shown} | trimtab validate -" if hidden.kind == "vpa" else shown,
            f"{hidden.namespace}/{hidden.name}",
        )
    for one in facts.governed:
        if one.autoscaler.unknown_mode:
            yield _blame_mode(one)
        if one.unsupported is not None:
            yield _blame(one, one.unsupported)
        elif not one.pods:
            yield _tell_empty(one)


def _blame_mode(one: Governed) -> Finding:
    mode = one.autoscaler.unknown_mode
    return Finding(
        Severity.WARNING,
        f"its update mode {mode!r} is unknown to this version, and treated as Off",
        f"set spec.updatePolicy.updateMode to one of {', '.join(UpdateMode)}, or upgrade Trimtab",
        one.place,
    )


def _blame(one: Governed, unsupported: Unsupported) -> Finding:
    target = one.autoscaler.target
    named = "(none)" if target is None else f"{target.kind}/{target.name}"
    place = f"kubectl -n {one.autoscaler.namespace}"
    texts = {
        UnsupportedReason.TARGET_UNREADABLE: (
            f"its target {named} is not there, or cannot be read: it has no pods",
            f"{place} get {named}; correct spec.targetRef"
            if target
            else "give it a spec.targetRef",
        ),
        UnsupportedReason.TARGET_UNCHECKED: (
            f"the owner of its target {named} is unknown",
            f"{place} get {named} -o yaml: look at ownerReferences",
        ),
        UnsupportedReason.TARGET_NOT_TOPMOST: (
            f"its target {named} belongs to another workload, which must be the target",
            f"{place} get {named} -o jsonpath='{{.metadata.ownerReferences}}'",
        ),
        UnsupportedReason.SELECTOR_INVALID: (
            "its spec.selector cannot be used, so no pod matches it",
            f"{place} get vpa {one.autoscaler.name} -o yaml | trimtab validate -",
        ),
        UnsupportedReason.SELECTOR_DISABLED: (
            "its spec.selector matches no pod while the feature gate PodSelector is off",
            "start all components with --feature-gates=PodSelector=true",
        ),
    }
    text, remedy = texts[unsupported.reason]
    detail = f" ({unsupported.detail})" if unsupported.detail else ""
    return Finding(Severity.PROBLEM, text + detail, remedy, one.place)


def _tell_empty(one: Governed) -> Finding:
    if one.replicas == 0:
        return Finding(Severity.NOTE, "its target is scaled to nothing", subject=one.place)
    has_own = one.autoscaler.selector is not None
    cause = "its spec.selector and its target match no pod" if has_own else "it has no pods"
    target = one.autoscaler.target
    kind, name = (target.kind, target.name) if target else ("", "")
    return Finding(
        Severity.NOTE if kind in ("CronJob", "Job") else Severity.WARNING,
        f"{cause}, so nothing is learned",
        f"kubectl -n {one.autoscaler.namespace} describe {kind} {name}",
        one.place,
    )


def check_recommendations(facts: AutoscalerFacts) -> Iterator[Finding]:
    """Find autoscalers whose recommendation is missing, old or without effect, and the causes."""
    if not facts.governed:
        yield Finding(Severity.NOTE, _NONE)
    for one in facts.governed:
        conditions = {each.type: each for each in one.autoscaler.conditions}
        if not one.autoscaler.recommendation:
            yield _tell_silence(one, conditions, facts.now)
        for kind in (ConditionType.USAGE_STALE, UpdateConditionType.WITHOUT_EFFECT):
            condition = conditions.get(kind)
            if condition is not None and condition.status == _TRUE:
                text = f"{condition.type}: {condition.message}"
                yield Finding(Severity.WARNING, text, _EXPLAIN.format(*_names(one)), one.place)


_EXPLAIN: Final = "trimtab explain {1} -n {0}"
_CAUSES: Final = (
    ConditionType.CONFIG_UNSUPPORTED,
    ConditionType.NO_PODS_MATCHED,
    ConditionType.FETCHING_HISTORY,
    ConditionType.RECOMMENDATION_PROVIDED,
)
"""Conditions that explain a missing recommendation, the deepest cause first."""


def _tell_silence(one: Governed, conditions: dict[str, Condition], now: datetime) -> Finding:
    created = one.autoscaler.created_at
    age = timedelta.max if created is None else now - created
    explain = _EXPLAIN.format(*_names(one))
    condition = next((conditions[kind] for kind in _CAUSES if kind in conditions), None)
    if condition is not None and condition.message:
        severity = Severity.NOTE if age < _PATIENCE else Severity.WARNING
        text = f"no recommendation: {condition.reason}: {condition.message}"
        return Finding(severity, text, explain, one.place)
    if age < _PATIENCE:
        text = f"no recommendation yet; it was made {durations.brief(age)} ago"
        return Finding(Severity.NOTE, text, subject=one.place)
    chosen = one.autoscaler.recommenders
    if chosen and "default" not in chosen:
        text = f"no recommendation: it waits for the recommender {', '.join(chosen)}"
        remedy = f"start one with --recommender-name={chosen[0]}, or remove spec.recommenders"
        return Finding(Severity.WARNING, text, remedy, one.place)
    text = "no recommendation, and no recommender has said why: none seems to look at it"
    return Finding(Severity.PROBLEM, text, "trimtab doctor --check components leases", one.place)


def _names(one: Governed) -> tuple[str, str]:
    return one.autoscaler.identity
