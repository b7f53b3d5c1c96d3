"""Rate-limited log events: requests from any client must not fill the log.

Each kind of trouble, and the new pods of each autoscaler, are logged a few times per minute. Each
event is logged some hundred times in all. The number of omitted lines is logged when the minute is
over, as soon as the next request comes.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from trimtab.core.model import json_patch
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.json_patch import Add, Patch
from trimtab.core.model.pods import BOOST_PREFIX, PodHead
from trimtab.core.sizing.refusals import Withheld

Timer: TypeAlias = Callable[[], float]
"""Returns seconds since some fixed moment."""

TOLD_PER_MINUTE: Final = 10
TOLD_IN_ALL: Final = 600
"""Maximum number of lines of one event per minute: a line costs as much as a review."""
_MINUTE_SECONDS: Final = 60.0
_MAX_DETAIL: Final = 200
MAX_REFUSAL: Final = 64 * 1024
"""Maximum length of a logged refusal; usual errors fit, those of a hostile object are cut."""

_logger: Final = logging.getLogger(__name__)


def stand_still() -> float:
    """Return the same moment, always."""
    return 0.0


def _cut(text: str, longest: int) -> str:
    left_out = len(text) - longest
    return text if left_out <= 0 else f"{text[:longest]}… ({left_out} more characters)"


class RateLimitedLogger:
    """Limits the lines per minute of each event; without a timer, all time is one minute."""

    def __init__(self, timer: Timer = stand_still) -> None:
        self._timer = timer
        self._since = timer()
        self._seen: Counter[tuple[str, str, int]] = Counter()
        """Count by event, kind and level."""
        self._told: Counter[str] = Counter()
        """Logged lines by event, all kinds included."""
        self._beyond: Counter[tuple[str, int]] = Counter()
        """Omitted lines beyond the limit of an event, by event and level."""

    def tell(self, event: str, detail: str, kind: str = "", longest: int = _MAX_DETAIL) -> None:
        """Log a warning within the limits; a detail longer than `longest` is cut."""
        if self.may_tell(event, kind):
            _logger.warning(event, extra={"detail": _cut(detail, longest), "kind": kind})

    def may_tell(self, event: str, kind: str = "", level: int = logging.WARNING) -> bool:
        """Count an event; return True if the caller may log it."""
        self.turn_over(self._timer())
        if self._told[event] >= TOLD_IN_ALL:
            self._beyond[event, level] += 1
            return False
        key = event, kind, level
        self._seen[key] += 1
        if self._seen[key] > TOLD_PER_MINUTE:
            return False
        self._told[event] += 1
        return True

    def turn_over(self, now: float) -> None:
        """Log the omitted counts once the minute is over, and begin another minute."""
        if now - self._since <= _MINUTE_SECONDS:
            return
        for (event, kind, level), count in self._seen.items():
            if count > TOLD_PER_MINUTE:
                left_out = count - TOLD_PER_MINUTE
                _logger.log(level, event, extra={"kind": kind, "left_out": left_out})
        for (event, level), count in self._beyond.items():
            _logger.log(level, event, extra={"kind": "", "left_out": count})
        self._seen.clear()
        self._told.clear()
        self._beyond.clear()
        self._since = now


_SIZED: Final = "pod sized"
_UNSIZED: Final = "pod not sized"
_WITHHELD: Final = "new pods do not appear"
_REMEDIES: Final = {
    Withheld.BOOST: "its next pods come without their startup boost",
    Withheld.SIZE: "its next pods keep their own resources",
    Withheld.NOTHING: "its next pods get the full size again",
}
_RESOURCES: Final = "/resources/"
_BOOST: Final = json_patch.pointer("metadata", "annotations", BOOST_PREFIX)


def tell_of_size(
    teller: RateLimitedLogger, head: PodHead, autoscaler: Autoscaler, patch: Patch
) -> None:
    """Log the changes to a new pod, unless enough pods of its autoscaler were logged lately."""
    name = f"{autoscaler.namespace}/{autoscaler.name}"
    if teller.may_tell(_SIZED, name, logging.INFO):
        about = {
            # Most new pods have no name yet.
            "owner": _owner(head),
            "autoscaler": name,
            "changes": _changes(patch),
            "boosted": _boosted(patch),
        }
        _logger.info(_SIZED, extra=about)


def log_unsized(teller: RateLimitedLogger, head: PodHead, doubt: str) -> None:
    """Log why a new pod stays unchanged, unless enough pods were logged this minute."""
    teller.tell(_UNSIZED, f"{_owner(head)}: {doubt}", "OwnerUnknown")


def log_withheld(
    teller: RateLimitedLogger, head: PodHead, autoscaler: Autoscaler, withheld: Withheld
) -> None:
    """Log that pods of an owner are never created, and the part that the next ones lack."""
    name = f"{autoscaler.namespace}/{autoscaler.name}"
    if teller.may_tell(_WITHHELD, name):
        about = {
            "owner": _owner(head),
            "autoscaler": name,
            "withheld": withheld.value,
            "detail": f"{_REMEDIES[withheld]}; the events of the owner name the rule that refuses",
        }
        _logger.warning(_WITHHELD, extra=about)


def _owner(head: PodHead) -> str:
    parts = () if head.owner is None else (head.owner.kind, head.owner.name)
    return "/".join((head.namespace, *parts))


def _changes(patch: Patch) -> dict[str, object]:
    """Return the amounts that the patch sets, by container, kind and resource."""
    return {
        each.path.removeprefix("/spec/").replace(_RESOURCES, "/"): each.value
        for each in patch
        if isinstance(each, Add) and _RESOURCES in each.path and each.value
    }


def _boosted(patch: Patch) -> list[str]:
    """Return the containers that get more CPU while they start."""
    return [
        each.path.removeprefix(_BOOST)
        for each in patch
        if isinstance(each, Add) and each.path.startswith(_BOOST)
    ]
