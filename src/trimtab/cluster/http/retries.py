"""When a request that failed is worth sending again, and after how long.

Reads are repeated whenever that may help. A write is repeated only if the server cannot have acted
on it: it was turned away with 429, or never left.
"""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from trimtab.cluster.errors import (
    LONGEST_WAIT,
    ApiError,
    BudgetError,
    TooLargeError,
    TooManyRequestsError,
    UnreachableError,
)

_PASSING: Final = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses of a server that is starting, stopping or overloaded."""


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """How stubborn a client is."""

    attempts: int = 4
    """How often a request is sent at most."""
    first_delay: timedelta = timedelta(milliseconds=200)
    """The delay before the second attempt; each further one is twice as long."""
    longest_delay: timedelta = LONGEST_WAIT
    """What the server may ask us to wait; if it wants more, that is the caller's affair."""


def plan_retry(
    error: ApiError, *, attempt: int, is_read: bool, chance: float, settings: RetrySettings
) -> timedelta | None:
    """How long to wait before the request is sent again; None if it should not be.

    Attempts count from 1, and `chance` lies in [0, 1): clients that failed together come back
    apart from each other.
    """
    if attempt >= settings.attempts or not _may_help(error, is_read=is_read):
        return None
    doubled = settings.first_delay * (1 << (attempt - 1))
    delay = min(doubled, settings.longest_delay) * (0.5 + chance)
    wanted = error.status.retry_after
    if wanted is None:
        return delay
    return None if wanted > settings.longest_delay else wanted + delay * 0.5


def _may_help(error: ApiError, *, is_read: bool) -> bool:
    match error:
        case BudgetError():
            # It opens when pods become ready, not when we ask often.
            return False
        case TooManyRequestsError():
            return True
        case TooLargeError():
            return False
        case UnreachableError():
            return is_read or not error.was_sent
        case _:
            return is_read and error.status.code in _PASSING
