"""The brake across workloads: no more evictions where evicted pods get no successors.

A workload lacks a successor if its owner has not replaced an evicted pod for a while, although it
wants as many pods. Evictions in its namespace stop then: the cause may keep all owners there from
creating pods. A pod that anyone created there since shows the opposite.

Where several namespaces lack successors, the whole cluster stops, but only while no pod at all is
created in it. One pod anywhere shows that the lacks are a matter of their namespaces.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from zlib import crc32

from trimtab.core.guards.convergence import Expectation
from trimtab.core.model.pods import Pod, PodPhase, WorkloadName

LACKS_AFTER: Final = timedelta(seconds=30)
"""Time without a new pod after which the updater assumes that an owner cannot create one."""
PROBE_AFTER: Final = timedelta(minutes=10)
"""Time after the last eviction at which one more tests if pods can be created again."""
_TURNS: Final = timedelta(minutes=50)
"""Span over which the first probes of namespaces are spread while the cluster stops."""
_SEVERAL: Final = 3
"""Number of namespaces that have to lack successors before the whole cluster stops."""
_RECENT: Final = timedelta(hours=1)
"""Age at which a lack says nothing about the cluster, once a pod was created elsewhere."""
_APART: Final = "kube-system"
"""Webhooks and policies leave out this namespace, so its pods say nothing about others."""
_EVERYWHERE: Final = (
    "evicted pods in several namespaces have no successors, and no pod was created in the cluster "
    "since"
)
"""Message for all tenants: it names no namespace of others."""
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
    tried_at: datetime | None = None
    """When a pod of the workload was last evicted, if that is later."""


@dataclass(frozen=True, slots=True)
class ClusterDoubt:
    """Evidence about the whole cluster that outlasts single lacks."""

    since: datetime | None = None
    """When the first of several lacks began; None once a pod was created anywhere."""
    refuted_at: datetime | None = None
    """When a pod was last created while several namespaces lacked successors."""


NO_DOUBT: Final = ClusterDoubt()


@dataclass(frozen=True, slots=True)
class Stop:
    """A stop of evictions: of a workload, in one namespace, or everywhere."""

    detail: str
    """The evidence, in words for people."""
    probe_at: datetime | None = None
    """When one eviction is tried all the same; None for never."""
    rescue_at: datetime | None = None
    """The same for a pod that has nothing to lose; None if that makes no difference."""

    def lets_probe(self, now: datetime, *, is_rescue: bool = False) -> bool:
        """Return True if one eviction may be tried: a rescue is of a pod with nothing to lose."""
        at = self.rescue_at if is_rescue and self.rescue_at is not None else self.probe_at
        return at is not None and now >= at


@dataclass(frozen=True, slots=True)
class Brake:
    """The evidence for stopping evictions, by workload, by namespace and for the cluster."""

    lacking: Mapping[WorkloadName, Lack] = field(default_factory=dict)
    """By topmost workload: these have the most to lose by another eviction."""
    namespaces: Mapping[str, Stop] = field(default_factory=dict)
    everywhere: datetime | None = None
    """Since when there is reason to stop the whole cluster; None if there is none."""
    created: Mapping[str, datetime] = field(default_factory=dict)
    """By namespace when a pod was last created."""
    evicted: Mapping[str, datetime] = field(default_factory=dict)
    """By namespace when a pod was last evicted."""

    def find_stop(self, workload: WorkloadName | None, namespace: str) -> Stop | None:
        """Return the stop that concerns a pod of the workload, its own first, then the widest."""
        own = None if workload is None else self.lacking.get(workload)
        if own is not None:
            return self._stop_workload(own, namespace)
        since, lacks = self.everywhere, self.namespaces.get(namespace)
        if since is None or _is_after(self.created.get(namespace), since):
            return lacks
        # Probes do not add up: each waits for the outcome of the last eviction.
        last = max(since, self.evicted.get(namespace, since))
        # A namespace that lacks successors itself would only lose another pod.
        probe_at = None if lacks else max(last, since + _turn_of(namespace)) + PROBE_AFTER
        return Stop(_EVERYWHERE, probe_at, last + PROBE_AFTER)

    def may_evict(
        self,
        workload: WorkloadName | None,
        namespace: str,
        now: datetime,
        *,
        is_rescue: bool = False,
    ) -> bool:
        """Return True if a pod may be evicted: nothing stops it, or a probe is due."""
        stop = self.find_stop(workload, namespace)
        return stop is None or stop.lets_probe(now, is_rescue=is_rescue)

    def _stop_workload(self, lack: Lack, namespace: str) -> Stop:
        """Return the stop of a workload that lacks a successor.

        It is probed where others got pods since: an evicted pod may free what its successor needs.
        """
        again = max(lack.since, lack.tried_at or lack.since) + PROBE_AFTER
        is_open = _is_after(self.created.get(namespace), lack.since)
        return Stop(_describe(lack.since), again if is_open else None, again)


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
    ordered = sorted(evictions, key=lambda one: one.since)
    tried_at = ordered[-1].since if ordered else None
    # No pod came since the lack was found, so it goes on.
    if before is not None and uids <= before.known:
        return replace(before, tried_at=tried_at) if tried_at else before
    unspoken = {pod.uid: pod for pod in pods}
    for each in ordered:
        known = each.known or frozenset()
        # Each new pod can be the successor of one eviction only.
        if (successor := next((uid for uid in unspoken if uid not in known), None)) is not None:
            del unspoken[successor]
            continue
        # New pods show that the owner works, if slowly: the wait starts again at the newest.
        news = [pod.created_at for pod in pods if pod.uid not in known and pod.created_at]
        since = max([each.since, *(min(at, now) for at in news)])
        if _may_be_replaced(each, uids) and now - since >= LACKS_AFTER:
            return Lack(since, uids, tried_at)
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


def renew_doubt(
    before: ClusterDoubt, lacking: Mapping[WorkloadName, Lack], created: Mapping[str, datetime]
) -> ClusterDoubt:
    """Return the evidence about the cluster, given by namespace when a pod was last created.

    Owners that are scaled down and up again end their lacks, but not the doubt. Only a pod does.
    """
    last = _last_created(created)
    refuted_at = before.refuted_at
    if last is not None:
        begun = _begin_of_lacks(lacking, created).values()
        # Several namespaces lacked successors and then a pod came: that doubt was wrong.
        if sum(last - _RECENT < each < last for each in begun) >= _SEVERAL:
            refuted_at = last
    since = before.since
    if since is None or _is_after(last, since):
        votes = _list_votes(lacking, created, refuted_at)
        since = min(votes) if len(votes) >= _SEVERAL else None
    return ClusterDoubt(since, refuted_at)


def find_brake(
    lacking: Mapping[WorkloadName, Lack],
    created: Mapping[str, datetime],
    evicted: Mapping[str, datetime],
    before: ClusterDoubt = NO_DOUBT,
) -> Brake:
    """Return where evictions stop, given by namespace the last new pod and the last eviction.

    A pod that anyone created after a lack began shows that pods can be created there. Then the lack
    is a matter of its workload alone.
    """
    if not lacking:
        return NO_BRAKE
    found: defaultdict[str, list[WorkloadName]] = defaultdict(list)
    for workload, lack in lacking.items():
        if not _is_after(created.get(workload.namespace), lack.since):
            found[workload.namespace].append(workload)
    stops = {name: _stop_namespace(found[name], lacking, evicted.get(name)) for name in found}
    doubt = renew_doubt(before, lacking, created)
    votes = _list_votes(lacking, created, doubt.refuted_at)
    everywhere = doubt.since if len(votes) >= _SEVERAL else None
    return Brake(dict(lacking), stops, everywhere, dict(created), dict(evicted))


def _stop_namespace(
    workloads: Iterable[WorkloadName],
    lacking: Mapping[WorkloadName, Lack],
    evicted: datetime | None,
) -> Stop:
    first = min(workloads, key=lambda each: (lacking[each].since, each))
    since = lacking[first].since
    words = f"{first.kind} {first.name} of this namespace: {_describe(since)}"
    return Stop(words, (evicted or since) + PROBE_AFTER)


def _begin_of_lacks(
    lacking: Mapping[WorkloadName, Lack], created: Mapping[str, datetime]
) -> dict[str, datetime]:
    """Return by namespace the first lack that began after its last pod was created."""
    begun: dict[str, datetime] = {}
    for workload, lack in lacking.items():
        name = workload.namespace
        if not _is_after(created.get(name), lack.since):
            begun[name] = min(begun.get(name, lack.since), lack.since)
    return begun


def _list_votes(
    lacking: Mapping[WorkloadName, Lack],
    created: Mapping[str, datetime],
    refuted_at: datetime | None,
) -> list[datetime]:
    """Return when the lacks began, one of each namespace, that may speak for the whole cluster.

    No pod was created anywhere since, and others like them were not refuted shortly before.
    """
    last = _last_created(created)
    again = None if refuted_at is None else refuted_at + PROBE_AFTER
    begun = _begin_of_lacks(lacking, created).values()
    return [each for each in begun if not _is_after(last, each) and not _is_after(again, each)]


def _last_created(created: Mapping[str, datetime]) -> datetime | None:
    return max((at for name, at in created.items() if name != _APART), default=None)


def _is_after(moment: datetime | None, since: datetime) -> bool:
    return moment is not None and moment > since


def _turn_of(namespace: str) -> timedelta:
    """Return when in the span of all first probes it is the namespace's turn.

    It follows from the name alone, so that no tenant can take the turn of another.
    """
    # A CRC and not `hash`, which differs from process to process.
    return timedelta(seconds=crc32(namespace.encode()) % int(_TURNS.total_seconds()))


def _may_be_replaced(eviction: Expectation, uids: Collection[str]) -> bool:
    """Return True if the owner has nothing to wait for before it creates the successor."""
    # The pod is gone for good, so every kind of owner has to act now.
    if eviction.pod_uid not in uids:
        return True
    return eviction.is_answered and eviction.workload.kind in _REPLACING_AT_ONCE


def _describe(since: datetime) -> str:
    return f"an evicted pod has no successor since {since:%Y-%m-%dT%H:%M:%SZ}"
