"""The agenda: acts of the last plans that have not begun, the most urgent first, each at its pace.

Evictions and resizes wait in lanes of their own, since each has a budget of its own. The end of a
startup boost frees CPU; if it restarts no container, it has a lane without a pace.

At a limited pace namespaces take turns (D26). What may not wait comes before: pods that are
OOM-killed early and grow, and the ends of boosts.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from trimtab.core.changes import change
from trimtab.core.changes.outcomes import Act, Evict, Unboost
from trimtab.core.guards import rate_limit
from trimtab.core.guards.rate_limit import Pace, PaceSettings
from trimtab.core.guards.turns import LastTurns
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.pods import WorkloadName
from trimtab.core.updates import resize_or_evict
from trimtab.updater.pod_owners import OwnerKey, owner_key
from trimtab.updater.state import UpdaterMemory


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
_Queue: TypeAlias = list[tuple[_Rank, int]]
"""A heap of ranks and negated numbers, so that of equal ranks the newest comes first."""
_Place: TypeAlias = tuple[int, _Rank, str]
"""The number of a namespace's last turn, the rank of its first task, and its name."""


class ActionLane:
    """The tasks of one kind, with the pace at which they may be begun.

    A part of a plan comes often and concerns few tasks, so it must not scan the others.
    """

    def __init__(self, settings: PaceSettings, now: datetime, turns: LastTurns) -> None:
        self._settings = settings
        self._turns = turns
        self._pace: Pace = rate_limit.begin_pace(now)
        self._closed_until = now
        self._numbers = count()
        self._tasks: dict[int, Action] = {}
        """The held tasks, by number."""
        self._numbers_of: defaultdict[OwnerKey | None, list[int]] = defaultdict(list)
        """Numbers of the held tasks, and of some former ones, by owner."""
        self._urgent: _Queue = []
        """The tasks that wait for no turn."""
        self._queues: defaultdict[str, _Queue] = defaultdict(list)
        """All others, by namespace."""
        self._line: list[_Place] = []
        """A heap of the present and some former places of the namespaces."""
        self._places: dict[str, _Place] = {}
        """The present place of each namespace; its tasks may since have gone."""
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def replace_all(self, tasks: Iterable[Action]) -> None:
        """Hold these tasks and no others."""
        self._tasks.clear()
        self._numbers_of.clear()
        self._urgent.clear()
        self._queues.clear()
        self._line.clear()
        self._places.clear()
        for task in tasks:
            self._queue_of(task).append((_rank(task), -self._hold(task)))
        heapify(self._urgent)
        for namespace, queue in self._queues.items():
            heapify(queue)
            self._line_up(namespace)
        self._turns.forget_others(self._queues)

    def replace_part(self, owners: Collection[OwnerKey], tasks: Iterable[Action]) -> None:
        """Hold these tasks in the place of all that concern pods of these owners."""
        for owner in owners:
            for number in self._numbers_of.pop(owner, ()):
                self._tasks.pop(number, None)
        for task in tasks:
            self.put_back(task)

    def put_back(self, task: Action) -> None:
        """Hold a task again that could not be done."""
        queue = self._queue_of(task)
        heappush(queue, (_rank(task), -self._hold(task)))
        if queue is not self._urgent:
            self._line_up(task.act.pod.namespace)

    def take(self) -> Action:
        """Remove and return the task that is next: an urgent one, or that of the next namespace."""
        if self._first_of(self._urgent) is not None:
            return self._tasks.pop(-heappop(self._urgent)[1])
        while True:
            place = heappop(self._line)
            namespace = place[-1]
            if place != self._places.get(namespace):
                continue
            del self._places[namespace]
            task = None
            if place == self._find_place(namespace):
                task = self._tasks.pop(-heappop(self._queues[namespace])[1])
            self._line_up(namespace)
            if task is not None:
                return task

    def take_where(self, condition: Callable[[Action], bool]) -> list[Action]:
        """Remove and return the tasks that meet the condition, the least urgent first."""
        taken = [number for number, task in self._tasks.items() if condition(task)]
        return sorted(map(self._tasks.pop, taken), key=_rank, reverse=True)

    def count_by_namespace(self) -> Counter[str]:
        """Return the number of held tasks by namespace."""
        return Counter([task.act.pod.namespace for task in self._tasks.values()])

    def _queue_of(self, task: Action) -> _Queue:
        return self._queues[task.act.pod.namespace] if self._needs_turn(task) else self._urgent

    def _needs_turn(self, task: Action) -> bool:
        # Without a pace there is nothing to share.
        return self._settings.is_limited and not _is_urgent(task)

    def _first_of(self, queue: _Queue) -> _Rank | None:
        """Return the rank of the first task; None if the queue has none. Drop former ones."""
        while queue and -queue[0][1] not in self._tasks:
            heappop(queue)
        return queue[0][0] if queue else None

    def _find_place(self, namespace: str) -> _Place | None:
        """Return the place of the namespace by its last turn and its first task, if it has one."""
        first = self._first_of(self._queues[namespace])
        return None if first is None else (self._turns.join(namespace), first, namespace)

    def _line_up(self, namespace: str) -> None:
        """Put the namespace in its place."""
        place = self._find_place(namespace)
        if place is None:
            self._places.pop(namespace, None)
            del self._queues[namespace]
        elif place != self._places.get(namespace):
            self._places[namespace] = place
            heappush(self._line, place)

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

    def count_begun(self, task: Action) -> None:
        """Count a task that is begun against the pace, and as the turn of its namespace."""
        if self._settings.is_limited:
            self._pace = rate_limit.spend(self._pace)
        if self._needs_turn(task):
            self._turns.note(task.act.pod.namespace)
            if task.act.pod.namespace in self._queues:
                self._line_up(task.act.pod.namespace)


_UNLIMITED: Final = PaceSettings(per_second=0)


class ActionQueue:
    """All lanes: evictions, resizes, and ends of boosts that disrupt nothing."""

    def __init__(self, settings: PaceSettings, now: datetime, memory: UpdaterMemory) -> None:
        self.evictions = ActionLane(settings, now, memory.turns_to_evict)
        self.resizes = ActionLane(settings, now, memory.turns_to_resize)
        self.gifts = ActionLane(_UNLIMITED, now, memory.turns_to_resize)

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

    def count_by_namespace(self) -> Mapping[str, int]:
        """Return the number of waiting tasks by namespace, those with the most first."""
        found = sum((lane.count_by_namespace() for lane in self.lanes), Counter[str]())
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

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
    return (
        True,
        not _is_urgent(task),
        change.urgency_rank(act.change),
        act.pod.namespace,
        act.pod.name,
    )


def _is_urgent(task: Action) -> bool:
    """Return True if the act waits for no turn of its namespace.

    A pod that is OOM-killed early, again and again, serves no one until it has grown.
    """
    act = task.act
    return isinstance(act, Unboost) or (act.quick_oom and act.change.scale_up)
