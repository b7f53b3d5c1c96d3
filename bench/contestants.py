"""The two sides of a comparison as processes, and what their logs tell of their ticks.

Logs are read from the file, so that asking costs a process nothing.
"""

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from time import time
from typing import Final

from bench import measuring
from bench.measuring import Vitals
from bench.scoring import Side
from bench.telling import telling
from rig import controlplane, processes, programs
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from rig.processes import Process
from trimtab.cluster.watch import reflector

TRIMTAB: Final = Path(sys.executable).parent / "trimtab"
LIFTED: Final = ("--kube-api-qps=100000", "--kube-api-burst=100000")
QUIET: Final = "--v=1"
"""How much both sides log, so that neither pays for a line per object or request."""
WITH_TICKS: Final = "--v=3"
"""The same of recommenders: the least at which the log of the original shows its ticks."""
PATIENCE_SECONDS: Final = 900
"""How long is waited for anything at all."""
_CLIENT_GO_WATCH_SECONDS: Final = (300, 600)
"""How long watches last that the original opens."""
_POLL_SECONDS: Final = 0.25
_CYCLE_TICKS: Final = 10
"""In so many ticks ours has saved everything once, and told of every bound that crept."""
_KLOG: Final = re.compile(r"^I(\d{4} \d\d:\d\d:\d\d\.\d+) .*?\] (.*)$", re.MULTILINE)


class Limits(StrEnum):
    """How many requests a second a side allows itself."""

    LIFTED = "lifted"
    """As many as it likes."""
    DEFAULT = "default"
    """50, as both have it."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A turn of a loop that has ended."""

    end: float
    """Seconds since the epoch."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """A side that runs."""

    process: Process
    pid: int
    started: float
    """Seconds since the epoch."""

    def vitals(self) -> Vitals:
        """What it costs."""
        return measuring.read_vitals(self.pid)

    def logged_bytes(self) -> int:
        """How much it has logged."""
        return self.process.log.stat().st_size

    def require_life(self) -> None:
        """Fail if it has ended."""
        if self.process.popen.poll() is not None:
            raise processes.ProcessError(f"ended by itself:\n{self.process.last_words()}")


@dataclass(frozen=True, slots=True)
class Recommender(Run):
    """A recommender that runs."""

    read_ticks: Callable[[str], list[Tick]]

    def ticks(self) -> list[Tick]:
        """The ticks that have ended."""
        self.require_life()
        return self.read_ticks(self.process.log.read_text(encoding="utf-8", errors="replace"))

    async def wait_for_tick(self, number: int) -> float:
        """When the tick of a number ended, as soon as it has."""
        ticks: list[Tick] = []
        async with telling(lambda: f"{len(ticks)} of {number} ticks"):
            for _ in range(int(PATIENCE_SECONDS / _POLL_SECONDS)):
                ticks = self.ticks()
                if len(ticks) >= number:
                    return ticks[number - 1].end
                await asyncio.sleep(_POLL_SECONDS)
        raise TimeoutError(f"tick {number} has not ended after {PATIENCE_SECONDS} s")


@contextmanager
def running(name: str, program: Path, flags: Sequence[str], plane: ControlPlane) -> Iterator[Run]:
    """A component for as long as the block lasts."""
    started = time()
    with processes.running(program, flags, plane.directory, name=name) as process:
        yield Run(process, _wait_for_pid(process), started)


@contextmanager
def recommending(
    side: Side, limits: Limits, plane: ControlPlane, interval: timedelta
) -> Iterator[Recommender]:
    """A recommender of one side for as long as the block lasts."""
    (port,) = controlplane.free_ports(1)
    seconds = interval.total_seconds()
    flags = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--address={LOOPBACK}:{port}",
        f"--recommender-interval={seconds:g}s",
        WITH_TICKS,
        *(LIFTED if limits is Limits.LIFTED else ()),
    ]
    match side:
        case Side.OURS:
            cycle = f"{_CYCLE_TICKS * seconds:g}s"
            own = ("recommender", f"--checkpoint-rotation={cycle}", f"--status-patience={cycle}")
            program, flags, reader = TRIMTAB, [*own, *flags], read_own_ticks
        case Side.ORIGINAL:
            program, reader = programs.find("original-recommender"), read_original_ticks
    with running("recommender", program, flags, plane) as run:
        yield Recommender(run.process, run.pid, run.started, reader)


def watch_minutes(side: Side, resource: str) -> float:
    """How long a watch of a side lasts on average until it is opened anew."""
    match side:
        case Side.OURS:
            is_quiet = resource == "events"
            span = reflector.QUIET_WATCH_SECONDS if is_quiet else reflector.WATCH_SECONDS
        case Side.ORIGINAL:
            span = _CLIENT_GO_WATCH_SECONDS
    return sum(span) / len(span) / 60


def _wait_for_pid(process: Process) -> int:
    found: list[int] = []

    def is_found() -> bool:
        try:
            found.append(measuring.pid_of(process))
        except IndexError:
            return False
        return True

    process.wait_until(is_found)
    return found[0]


def read_own_ticks(log: str) -> list[Tick]:
    """The ticks of which our log tells."""
    told = [json.loads(line) for line in log.splitlines() if '"tick done"' in line]
    return [
        Tick(datetime.fromisoformat(one["timestamp"]).timestamp(), one["seconds"]) for one in told
    ]


def read_original_ticks(log: str) -> list[Tick]:
    """The ticks of which the original's log tells: what it says first and last in each."""
    ticks, begin = [], 0.0
    for stamp, text in _KLOG.findall(log):
        if text.startswith('"Recommender Run"'):
            begin = _parse_stamp(stamp)
        elif text.startswith('"ClusterState is tracking" aggregateContainerStates='):
            end = _parse_stamp(stamp)
            ticks.append(Tick(end, end - begin))
    return ticks


def _parse_stamp(stamp: str) -> float:
    # It tells no year, and the time of this machine.
    now = datetime.now(UTC).astimezone()
    text = f"{now.year}{stamp}{now:%z}"
    return datetime.strptime(text, "%Y%m%d %H:%M:%S.%f%z").timestamp()
