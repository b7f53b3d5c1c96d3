"""Owners without waiting: what is known is told at once, the rest is found out beside it.

Well-known kinds are answered from stores. A kind that has to be asked for over the network is
asked for beforehand where an autoscaler is for it, and else beside the request; until then, and
while the server does not answer, what was last known counts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from typing import Final, TypeVar

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Owners
from trimtab.core.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.records import dataclass
from trimtab.core.selectors import Selector
from trimtab.core.workloads import Workload

ValueT = TypeVar("ValueT")

_KEPT: Final = 16_384
"""So many answers are kept; those that were asked for longest ago are forgotten."""
_MAX_QUESTIONS: Final = 1024
"""So many questions wait for the network at most; who asks more gets no answer for now."""
_AT_A_TIME: Final = 4
"""So many questions are on their way at a time."""
_MAX_ATTEMPTS: Final = 30
"""So often a target is looked for before it holds up everybody else: it may not exist."""


class NotYetError(Exception):
    """The answer is not known yet; it has been asked for."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was found out about a workload of a kind that is not well known."""

    workload: Workload | None
    """None if there is none, if it cannot be scaled, or if nobody could tell."""
    topmost: WorkloadName | None


class _Answers:
    """Answers, as many as are worth keeping."""

    def __init__(self) -> None:
        self._kept: OrderedDict[WorkloadName, _Answer] = OrderedDict()

    def knows(self, name: WorkloadName) -> bool:
        """Whether the workload was found, now or before."""
        kept = self._kept.get(name)
        return kept is not None and kept.workload is not None

    def find(self, name: WorkloadName) -> _Answer:
        if name not in self._kept:
            raise NotYetError
        self._kept.move_to_end(name)
        return self._kept[name]

    def keep(self, name: WorkloadName, answer: _Answer) -> None:
        self._kept[name] = answer
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


class ReadyOwners:
    """Answers from memory; raises NotYetError where there is none."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._answers = _Answers()
        self._questions: OrderedDict[WorkloadName, str] = OrderedDict()
        self._asked = asyncio.Event()
        self._foreign: dict[str, bool] = {}
        """Which kinds have to be asked for, as far as that is known."""
        self._attempts = 0
        self._was_prepared = False

    def topmost(self, pod: Pod) -> WorkloadName | None:
        """The topmost workload above the pod; None if it has no owner, or one in doubt."""
        if pod.owner is None:
            return None
        try:
            return _at_once(self._owners.topmost(pod))
        except NotYetError:
            return self._recall_topmost(pod.namespace, pod.owner)

    def selector(self, workload: WorkloadName, api_version: str) -> Selector | None:
        """The selector of the workload; None if it is gone or selects nothing."""
        try:
            found = self._find(workload, api_version)
        except NotYetError:
            found = self._answers.find(workload).workload
        return None if found is None else found.selector

    def prepare(self, targets: Iterable[tuple[WorkloadName, str]]) -> bool:
        """Find out what pods of these targets will need; whether that was all known once."""
        foreign = {name: version for name, version in targets if self._is_foreign(name, version)}
        unknown = [name for name in foreign if not self._answers.knows(name)]
        for name in (*unknown, *foreign):
            self._ask(name, foreign[name])
        self._attempts += 1
        self._was_prepared |= not unknown or self._attempts > _MAX_ATTEMPTS
        return self._was_prepared

    async def find_out(self) -> None:
        """Ask what could not be told at once, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_A_TIME):
                group.create_task(self._find_out_one_by_one())

    async def _find_out_one_by_one(self) -> None:
        while True:
            while not self._questions:
                self._asked.clear()
                await self._asked.wait()
            try:
                await self._find_out(*self._questions.popitem(last=False))
            except ClusterError:
                # What was known stays known; the next pod asks again.
                continue

    async def _find_out(self, name: WorkloadName, api_version: str) -> None:
        found = await self._owners.workload(name, api_version)
        if found is not None:
            topmost = await self._owners.topmost(found)
            self._answers.keep(name, _Answer(found, topmost))
        elif not self._answers.knows(name):
            self._answers.keep(name, _Answer(None, None))

    def _recall_topmost(self, namespace: str, owner: OwnerReference) -> WorkloadName | None:
        """What is known of the first owner on the way up that cannot be told at once."""
        below, name = None, WorkloadName(namespace, owner.kind, owner.name)
        while (found := self._find_or_none(name, owner.api_version)) is not None:
            # With an owner that cannot be told at once, it has one.
            assert found.owner is not None
            below, owner = name, found.owner
            name = WorkloadName(namespace, owner.kind, owner.name)
        answer = self._answers.find(name)
        if answer.workload is None:
            return below
        if answer.workload.uid and owner.uid and answer.workload.uid != owner.uid:
            raise NotYetError
        return answer.topmost

    def _find_or_none(self, name: WorkloadName, api_version: str) -> Workload | None:
        try:
            return self._find(name, api_version)
        except NotYetError:
            return None

    def _find(self, name: WorkloadName, api_version: str) -> Workload | None:
        try:
            return _at_once(self._owners.workload(name, api_version))
        except NotYetError:
            self._foreign[name.kind] = True
            self._ask(name, api_version)
            raise

    def _is_foreign(self, name: WorkloadName, api_version: str) -> bool:
        if name.kind not in self._foreign:
            self._foreign[name.kind] = False
            self._find_or_none(name, api_version)
        return self._foreign[name.kind]

    def _ask(self, name: WorkloadName, api_version: str) -> None:
        if len(self._questions) < _MAX_QUESTIONS:
            self._questions[name] = api_version
            self._asked.set()


def _at_once(answer: Coroutine[object, object, ValueT]) -> ValueT:
    """What the coroutine returns, if it need not wait for anything."""
    try:
        answer.send(None)
    except StopIteration as end:
        value: ValueT = end.value
        return value
    answer.close()
    raise NotYetError
