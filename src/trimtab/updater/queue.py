"""The agenda: acts of the last plans that have not begun, the most urgent first, each at its pace.

Evictions and resizes wait in lanes of their own, since each has a budget of its own. The end of a
startup boost frees CPU; if it restarts no container, it has a lane without a pace.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from trimtab.core.changes import change
from trimtab.core.changes.outcomes import Act, Evict, Unboost
from trimtab.core.guards import rate_limit
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName
from trimtab.core.updates import resize_or_evict
from trimtab.updater.pod_owners import OwnerKey, owner_key


@dataclass(frozen=True, slots=True)
class Action:
    """One act, and the facts on which it was decided."""

    act: Act
    autoscaler: Autoscaler | None
    workload: WorkloadName | None
    known: frozenset[str] = frozenset()
    """The pods of the workload at the time, by uid."""
    ready: int = 0
    """Number of these pods that were ready."""


_Rank: TypeAlias = tuple[bool, bool, tuple[bool, float], str, str]


class ActionLane:
    """The tasks of one kind, with the pace at which they may be begun.

    A part of a plan comes often and concerns few tasks, so it must not scan the others.
    """

    def __init__(self, settings: PaceSettings, now: datetime) -> None:
        self._settings = settings
        self._pace: Pace = rate_limit.begin_pace(now)
        self._closed_until = now
        self._numbers = count()
        self._tasks: dict[int, Action] = {}
        """The held tasks, by number."""
        self._numbers_of: defaultdict[OwnerKey | None, list[int]] = defaultdict(list)
        """Numbers of the held tasks, and of some former ones, by owner."""
        self._queue: list[tuple[_Rank, int]] = []
        """A heap of ranks and negated numbers, so that of equal ranks the newest comes first."""
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def replace_all(self, tasks: Iterable[Action]) -> None:
        """Hold these tasks and no others."""
        self._tasks.clear()
        self._numbers_of.clear()
        self._queue = [(_rank(task), -self._hold(task)) for task in tasks]
        heapify(self._queue)

    def replace_part(self, owners: Collection[OwnerKey], tasks: Iterable[Action]) -> None:
        """Hold these tasks in the place of all that concern pods of these owners."""
        for owner in owners:
            for number in self._numbers_of.pop(owner, ()):
                self._tasks.pop(number, None)
        for task in tasks:
            self.put_back(task)

    def put_back(self, task: Action) -> None:
        """Hold a task again that could not be done."""
        heappush(self._queue, (_rank(task), -self._hold(task)))

    def take(self) -> Action:
        """Remove and return the most urgent task."""
        while True:
            _, number = heappop(self._queue)
            if (task := self._tasks.pop(-number, None)) is not None:
                return task

    def take_where(self, condition: Callable[[Action], bool]) -> list[Action]:
        """Remove and return the tasks that meet the condition, the least urgent first."""
        taken = [number for number, task in self._tasks.items() if condition(task)]
        return sorted(map(self._tasks.pop, taken), key=_rank, reverse=True)

    def _hold(self, task: Action) -> int:
        number = next(self._numbers)
        self._tasks[number] = task
        self._numbers_of[owner_key(task.act.pod)].append(number)
        self._filled.set()
        return number

    async def filled(self) -> None:
        """Return when there is a task."""
        while not self._tasks:
            self._filled.clear()
            await self._filled.wait()

    def close_until(self, moment: datetime) -> None:
        """Begin nothing before that moment."""
        self._closed_until = max(self._closed_until, moment)

    def time_to_next(self, now: datetime) -> timedelta:
        """Return the time until the next task may be begun."""
        closed = max(self._closed_until - now, timedelta())
        if not self._settings.is_limited:
            return closed
        self._pace = rate_limit.refill(self._pace, self._settings, now)
        return max(closed, rate_limit.time_to_token(self._pace, self._settings))

    def count_begun(self) -> None:
        """Count a task that is begun against the pace."""
        if self._settings.is_limited:
            self._pace = rate_limit.spend(self._pace)


_UNLIMITED: Final = PaceSettings(per_second=0)


class ActionQueue:
    """All lanes: evictions, resizes, and ends of boosts that disrupt nothing."""

    def __init__(self, settings: PaceSettings, now: datetime) -> None:
        self.evictions = ActionLane(settings, now)
        self.resizes = ActionLane(settings, now)
        self.gifts = ActionLane(_UNLIMITED, now)

    def __len__(self) -> int:
        return sum(map(len, self.lanes))

    @property
    def lanes(self) -> tuple[ActionLane, ActionLane, ActionLane]:
        """All lanes; each has a worker of its own."""
        return self.evictions, self.resizes, self.gifts

    def fill(self, tasks: Collection[Action], owners: Collection[OwnerKey] | None = None) -> None:
        """Hold these tasks in the place of all others, or of all that concern these owners."""
        chosen: dict[ActionLane, list[Action]] = {lane: [] for lane in self.lanes}
        for task in tasks:
            chosen[self._lane_of(task)].append(task)
        for lane, its_tasks in chosen.items():
            if owners is None:
                lane.replace_all(its_tasks)
            else:
                lane.replace_part(owners, its_tasks)

    def _lane_of(self, task: Action) -> ActionLane:
        act = task.act
        if isinstance(act, Evict):
            return self.evictions
        is_gift = isinstance(act, Unboost) and not resize_or_evict.restarts_containers(
            act.pod, act.wanted
        )
        return self.gifts if is_gift else self.resizes


def _rank(task: Action) -> _Rank:
    act = task.act
    # The end of a boost comes first, since it frees CPU.
    if isinstance(act, Unboost):
        return False, False, (False, 0.0), act.pod.namespace, act.pod.name
    # A pod that is OOM-killed early, again and again, serves no one until it has grown.
    is_rescue = act.quick_oom and act.change.scale_up
    return True, not is_rescue, change.urgency_rank(act.change), act.pod.namespace, act.pod.name
