"""Rate limit of our requests, so that we do not overload a server.

A token bucket, as `--kube-api-qps` and `--kube-api-burst` of the original mean it. A request takes
a token, `rate` tokens a second come back, and the bucket holds at most `burst`.
"""

from datetime import datetime, timedelta

from trimtab.cluster.ports import Clock


class RequestBudget:
    """Tokens for requests; a request that finds none waits its turn."""

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._counted_at: datetime = clock.now()

    async def spend(self, *, is_urgent: bool = False) -> None:
        """Return when a request may be sent.

        An urgent one may be sent at once and makes the others wait longer: a lease that is renewed
        behind a thousand checkpoints is lost.
        """
        if self._rate <= 0:
            return
        self._refill()
        # The balance may go below zero, so each next request waits longer: a queue without a list.
        self._tokens -= 1
        if self._tokens >= 0 or is_urgent:
            return
        try:
            await self._clock.sleep(timedelta(seconds=-self._tokens / self._rate))
        except BaseException:
            self._tokens += 1
            raise

    def lift(self) -> None:
        """Remove the limit, as for a process that is about to end."""
        self._rate = 0.0

    def _refill(self) -> None:
        now = self._clock.now()
        # A clock that was set back adds no tokens and takes none away.
        passed = max(0.0, (now - self._counted_at).total_seconds())
        self._counted_at = now
        self._tokens = min(float(self._burst), self._tokens + passed * self._rate)
