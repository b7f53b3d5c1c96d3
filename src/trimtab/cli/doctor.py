"""`trimtab doctor`: what is wrong with a cluster, what that means, and what helps."""

import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from random import SystemRandom
from shutil import get_terminal_size
from typing import Annotated, Final

from cyclopts import Parameter

from trimtab.cli import logs
from trimtab.cli.absences import require_namespace
from trimtab.cli.doctor_facts import Examination, Order
from trimtab.cli.doctor_output import tell_checks, to_json, to_table
from trimtab.cli.flag_groups import flag_group
from trimtab.cli.flag_types import Span, Text, format_span
from trimtab.cli.flags import LogFlags
from trimtab.cli.history import PastOrder, order_prometheus
from trimtab.cli.joining import find_way, greet
from trimtab.cli.recommender_flags import PrometheusFlags
from trimtab.cli.usage import UsageError, quote
from trimtab.cli.viewing import say
from trimtab.cluster.budget import RequestBudget
from trimtab.cluster.client import Client, ClientSettings
from trimtab.cluster.clock import RealClock
from trimtab.cluster.credentials import Connection
from trimtab.cluster.retries import RetrySettings
from trimtab.core.diagnosis import Diagnosis, Severity
from trimtab.core.diagnosis_checks import CHECKS, Check, Facts, diagnose
from trimtab.core.records import dataclass

FOUND: Final = 3
"""The exit code if there are problems; with --strict also for warnings, and what nobody knows."""
_FAILED: Final = 1
_OPEN_TO_ALL: Final = frozenset({"server", "clock", "rights", "history"})
"""Checks that need no right in the cluster."""
_BLIND: Final = (
    "nothing could be looked at, so it is not known whether all is well; "
    "the remedies above say what is missing"
)
_NARROW: Final = 80
_CONNECT_PATIENCE: Final = timedelta(seconds=5)


class Format(StrEnum):
    """How it is written."""

    TABLE = "table"
    JSON = "json"


@flag_group("Cluster", order=3)
@dataclass(frozen=True, slots=True)
class WhereFlags:
    """Which cluster is looked at, and where in it."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"])] = ""
    """Look at the autoscalers and pods of one namespace only; of all if not given."""
    all_namespaces: Annotated[bool, Parameter(name=["--all-namespaces", "-A"], negative="")] = False
    """All namespaces, as without --namespace."""
    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does."""
    context: str = ""
    """The context in that file."""
    timeout: Span = timedelta(seconds=15)
    """How long each look may take."""
    as_components: Annotated[bool, Parameter(negative="")] = False
    """Ask for the rights of the components' ServiceAccounts, too."""
    webhook_address: str = ""
    """The host:port at which the webhook shows its certificate, if it is not reached where it is
    registered: that of a kubectl port-forward, say."""


@flag_group("History from Prometheus", order=4)
@dataclass(frozen=True, slots=True)
class PastFlags(PrometheusFlags):
    """Where past usage is found, if that is to be looked at."""

    prometheus_address: Text = ""
    """Where Prometheus is; it is not asked if this is not given."""


_WHERE: Final = WhereFlags()
_PAST: Final = PastFlags()


def doctor(
    *,
    output: Annotated[Format, Parameter(name=["--output", "-o"])] = Format.TABLE,
    check: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=(1, None))] = (),
    list_checks: Annotated[bool, Parameter(negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
    where: WhereFlags = _WHERE,
    past: PastFlags = _PAST,
) -> int:
    """What was found: 0 if nothing is worse than a note, 3 if there are problems.

    Args:
        output: How it is written.
        check: Make only these checks.
        list_checks: List all checks, and make none.
        strict: Count warnings, and what nobody could look at, as problems.
        where: Which cluster is looked at.
        past: Where past usage is found.
    """
    if list_checks:
        sys.stdout.write(tell_checks(CHECKS, _width()))
        return 0
    chosen = _choose(check)
    diagnoses = _examine(chosen, where, past)
    if output is Format.JSON:
        sys.stdout.write(to_json(diagnoses))
    else:
        sys.stdout.write(to_table(diagnoses, _width()))
    code = judge(diagnoses, strict=strict)
    # Whoever chooses checks has asked for these alone, and reads what came of them.
    if check or not is_blind(diagnoses):
        return code
    sys.stdout.flush()
    say(f"trimtab: {_BLIND}")
    return code or _FAILED


def judge(diagnoses: Sequence[Diagnosis], *, strict: bool) -> int:
    """The exit code."""
    bad = {Severity.PROBLEM}
    if strict:
        bad |= {Severity.WARNING, Severity.UNKNOWN}
    found = {finding.severity for one in diagnoses for finding in one.findings}
    return FOUND if found & bad else 0


def is_blind(diagnoses: Sequence[Diagnosis]) -> bool:
    """Return True if no check could look at anything that not every caller may see."""
    private = [one for one in diagnoses if one.check not in _OPEN_TO_ALL]
    return all(finding.severity is Severity.UNKNOWN for one in private for finding in one.findings)


def _choose(names: Sequence[str]) -> list[Check]:
    known = {check.name for check in CHECKS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--check: there is no check {quote(name)}; --list-checks names all of them"
            )
    return [check for check in CHECKS if not names or check.name in names]


def _width() -> int:
    # What is cut into lines on a screen is read by programs elsewhere, and COLUMNS is obeyed.
    return max(get_terminal_size((_NARROW, 24)).columns, _NARROW)


def _examine(checks: Sequence[Check], where: WhereFlags, past: PastFlags) -> list[Diagnosis]:
    if where.timeout <= timedelta(0):
        raise UsageError(f"--timeout: {format_span(where.timeout)} is not above zero")
    logs.set_up(LogFlags(v=0))
    order = Order(
        topics=frozenset().union(*(check.topics for check in checks)),
        namespace="" if where.all_namespaces else where.namespace,
        as_components=where.as_components,
        webhook_address=_check_address(where.webhook_address),
        past=_order_past(past),
        patience=where.timeout,
    )
    clock = RealClock()
    connection = find_way(where.kubeconfig, clock, os.environ, where.context)
    return diagnose(checks, asyncio.run(_fetch(order, connection, clock)))


def _check_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isdecimal()):
        raise UsageError(f"--webhook-address: {text!r} is not host:port")
    return text


def _order_past(flags: PastFlags) -> PastOrder | None:
    return order_prometheus(flags, os.environ) if flags.prometheus_address else None


async def _fetch(order: Order, connection: Connection, clock: RealClock) -> Facts:
    budget = RequestBudget(clock, rate=0, burst=1)
    settings = ClientSettings(
        connect_timeout=_CONNECT_PATIENCE,
        request_timeout=order.patience,
        retries=RetrySettings(attempts=2),
    )
    async with Client(
        connection, clock=clock, random=SystemRandom(), budget=budget, settings=settings
    ) as client:
        await greet(client, connection.server)
        await require_namespace(client, order.namespace)
        return await Examination(client, order, clock).run(lambda text: say(f"trimtab: {text}"))
