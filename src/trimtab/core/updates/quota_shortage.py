"""Boosts that keep pods from being created: they fill a quota that missing pods need.

A boost is granted when its pod is created. A workload that grows later finds the quota full, though
all of its pods would fit without their boosts. So the updater ends the boosts that are in the way.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from trimtab.core.guards import disruption_budgets
from trimtab.core.guards.disruption_budgets import ReplicaGroup
from trimtab.core.model.pods import Allocation, Pod, PodPhase, WorkloadName
from trimtab.core.sizing import quota_check, quotas, startup_boost
from trimtab.core.sizing.quotas import Quota, QuotaClaim
from trimtab.core.updates.snapshot import Snapshot

_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
_END_OF_TIME: Final = datetime.max.replace(tzinfo=UTC)


def find_boosts_in_the_way(
    snapshot: Snapshot, groups: Mapping[WorkloadName, ReplicaGroup]
) -> frozenset[str]:
    """Return the uids of boosted pods whose boosts have to end, so that missing pods fit.

    Of the boosts that a quota counts the oldest end first, and no more than it takes. What pods
    that are about to end give back comes without that.
    """
    members: dict[str, list[Pod]] = {owner.namespace: [] for owner in snapshot.short_handed}
    for each in snapshot.pods:
        if each.pod.namespace in members and each.pod.phase not in _ENDED:
            members[each.pod.namespace].append(each.pod)
    return frozenset(
        uid
        for namespace, pods in members.items()
        for quota in snapshot.quotas.get(namespace, ())
        for uid in _in_the_way(quota, pods, _missing(pods, snapshot, groups))
    )


def _missing(
    pods: Sequence[Pod], snapshot: Snapshot, groups: Mapping[WorkloadName, ReplicaGroup]
) -> list[tuple[Pod, int]]:
    """Return a pod of each owner that misses pods, with how many it misses."""
    samples = {
        owner: pod
        for pod in pods
        if (owner := disruption_budgets.owner_of(pod)) in snapshot.short_handed
    }
    return [
        (pod, group.configured - group.live)
        for owner, pod in samples.items()
        if (group := groups.get(owner)) is not None
        and group.configured is not None
        and group.configured > group.live
    ]


def _in_the_way(
    quota: Quota, pods: Sequence[Pod], missing: Sequence[tuple[Pod, int]]
) -> Iterator[str]:
    counted = [pod for pod in pods if quotas.covers(quota, pod, {})]
    lacking = _lacking(quota, counted, missing)
    for pod in sorted(counted, key=lambda each: (each.created_at or _END_OF_TIME, each.name)):
        if (
            pod.is_deleting
            or pod.phase is PodPhase.PENDING
            or not startup_boost.boosted_containers(pod)
        ):
            continue
        given_back = {claim: _given_back(pod, claim) for claim in lacking}
        if any(lacking[claim] > 0 < amount for claim, amount in given_back.items()):
            yield pod.uid
            lacking = {claim: lacking[claim] - amount for claim, amount in given_back.items()}


def _lacking(
    quota: Quota, counted: Sequence[Pod], missing: Sequence[tuple[Pod, int]]
) -> Mapping[QuotaClaim, int]:
    """Return how much the quota leaves too little for pods that owners still have to create."""
    needed: Counter[QuotaClaim] = Counter()
    for pod, count in missing:
        usual = _sizes(_unboosted(pod))
        for claim, amount in quota_check.claims_on([quota], pod, usual).get(quota.name, {}).items():
            needed[claim] += count * amount
    leaving: Counter[QuotaClaim] = Counter()
    for pod in counted:
        if pod.is_deleting:
            leaving.update(quota_check.usage_of(pod, _sizes(pod)))
    return {
        claim: amount - max(quota.left[claim] + leaving[claim], 0)
        for claim, amount in needed.items()
    }


def _given_back(pod: Pod, claim: QuotaClaim) -> int:
    has, usual = (
        quota_check.usage_of(pod, _sizes(pod)),
        quota_check.usage_of(pod, _sizes(_unboosted(pod))),
    )
    return has[claim] - usual[claim]


def _unboosted(pod: Pod) -> Pod:
    return startup_boost.without_boost(pod, startup_boost.boosted_containers(pod))


def _sizes(pod: Pod) -> list[Allocation]:
    return [each.spec for each in pod.containers]
