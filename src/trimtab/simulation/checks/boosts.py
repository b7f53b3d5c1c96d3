"""Checks that startup boosts neither end too early nor last forever."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model import autoscalers, matching
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.pods import Pod, PodPhase, ResizeState
from trimtab.core.sizing import startup_boost
from trimtab.simulation.checks import pod_changes
from trimtab.simulation.checks.base import Checker, Rules
from trimtab.simulation.checks.hindsight import Hindsight, RecentValues
from trimtab.simulation.world.facts import Fact, PodEvicted, PodRefused, PodResized
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.world import World

_CROWDED_FOR: Final = timedelta(minutes=30)
"""Time after a quota refusal in which boosts may end early: owners retry with back-off."""


class Boosts(Checker):
    """A boosted pod stays unchanged until one of its boosts is over; none outlives its hard limit.

    The limit applies only while nothing is broken and the updater has had time to act. A pod that
    finds no node for a minute loses its boosts. OOM-killed containers may get memory. Boosts also
    end early in a namespace where a quota has recently refused a pod.
    """

    def __init__(self, world: World, past: Hindsight, rules: Rules) -> None:
        super().__init__(world, past, rules)
        self._boosted: dict[str, RecentValues[Pod]] = {}
        self._reported: set[str] = set()
        self._refused_at: dict[str, datetime] = {}
        """Time of the last quota refusal, by namespace."""
        world.pods.subscribe(self._follow)

    def observe(self, fact: Fact) -> Iterator[str]:
        """Report a boosted pod that was changed too early."""
        match fact:
            case PodEvicted(actor=actor) | PodResized(actor=actor) if self._lacks_gate(actor):
                # `BoostGate` checks an updater whose gate is off.
                return
            case PodEvicted(actor=actor, pod=pod) if startup_boost.boosted_containers(pod):
                yield f"{actor} evicted {pod.namespace}/{pod.name}, which is boosted"
            case PodRefused(pod=pod, flaw=flaw) if "quota" in flaw:
                self._refused_at[pod.namespace] = fact.at
            case PodResized(before=before) if self._is_crowded(before.namespace, fact.at):
                return
            case PodResized(actor=actor, before=before, after=after) if (
                startup_boost.boosted_containers(before)
                and not pod_changes.gives_memory_beside_boost(before, after)
            ):
                early = self._still_boosted(before) & _changed(before, after)
                if early or not self._expired(before):
                    yield f"{actor} resized {before.namespace}/{before.name} while it is boosted"
            case _:
                return

    def check(self) -> Iterator[str]:
        """Report boosts that should have ended long ago."""
        since = self.past.calm.since
        if since is None or not self.past.calm.runs("updater"):
            return
        for uid, timeline in self._boosted.items():
            pod = timeline.seen(self.world.now())[-1]
            started = pod.started_at or pod.created_at
            if started is None or uid in self._reported or not self._can_be_ended(pod):
                continue
            due = max(started + self.rules.max_boost, since) + self.rules.boost_grace
            if self.world.now() > due:
                self._reported.add(uid)
                yield f"{pod.namespace}/{pod.name} is boosted since {started}"

    def _is_crowded(self, namespace: str, now: datetime) -> bool:
        refused_at = self._refused_at.get(namespace)
        return refused_at is not None and now - refused_at < _CROWDED_FOR

    def _lacks_gate(self, actor: str) -> bool:
        return self.past.calm.lacks_gate(actor)

    def _can_be_ended(self, pod: Pod) -> bool:
        governors = self.past.governors(pod, matching.acts_on_running_pods)
        waits = (
            pod.phase is not PodPhase.RUNNING,
            pod.is_deleting,
            pod.resize is ResizeState.IN_PROGRESS,
            any(container.restarts_on_resize for container in pod.containers),
            any(map(autoscalers.is_paused, governors)),
        )
        return not any(waits)

    def _expired(self, pod: Pod) -> frozenset[str]:
        """Return the containers whose boost seems over in any recent version of the pod."""
        now = self.world.now()
        governors: list[autoscalers.Autoscaler | None] = [
            *self.past.governors(pod, matching.acts_on_running_pods)
        ]
        timeline = self._boosted.get(pod.uid)
        looks = [pod] if timeline is None else timeline.seen(now)
        # An updater with a current view also sees that the pod has found a node.
        views = [pod] if self._is_current(now) else looks
        if any(startup_boost.finds_no_room(view, now + self.clock_doubt(now)) for view in views):
            return frozenset(startup_boost.boosted_containers(pod))
        return frozenset(
            name
            for look in looks
            for governor in governors or [None]
            for name in startup_boost.expired_boosts(
                look,
                governor,
                now + self.clock_doubt(now),
                gates=FeatureGates(),
                max_duration=self.rules.max_boost,
            )
        )

    def _is_current(self, now: datetime) -> bool:
        """Return True if the updater has worked long enough to have no stale view."""
        since = self.past.calm.works_since("updater")
        return since is not None and now - since >= self.rules.staleness

    def _still_boosted(self, pod: Pod) -> frozenset[str]:
        return frozenset(startup_boost.boosted_containers(pod)) - self._expired(pod)

    def _follow(self, change: TableChange[Pod]) -> None:
        before, after = change.before, change.after
        if after is not None and startup_boost.boosted_containers(after):
            timeline = self._boosted.setdefault(after.uid, RecentValues(self.rules.staleness))
            timeline.put(self.world.now(), after)
        elif before is not None:
            self._boosted.pop(before.uid, None)


def _changed(before: Pod, after: Pod) -> frozenset[str]:
    pairs = zip(before.containers, after.containers, strict=True)
    return frozenset(new.name for old, new in pairs if old.spec != new.spec)
