"""Owners that have missed pods for a while, where quotas may be the reason."""

from collections import defaultdict
from collections.abc import Container, Iterable
from datetime import datetime, timedelta
from typing import Final

from trimtab.core.model.pods import Pod, PodPhase, WorkloadName
from trimtab.core.updates.evictions import successors
from trimtab.updater.owner_facts import OwnerFacts
from trimtab.updater.pod_owners import OwnerKey, workload_name

_SHORT_FOR: Final = timedelta(seconds=10)
"""Pods that are missing for less time may only be unseen yet, while the quota counts them."""
_ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})


class MissingPods:
    """Remembers since when owners in namespaces with quotas miss pods."""

    def __init__(self) -> None:
        self._since: dict[WorkloadName, datetime] = {}
        """By direct owner."""

    def forget(self, key: OwnerKey) -> None:
        """Forget an owner that is gone."""
        self._since.pop(workload_name(key), None)

    def review(
        self,
        pods: Iterable[tuple[OwnerKey | None, Pod]],
        owners: OwnerFacts,
        quotas: Container[str],
        now: datetime,
    ) -> frozenset[WorkloadName]:
        """Return the owners in namespaces with quotas that have missed pods for a while."""
        configured = owners.configured
        wanted = {owner: count for owner, count in configured.items() if owner.namespace in quotas}
        if not wanted:
            return frozenset()
        members: defaultdict[WorkloadName, list[Pod]] = defaultdict(list)
        for key, pod in pods:
            is_live = not pod.is_deleting and pod.phase not in _ENDED
            if key is not None and pod.namespace in quotas and is_live:
                members[workload_name(key)].append(pod)
        for owner, count in wanted.items():
            since = self._since.get(owner, now)
            # An owner that makes its pods in order waits for each to be ready, and for no quota.
            # It may have gone on since the last look, and wait again.
            step: datetime | None = since
            if owner in owners.first_ordinals:
                min_ready = owners.min_ready.get(owner, timedelta())
                step = successors.next_pod_from(members[owner], min_ready)
            if step is not None and len(members[owner]) < count:
                self._since[owner] = max(since, step)
            else:
                self._since.pop(owner, None)
        return frozenset(
            owner
            for owner in wanted
            if owner in self._since and now - self._since[owner] >= _SHORT_FOR
        )
