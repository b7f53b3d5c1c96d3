"""Checks that a pod is not changed again and again."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.core.allocations import recommended_for_pod
from trimtab.core.boost import boosted_containers
from trimtab.core.limits import amount_of
from trimtab.core.matching import acts_on_running_pods
from trimtab.core.pods import Container, Pod
from trimtab.core.resources import BOTH, Resource
from trimtab.simulation.check_disruption import restarts
from trimtab.simulation.facts import Fact, PodEvicted, PodGone, PodResized, ProcessStarted
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


class CoolDown(Checker):
    """No process shrinks or restarts a pod within the cool-down, nor evicts it twice (F19).

    Growth in place that restarts nothing need not wait (D17), nor need a change that gives more
    memory to a container that was OOM-killed. A resize that the kubelet refused or put off may be
    followed by something else, and the end of a boost is no change of size. What a process did
    before it crashed it cannot know.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._changed_at: dict[str, dict[str, datetime]] = {}

    def observe(self, fact: Fact) -> Iterator[str]:
        """A change too soon after another one."""
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
                    yield from self._judge(at, actor, pod, "evicted")
            case PodResized(at=at, actor=actor, before=before, after=after):
                if boosted_containers(before):
                    return
                is_gentle = _only_grows(before, after) and not restarts(before, after)
                if not is_gentle and not _cures(before, after):
                    yield from self._judge(at, actor, before, "resized")
                self._changed_at.setdefault(actor, {})[before.uid] = at
            case _:
                return

    def _judge(self, at: datetime, actor: str, pod: Pod, what: str) -> Iterator[str]:
        last = self._changed_at.get(actor, {}).get(pod.uid)
        if last is None or pod.resize is not None:
            return
        passed = at - last
        if passed < self.rules.cool_down - self.clock_doubt(at):
            yield f"{actor} {what} {pod.namespace}/{pod.name} {passed} after it was resized"

    def _would_cure(self, pod: Pod) -> bool:
        """Tell whether a successor gets more memory for a container that was OOM-killed."""
        ranges = self.past.limit_ranges(pod.namespace)
        return any(
            amount_of(wanted[each.name].requests, Resource.MEMORY)
            > amount_of(each.current.requests, Resource.MEMORY)
            for governor in self.past.governors(pod, acts_on_running_pods)
            for wanted in (recommended_for_pod(pod, governor, ranges),)
            for each in pod.containers
            if each.name in wanted and ran_out_of_memory(each)
        )


def _cures(before: Pod, after: Pod) -> bool:
    """Tell whether a container that was OOM-killed gets more memory."""
    return any(
        amount_of(new.spec.requests, Resource.MEMORY)
        > amount_of(old.spec.requests, Resource.MEMORY)
        for old, new in zip(before.containers, after.containers, strict=True)
        if ran_out_of_memory(old)
    )


def _only_grows(before: Pod, after: Pod) -> bool:
    """Return True if something of the pod grows, and nothing shrinks."""
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


def ran_out_of_memory(container: Container) -> bool:
    """Whether a container was killed for want of memory when it last ended."""
    ends = (container.termination, container.last_termination)
    return any(end is not None and end.is_oom_kill for end in ends)
