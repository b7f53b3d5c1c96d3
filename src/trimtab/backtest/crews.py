"""Crews: who does the parts of a backtest, here or elsewhere, and how far they are."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import nullcontext
from ctypes import c_long
from itertools import count
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from trimtab.core.records import dataclass

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

ResultT = TypeVar("ResultT")
_ResultT_co = TypeVar("_ResultT_co", covariant=True)

Progress: TypeAlias = Callable[[float], None]
"""Is told what share of the work is done."""
_LOOK_SECONDS: Final = 0.5
"""How often it is asked how far processes are."""


class Work(Protocol[_ResultT_co]):
    """What a part of the work is, for any process."""

    def __call__(self, *, after_day: Callable[[], None]) -> _ResultT_co:
        """What became of it; every day that it gets on is told."""
        ...


@dataclass(frozen=True, slots=True)
class Part(Generic[ResultT]):
    """Some work, and how many days it has."""

    work: Work[ResultT]
    days: int


@dataclass(frozen=True, slots=True)
class Crew:
    """Who does the work."""

    jobs: int
    """How many parts are done at once."""
    pool: Executor | None = None
    """Processes somewhere else; those of this machine if there are none."""


class _Days:
    """The days that are over; processes may count them together."""

    def __init__(self, shared: "Synchronized[int] | None" = None) -> None:
        self.shared = shared

    def note(self) -> None:
        """One more is over."""
        if self.shared is not None:
            with self.shared.get_lock():
                self.shared.value += 1


def finish(parts: Sequence[Part[ResultT]], crew: Crew, tell: Progress) -> list[ResultT]:
    """What became of each part."""
    total = max(sum(part.days for part in parts), 1)
    if crew.jobs == 1 and crew.pool is None:
        return _finish_here(parts, lambda done: tell(done / total))
    return _finish_elsewhere(parts, crew, lambda done: tell(done / total))


def _finish_here(parts: Sequence[Part[ResultT]], tell: Callable[[int], None]) -> list[ResultT]:
    days = count(1)
    return [part.work(after_day=lambda: tell(next(days))) for part in parts]


def _finish_elsewhere(
    parts: Sequence[Part[ResultT]], crew: Crew, tell: Callable[[int], None]
) -> list[ResultT]:
    context = get_context("spawn")  # So that no lock of a thread of ours is copied.
    days: Synchronized[int] = context.Value(c_long, 0)
    with (
        nullcontext(crew.pool)
        if crew.pool is not None
        else ProcessPoolExecutor(crew.jobs, context, initializer=_adopt, initargs=(days,))
    ) as pool:
        futures = [pool.submit(_perform, part.work) for part in parts]
        pending: set[Future[ResultT]] = set(futures)
        told = 0
        while pending:
            _, pending = wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
            whole = zip(parts, futures, strict=True)
            # Processes on other machines count for themselves: of them only what is done is known.
            finished = sum(part.days for part, future in whole if future.done())
            if (done := max(days.value, finished)) > told:
                told = done
                tell(done)
        return [future.result() for future in futures]


_HERE: Final = _Days()
"""What this process counts for whoever sent the work."""


def _adopt(shared: "Synchronized[int]") -> None:
    _HERE.shared = shared


def _perform(work: Work[ResultT]) -> ResultT:
    return work(after_day=_HERE.note)
