"""Checks that a pod is not changed again and again."""

from collections.abc import Iterator
from datetime import datetime

from trimtab.core.boost import boosted_containers
from trimtab.core.pods import Container, Pod
from trimtab.simulation.facts import Fact, PodEvicted, PodGone, PodResized, ProcessStarted
from trimtab.simulation.hindsight import Hindsight
from trimtab.simulation.rules import Checker, Rules
from trimtab.simulation.world import World


class CoolDown(Checker):
    """No process changes a pod twice within the cool-down, nor evicts one that goes already (F19).

    A container that dies for want of memory need not wait, a resize that the kubelet refused or put
    off may be followed by something else, and the end of a boost is no change of size. What a
    process did before it crashed it cannot know.
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
                yield from self._judge(at, actor, pod, "evicted")
            case PodResized(at=at, actor=actor, before=before) if not boosted_containers(before):
                yield from self._judge(at, actor, before, "resized")
                self._changed_at.setdefault(actor, {})[before.uid] = at
            case _:
                return

    def _judge(self, at: datetime, actor: str, pod: Pod, what: str) -> Iterator[str]:
        last = self._changed_at.get(actor, {}).get(pod.uid)
        if last is None or _may_be_changed_at_once(pod):
            return
        passed = at - last
        if passed < self.rules.cool_down - self.clock_doubt(at):
            yield f"{actor} {what} {pod.namespace}/{pod.name} {passed} after it was resized"


def _may_be_changed_at_once(pod: Pod) -> bool:
    return pod.resize is not None or any(map(ran_out_of_memory, pod.containers))


def ran_out_of_memory(container: Container) -> bool:
    """Whether a container was killed for want of memory when it last ended."""
    ends = (container.termination, container.last_termination)
    return any(end is not None and end.is_oom_kill for end in ends)
