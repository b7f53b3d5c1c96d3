"""Workloads of pods and the pods that their owners want, looked up once per direct owner.

Stores answer for well-known kinds; others may take a request, so several are looked up at once.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, TypeVar

from trimtab.cluster.ports import Owners
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import Allocation, Pod, WorkloadName

ItemT = TypeVar("ItemT")


class OwnerKey(NamedTuple):
    """One direct owner of pods; its uid differs from that of another with the same name.

    Plans look it up several times for each pod, and a flat tuple of strings is fastest.
    """

    namespace: str
    kind: str
    name: str
    api_version: str
    uid: str


@dataclass(frozen=True, slots=True)
class Ownership:
    """Facts about a pod's direct owner."""

    topmost: WorkloadName | None
    """The topmost workload; None while it is in doubt."""
    configured: int | None
    """Number of pods that the direct owner wants; None if it does not say."""
    first_ordinal: int | None = None
    """Ordinal of its first pod, if it makes its pods one after the other."""
    sizes: Mapping[str, Allocation] | None = None
    """Resources in its pod template, by container; None if they are not known."""
    min_ready: timedelta = timedelta()
    """Time for which each of those must be ready before the next one is made."""
    staged_revision: str | None = None
    """Revision that only new pods get, "" if its name is not known; None for most owners."""
    staged_from: int = 0
    """Ordinal of the first pod that may get it."""
    is_rolling_out: bool = False
    """True of a StatefulSet or DaemonSet that replaces its pods by itself, and is not through."""


def owner_key(pod: Pod) -> OwnerKey | None:
    """Return the pod's direct owner."""
    owner = pod.owner
    if owner is None:
        return None
    return OwnerKey(pod.namespace, owner.kind, owner.name, owner.api_version, owner.uid)


def workload_name(key: OwnerKey) -> WorkloadName:
    """Return the name of the direct owner."""
    return WorkloadName(key.namespace, key.kind, key.name)


async def resolve_owners(
    owners: Owners, pods: Mapping[OwnerKey, Pod], *, concurrency: int
) -> dict[OwnerKey, Ownership]:
    """Return the ownership of every direct owner, given one pod of each."""
    found: dict[OwnerKey, Ownership] = {}

    async def resolve(item: tuple[OwnerKey, Pod]) -> None:
        key, pod = item
        topmost = await owners.topmost(pod)
        direct = await owners.workload(workload_name(key), key.api_version)
        if direct is None:
            found[key] = Ownership(topmost, None)
        else:
            found[key] = Ownership(
                topmost,
                direct.replicas,
                first_ordinal=direct.first_ordinal,
                sizes=direct.sizes,
                min_ready=direct.min_ready,
                staged_revision=direct.staged_revision,
                staged_from=direct.staged_from,
                is_rolling_out=direct.is_rolling_out,
            )

    await _for_each(pods.items(), resolve, concurrency)
    return found


async def resolve_targets(
    owners: Owners, autoscalers: Iterable[Autoscaler], *, concurrency: int
) -> list[ObservedAutoscaler]:
    """Return the autoscalers with their targets' selectors, in the order of the answers."""
    found: list[ObservedAutoscaler] = []

    async def resolve(autoscaler: Autoscaler) -> None:
        target, selector = autoscaler.target, None
        if target is not None:
            name = WorkloadName(autoscaler.namespace, target.kind, target.name)
            workload = await owners.workload(name, target.api_version)
            selector = None if workload is None else workload.selector
        found.append(ObservedAutoscaler(autoscaler, selector))

    await _for_each(autoscalers, resolve, concurrency)
    return found


async def _for_each(
    items: Iterable[ItemT], work: Callable[[ItemT], Awaitable[None]], concurrency: int
) -> None:
    waiting = deque(items)
    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, len(waiting))):
            group.create_task(_work_off(waiting, work))
            # Stores answer at once, so the first worker often does everything.
            await asyncio.sleep(0)
            if not waiting:
                break


async def _work_off(waiting: deque[ItemT], work: Callable[[ItemT], Awaitable[None]]) -> None:
    while waiting:
        await work(waiting.popleft())
