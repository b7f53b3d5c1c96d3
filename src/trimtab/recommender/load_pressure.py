"""Pressure: signals of containers, read beside the ticks.

A source may be slow, wrong or gone: no tick waits for it, and none fails with it. What was read
last holds until it expires. Nothing is read while no autoscaler uses the cost-based estimator,
which alone uses signals.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from trimtab.cluster.errors import ClusterError
from trimtab.cluster.ports import Clock, PressureSource
from trimtab.core.model.resources import BOTH
from trimtab.core.usage.pressure import PressureReadings
from trimtab.recommender.reports import PressureReport, Problem, SignalReport, Step, TickReport
from trimtab.recommender.settings import PressureReadSettings
from trimtab.recommender.state import RecommenderState

_logger: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class PressureKeeper:
    """Reads pressure again and again, and keeps the newest answer for the next tick."""

    source: PressureSource
    clock: Clock
    settings: PressureReadSettings
    is_wanted: bool = field(default=False, init=False)
    """True once an autoscaler uses signals."""
    _unread: PressureReadings | None = field(default=None, init=False)
    """The newest answer, if no tick has seen it yet."""
    _news: PressureReport = field(default_factory=PressureReport, init=False)
    _problem: Exception | None = field(default=None, init=False)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            if self.is_wanted:
                await self.read()
            await self.clock.sleep(self.settings.interval)

    async def read(self) -> None:
        """Read once; a failure is noted for the next tick."""
        try:
            async with asyncio.timeout(self.settings.timeout.total_seconds()):
                found = await self.source.fetch()
        except TimeoutError:
            span = self.settings.timeout.total_seconds()
            self._note_failure(ClusterError(f"no answer about pressure within {span:g} s"))
        except ClusterError as error:
            self._note_failure(error)
        except Exception as error:
            # Any error: recommendations do not depend on signals.
            _logger.exception("pressure failed")
            self._note_failure(error)
        else:
            self._unread = found
            self._news += PressureReport(reads=1, unreadable=found.unreadable)

    def load(self, state: RecommenderState) -> TickReport:
        """Note the newest answer, and report what was read since the last call."""
        self.is_wanted = state.usage.log.is_kept
        found, self._unread = self._unread, None
        if found is not None:
            tracked = state.usage.note_pressure(found, state.oom_ceiling_bytes)
            self._news += PressureReport(containers=tracked)
        news, self._news = self._news, PressureReport()
        problem, self._problem = self._problem, None
        problems = () if problem is None else (Problem(Step.LOAD_PRESSURE, "pressure", problem),)
        return TickReport(pressure=news, problems=problems)

    def _note_failure(self, error: Exception) -> None:
        self._problem = error
        self._news += PressureReport(failures=1)


def list_signals(state: RecommenderState) -> Iterator[SignalReport]:
    """Yield the signals that raised targets since the last call."""
    for (name, container), column, signal in state.publications.held.drain_signals():
        pod = state.usage.pod_names.name(signal.pod)
        yield SignalReport(name, container, pod, BOTH[column], signal)
