"""The last plan: its outcomes by pod, of which parts are replaced as pods change."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from trimtab.core.changes.outcomes import Outcome
from trimtab.core.updates.snapshot import Snapshot
from trimtab.updater.pod_owners import OwnerKey, owner_key


class Look(NamedTuple):
    """A plan of all pods, and its snapshot."""

    snapshot: Snapshot
    outcomes: Sequence[Outcome]
    at: datetime


class LastPlan:
    """The last outcome of each pod."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}
        self._uids: defaultdict[OwnerKey | None, list[str]] | None = None
        """The pods by owner; made when a part first asks for it."""

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """The outcomes by the uid of the pod, those of the latest plan last."""
        return self._outcomes

    def replace_all(self, outcomes: Iterable[Outcome]) -> None:
        """Hold these outcomes and no others."""
        self._outcomes = {each.pod.uid: each for each in outcomes}
        self._uids = None

    def replace_part(self, outcomes: Collection[Outcome], owners: Iterable[OwnerKey]) -> None:
        """Hold these outcomes in the place of all that are about pods of these owners."""
        if self._uids is None:
            self._uids = defaultdict(list)
            self._add_uids(self._uids, self._outcomes.values())
        for owner in owners:
            for uid in self._uids.pop(owner, ()):
                found = self._outcomes.get(uid)
                # Another owner may have adopted the pod since.
                if found is not None and owner_key(found.pod) == owner:
                    del self._outcomes[uid]
        self._outcomes |= {each.pod.uid: each for each in outcomes}
        self._add_uids(self._uids, outcomes)

    @staticmethod
    def _add_uids(
        uids: defaultdict[OwnerKey | None, list[str]], outcomes: Iterable[Outcome]
    ) -> None:
        for each in outcomes:
            uids[owner_key(each.pod)].append(each.pod.uid)
