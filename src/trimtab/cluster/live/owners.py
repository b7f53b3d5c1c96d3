"""Owners: from a pod up to the topmost workload that is well known or can be scaled.

The walk ends without an answer at an owner that is missing, replaced, its own ancestor, or a node.
No component acts on pods whose owner is in doubt. A level that cannot be scaled ends the walk with
the workload below it.

`peek` walks without waiting, from memory. `topmost` makes the lookups that the walk lacks.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from trimtab.cluster.live.scales import CachedScale, Missing, Unknown
from trimtab.core.model.pods import OwnerReference, Pod, PodHead, WorkloadName
from trimtab.core.model.workloads import MAX_LEVELS, Lookup, PeekedOwner, PeekedWorkload, Workload

_NODE: Final = "Node"


class Workloads(Protocol):
    """A store of workloads of one kind."""

    def find(self, namespace: str, name: str) -> Workload | None:
        """Return the object of that name, if there is one."""


class Scalables(Protocol):
    """Workloads of any other kind."""

    def peek(self, name: WorkloadName, api_version: str, uid: str = "") -> CachedScale | None:
        """Return the last answer, however old, without a request; None if there is none."""

    async def workload(
        self, name: WorkloadName, api_version: str, uid: str = ""
    ) -> Workload | Unknown | None:
        """Return the workload as its scale shows it; None if there is none, or it has no scale."""


class WatchedOwners:
    """Owners from stores where the kind is well known, through scales where it is not."""

    def __init__(self, stores: Mapping[str, Workloads], scales: Scalables) -> None:
        self._stores = stores
        self._scales = scales

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        """Return the topmost workload above the pod or workload that is well known or scalable.

        A workload without an owner is its own topmost workload.
        """
        asked: set[Lookup] = set()
        while True:
            seen = self.peek(owned)
            lookup = next((each for each in seen.due if each not in asked), None)
            if lookup is None or len(asked) > MAX_LEVELS:
                return seen.topmost
            asked.add(lookup)
            await self.look_up(lookup)

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        """Return the workload itself; None if there is none, or nothing that can be scaled."""
        if name.kind in self._stores or name.kind == _NODE:
            return self.known(name)
        found = await self._scales.workload(name, api_version)
        return found if isinstance(found, Workload) else None

    async def look_up(self, lookup: Lookup) -> None:
        """Renew the cached answer about a workload that is not watched, if it is due."""
        await self._scales.workload(lookup.name, lookup.api_version, lookup.uid)

    def known(self, name: WorkloadName) -> Workload | None:
        """Return the workload as its store shows it; None for kinds without a store."""
        store = self._stores.get(name.kind)
        return None if store is None else store.find(name.namespace, name.name)

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        """Return the same as `topmost` from memory alone, without requests: old answers count."""
        if isinstance(owned, Workload):
            return self._climb(owned.name.namespace, owned.owner, owned.name)
        return self._climb(owned.namespace, owned.owner, None)

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        """Return the same as `workload`, from memory alone."""
        if name.kind in self._stores or name.kind == _NODE:
            return PeekedWorkload(self.known(name))
        lookup = Lookup(name, api_version)
        found = self._scales.peek(name, api_version)
        if found is None:
            return PeekedWorkload(None, (lookup,), is_pending=True, is_known=False)
        workload = found.answer if isinstance(found.answer, Workload) else None
        # An old answer stands while it is renewed; an old absence does not.
        is_pending = found.is_settling or (workload is None and not found.is_fresh)
        due = () if found.is_fresh else (lookup,)
        is_known = not isinstance(found.answer, Unknown)
        return PeekedWorkload(workload, due, is_pending=is_pending, is_known=is_known)

    def _climb(
        self, namespace: str, owner: OwnerReference | None, topmost: WorkloadName | None
    ) -> PeekedOwner:
        due: tuple[Lookup, ...] = ()
        for _ in range(MAX_LEVELS):
            if owner is None:
                return PeekedOwner(topmost, due)
            store = self._stores.get(owner.kind)
            if store is not None:
                found = store.find(namespace, owner.name)
                if found is None or _is_another(found, owner):
                    # It is being deleted, or the watch has not shown it yet.
                    doubt = f"{_text(_name_of(owner, namespace))} not seen"
                    return PeekedOwner(None, due, is_pending=True, doubt=doubt)
                name = found.name
            elif owner.kind == _NODE:
                doubt = f"{_text(_name_of(owner, namespace))} is no workload"
                return PeekedOwner(None, due, doubt=doubt)
            else:
                name = _name_of(owner, namespace)
                lookup = Lookup(name, owner.api_version, owner.uid)
                seen = self._scales.peek(name, owner.api_version, owner.uid)
                if seen is None or not seen.is_fresh:
                    due = (*due, lookup)
                if seen is None:
                    doubt = f"{_text(name)} not looked up"
                    return PeekedOwner(None, due, is_pending=True, doubt=doubt)
                if not isinstance(seen.answer, Workload) or _is_another(seen.answer, owner):
                    return _end_at(seen, topmost, due, name)
                found = seen.answer
            topmost, owner = name, found.owner
        return PeekedOwner(None, due, doubt="its owners own each other")


def _end_at(
    seen: CachedScale, topmost: WorkloadName | None, due: tuple[Lookup, ...], name: WorkloadName
) -> PeekedOwner:
    """End the walk at an owner that is no known workload."""
    # An answer that may be older than the owner is requested again.
    is_pending = not seen.is_fresh
    match seen.answer:
        case Missing.SCALE:
            # No lookup will change it, so none is pending.
            return PeekedOwner(topmost, due)
        case Missing.OBJECT:
            return PeekedOwner(topmost, due, is_pending=is_pending)
        case Unknown(problem):
            doubt = f"{_text(name)}: {problem}"
            return PeekedOwner(None, due, is_pending=is_pending, doubt=doubt)
        case Workload():
            doubt = f"{_text(name)} is another of that name"
            return PeekedOwner(None, due, is_pending=is_pending, doubt=doubt)


def _name_of(owner: OwnerReference, namespace: str) -> WorkloadName:
    return WorkloadName(namespace, owner.kind, owner.name)


def _is_another(found: Workload, owner: OwnerReference) -> bool:
    return bool(found.uid and owner.uid and found.uid != owner.uid)


def _text(name: WorkloadName) -> str:
    return f"{name.kind} {name.namespace}/{name.name}"
