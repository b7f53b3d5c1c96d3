"""`trimtab doctor`: find problems of a cluster, what they mean, and remedies."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import SystemRandom
from typing import Annotated, Final, Literal, TypeAlias

from cyclopts import Parameter

from trimtab.cli import errors
from trimtab.cli.commands import read_cluster
from trimtab.cli.doctor.facts import DoctorOptions, Examination
from trimtab.cli.errors import UsageError
from trimtab.cli.flags import types
from trimtab.cli.flags.common import LogFlags
from trimtab.cli.flags.recommender import PrometheusFlags
from trimtab.cli.flags.types import Span, Text
from trimtab.cli.output import columns, documents, empty_results, paragraphs
from trimtab.cli.output.formats import OUTPUT, Format
from trimtab.cli.runtime import cluster_connection, history_source, logs
from trimtab.cli.runtime.history_source import PastOrder
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client, ClientSettings
from trimtab.cluster.http.rate_limit import RequestBudget
from trimtab.cluster.http.retries import RetrySettings
from trimtab.core.diagnosis import registry
from trimtab.core.diagnosis.findings import Diagnosis, Finding, Severity
from trimtab.core.diagnosis.registry import CHECKS, ClusterFacts, DoctorCheck

_MARGIN: Final = max(len(severity) for severity in Severity) + 2
_REMEDY: Final = "-> "


def to_table(diagnoses: Sequence[Diagnosis], width: int) -> str:
    """Format one paragraph per finding, wrapped at the width where words allow it."""
    names = max((len(one.check) for one in diagnoses), default=0) + 2
    lines = [columns.disarm(line) for one in diagnoses for line in _lines(one, names, width)]
    return "\n".join([*lines, _summary(diagnoses)]) + "\n"


def _lines(diagnosis: Diagnosis, names: int, width: int) -> Iterator[str]:
    name = diagnosis.check
    for finding in diagnosis.findings:
        lead = f"{finding.severity:<{_MARGIN}}{name:<{names}}"
        # The name of a check stands only before its first finding.
        name = ""
        yield from paragraphs.wrap(lead, _sentence(finding), width)
        if finding.remedy:
            yield from paragraphs.wrap(" " * len(lead) + _REMEDY, finding.remedy, width)


def _sentence(finding: Finding) -> str:
    return f"{finding.subject}: {finding.text}" if finding.subject else finding.text


def _summary(diagnoses: Sequence[Diagnosis]) -> str:
    counts = count_severities(diagnoses)
    shown = ", ".join(f"{number} {severity}" for severity, number in counts.items())
    return f"{len(diagnoses)} {'check' if len(diagnoses) == 1 else 'checks'}: {shown}"


def count_severities(diagnoses: Sequence[Diagnosis]) -> dict[str, int]:
    """Return the number of checks per severity, the worst first."""
    counts = Counter(one.severity for one in diagnoses)
    return {severity.value: counts[severity] for severity in reversed(Severity) if counts[severity]}


def to_json(diagnoses: Sequence[Diagnosis]) -> str:
    """Format all findings as JSON."""
    document = {
        "summary": count_severities(diagnoses),
        "checks": [
            {
                "name": one.check,
                "severity": one.severity.value,
                "findings": [
                    {
                        "severity": finding.severity.value,
                        "subject": finding.subject,
                        "text": finding.text,
                        "remedy": finding.remedy,
                    }
                    for finding in one.findings
                ],
            }
            for one in diagnoses
        ],
    }
    return documents.format_json(document)


def format_checks(checks: Sequence[DoctorCheck], width: int) -> str:
    """Format the names of checks, with the question of each."""
    names = max(len(check.name) for check in checks) + 2
    lines = [
        line for one in checks for line in paragraphs.wrap(f"{one.name:<{names}}", one.asks, width)
    ]
    return "\n".join(lines) + "\n"


FOUND: Final = 3
"""The exit code for problems; with --strict also for warnings and unknown facts."""
_FAILED: Final = 1
_OPEN_TO_ALL: Final = frozenset({"server", "clock", "rights", "history"})
"""Checks that need no right in the cluster."""
_BLIND: Final = (
    "no check could run, so the state of the installation is unknown; "
    "the remedies above say what is missing"
)
_CONNECT_PATIENCE: Final = timedelta(seconds=5)


_Format: TypeAlias = Literal[Format.TABLE, Format.JSON]


@types.flag_group("Cluster", order=3)
@dataclass(frozen=True, slots=True)
class WhereFlags:
    """Flags for the cluster and the namespace to examine."""

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


@types.flag_group("History from Prometheus", order=4)
@dataclass(frozen=True, slots=True)
class PastFlags(PrometheusFlags):
    """Flags for Prometheus, which is examined only if its address is given."""

    prometheus_address: Text = ""
    """Where Prometheus is; it is not asked if this is not given."""


_WHERE: Final = WhereFlags()
_PAST: Final = PastFlags()


def doctor(
    *,
    output: Annotated[_Format, OUTPUT] = Format.TABLE,
    check: Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=(1, None))] = (),
    list_checks: Annotated[bool, Parameter(negative="")] = False,
    strict: Annotated[bool, Parameter(negative="")] = False,
    where: WhereFlags = _WHERE,
    past: PastFlags = _PAST,
) -> int:
    """Examine a cluster: 0 if nothing is worse than a note, 3 if there are problems.

    Args:
        output: How it is written.
        check: Make only these checks.
        list_checks: List all checks, and make none.
        strict: Count warnings, and checks that could not run, as problems.
        where: Which cluster is looked at.
        past: Where past usage is found.
    """
    if list_checks:
        sys.stdout.write(format_checks(CHECKS, _width()))
        return 0
    chosen = _choose(check)
    diagnoses = _examine(chosen, where, past)
    if output is Format.JSON:
        sys.stdout.write(to_json(diagnoses))
    else:
        sys.stdout.write(to_table(diagnoses, _width()))
    code = judge(diagnoses, strict=strict)
    # With --check, the result of the chosen checks is the whole answer.
    if check or not is_blind(diagnoses):
        return code
    sys.stdout.flush()
    read_cluster.say(f"trimtab: {_BLIND}")
    return code or _FAILED


def judge(diagnoses: Sequence[Diagnosis], *, strict: bool) -> int:
    """Return the exit code for the findings."""
    bad = {Severity.PROBLEM}
    if strict:
        bad |= {Severity.WARNING, Severity.UNKNOWN}
    found = {finding.severity for one in diagnoses for finding in one.findings}
    return FOUND if found & bad else 0


def is_blind(diagnoses: Sequence[Diagnosis]) -> bool:
    """Return True if all findings of checks that need permissions are unknown."""
    private = [one for one in diagnoses if one.check not in _OPEN_TO_ALL]
    return all(finding.severity is Severity.UNKNOWN for one in private for finding in one.findings)


def _choose(names: Sequence[str]) -> list[DoctorCheck]:
    known = {check.name for check in CHECKS}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--check: there is no check {errors.quote(name)}; --list-checks names all of them"
            )
    return [check for check in CHECKS if not names or check.name in names]


def _width() -> int:
    return columns.screen_width() or columns.NARROW


def _examine(checks: Sequence[DoctorCheck], where: WhereFlags, past: PastFlags) -> list[Diagnosis]:
    if where.timeout <= timedelta(0):
        raise UsageError(f"--timeout: {types.format_span(where.timeout)} is not above zero")
    logs.set_up(LogFlags(v=0))
    order = DoctorOptions(
        topics=frozenset().union(*(check.topics for check in checks)),
        namespace="" if where.all_namespaces else where.namespace,
        as_components=where.as_components,
        webhook_address=_check_address(where.webhook_address),
        past=_order_past(past),
        patience=where.timeout,
    )
    clock = RealClock()
    connection = cluster_connection.choose_connection(
        where.kubeconfig, clock, os.environ, where.context
    )
    return registry.diagnose(checks, asyncio.run(_fetch(order, connection, clock)))


def _check_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if text and not (host and port.isdecimal()):
        raise UsageError(f"--webhook-address: {text!r} is not host:port")
    return text


def _order_past(flags: PastFlags) -> PastOrder | None:
    return history_source.order_prometheus(flags, os.environ) if flags.prometheus_address else None


async def _fetch(order: DoctorOptions, connection: Connection, clock: RealClock) -> ClusterFacts:
    budget = RequestBudget(clock, rate=0, burst=1)
    settings = ClientSettings(
        connect_timeout=_CONNECT_PATIENCE,
        request_timeout=order.patience,
        retries=RetrySettings(attempts=2),
    )
    async with Client(
        connection, clock=clock, random=SystemRandom(), budget=budget, settings=settings
    ) as client:
        await cluster_connection.greet(client, connection.server)
        await empty_results.require_namespace(client, order.namespace)
        return await Examination(client, order, clock).run(
            lambda text: read_cluster.say(f"trimtab: {text}")
        )
