"""Checks that a cluster which has come to rest is where it should be."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.annotations import UPDATES
from trimtab.core.autoscalers import Autoscaler, Held, UpdateMode
from trimtab.core.boost import boosted_containers
from trimtab.core.disruption import owner_of
from trimtab.core.limits import amount_of
from trimtab.core.matching import acts_on_running_pods
from trimtab.core.pods import Pod, PodPhase
from trimtab.core.resources import BOTH
from trimtab.core.update_conditions import UpdateConditionType
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.totals import reserved_total
from trimtab.simulation.world import World

_CHANGING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO, UpdateMode.IN_PLACE_OR_RECREATE)
_KINDS: Final = ("DaemonSet", "ReplicaSet", "Rollout", "StatefulSet")
"""Owners that make a pod anew and know how many they want."""
_PATIENCE: Final = timedelta(minutes=30)
"""How long a pod may take to get the size that it should have."""
_TRIFLE: Final = 0.05
"""Share of a request by which nothing that restarts need grow, and nothing at all shrink."""
_LITTLE: Final = 0.1
"""Share of a request by which nothing that restarts need shrink."""
_EVICTING: Final = (UpdateMode.RECREATE, UpdateMode.AUTO)
_CUT_TO_NODES: Final = "capped to fit the largest node"


class Converged(Checker):
    """Once it has to be quiet no pod is outside its bounds for long, if nothing is in its way.

    In the way are a mode that changes no pod, requirements, too few replicas, siblings that are not
    ready, a horizontal autoscaler, a PodDisruptionBudget, a quota, a limit range, a node without
    room, nodes that are all too small for the target, a target that the pod nearly has, the last
    ready pod that would restart to shrink, and what the autoscaler itself says of changes that have
    no effect.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._begins = rules.quiet_from
        self._outside_since: dict[str, datetime] = {}

    def begin(self) -> None:
        """Let it have to be quiet from now on."""
        self._begins = self.world.now()

    def check(self) -> Iterator[str]:
        """Pods that nobody brings to their size."""
        now = self.world.now()
        if self._begins is None or now < self._begins:
            return
        outside = {pod.uid: pod for pod in self.world.pods if self._should_change(pod)}
        known = self._outside_since
        self._outside_since = {uid: known.get(uid, now) for uid in outside}
        for uid, since in self._outside_since.items():
            if now - since > _PATIENCE:
                pod = outside[uid]
                # Once is enough.
                self._outside_since[uid] = datetime.max.replace(tzinfo=now.tzinfo)
                yield f"{pod.namespace}/{pod.name} is outside its bounds since {since:%H:%M}"

    def _should_change(self, pod: Pod) -> bool:
        governors = self.past.governors(pod, acts_on_running_pods)
        if not governors or pod.phase is not PodPhase.RUNNING or boosted_containers(pod):
            return False
        governor = governors[-1]
        return (
            governor.mode in _CHANGING
            and not governor.requirements
            and _is_outside(pod, governor, self._held(pod))
            and not _is_in_vain(governor)
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
        """Tell whether the pod fits on its node with its target, beside all others there."""
        node = self.world.nodes.find("", pod.node_name)
        if node is None:
            return True
        if _CUT_TO_NODES in pod.annotations.get(UPDATES, ""):
            # What DaemonSets may take on a node counts as well, whether they take it or not.
            return False
        others, held = self.world.neighbours_of(pod), self._held(pod)
        targets = {each.container_name: each.target for each in governor.recommendation or ()}
        return all(
            sum(reserved_total(each, kind) for each in others)
            + sum(
                amount_of(
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
        owner = owner_of(pod)
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
        not amount_of(entry.lower_bound, resource) <= has <= amount_of(entry.upper_bound, resource)
        and (target - has >= _TRIFLE * has or has - target >= little * has)
        for container, entry in pairs
        for resource, target in entry.target.items()
        for has in (amount_of(container.current.requests, resource),)
        if Held(resource) not in held and Held(resource, container.name) not in held
    )


def _restarts_to_shrink(pod: Pod, governor: Autoscaler) -> bool:
    """Return True if the pod grows in nothing, and a container restarts to get smaller."""
    entries = {entry.container_name: entry for entry in governor.recommendation or ()}
    pairs = [(each, entries[each.name]) for each in pod.containers if each.name in entries]
    sizes = [
        (container, kind, amount_of(container.current.requests, kind), entry)
        for container, entry in pairs
        for kind in entry.target
    ]
    grows = any(has < amount_of(entry.lower_bound, kind) for _, kind, has, entry in sizes)
    return not grows and any(
        kind in container.restarts_on_resize and has > amount_of(entry.upper_bound, kind)
        for container, kind, has, entry in sizes
    )


def _is_in_vain(governor: Autoscaler) -> bool:
    told = [each for each in governor.conditions if each.type == UpdateConditionType.WITHOUT_EFFECT]
    return any(each.status == "True" for each in told)
