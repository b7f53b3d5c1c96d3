"""The brake across workloads: no more evictions where evicted pods get no successors.

A workload lacks a successor if the updater evicted one of its pods, the owner wants that many pods,
and no new one has come for a while. Its namespace stops then: whatever keeps one owner from
creating pods may keep all. Where several namespaces lack successors and none has got one since, the
whole cluster stops. One namespace alone never stops another.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.convergence import Expectation
from trimtab.core.pods import Pod, PodPhase, WorkloadName
from trimtab.core.records import dataclass

LACKS_AFTER: Final = timedelta(seconds=30)
"""An owner that has created no pod for so long cannot, as far as the updater knows."""
PROBE_AFTER: Final = timedelta(minutes=10)
"""So long after the last eviction one more is tried, to see if pods can be created again."""
_SEVERAL: Final = 3
"""Number of namespaces that have to lack successors before the whole cluster stops."""
_EVERYWHERE: Final = (
    "evicted pods in several namespaces have no successors, and none in the cluster has got one "
    "since"
)
"""Words that all may read: they name no namespace of others."""
_ENDED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_REPLACING_AT_ONCE: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController"})
"""Kinds that create a successor while the evicted pod still terminates; others wait for its end."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A successor that is missing."""

    since: datetime
    """When the pod was evicted, or when its workload last got another new pod."""
    known: frozenset[str] = frozenset()
    """The uids of the workload's pods at the time; any other pod is a new one."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop of evictions, in one namespace or everywhere."""

    detail: str
    """The evidence, in words for people."""
    probe_at: datetime | None = None
    """When one eviction is tried all the same; None for never."""


@dataclass(frozen=True, slots=True)
class Brake:
    """Where evictions are stopped now."""

    lacking: Mapping[WorkloadName, Lack] = field(default_factory=dict)
    """By topmost workload: these are not even probed, for they would only lose another pod."""
    namespaces: Mapping[str, Stop] = field(default_factory=dict)
    everywhere: Stop | None = None

    def find_stop(self, workload: WorkloadName | None, namespace: str) -> Stop | None:
        """Return the stop that concerns a pod of the workload, the widest first."""
        own = None if workload is None else self.lacking.get(workload)
        if own is not None:
            return Stop(_describe(own.since))
        return self.everywhere or self.namespaces.get(namespace)

    def may_evict(
        self,
        workload: WorkloadName | None,
        namespace: str,
        now: datetime,
        evicting: Collection[str] = (),
    ) -> bool:
        """Return True if a pod may be evicted, beside evictions in the namespaces given.

        While everything is stopped, a namespace that lacks successors itself gets no probe: it
        would use up those of the others.
        """
        stop = self.find_stop(workload, namespace)
        if stop is None:
            return True
        if stop.probe_at is None or now < stop.probe_at:
            return False
        if self.everywhere is not None:
            return not evicting and namespace not in self.namespaces
        return namespace not in evicting


NO_BRAKE: Final = Brake()
"""Most of the time all evictions have their successors."""


def find_lack(
    before: Lack | None,
    evictions: Iterable[Expectation],
    pods: Sequence[Pod],
    *,
    wanted: int,
    now: datetime,
) -> Lack | None:
    """Return the lack of a workload of which these evictions have no verdict yet.

    An owner that wants no more pods than it has lacks none: it was scaled down, or others came.
    """
    if sum(not pod.is_deleting and pod.phase not in _ENDED for pod in pods) >= wanted:
        return None
    uids = frozenset(pod.uid for pod in pods)
    if before is not None and uids <= before.known:
        return before
    unspoken = {pod.uid: pod for pod in pods}
    for each in sorted(evictions, key=lambda one: one.since):
        known = each.known or frozenset()
        if (successor := next((uid for uid in unspoken if uid not in known), None)) is not None:
            del unspoken[successor]
            continue
        news = [pod.created_at for pod in pods if pod.uid not in known and pod.created_at]
        since = max([each.since, *(min(at, now) for at in news)])
        if _may_be_replaced(each, uids) and now - since >= LACKS_AFTER:
            return Lack(since, uids)
    return None


def newest_successor(
    evictions: Iterable[Expectation], pods: Iterable[Pod], now: datetime
) -> datetime | None:
    """Return when the newest pod was created that came after one of these evictions."""
    known = [each.known for each in evictions if each.known is not None]
    if not known:
        return None
    # Pods that were there at any of them are older than the last one.
    old = frozenset[str]().union(*known)
    return max(
        (min(pod.created_at or now, now) for pod in pods if pod.uid not in old), default=None
    )


def find_brake(
    lacking: Mapping[WorkloadName, Lack],
    succeeded: Mapping[str, datetime],
    evicted: Mapping[str, datetime],
) -> Brake:
    """Return where evictions stop, given by namespace the last successor and the last eviction.

    A successor that came after a lack began shows that pods can be created there. Then the lack
    is a matter of its workload alone.
    """
    if not lacking:
        return NO_BRAKE
    found: defaultdict[str, list[WorkloadName]] = defaultdict(list)
    for workload, lack in lacking.items():
        last = succeeded.get(workload.namespace)
        if last is None or lack.since >= last:
            found[workload.namespace].append(workload)
    stops = {name: _stop_namespace(found[name], lacking, evicted.get(name)) for name in found}
    return Brake(lacking, stops, _stop_everywhere(lacking, found, succeeded, evicted))


def _stop_namespace(
    workloads: Iterable[WorkloadName],
    lacking: Mapping[WorkloadName, Lack],
    evicted: datetime | None,
) -> Stop:
    first = min(workloads, key=lambda each: (lacking[each].since, each))
    since = lacking[first].since
    words = f"{first.kind} {first.name} of this namespace: {_describe(since)}"
    return Stop(words, (evicted or since) + PROBE_AFTER)


def _stop_everywhere(
    lacking: Mapping[WorkloadName, Lack],
    found: Mapping[str, Sequence[WorkloadName]],
    succeeded: Mapping[str, datetime],
    evicted: Mapping[str, datetime],
) -> Stop | None:
    last = max(succeeded.values(), default=None)
    begun = {
        name: max(lacking[each].since for each in workloads) for name, workloads in found.items()
    }
    newer = {name: since for name, since in begun.items() if last is None or since >= last}
    if len(newer) < _SEVERAL:
        return None
    return Stop(_EVERYWHERE, max([*evicted.values(), *newer.values()]) + PROBE_AFTER)


def _may_be_replaced(eviction: Expectation, uids: Collection[str]) -> bool:
    """Return True if the owner has nothing to wait for before it creates the successor."""
    if eviction.pod_uid not in uids:
        return True
    return eviction.is_answered and eviction.workload.kind in _REPLACING_AT_ONCE


def _describe(since: datetime) -> str:
    return f"an evicted pod has no successor since {since:%Y-%m-%dT%H:%M:%SZ}"
