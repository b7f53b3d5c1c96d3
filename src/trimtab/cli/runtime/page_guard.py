"""The guard of metrics and pages: tokens are reviewed by the API server, a few at a time.

Reviews have a client, and so a budget and connections, of their own: callers with bad tokens
cannot slow down the work of the component. Without an answer pages stay closed.
"""

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import SystemRandom
from typing import Final, NoReturn

import structlog

from trimtab.admission.server import tls
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.errors import FailedError
from trimtab.cli.flags.common import PageFlags
from trimtab.cli.runtime.pages import Protection
from trimtab.cluster import errors
from trimtab.cluster.auth import credentials
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError, CredentialsError, ForbiddenError
from trimtab.cluster.http.client import Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.http.retries import RetrySettings
from trimtab.cluster.live import page_reviews
from trimtab.cluster.ports import Clock
from trimtab.core.webhook import page_access
from trimtab.core.webhook.page_access import Access, Decision, DecisionCache, Token

_AT_A_TIME: Final = 8
_PER_SECOND: Final = 50.0
_BURST: Final = 100
_PATIENCE: Final = timedelta(seconds=5)
_RELOAD_INTERVAL: Final = timedelta(minutes=1)
_DELEGATOR: Final = "bind this component to the ClusterRole system:auth-delegator"
_MADE_BY: Final = "trimtab.cli.commands.self_signed"

_logger: Final = structlog.stdlib.get_logger(__name__)


class PageGuard:
    """Decides about callers by their tokens, and remembers that for a while."""

    def __init__(
        self,
        review: Callable[[Token, str], Awaitable[Decision]],
        elapsed: Callable[[], timedelta],
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._review = review
        self._elapsed = elapsed
        self._patience = patience
        self._cache = DecisionCache()
        self._turns = asyncio.Semaphore(_AT_A_TIME)
        self._problem = ""

    async def check(self, headers: Mapping[str, str], path: str) -> Decision:
        """Decide if the sender of these headers may get the path."""
        token = page_access.find_token(headers)
        if token is None:
            return Decision(Access.UNKNOWN)
        digest = token.digest(path)
        known = self._cache.find(digest, self._elapsed())
        if known is not None:
            return known
        try:
            async with asyncio.timeout(self._patience.total_seconds()), self._turns:
                # The same token may have been reviewed while this caller waited.
                known = self._cache.find(digest, self._elapsed())
                decision = known or await self._review(token, path)
        except (ClusterError, DecodeError, TimeoutError) as error:
            decision = Decision(Access.UNDECIDED, _name_problem(error))
        self._cache.keep(digest, decision, self._elapsed())
        self._log_problem(decision)
        return decision

    def _log_problem(self, decision: Decision) -> None:
        problem = decision.detail if decision.access is Access.UNDECIDED else ""
        if problem and problem != self._problem:
            _logger.warning("rights to read pages cannot be checked", problem=problem)
        self._problem = problem


def _name_problem(error: Exception) -> str:
    if isinstance(error, ForbiddenError) and error.right is not None:
        return f"missing right: {error.right}; {_DELEGATOR}"
    if isinstance(error, TimeoutError):
        return "no answer from the API server in time"
    return f"no answer from the API server: {error}"


@asynccontextmanager
async def protecting(
    flags: PageFlags, connection: Connection, clock: RealClock
) -> AsyncIterator[Protection]:
    """Protect metrics and pages as the flags say, for as long as the block lasts."""
    context = tls.make_context(tls.TlsVersion.V1_2)
    settings = ClientSettings(
        connect_timeout=_PATIENCE, request_timeout=_PATIENCE, retries=RetrySettings(attempts=1)
    )
    budget = RequestBudget(clock, rate=_PER_SECOND, burst=_BURST)
    async with Client(
        connection, clock=clock, random=SystemRandom(), budget=budget, settings=settings
    ) as client:

        async def review(token: Token, path: str) -> Decision:
            return await page_reviews.review_access(client, token, path)

        reloading = await _show_certificate(context, flags, clock)
        try:
            yield Protection(context, PageGuard(review, clock.elapsed).check)
        finally:
            if reloading is not None:
                reloading.cancel()


async def _show_certificate(
    context: ssl.SSLContext, flags: PageFlags, clock: Clock
) -> asyncio.Task[NoReturn] | None:
    """Load the certificate of the flags, and each one that follows it, or make one."""
    if not flags.metrics_tls_cert_file:
        await asyncio.to_thread(_show_self_signed, context)
        return None
    files = tls.CertificateFiles(
        Path(flags.metrics_tls_cert_file), Path(flags.metrics_tls_private_key)
    )
    _require_readable("--metrics-tls-cert-file", files.certificate)
    _require_readable("--metrics-tls-private-key", files.key)
    try:
        tls.load_pair(context, files)
    except OSError as error:
        problem = f"no usable certificate with its key: {_describe_flaw(error)}"
        raise FailedError(f"--metrics-tls-cert-file: {files.certificate}: {problem}") from error
    return asyncio.create_task(_reload(context, files, clock))


def _require_readable(flag: str, file: Path) -> None:
    try:
        file.open("rb").close()
    except OSError as error:
        raise FailedError(f"{flag}: {file}: {errors.describe(error)}") from error


def _describe_flaw(error: OSError) -> str:
    return (
        credentials.describe_flaw(error)
        if isinstance(error, ssl.SSLError)
        else errors.describe(error)
    )


async def _reload(context: ssl.SSLContext, files: tls.CertificateFiles, clock: Clock) -> NoReturn:
    loaded = _read_times(files)
    while True:
        await clock.sleep(_RELOAD_INTERVAL)
        found = _read_times(files)
        if found == loaded:
            continue
        try:
            tls.load_pair(context, files)
        except OSError as error:
            # The file may be half written; the next look tries again.
            _logger.warning("certificate of pages not loaded", problem=_describe_flaw(error))
        else:
            loaded = found
            _logger.info("certificate of pages loaded")


def _read_times(files: tls.CertificateFiles) -> tuple[int, ...]:
    try:
        return tuple(each.stat().st_mtime_ns for each in (files.certificate, files.key))
    except OSError:
        return ()


def _show_self_signed(context: ssl.SSLContext) -> None:
    # A separate process, since the library would keep 10 MiB of memory.
    made = subprocess.run(  # noqa: S603 - our own module, without arguments
        [sys.executable, "-m", _MADE_BY], capture_output=True, text=True, check=False, timeout=60
    )
    certificate, _, key = made.stdout.partition("\n\n")
    try:
        credentials.show_certificate(context, certificate, key, source="self-signed", field="")
    except CredentialsError as error:
        problem = made.stderr.strip().rpartition("\n")[2] or str(error)
        raise FailedError(f"--metrics-secure: no certificate could be made: {problem}") from error
