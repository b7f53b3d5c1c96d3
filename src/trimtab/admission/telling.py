"""Telling of trouble in the log, but not without end: anybody may send us anything.

Each kind of trouble is told some times a minute. How much of it was left out is told when the
minute is over, as soon as anybody asks for anything.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

Timer: TypeAlias = Callable[[], float]
"""Seconds since some moment."""

TOLD_PER_MINUTE: Final = 10
_MINUTE_SECONDS: Final = 60.0
_MAX_DETAIL: Final = 200

_logger: Final = logging.getLogger(__name__)


def _stand_still() -> float:
    return 0.0


class Teller:
    """Tells of trouble as often as is worth reading; without a timer all time is one minute."""

    def __init__(self, timer: Timer = _stand_still) -> None:
        self._timer = timer
        self._since = timer()
        self._seen: Counter[tuple[str, str]] = Counter()

    def tell(self, event: str, detail: str, kind: str = "") -> None:
        """Tell of it, unless that was done often enough."""
        if self.may_tell(event, kind):
            _logger.warning(event, extra={"detail": detail[:_MAX_DETAIL], "kind": kind})

    def may_tell(self, event: str, kind: str = "") -> bool:
        """Count it; whether it is to be told, for those who tell it themselves."""
        self.turn_over(self._timer())
        self._seen[event, kind] += 1
        return self._seen[event, kind] <= TOLD_PER_MINUTE

    def turn_over(self, now: float) -> None:
        """Once the minute is over tell what was left out of it, and begin another."""
        if now - self._since <= _MINUTE_SECONDS:
            return
        for (event, kind), count in self._seen.items():
            if count > TOLD_PER_MINUTE:
                left_out = count - TOLD_PER_MINUTE
                _logger.warning(event, extra={"kind": kind, "left_out": left_out})
        self._seen.clear()
        self._since = now
