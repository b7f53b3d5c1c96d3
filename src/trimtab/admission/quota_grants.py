"""The room in ResourceQuotas for new pods, reduced by recent grants.

Each process remembers its own grants only. Copies of the admission controller, and workers of one
copy, do not share them. Two simultaneous pods at different processes may be granted the same room;
the API server then refuses one of them until its owner tries again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.admission.logs import Timer
from trimtab.core.model.pods import WorkloadName
from trimtab.core.sizing import quota_grants
from trimtab.core.sizing.quota_grants import LIFETIME_SECONDS, MAX_GRANTS, NOTHING_GRANTED, Granted
from trimtab.core.sizing.quotas import Claims, Quota

_KEPT: Final = 1024
"""Number of quotas or owners above which those without a recent pod are dropped."""


class QuotaGrants:
    """Remembers the amounts of quotas that new pods were granted."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._granted: dict[tuple[str, str], Granted] = {}

    def room_in(self, quotas: Sequence[Quota]) -> tuple[Quota, ...]:
        """Return the quotas with the amounts left for the next pod."""
        if not quotas:
            return ()
        now = self._timer()
        found = []
        for quota in quotas:
            name = quota.namespace, quota.name
            granted = self._granted.get(name)
            if granted is None:
                found.append(quota)
                continue
            granted = quota_grants.settle(granted, quota.left, now)
            if granted.grants:
                self._granted[name] = granted
            else:
                del self._granted[name]
            found.append(quota_grants.without_granted(quota, granted))
        return tuple(found)

    def note(self, quotas: Sequence[Quota], claims: Mapping[str, Claims]) -> None:
        """Record the amounts that a pod takes of each quota, by the quota's name."""
        if not claims:
            return
        now = self._timer()
        for quota in quotas:
            amounts = claims.get(quota.name)
            if amounts:
                name = quota.namespace, quota.name
                granted = quota_grants.settle(
                    self._granted.get(name, NOTHING_GRANTED), quota.left, now
                )
                self._granted[name] = quota_grants.add_grant(granted, amounts, now)
        if len(self._granted) > _KEPT:
            self._forget(now)

    def _forget(self, now: float) -> None:
        settled = {
            name: quota_grants.settle(granted, granted.left, now)
            for name, granted in self._granted.items()
        }
        self._granted = {name: granted for name, granted in settled.items() if granted.grants}


@dataclass(frozen=True, slots=True)
class _Arrived:
    """Pods of one owner that came while its status stayed the same."""

    status: tuple[int, int]
    at: tuple[float, ...]


class Arrivals:
    """Remembers the pods of each owner that came since its status last changed.

    An owner creates all missing pods before its status shows the first of them.
    """

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._arrived: dict[WorkloadName, _Arrived] = {}

    def count(self, owner: WorkloadName, status: tuple[int, int]) -> int:
        """Count recent pods that came with this status: the owner's wanted and existing pods."""
        found = self._arrived.get(owner)
        if found is None or found.status != status:
            return 0
        # A refused pod never appears in the status, so it must expire.
        return sum(self._timer() - at <= LIFETIME_SECONDS for at in found.at)

    def note(self, owner: WorkloadName, status: tuple[int, int]) -> None:
        """Record the arrival of a pod."""
        found, now = self._arrived.pop(owner, None), self._timer()
        before = () if found is None or found.status != status else found.at
        recent = [at for at in before if now - at <= LIFETIME_SECONDS]
        self._arrived[owner] = _Arrived(status, (*recent[1 - MAX_GRANTS :], now))
        if len(self._arrived) > _KEPT:
            del self._arrived[next(iter(self._arrived))]
