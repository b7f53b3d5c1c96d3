"""Owners without waiting: what is known is told at once, the rest is found out beside it.

Well-known kinds are answered from stores. A kind that has to be asked for over the network is
asked for beside the request; until then, and while the server does not answer, what was last
known counts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Final, Generic, TypeVar

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Owners
from trimtab.core.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.selectors import Selector

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

_KEPT: Final = 16_384
"""So many answers are kept; those that were asked for longest ago are forgotten."""
_MAX_QUESTIONS: Final = 1024
"""So many questions wait for the network at most; who asks more gets no answer for now."""


class NotYetError(Exception):
    """The answer is not known yet; it has been asked for."""


class _Kept(Generic[KeyT, ValueT]):
    """Answers, as many as are worth keeping."""

    def __init__(self) -> None:
        self._values: OrderedDict[KeyT, ValueT] = OrderedDict()

    def find(self, key: KeyT) -> ValueT:
        if key not in self._values:
            raise NotYetError
        self._values.move_to_end(key)
        return self._values[key]

    def keep(self, key: KeyT, value: ValueT) -> None:
        self._values[key] = value
        if len(self._values) > _KEPT:
            self._values.popitem(last=False)


class ReadyOwners:
    """Answers from memory; raises NotYetError where there is none."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._topmost: _Kept[tuple[str, OwnerReference], WorkloadName | None] = _Kept()
        self._selectors: _Kept[WorkloadName, Selector | None] = _Kept()
        self._questions: OrderedDict[tuple[str, OwnerReference] | WorkloadName, Pod | str] = (
            OrderedDict()
        )
        self._asked = asyncio.Event()

    def topmost(self, pod: Pod) -> WorkloadName | None:
        """The topmost workload above the pod; None if it has no owner, or one in doubt."""
        if pod.owner is None:
            return None
        key = (pod.namespace, pod.owner)
        try:
            return _at_once(self._owners.topmost(pod))
        except NotYetError:
            self._ask(key, pod)
            return self._topmost.find(key)

    def selector(self, workload: WorkloadName, api_version: str) -> Selector | None:
        """The selector of the workload; None if it is gone or selects nothing."""
        try:
            found = _at_once(self._owners.workload(workload, api_version))
        except NotYetError:
            self._ask(workload, api_version)
            return self._selectors.find(workload)
        return None if found is None else found.selector

    async def find_out(self) -> None:
        """Ask what could not be told at once, for ever."""
        while True:
            while not self._questions:
                self._asked.clear()
                await self._asked.wait()
            try:
                await self._find_out_next()
            except ClusterError:
                # What was known stays known; the next pod asks again.
                continue

    async def _find_out_next(self) -> None:
        key, detail = self._questions.popitem(last=False)
        if isinstance(detail, Pod):
            assert detail.owner is not None
            topmost = await self._owners.topmost(detail)
            self._topmost.keep((detail.namespace, detail.owner), topmost)
        elif isinstance(key, WorkloadName):
            found = await self._owners.workload(key, detail)
            self._selectors.keep(key, None if found is None else found.selector)

    def _ask(self, key: tuple[str, OwnerReference] | WorkloadName, detail: Pod | str) -> None:
        if len(self._questions) < _MAX_QUESTIONS:
            self._questions[key] = detail
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
