"""Retries of failed requests: which ones are worth sending again, and after how long.

A read is repeated whenever that may help. A write is repeated only if the server cannot have
acted on it: the server refused it with 429, or it was never sent.
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
    """Number and delays of attempts."""

    attempts: int = 4
    """Maximum number of attempts."""
    first_delay: timedelta = timedelta(milliseconds=200)
    """The delay before the second attempt; each further one is twice as long."""
    longest_delay: timedelta = LONGEST_WAIT
    """Maximum delay; if the server asks for a longer one, the caller gets the error."""


def plan_retry(
    error: ApiError, *, attempt: int, is_read: bool, chance: float, settings: RetrySettings
) -> timedelta | None:
    """Return the delay before the request is sent again; None if it should not be.

    Attempts count from 1. `chance` lies in [0, 1) and spreads the retries of clients that failed
    together.
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
            # A budget opens when pods become ready, however often we ask.
            return False
        case TooManyRequestsError():
            return True
        case TooLargeError():
            return False
        case UnreachableError():
            return is_read or not error.was_sent
        case _:
            return is_read and error.status.code in _PASSING
