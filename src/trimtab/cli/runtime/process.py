"""A component as a process: it acts while it may, and ends well when it is told to.

1. SIGTERM and SIGINT are a wish: what was begun comes to its end, acting stops, what was learned is
   saved, the lease is released.
2. While that lasts the lease is still renewed, so that nobody else acts in the meantime; who loses
   it stops at once, and saves nothing.
3. A second signal ends the process there and then; so does the end of all patience, for whoever
   hangs before it has anything to save.
"""

import asyncio
import ctypes
import gc
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NoReturn

import structlog
import uvloop
from prometheus_client import Gauge

from trimtab.cli.errors import FailedError
from trimtab.cluster.live.leader_election import Elector
from trimtab.cluster.ports import Clock

GRACE: Final = timedelta(seconds=20)
"""How long saving may take; a kubelet waits for 30 s before it ends a process."""
SAVING: Final = GRACE - timedelta(seconds=2)
"""How long to go on with it, so that there is time to say how far it came."""
PATIENCE: Final = GRACE + timedelta(seconds=5)
"""How long all of the end may take."""
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
"""With the usual ones, tens of thousands of records that stay are looked through all the time."""
_OPEN_FILES: Final = 8192
"""Many containers begin with 1 024, fewer than the connections that the webhook bears."""
_BETWEEN_COLLECTIONS: Final = timedelta(hours=6)

LEADING: Final = Gauge(
    "trimtab_leading", "Whether this component acts: 1 if it does, 0 if not.", ["component"]
)

_logger: Final = structlog.stdlib.get_logger(__name__)


async def _begin_nothing() -> None:
    """What was begun needs no end."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """What a component does."""

    act: Callable[[], Coroutine[object, object, None]]
    """Until it is cancelled."""
    finish: Callable[[], Awaitable[None]]
    """When it is told to end, and still may act."""
    wind_down: Callable[[], Awaitable[None]] = _begin_nothing
    """Before it is cancelled when it is told to end: begin nothing more, and end what was begun."""


def run(
    main: Callable[[asyncio.Event], Coroutine[object, object, None]],
    patience: timedelta = PATIENCE,
) -> int:
    """Run a component to its end: 0 if it was told to end, which sets the event, 1 if it broke."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    _allow_open_files()
    try:
        uvloop.run(_heed_signals(main, patience))
    except FailedError:
        raise
    except asyncio.CancelledError:
        _logger.warning("ended before everything was done")
        return 1
    except Exception:
        # Whatever it is, whoever started us starts us anew; the log says why.
        _logger.exception("broken")
        return 1
    _logger.info("ended")
    return 0


async def spare_garbage_collection(clock: Clock) -> NoReturn:
    """Let the garbage collector look through what stays only every few hours."""
    while True:
        collect_garbage()
        await clock.sleep(_BETWEEN_COLLECTIONS)


def collect_garbage() -> None:
    """Look through everything once, and no more through what is left."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Return free memory to the system, where the C library can.

    It keeps what was freed between what is still used, and a burst of large requests leaves
    much of that.
    """
    # Only glibc has it; others give memory back by themselves.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _allow_open_files() -> None:
    """Let this process open as many files as it may need, if it may let itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if resource.RLIM_INFINITY != soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _heed_signals(
    main: Callable[[asyncio.Event], Coroutine[object, object, None]], patience: timedelta
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    running = asyncio.current_task()
    assert running is not None

    def heed(number: signal.Signals) -> None:
        _logger.info("told to end", signal=number.name)
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        loop.call_later(patience.total_seconds(), running.cancel)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, heed, each)
    await main(stop)


async def serve(
    name: str, duty: Runnable, stop: asyncio.Event, elector: Elector | None = None
) -> None:
    """Do the duty until told to end: all the time, or whenever an election is won."""
    ended = asyncio.Event()
    leading = LEADING.labels(name)

    async def be_on_duty() -> None:
        _logger.info("acting begins")
        leading.set(1)
        try:
            await _act_until(stop, duty)
            await duty.finish()
        finally:
            leading.set(0)
            _logger.info("acting ends")
            if stop.is_set():
                ended.set()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(be_on_duty() if elector is None else elector.run(be_on_duty))
        await stop.wait()
        if elector is None or elector.leads():
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE.total_seconds()):
                    await ended.wait()
        serving.cancel()


async def _act_until(stop: asyncio.Event, duty: Runnable) -> None:
    async with asyncio.TaskGroup() as group:
        acting = group.create_task(duty.act())
        await stop.wait()
        await duty.wind_down()
        acting.cancel()
