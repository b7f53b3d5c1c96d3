"""Checks marks of startup boosts: which pods get one, how long it stays, what its end changes."""

from collections.abc import Iterator

from trimtab.core.model import autoscalers, limits, matching
from trimtab.core.model.autoscalers import Autoscaler, BoostType, CpuBoost
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing import startup_boost
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight
from trimtab.simulation.world.facts import Fact, PodCreated, PodEvicted, PodPatched, PodResized
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World


class BoostMarks(Checker):
    """A boost's mark stays until the kubelet reports less CPU; no eviction before that (D20)."""

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._boosted: dict[str, frozenset[str]] = {}
        """Containers by pod uid that have a mark, or had one and still have the boosted CPU."""
        world.pods.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a mark that is removed too soon, or a pod that is evicted with its boost."""
        match fact:
            case PodPatched(actor=actor, before=before, after=after):
                lost = frozenset(startup_boost.boosted_containers(before)) - set(
                    startup_boost.boosted_containers(after)
                )
                early = [each.name for each in after.containers if _waits(each, lost)]
                if early:
                    names = ", ".join(early)
                    yield f"{actor} unmarked {names} of {_name(after)}, still with its boost"
            case PodEvicted(actor=actor, pod=pod) if pod.uid in self._boosted:
                if not self.past.calm.lacks_gate(actor):
                    yield f"{actor} evicted {_name(pod)}, which still has its boost"
            case _:
                return

    def _follow(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if before is not None and (after is None or after.uid != before.uid):
            self._boosted.pop(before.uid, None)
        if after is None:
            return
        marked = frozenset(startup_boost.boosted_containers(after))
        known = self._boosted.get(after.uid)
        if known is None and not marked:
            return
        waiting = {each.name for each in after.containers if _waits(each, known or marked)}
        if marked or waiting:
            self._boosted[after.uid] = marked | waiting
        else:
            del self._boosted[after.uid]


class BoostEnds(Checker):
    """The end of a boost changes only the CPU of boosted containers.

    Before it, OOM-killed containers may get memory.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report anything else that a resize of a boosted pod changes."""
        if not isinstance(fact, PodResized) or self.past.calm.lacks_gate(fact.actor):
            return
        boosted = startup_boost.boosted_containers(fact.before)
        if boosted and not pod_changes.gives_memory_beside_boost(fact.before, fact.after):
            pairs = zip(fact.before.containers, fact.after.containers, strict=True)
            others = [
                old.name for old, new in pairs if _keeps(old, boosted) != _keeps(new, boosted)
            ]
            if others:
                names = ", ".join(others)
                yield f"{fact.actor} ended a boost of {_name(fact.before)} and changed {names}"


class BoostGate(Checker):
    """With its gate off the updater ends no boost and evicts no pod because of a boost (D20).

    The updater may change everything else about a boosted pod, as with any other pod.
    """

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a boosted pod that is changed for its boost though the gate is off."""
        match fact:
            case PodEvicted(actor=actor, pod=pod) if self._is_checked(actor, pod):
                governors = self.past.governors(pod, matching.acts_on_running_pods)
                if not any(_wants_more_than_an_end(pod, each) for each in governors):
                    yield f"{actor} evicted {_name(pod)} for its boost, with the gate off"
            case PodResized(actor=actor, before=before, after=after) if self._is_checked(
                actor, before
            ):
                if _boosts(before, before) != _boosts(before, after):
                    yield f"{actor} ended a boost of {_name(before)} with the gate off"
            case _:
                return

    def _is_checked(self, actor: str, pod: Pod) -> bool:
        return self.past.calm.lacks_gate(actor) and bool(startup_boost.boosted_containers(pod))


def _boosts(before: Pod, pod: Pod) -> list[tuple[int, int]]:
    """Return CPU request and limit of every container that was boosted before."""
    boosted = startup_boost.boosted_containers(before)
    return [
        (
            limits.amount_of(each.spec.requests, Resource.CPU),
            limits.amount_of(each.spec.limits, Resource.CPU),
        )
        for each in pod.containers
        if each.name in boosted
    ]


def _wants_more_than_an_end(pod: Pod, governor: Autoscaler) -> bool:
    """Return True if any resource but boosted CPU differs from its target."""
    boosted = startup_boost.boosted_containers(pod)
    targets = {entry.container_name: entry.target for entry in governor.recommendation or ()}
    return any(
        limits.amount_of(each.current.requests, kind) != amount
        for each in pod.containers
        for kind, amount in targets.get(each.name, {}).items()
        if kind is not Resource.CPU or each.name not in boosted
    )


class RealBoosts(Checker):
    """A boost that adds nothing (factor 1, quantity 0) marks no pod (D7)."""

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a mark that stands for no boost."""
        if not isinstance(fact, PodCreated):
            return
        marked = set(startup_boost.boosted_containers(fact.pod)) - set(
            startup_boost.boosted_containers(fact.wanted)
        )
        if not marked:
            return
        governors = self.past.governors(fact.pod, matching.acts_on_new_pods)
        empty = sorted(name for name in marked if governors and not _may_boost(governors, name))
        if empty:
            names = ", ".join(empty)
            yield f"{_name(fact.pod)} came with marks of boosts that add nothing: {names}"


def _may_boost(governors: list[Autoscaler], name: str) -> bool:
    return any(_adds(autoscalers.effective_boost(governor, name)) for governor in governors)


def _adds(boost: CpuBoost | None) -> bool:
    if boost is None:
        return False
    if boost.type == BoostType.QUANTITY:
        return (boost.quantity_millicores or 0) > 0
    return (boost.factor or 0) > 1


def _waits(container: Container, names: frozenset[str]) -> bool:
    """Return True if the container is one of `names` and has more CPU than its spec requests."""
    if container.name not in names or container.status is None:
        return False
    has = limits.amount_of(container.status.requests, Resource.CPU)
    return has > limits.amount_of(container.spec.requests, Resource.CPU)


def _keeps(container: Container, boosted: tuple[str, ...]) -> tuple[Resources, Resources]:
    """Return the requests and limits that the end of a boost may not change."""
    requests, bounds = container.spec.requests or {}, container.spec.limits or {}
    if container.name not in boosted:
        return requests, bounds
    return _but_cpu(requests), _but_cpu(bounds)


def _but_cpu(amounts: Resources) -> Resources:
    return {kind: amount for kind, amount in amounts.items() if kind is not Resource.CPU}


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
