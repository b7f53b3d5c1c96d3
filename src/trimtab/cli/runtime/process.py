"""A component as a process: it acts while it leads, and ends gracefully after a signal.

1. After SIGTERM or SIGINT a component finishes what it began, stops acting, saves its state, and
   releases its lease.
2. Meanwhile it still renews the lease, so that no other replica acts. A component that loses its
   lease stops at once, and saves nothing.
3. A second signal ends the process immediately. So does the end of `PATIENCE`, for a process that
   hangs.
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
"""Timeout of the graceful end; a kubelet waits for 30 s before it kills a process."""
SAVING: Final = GRACE - timedelta(seconds=2)
"""Timeout of saving, which leaves time to log how far it came."""
PATIENCE: Final = GRACE + timedelta(seconds=5)
"""Time from the first signal until the process ends in any case."""
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
"""The defaults would scan tens of thousands of long-lived records again and again."""
_OPEN_FILES: Final = 8192
"""Many containers start with 1 024, fewer than the webhook's maximum of connections."""
_BETWEEN_COLLECTIONS: Final = timedelta(hours=6)

LEADING: Final = Gauge(
    "trimtab_leading", "1 while this component acts, 0 while it does not.", ["component"]
)

_logger: Final = structlog.stdlib.get_logger(__name__)


async def _do_nothing() -> None:
    """Do nothing: there is no work in progress to finish, or no state to save."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """The work of a component, and how it ends."""

    act: Callable[[], Coroutine[object, object, None]]
    """Runs until it is cancelled."""
    finish: Callable[[], Awaitable[None]] = _do_nothing
    """Called last, after `act` was cancelled, to save state while the lease is held."""
    wind_down: Callable[[], Awaitable[None]] = _do_nothing
    """Called before `act` is cancelled: begins nothing more, and finishes what was begun."""


def run(
    main: Callable[[asyncio.Event], Coroutine[object, object, None]],
    patience: timedelta = PATIENCE,
) -> int:
    """Run a component; return 0 if it ended after a signal, which sets the event, 1 if it broke."""
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
        # The kubelet restarts the container after any error; the log says why.
        _logger.exception("broken")
        return 1
    _logger.info("ended")
    return 0


async def spare_garbage_collection(clock: Clock) -> NoReturn:
    """Collect garbage among long-lived objects only every few hours."""
    while True:
        collect_garbage()
        await clock.sleep(_BETWEEN_COLLECTIONS)


def collect_garbage() -> None:
    """Collect all garbage once, and freeze the objects that are left."""
    # Frozen objects that became garbage since the last time are found only after this.
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Return free memory to the system, where the C library can.

    The library keeps free memory between blocks in use. A burst of large requests leaves much of
    it.
    """
    # Only glibc has malloc_trim; other C libraries return memory by themselves.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _allow_open_files() -> None:
    """Raise the soft limit of open files, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    # RLIM_INFINITY is -1: a comparison by size alone would take no limit for the smallest one.
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
        _logger.info("asked to end", signal=number.name)
        stop.set()
        # A second signal then has its usual effect: it ends the process.
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
        loop.call_later(patience.total_seconds(), running.cancel)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, heed, each)
    await main(stop)


async def serve(
    name: str, duty: Runnable, stop: asyncio.Event, elector: Elector | None = None
) -> None:
    """Run a component until `stop` is set: all the time, or while it leads."""
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
        # A replica that only waits for the lease has nothing to finish.
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
