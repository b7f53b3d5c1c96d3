"""Checks that a cluster comes to rest, and that it rests with the right sizes."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.guards import disruption_budgets
from trimtab.core.model import limits, matching
from trimtab.core.model.autoscalers import Autoscaler, Held, UpdateMode
from trimtab.core.model.pods import UPDATES, Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import container_resources, startup_boost
from trimtab.core.updates.conditions import UpdateConditionType
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world import objects
from trimtab.simulation.world.facts import (
    Fact,
    PodCreated,
    PodEvicted,
    PodGone,
    PodPatched,
    PodResized,
    ProcessStarted,
    StatusPublished,
)
from trimtab.simulation.world.world import World

_CHANGING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO, UpdateMode.IN_PLACE_OR_RECREATE)
_KINDS: Final = ("DaemonSet", "ReplicaSet", "Rollout", "StatefulSet")
"""Kinds of owners that replace an evicted pod and have a number of replicas."""
_PATIENCE: Final = timedelta(minutes=30)
"""Longest time that a pod may take to get its size."""
_TRIFLE: Final = 0.05
"""Share of a request: smaller growth and smaller reductions are never required."""
_LITTLE: Final = 0.1
"""Share of a request: smaller reductions that restart something are not required."""
_EVICTING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO)
_CUT_TO_NODES: Final = "capped to fit the largest node"


class Converged(Checker):
    """In the quiet phase no pod stays outside its bounds for long unless a change is prevented.

    A change is prevented by:

    - a mode that changes no pod, update requirements, or a horizontal autoscaler;
    - too few replicas, siblings that are not ready, or the last ready pod restarting to shrink;
    - a PodDisruptionBudget, a quota or a limit range;
    - a node without room, or nodes that are all too small for the target;
    - a target that the pod nearly has;
    - the condition `UpdatesWithoutEffect` of the autoscaler.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from
        self._outside_since: dict[str, datetime] = {}

    def begin(self) -> None:
        """Start the quiet phase now."""
        self._begins = self.world.now()

    def check(self) -> Iterator[str]:
        """Report pods that stay outside their bounds for too long."""
        now = self.world.now()
        if self._begins is None or now < self._begins:
            return
        outside = {pod.uid: pod for pod in self.world.pods if self._should_change(pod)}
        known = self._outside_since
        self._outside_since = {uid: known.get(uid, now) for uid in outside}
        for uid, since in self._outside_since.items():
            if now - since > _PATIENCE:
                pod = outside[uid]
                # Report each pod once.
                self._outside_since[uid] = datetime.max.replace(tzinfo=now.tzinfo)
                yield f"{pod.namespace}/{pod.name} is outside its bounds since {since:%H:%M}"

    def _should_change(self, pod: Pod) -> bool:
        governors = self.past.governors(pod, matching.acts_on_running_pods)
        if (
            not governors
            or pod.phase is not PodPhase.RUNNING
            or startup_boost.boosted_containers(pod)
        ):
            return False
        governor = governors[-1]
        return (
            governor.mode in _CHANGING
            and not governor.requirements
            and _is_outside(pod, governor, self._held(pod))
            and not is_in_vain(governor)
            and not self._is_protected(pod)
            and self._has_siblings_enough(pod, governor)
            and self._has_room(pod, governor)
        )

    def _held(self, pod: Pod) -> frozenset[Held]:
        workload = self.past.topmost(pod)
        found = [each.known for each in self.world.scalers if each.target == workload]
        return frozenset[Held]().union(*(each.claims for each in found))

    def _is_protected(self, pod: Pod) -> bool:
        world = self.world
        budgets = [each for each in world.budgets if each.namespace == pod.namespace]
        return (
            any(each.selector.matches(pod.labels) for each in budgets)
            or any(each.namespace == pod.namespace for each in world.quotas)
            or any(each.namespace == pod.namespace for each in world.limit_ranges)
        )

    def _has_room(self, pod: Pod, governor: Autoscaler) -> bool:
        """Return True if the pod with its target fits on its node beside all other pods there."""
        node = self.world.nodes.find("", pod.node_name)
        if node is None:
            return True
        if _CUT_TO_NODES in pod.annotations.get(UPDATES, ""):
            # That cap also reserves room for DaemonSet pods that are not there.
            return False
        others, held = self.world.neighbours_of(pod), self._held(pod)
        targets = {each.container_name: each.target for each in governor.recommendation or ()}
        return all(
            sum(objects.reserved_total(each, kind) for each in others)
            + sum(
                limits.amount_of(
                    each.current.requests
                    if held & {Held(kind), Held(kind, each.name)}
                    else targets.get(each.name, each.current.requests),
                    kind,
                )
                for each in pod.containers
            )
            <= node.capacity.get(kind, 0)
            for kind in BOTH
        )

    def _has_siblings_enough(self, pod: Pod, governor: Autoscaler) -> bool:
        owner = disruption_budgets.owner_of(pod)
        workload = None if owner is None else self.world.find_workload(owner)
        if owner is None or owner.kind not in _KINDS or workload is None:
            return False
        siblings = self.world.pods_by_owner.under(workload.uid)
        own = governor.min_replicas
        required = self.rules.disruption.min_replicas if own is None else own
        ready = sum(each.ready_since is not None and not each.is_deleting for each in siblings)
        # The last ready pod is never restarted to shrink (D17).
        is_enough = ready > 1 or not _restarts_to_shrink(pod, governor)
        return is_enough and ready == workload.replicas and ready >= required


def _is_outside(pod: Pod, governor: Autoscaler, held: frozenset[Held]) -> bool:
    entries = {entry.container_name: entry for entry in governor.recommendation or ()}
    pairs = [(each, entries[each.name]) for each in pod.containers if each.name in entries]
    restarts = any(each.restarts_on_resize for each in pod.containers)
    little = _LITTLE if restarts or governor.mode in _EVICTING else _TRIFLE
    return any(
        not limits.amount_of(entry.lower_bound, resource)
        <= has
        <= limits.amount_of(entry.upper_bound, resource)
        and (target - has >= _TRIFLE * has or has - target >= little * has)
        for container, entry in pairs
        for resource, target in entry.target.items()
        for has in (limits.amount_of(container.current.requests, resource),)
        if Held(resource) not in held and Held(resource, container.name) not in held
    )


def _restarts_to_shrink(pod: Pod, governor: Autoscaler) -> bool:
    """Return True if no resource of the pod grows, and a container restarts to shrink."""
    entries = {entry.container_name: entry for entry in governor.recommendation or ()}
    pairs = [(each, entries[each.name]) for each in pod.containers if each.name in entries]
    sizes = [
        (container, kind, limits.amount_of(container.current.requests, kind), entry)
        for container, entry in pairs
        for kind in entry.target
    ]
    grows = any(has < limits.amount_of(entry.lower_bound, kind) for _, kind, has, entry in sizes)
    return not grows and any(
        kind in container.restarts_on_resize and has > limits.amount_of(entry.upper_bound, kind)
        for container, kind, has, entry in sizes
    )


def is_in_vain(governor: Autoscaler) -> bool:
    """Return True if the autoscaler's status says that changes of its pods have no effect."""
    found = [
        each for each in governor.conditions if each.type == UpdateConditionType.WITHOUT_EFFECT
    ]
    return any(each.status == "True" for each in found)


_KINDS_OF_JOBS: Final = ("CronJob", "Job")
_TOLD_WITHIN: Final = timedelta(minutes=3)
"""Maximum age of a reading when a target follows from it."""


@dataclass(slots=True)
class _Changes:
    """Number of pods of an owner that were changed for the same targets."""

    targets: Mapping[str, Resources]
    count: int = 0


class Quiet(Checker):
    """In the quiet phase no target rises, and no pod is changed twice for the same target.

    The quiet phase starts with `begin`, or at the moment that the rules name: all faults have
    ended, all loads are steady and there was time to settle. A target may still fall while larger
    usage decays. Bounds still narrow with every day of history, so a pod may come to lie outside
    them. It is then brought to its target once. New Jobs still start: a boosted one may use more
    CPU than its limit allows without the boost, so its CPU target may rise. So may the CPU target
    of a container that cannot end the work of its start, because it has less than it needs: that
    work is no steady load.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from
        self._changes: dict[WorkloadName | None, _Changes] = {}
        self._unboosted_at: dict[tuple[WorkloadName, str], datetime] = {}
        self._stuck_until: dict[tuple[WorkloadName, str], datetime] = {}

    def begin(self) -> None:
        """Start the quiet phase now."""
        self._begins = self.world.now()

    def check(self) -> Iterator[str]:
        """Note starts that cannot end."""
        for pod in self.world.pods:
            for name in _stuck_containers(self.world, pod):
                workload = self.past.topmost(pod)
                if workload is not None:
                    self._stuck_until[workload, name] = self.world.now()
        yield from ()

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report targets that rise and pods that are changed again."""
        if isinstance(fact, PodPatched):
            self._note_ended_boosts(fact)
        if self._begins is None or fact.at < self._begins:
            return
        match fact:
            case PodEvicted(actor=actor, pod=pod):
                yield from self._count(pod, f"{actor} evicted")
            case PodResized(actor=actor, before=pod) if not startup_boost.boosted_containers(pod):
                # New Jobs still start, and the end of a boost is no violation.
                yield from self._count(pod, f"{actor} resized")
            case StatusPublished(actor=actor, before=before, after=after):
                for risen in self._risen_targets(before, after):
                    yield f"{actor} raised the target of {after.namespace}/{after.name} {risen}"
            case _:
                return

    def _count(self, pod: Pod, what: str) -> Iterator[str]:
        owner, targets = disruption_budgets.owner_of(pod), self._targets_of(pod)
        changes = self._changes.get(owner)
        if changes is None or changes.targets != targets:
            changes = self._changes[owner] = _Changes(targets)
        changes.count += 1
        workload = None if owner is None else self.world.find_workload(owner)
        wanted = 0 if workload is None else workload.replicas or 0
        # While a pod is being replaced there are fewer pods than replicas.
        siblings = sum(disruption_budgets.owner_of(each) == owner for each in self.world.pods)
        if changes.count > max(wanted, siblings):
            yield f"{what} {pod.namespace}/{pod.name}, and each of its siblings before"

    def _targets_of(self, pod: Pod) -> Mapping[str, Resources]:
        governors = self.past.governors(pod, matching.acts_on_running_pods)
        return _targets(governors[-1]) if governors else {}

    def _risen_targets(self, before: Autoscaler, after: Autoscaler) -> Iterator[str]:
        known = _targets(before)
        for entry in after.recommendation or ():
            for resource in BOTH:
                old = known.get(entry.container_name, {}).get(resource, 0)
                new = entry.target.get(resource, 0)
                name = entry.container_name
                if new > old and not (resource is Resource.CPU and self._may_use_more(after, name)):
                    yield f"{entry.container_name}: {resource} from {old} to {new}"

    def _note_ended_boosts(self, fact: PodPatched) -> None:
        workload = self.past.topmost(fact.before)
        if workload is not None:
            for name in {*startup_boost.boosted_containers(fact.before)} - {
                *startup_boost.boosted_containers(fact.after)
            }:
                self._unboosted_at[workload, name] = fact.at

    def _may_use_more(self, autoscaler: Autoscaler, container_name: str) -> bool:
        """Return True if CPU usage may be new although all loads are steady."""
        target = autoscaler.target
        if target is None:
            return False
        workload = WorkloadName(autoscaler.namespace, target.kind, target.name)
        return self._is_boosted(workload, container_name) or self._is_stuck(
            workload, container_name
        )

    def _is_boosted(self, workload: WorkloadName, container_name: str) -> bool:
        """Return True if usage of a boosted Job may still arrive, shortly after its boost."""
        if workload.kind not in _KINDS_OF_JOBS:
            return False
        ended = self._unboosted_at.get((workload, container_name))
        return (ended is not None and self.world.now() - ended <= _TOLD_WITHIN) or any(
            container_name in startup_boost.boosted_containers(pod)
            for pod in self._pods_of(workload)
        )

    def _is_stuck(self, workload: WorkloadName, container_name: str) -> bool:
        """Return True if usage of a start that cannot end may still arrive."""
        ended = self._stuck_until.get((workload, container_name))
        return (ended is not None and self.world.now() - ended <= _TOLD_WITHIN) or any(
            container_name in _stuck_containers(self.world, pod) for pod in self._pods_of(workload)
        )

    def _pods_of(self, workload: WorkloadName) -> Iterator[Pod]:
        for pod in self.world.pods_by_namespace.under(workload.namespace):
            if self.past.topmost(pod) == workload:
                yield pod


def _stuck_containers(world: World, pod: Pod) -> frozenset[str]:
    """Return the containers that work on their start without end, as they lack what they need."""
    template = world.templates.get(pod.uid)
    if template is None or pod.ready_since is not None or pod.phase is not PodPhase.RUNNING:
        return frozenset()
    has = {each.name: each.current.requests for each in pod.containers if each.is_running}
    return frozenset(
        each.name
        for each in template.containers
        if each.name in has
        and each.startup.work_cpu_seconds > 0
        and any(
            limits.amount_of(has[each.name], kind) < least for kind, least in each.needs.items()
        )
    )


def _targets(autoscaler: Autoscaler) -> Mapping[str, Resources]:
    return {entry.container_name: entry.target for entry in autoscaler.recommendation or ()}


@dataclass(slots=True)
class _Record:
    """Results of the evictions of one workload."""

    waiting: deque[Pod] = field(default_factory=deque)
    """Evicted pods whose successors have not come yet."""
    misses: int = 0
    hopeless_since: datetime | None = None


class Futility(Checker):
    """Evictions stop after several successors in a row came in an unchanged size (F16).

    The cause does not matter: the webhook, another webhook after it, or a limit range. Any pod of
    the workload that admission gave another size shows that evictions help again. After the start
    of any process evictions may be tried again.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._records: dict[WorkloadName, _Record] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report an eviction although the ones before it changed nothing."""
        match fact:
            case ProcessStarted():
                self._records.clear()
            case PodCreated(wanted=wanted, pod=pod):
                self._learn(wanted, pod)
            case PodEvicted(at=at, actor=actor, pod=pod):
                workload = self.past.topmost(pod)
                if workload is not None:
                    record = self._records.setdefault(workload, _Record())
                    record.waiting.append(pod)
                    known = record.hopeless_since
                    if known is not None and at - known > self.rules.staleness:
                        misses = f"{record.misses} successors came in no other size"
                        yield f"{actor} evicted {pod.namespace}/{pod.name} though {misses}"
            case _:
                return

    def _learn(self, wanted: Pod, pod: Pod) -> None:
        workload = self.past.topmost(pod)
        record = None if workload is None else self._records.get(workload)
        if record is None:
            return
        evicted = record.waiting.popleft() if record.waiting else None
        if _requests(pod) != _requests(wanted):
            record.misses, record.hopeless_since = 0, None
        elif evicted is not None and _requests(pod) == _requests(evicted):
            record.misses += 1
            if record.misses == self.rules.max_misses:
                record.hopeless_since = self.world.now()


def _requests(pod: Pod) -> dict[str, Resources]:
    return {container.name: container.spec.requests or {} for container in pod.containers}


class CoolDown(Checker):
    """No process shrinks or restarts a pod within the cool-down, nor evicts it twice (F19).

    Growth in place that restarts nothing need not wait (D17), nor need a change that gives more
    memory to an OOM-killed container. Another change may follow a resize that the kubelet refused
    or deferred. The end of a boost is no change of size. A process does not know its changes from
    before a crash.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._changed_at: dict[str, dict[str, datetime]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a change too soon after another one."""
        match fact:
            case ProcessStarted(actor=actor):
                self._changed_at.pop(actor, None)
            case PodGone(pod=pod):
                for changed in self._changed_at.values():
                    changed.pop(pod.uid, None)
            case PodEvicted(at=at, actor=actor, pod=pod):
                if pod.is_deleting:
                    yield f"{actor} evicted {pod.namespace}/{pod.name} again"
                if not self._would_cure(pod):
                    yield from self._check(at, actor, pod, "evicted")
            case PodResized(at=at, actor=actor, before=before, after=after):
                if startup_boost.boosted_containers(before):
                    return
                is_gentle = _only_grows(before, after) and not pod_changes.restarts(before, after)
                if not is_gentle and not _cures(before, after):
                    yield from self._check(at, actor, before, "resized")
                self._changed_at.setdefault(actor, {})[before.uid] = at
            case _:
                return

    def _check(self, at: datetime, actor: str, pod: Pod, what: str) -> Iterator[str]:
        last = self._changed_at.get(actor, {}).get(pod.uid)
        if last is None or pod.resize is not None:
            return
        passed = at - last
        if passed < self.rules.cool_down - self.clock_doubt(at):
            yield f"{actor} {what} {pod.namespace}/{pod.name} {passed} after it was resized"

    def _would_cure(self, pod: Pod) -> bool:
        """Return True if a successor would get more memory for an OOM-killed container."""
        ranges = self.past.limit_ranges(pod.namespace)
        return any(
            limits.amount_of(wanted[each.name].requests, Resource.MEMORY)
            > limits.amount_of(each.current.requests, Resource.MEMORY)
            for governor in self.past.governors(pod, matching.acts_on_running_pods)
            for wanted in (container_resources.recommended_for_pod(pod, governor, ranges),)
            for each in pod.containers
            if each.name in wanted and pod_changes.ran_out_of_memory(each)
        )


def _cures(before: Pod, after: Pod) -> bool:
    """Return True if an OOM-killed container gets more memory."""
    return any(
        limits.amount_of(new.spec.requests, Resource.MEMORY)
        > limits.amount_of(old.spec.requests, Resource.MEMORY)
        for old, new in zip(before.containers, after.containers, strict=True)
        if pod_changes.ran_out_of_memory(old)
    )


def _only_grows(before: Pod, after: Pod) -> bool:
    """Return True if some resource of the pod grows and none shrinks."""
    pairs = [
        ((one or {}).get(kind, 0), (other or {}).get(kind, 0))
        for old, new in zip(before.containers, after.containers, strict=True)
        for kind in BOTH
        for one, other in (
            (old.spec.requests, new.spec.requests),
            (old.spec.limits, new.spec.limits),
        )
    ]
    return any(new > old for old, new in pairs) and all(new >= old for old, new in pairs)
