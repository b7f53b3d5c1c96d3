"""Checks that admission causes no refusal of new pods, and sizes those that it should."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model import limits, matching
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing import startup_boost
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world import objects
from trimtab.simulation.world.facts import Fact, PodCreated, PodGone, PodRefused, PodResized
from trimtab.simulation.world.objects import ENDED, NodeObject, QuotaObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_STEADY_FOR: Final = timedelta(seconds=5)
"""Time without a change after which admission should know the quotas of a namespace."""
_ROUNDING: Final = 1.01


class Acceptable(Checker):
    """Admission causes no refusal of a pod that the API server would otherwise accept (D19).

    Room in a quota is judged only where admission can know it: admission works, and no pod or quota
    of the namespace has just changed.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._changed_at: dict[str, datetime] = {}
        world.quotas.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a pod that was refused only because of its patch."""
        match fact:
            case PodCreated(pod=pod) | PodGone(pod=pod) | PodResized(before=pod):
                self._changed_at[pod.namespace] = fact.at
            case PodRefused(pod=pod, flaw=flaw, own_flaw="") if self._could_know(pod, flaw):
                what = "boost" if startup_boost.boosted_containers(pod) else "size"
                yield f"{pod.namespace}/{pod.name} was refused for its {what}: {flaw}"
            case _:
                return

    def _could_know(self, pod: Pod, flaw: str) -> bool:
        if "quota" not in flaw:
            return True
        now = self.world.now()
        changed_at = self._changed_at.get(pod.namespace)
        is_steady = changed_at is None or now - changed_at > _STEADY_FOR
        return is_steady and _admission_works(self)

    def _follow(self, change: TableChange[QuotaObject]) -> None:
        quota = change.after or change.before
        if quota is not None:
            self._changed_at[quota.namespace] = self.world.now()


class Sized(Checker):
    """While everything works, a new pod gets the recommended resources, under any owner."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a governed pod that admission did not change."""
        if not isinstance(fact, PodCreated) or not fact.webhook_answered or fact.patch:
            return
        if not _admission_works(self):
            return
        governors = self.past.governors(fact.pod, matching.acts_on_new_pods)
        names = {container.name for container in fact.pod.containers}
        if governors and all(
            governor.mode is not UpdateMode.OFF
            and any(entry.container_name in names for entry in governor.recommendation or ())
            for governor in governors
        ):
            name = f"{fact.pod.namespace}/{fact.pod.name}"
            yield f"{name} came without what {governors[-1].name} recommends for it"


class Proportions(Checker):
    """Admission never raises a limit beyond the limit-to-request ratio of a new pod's spec.

    Only the spec counts: a status in the manifest of a new pod belongs to another pod.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a limit that has grown more than its request."""
        if not isinstance(fact, PodCreated) or not fact.patch:
            return
        for old, new in zip(fact.wanted.containers, fact.pod.containers, strict=True):
            for kind in BOTH:
                if _is_out_of_proportion(old.spec, new.spec, kind):
                    name = f"{fact.pod.namespace}/{fact.pod.name}"
                    yield f"{name} came with a {kind} limit of {new.name} out of proportion"


def _is_out_of_proportion(old: Allocation, new: Allocation, kind: Resource) -> bool:
    request, limit = limits.amount_of(old.requests, kind), limits.amount_of(old.limits, kind)
    asked, given = limits.amount_of(new.requests, kind), limits.amount_of(new.limits, kind)
    if not request or not limit or (given <= limit and given <= asked):
        return False
    # Memory limits are rounded up to readable whole numbers.
    return given > limit * asked / request * _ROUNDING + 1 and given != limit


def _admission_works(checker: Checker) -> bool:
    since = checker.past.calm.works_since("admission")
    long_enough = checker.rules.carried_out_within
    return since is not None and checker.world.now() - since > long_enough


class NodeRoom(Checker):
    """No component requests more than nodes can give: allocatable less DaemonSet pods (D25).

    A new pod must fit on some node, lost or not, if a ready node could take it without its patch. A
    resize must fit on its own node beside all pods that have been there for a while. Under
    UpscaleOnly pods of a DaemonSet keep earlier, larger recommendations. Admission does not watch
    pods, so it cannot know these sizes.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._changed_at: dict[str, datetime] = {}
        world.nodes.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a size that is too large for every node, or for the pod's own node."""
        match fact:
            case PodCreated(wanted=wanted, pod=pod, patch=patch) if patch:
                rooms = {
                    node.name: self._room(node, daemons_only=True) for node in self.world.nodes
                }
                known = [rooms[node.name] for node in self.world.nodes if self._is_steady(node)]
                # A node that is lost is expected back, and a pod may wait for it.
                if _fits_any(wanted, known) and not _fits_any(pod, rooms.values()):
                    yield f"{pod.namespace}/{pod.name} came too large for any node"
            case PodResized(actor=actor, before=before, after=after):
                node = self.world.nodes.find("", before.node_name)
                if node is None or not self._is_steady(node):
                    return
                room = self._room(node, daemons_only=False, but=before.uid)
                grown = [kind for kind in BOTH if _grows(before, after, kind)]
                if any(objects.resource_total(after, kind) > room.get(kind, 0) for kind in grown):
                    yield f"{actor} resized {after.namespace}/{after.name} beyond its node's room"
            case _:
                return

    def _room(self, node: NodeObject, *, daemons_only: bool, but: str = "") -> Resources:
        """Return the room on a node beside the pods that have been there for a while."""
        now = self.world.now()
        known = [
            pod
            for pod in self.world.pods_by_node.under(node.name)
            if pod.uid != but
            and not pod.is_deleting
            # A pod that has ended takes nothing of its node.
            and pod.phase not in ENDED
            and pod.started_at is not None
            and now - pod.started_at > self.rules.staleness
            and (not daemons_only or (pod.owner is not None and pod.owner.kind == "DaemonSet"))
        ]
        taken = self._visible if daemons_only else _least
        return {
            kind: node.capacity.get(kind, 0) - sum(taken(pod, kind) for pod in known)
            for kind in BOTH
        }

    def _visible(self, daemon: Pod, kind: Resource) -> int:
        """Return the part of a DaemonSet pod's size that is known without watching pods."""
        takes = _least(daemon, kind)
        owner = self.world.find_owner(daemon.namespace, daemon.owner)
        governors = self.past.governors(daemon, matching.acts_on_new_pods)
        if owner is None or not any(map(_only_grows, governors)):
            return takes
        asked = {each.name: each.allocation.requests for each in owner.template.containers}
        given = [
            {entry.container_name: entry.target for entry in governor.recommendation or ()}
            for governor in governors
        ]
        sizes = [
            sum(limits.amount_of(requests, kind) for requests in (asked | targets).values())
            for targets in ({}, *given)
        ]
        return min(takes, max(sizes))

    def _is_steady(self, node: NodeObject) -> bool:
        changed_at, now = self._changed_at.get(node.name), self.world.now()
        return node.is_ready and (changed_at is None or now - changed_at > self.rules.staleness)

    def _follow(self, change: TableChange[NodeObject]) -> None:
        # Components know the initial nodes.
        if change.before is not None:
            self._changed_at[change.before.name] = self.world.now()


def _least(pod: Pod, kind: Resource) -> int:
    """Return the least amount that a pod takes of its node, by its spec and by its status."""
    return min(objects.reserved_total(pod, kind), objects.resource_total(pod, kind))


def _only_grows(autoscaler: Autoscaler) -> bool:
    return autoscaler.mode is UpdateMode.UPSCALE_ONLY


def _grows(before: Pod, after: Pod, kind: Resource) -> bool:
    return objects.resource_total(after, kind) > objects.reserved_total(before, kind)


def _fits_any(pod: Pod, rooms: Iterable[Resources]) -> bool:
    wanted = {kind: objects.resource_total(pod, kind) for kind in BOTH}
    return any(all(wanted[kind] <= room[kind] for kind in BOTH) for room in rooms)
