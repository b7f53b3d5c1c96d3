"""The updaters of both sides as processes, and how many ticks they have made."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection
from typing import Final

from bench import contestants
from bench.contestants import Limits, Run
from bench.scoring import Side
from rig import controlplane, programs
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK

_TICKS: Final = re.compile(
    r'^vpa_updater_execution_latency_seconds_count\{step="total"\} (\S+)$', re.MULTILINE
)
_WITHOUT_PACE: Final = ("--eviction-rate-limit=0", "--eviction-slow-start=0s")
_TIMEOUT_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Updater(Run):
    """An updater that runs."""

    port: int

    def count_ticks(self) -> int:
        """How many ticks have ended, none before it answers; to be asked costs it a little."""
        connection = HTTPConnection(LOOPBACK, self.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/metrics")
            return parse_ticks(connection.getresponse().read().decode())
        except ConnectionRefusedError:
            return 0
        finally:
            connection.close()


def parse_ticks(metrics: str) -> int:
    """The ticks of which the metrics of an updater tell; both sides call them the same."""
    found = _TICKS.search(metrics)
    return int(float(found[1])) if found else 0


@contextmanager
def updating(
    side: Side, limits: Limits, plane: ControlPlane, interval: timedelta, *flags: str
) -> Iterator[Updater]:
    """An updater of one side for as long as the block lasts."""
    (port,) = controlplane.free_ports(1)
    given = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--address={LOOPBACK}:{port}",
        f"--updater-interval={interval.total_seconds():g}s",
        contestants.QUIET,
        *(contestants.LIFTED if limits is Limits.LIFTED else ()),
        *flags,
    ]
    match side:
        case Side.OURS:
            pace = _WITHOUT_PACE if limits is Limits.LIFTED else ()
            program, given = contestants.TRIMTAB, ["updater", *given, *pace]
        case Side.ORIGINAL:
            # It has no pace of its own by default.
            program = programs.find("original-updater")
    with contestants.running("updater", program, given, plane) as run:
        yield Updater(run.process, run.pid, run.started, port)
