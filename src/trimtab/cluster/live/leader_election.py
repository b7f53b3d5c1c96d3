"""Leader election on a Lease: of several processes at most one acts at any moment.

1. Spans are measured on a local clock that never jumps, never between clocks of two machines.
   The times in a lease are for people.
2. A leader leads from the moment it sent the last renewal that succeeded, for `renew_deadline`.
   Then it stops by itself, whatever the server does: `leads` turns false without any answer.
3. Others take a lease over only after they have seen it unchanged for all of its duration. That
   is longer, and counts from a later moment: when the renewal was seen, not when it was sent.
4. Every write names the version it replaces, so a renewal that was delayed and arrives late finds
   another version, and fails.
5. The suffix of a holder's name shows whether it is Trimtab. A lease of the same name that another
   program renews is never taken. The reason is reported: managed clusters come with autoscalers
   (F42).

Losing the lease ends the work that needs it, and the process waits again; it does not exit (D12).
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NoReturn, Protocol, TypeAlias

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, ConflictError, NotFoundError, RivalError
from trimtab.cluster.ports import Clock

_OURS: Final = "_trimtab"
"""Suffix of the names of all holders that are Trimtab."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Name of the lease, our identity, and the original's three spans."""

    namespace: str
    name: str
    identity: str
    """Unlike that of any other process: `<hostname>_<uuid>`."""
    # client-go's defaults, and those of the original's flags.
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)

    def __post_init__(self) -> None:
        if not timedelta() < self.retry_period < self.renew_deadline < self.lease_duration:
            raise ValueError(
                "retry period < renew deadline < lease duration must hold, got "
                f"{self.retry_period}, {self.renew_deadline}, {self.lease_duration}"
            )

    @property
    def holder(self) -> str:
        """The holder's name in a lease of ours; its suffix marks it as Trimtab's."""
        return self.identity + _OURS


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another process may lead."""

    seen: Lease | None = None
    """The lease as it looked last."""
    unchanged_since: timedelta = timedelta.min
    """Time at which we first saw it like that, on our own clock; the minimum at the start."""


@dataclass(frozen=True, slots=True)
class Leading:
    """We lead until the deadline."""

    lease: Lease
    """The lease as we wrote it last."""
    deadline: timedelta
    """Time at which we stop unless we have renewed it, on our own clock."""


State: TypeAlias = Waiting | Leading


@dataclass(frozen=True, slots=True)
class Write:
    """Try to write this lease."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing: another process holds the lease."""


# The API has no "no holder" but an empty or missing name.
_NOBODY: Final = ""
_RELEASED: Final = timedelta(seconds=1)
"""The duration of a lease without a holder, as client-go writes it."""


def step(
    settings: ElectionSettings,
    state: State,
    seen: Lease | None,
    *,
    now: timedelta,
    wall_time: datetime,
) -> tuple[State, Write | Wait]:
    """Return the next state, and what to do about the lease as it is seen now."""
    if isinstance(state, Leading):
        if now < state.deadline and (seen is None or seen.holder == settings.holder):
            # If it was deleted, others let its duration pass before they create one.
            return state, Write(_renewed(settings, seen, wall_time))
        # Another holder, or too late: another process may lead already, so we wait like any other.
        state = Waiting()
    # Equal in every field: any renewal changes at least the resourceVersion.
    waiting = state if seen == state.seen else Waiting(seen, now)
    if not _is_free(settings, waiting, now):
        return waiting, Wait()
    return waiting, Write(_renewed(settings, seen, wall_time))


def gain(settings: ElectionSettings, written: Lease, *, sent_at: timedelta) -> Leading:
    """Return the state after a successful write; the lead counts from when it was sent."""
    # Not from the answer: others may have seen the write as soon as it was sent.
    return Leading(written, sent_at + settings.renew_deadline)


def leads(state: State, now: timedelta) -> bool:
    """True if one may act at this moment."""
    return isinstance(state, Leading) and now < state.deadline


def rival(state: State) -> RivalError | None:
    """Return an error if the holder that keeps us waiting is not Trimtab."""
    seen = state.seen if isinstance(state, Waiting) else None
    if seen is None or seen.holder == _NOBODY or is_ours(seen.holder):
        return None
    return RivalError(f"{seen.namespace}/{seen.name}", seen.holder)


def is_ours(holder: str) -> bool:
    """True if the name of a holder has Trimtab's suffix."""
    return holder.endswith(_OURS)


def release(lease: Lease) -> Lease:
    """Return the lease as one leaves it, free to be taken at once."""
    return replace(lease, holder=_NOBODY, duration=_RELEASED)


def _is_free(settings: ElectionSettings, waiting: Waiting, now: timedelta) -> bool:
    seen = waiting.seen
    if seen is not None and seen.holder in (_NOBODY, settings.holder):
        return True
    # The holder itself announced how long others have to wait; a shorter span is not trusted.
    promised = seen.duration if seen is not None and seen.duration else settings.lease_duration
    # Clocks of machines are never compared (rule 1): a wrong `renewTime` does no harm.
    return now >= waiting.unchanged_since + max(promised, settings.lease_duration)


def _renewed(settings: ElectionSettings, seen: Lease | None, wall_time: datetime) -> Lease:
    # `seen` carries the resourceVersion, which makes the PUT fail if another was faster.
    lease = seen or Lease(settings.namespace, settings.name)
    if lease.holder != settings.holder:
        transitions = 0 if seen is None else (seen.transitions or 0) + 1
        lease = replace(
            lease, holder=settings.holder, acquired_at=wall_time, transitions=transitions
        )
    return replace(lease, duration=settings.lease_duration, renewed_at=wall_time)


class ElectionLeases(Protocol):
    """The part of the cluster that an election needs."""

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        """Fetch the lease from the server, if there is one."""

    async def write_lease(self, lease: Lease) -> Lease:
        """Create the lease or replace the version that it names; ConflictError if another did."""


class Elector:
    """Takes part in an election, and runs the work only while it leads."""

    def __init__(
        self,
        leases: ElectionLeases,
        settings: ElectionSettings,
        *,
        clock: Clock,
        elapsed: Callable[[], timedelta],
    ) -> None:
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._elapsed = elapsed
        self._state: State = Waiting()
        self.problem: Exception | None = None
        """Error of the last turn, such as a missing right; None if it succeeded."""

    def leads(self) -> bool:
        """True if one may act at this moment; ask before each act."""
        return leads(self._state, self._elapsed())

    async def run(self, act: Callable[[], Coroutine[object, object, None]]) -> NoReturn:
        """Run `act` whenever we lead, and cancel it when we no longer do, until cancelled."""
        try:
            while True:
                await self._campaign()
                await self._reign(act)
        finally:
            await self._release()

    async def _campaign(self) -> None:
        await self._take_turn()
        while not self.leads():
            await self._clock.sleep(self._settings.retry_period)
            await self._take_turn()

    async def _reign(self, act: Callable[[], Coroutine[object, object, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            # In the same group: if the work fails, so does the election, and the process ends.
            acting = group.create_task(act())
            while self.leads():
                # Wakes at the deadline at the latest, so that work is cancelled before others may
                # begin.
                await self._clock.sleep(min(self._settings.retry_period, self._time_left()))
                if self.leads():
                    await self._take_turn()
            acting.cancel()
        if isinstance(self._state, Leading):
            self._state = Waiting()

    async def _take_turn(self) -> None:
        """Read the lease and write it if that is due, within the time that is left."""
        try:
            async with asyncio.timeout(self._time_left().total_seconds()):
                if not await self._renew():
                    await self._look_and_write()
        except (ClusterError, DecodeError, TimeoutError) as error:
            self.problem = error
        else:
            self.problem = None

    async def _renew(self) -> bool:
        """Renew the lease that we hold, without reading it first; return False if that fails.

        The write names the version that we wrote last, so it fails if the lease is another now.
        After a turn that failed that version may be old, and the lease is read first.
        """
        state, now = self._state, self._elapsed()
        if not isinstance(state, Leading) or now >= state.deadline or self.problem is not None:
            return False
        renewed = _renewed(self._settings, state.lease, self._clock.now())
        try:
            written = await self._leases.write_lease(renewed)
        except (ConflictError, NotFoundError):
            return False
        self._state = gain(self._settings, written, sent_at=now)
        return True

    async def _look_and_write(self) -> None:
        settings = self._settings
        seen = await self._leases.fetch_lease(settings.namespace, settings.name)
        now = self._elapsed()
        self._state, action = step(
            settings, self._state, seen, now=now, wall_time=self._clock.now()
        )
        match action:
            case Write(lease):
                written = await self._leases.write_lease(lease)
                self._state = gain(settings, written, sent_at=now)
            case Wait():
                if problem := rival(self._state):
                    raise problem

    def _time_left(self) -> timedelta:
        # Half of the deadline: if the first request hangs, a second one may succeed.
        longest = self._settings.renew_deadline / 2
        match self._state:
            case Leading(_, deadline):
                return min(longest, deadline - self._elapsed())
            case Waiting():
                return longest

    async def _release(self) -> None:
        state, self._state = self._state, Waiting()
        if not isinstance(state, Leading):
            return
        try:
            async with asyncio.timeout(self._settings.retry_period.total_seconds()):
                await self._leases.write_lease(release(state.lease))
        except (ClusterError, DecodeError, TimeoutError) as error:
            # Others will have to wait for the whole duration, no more.
            self.problem = error
