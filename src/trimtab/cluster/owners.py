"""Who owns whom: from a pod up to the topmost workload that is well known or can be scaled.

An owner that is missing, was replaced by another of its name, owns itself through others, or is a
node ends the walk without an answer: nobody acts on pods whose owner is in doubt. A level that
cannot be scaled ends it with what was found below it.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from trimtab.cluster.scales import Unknown
from trimtab.core.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.workloads import MAX_LEVELS, Workload

_NODE: Final = "Node"


class Workloads(Protocol):
    """A store of workloads of one kind."""

    def find(self, namespace: str, name: str) -> Workload | None:
        """The object of that name, if there is one."""


class Scalables(Protocol):
    """Workloads of any other kind."""

    async def workload(self, name: WorkloadName, api_version: str) -> Workload | Unknown | None:
        """The workload as its scale shows it; None if there is none, or it cannot be scaled."""


class WatchedOwners:
    """Owners from stores where the kind is well known, through scales where it is not."""

    def __init__(self, stores: Mapping[str, Workloads], scales: Scalables) -> None:
        self._stores = stores
        self._scales = scales

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        """The topmost workload that owns the pod, or the workload, and is well known or scalable.

        For a workload that nobody owns it is the workload itself.
        """
        match owned:
            case Workload():
                return await self._climb(owned.name.namespace, owned.owner, owned.name)
            case Pod():
                return await self._climb(owned.namespace, owned.owner, None)

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        """The workload itself; None if there is none, or nothing that can be scaled."""
        found = await self._find(name, api_version)
        return found if isinstance(found, Workload) else None

    def known(self, name: WorkloadName) -> Workload | None:
        """The workload as its store shows it; None of kinds that have to be asked for."""
        store = self._stores.get(name.kind)
        return None if store is None else store.find(name.namespace, name.name)

    async def _climb(
        self, namespace: str, owner: OwnerReference | None, topmost: WorkloadName | None
    ) -> WorkloadName | None:
        for _ in range(MAX_LEVELS):
            if owner is None:
                return topmost
            name = WorkloadName(namespace, owner.kind, owner.name)
            store = self._stores.get(owner.kind)
            # A store need not be waited for, and most owners are in one.
            found = (
                await self._find(name, owner.api_version)
                if store is None
                else store.find(namespace, owner.name)
            )
            if found is None and not self._must_exist(owner.kind):
                return topmost
            if not isinstance(found, Workload) or _is_another(found, owner):
                return None
            topmost, owner = name, found.owner
        return None

    async def _find(self, name: WorkloadName, api_version: str) -> Workload | Unknown | None:
        if name.kind in self._stores:
            return self._stores[name.kind].find(name.namespace, name.name)
        if name.kind == _NODE:
            return None
        return await self._scales.workload(name, api_version)

    def _must_exist(self, kind: str) -> bool:
        # What is well known and not there is being deleted, or not seen yet.
        return kind in self._stores or kind == _NODE


def _is_another(found: Workload, owner: OwnerReference) -> bool:
    return bool(found.uid and owner.uid and found.uid != owner.uid)
