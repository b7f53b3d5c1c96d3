"""Targets of autoscalers with pods that run, and that are gone as soon as they are evicted.

Nobody makes evicted pods anew while a side is measured; between two measurements all that are
missing are made again, so that each side finds the same.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import time
from typing import Final, TypeAlias

from bench import workloads
from bench.evictions import Eviction
from bench.fleet import key_of, name_of
from bench.reviews import TargetFleet
from bench.workloads import Amounts, Manifest, Workload
from trimtab.cluster.http import paths
from trimtab.core.model.quantities import format_amount, parse_amount
from trimtab.core.model.resources import Resource

_AMPLE: Final = 1.06
"""Bounds go by buckets of 5 %: who has no more than the target is below them when one is passed."""

Sizing: TypeAlias = Callable[[Workload], Amounts]


class PodFleet(TargetFleet):
    """Workloads with autoscalers, recommendations and pods; nobody runs them."""

    _sizing: Sizing | None = None

    async def settle(self, sizing: Sizing) -> None:
        """Let all pods be there and ask for this much, and all statuses be a recommender's."""
        if sizing is not self._sizing:
            await self._delete_all("pods", paths.pods)
            self._sizing = sizing
        await self._each("statuses", self.workloads, self._recommend)
        await self._complete(sizing)

    async def fit(self) -> None:
        """Let all pods ask for what is recommended for them now, and for a little more."""
        listed = json.loads(await self.send("GET", paths.autoscalers()))
        told = {key_of(found): _ample_amounts(found) for found in listed["items"]}
        await self._delete_all("pods", paths.pods)
        self._sizing = lambda workload: told[workload.namespace, workload.name]
        await self._complete(self._sizing)

    async def clear(self) -> None:
        """Delete all pods, those that controllers made included."""
        await self._delete_all("pods", paths.pods)
        self._sizing = None

    async def replace_evicted(self) -> None:
        """Make pods anew that were evicted since all of them were there."""
        assert self._sizing is not None
        await self._complete(self._sizing)

    @asynccontextmanager
    async def watching_evictions(self) -> AsyncIterator[list[Eviction]]:
        """The evictions that happen while the block lasts, in their order."""
        seen: list[Eviction] = []
        listed = json.loads(await self.send("GET", f"{paths.pods()}?limit=1"))
        version = listed["metadata"]["resourceVersion"]
        numbers = {workload.owner: workload for workload in self.workloads}

        async def watch() -> None:
            async for kind, pod in self.watch(paths.pods(), version):
                if kind == "DELETED":
                    owner = name_of(pod).rpartition("-")[0]
                    seen.append(Eviction(time(), numbers[owner]))

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch())
            yield seen
            watching.cancel()

    async def _complete(self, sizing: Sizing) -> None:
        """Make the pods that are missing."""
        listed = json.loads(await self.send("GET", paths.pods()))
        there = {name_of(pod) for pod in listed["items"]}

        async def run(workload: Workload) -> None:
            owner, amounts = self._owner_uids[workload], sizing(workload)
            for name in set(workload.pods) - there:
                await self._run(workload, workloads.mortal_pod(workload, name, owner, amounts))

        await self._each("workloads with all their pods", self.workloads, run)


def _ample_amounts(autoscaler: Manifest) -> Amounts:
    status = autoscaler["status"]
    assert isinstance(status, dict)
    told = status["recommendation"]["containerRecommendations"]
    return {
        each["containerName"]: {
            kind.value: format_amount(
                kind, round(parse_amount(kind, each["target"][kind]) * _AMPLE)
            )
            for kind in Resource
        }
        for each in told
    }
