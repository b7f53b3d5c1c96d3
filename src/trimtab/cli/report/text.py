"""Text of a report: a row for each container, and a summary in sentences."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from textwrap import wrap
from typing import Final

from trimtab.cli.flags import types
from trimtab.cli.output import amounts, columns, markdown
from trimtab.cli.output.amounts import TITLES
from trimtab.cli.report.observe import ClusterReport
from trimtab.core.model.limits import NO_AMOUNTS
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.report import severity
from trimtab.core.report.severity import SizeSeverity
from trimtab.core.report.sizes import (
    ContainerSizing,
    MissingRecommendation,
    ReportTotals,
    WorkloadSizing,
)

HEADER: Final = (
    "NAMESPACE",
    "WORKLOAD",
    "AUTOSCALER",
    "CONTAINER",
    "PODS",
    "HISTORY",
    "",
    "REQUEST",
    "LIMIT",
    "CHANGE",
    "NODE",
    "SEVERITY",
)
"""All columns; a narrow table has only some of them."""
_SHORT_KINDS: Final = {
    "CronJob": "cj",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "Pod": "po",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "StatefulSet": "sts",
}
"""Short names of kinds in kubectl."""
_NAMES: Final = {Resource.CPU: "CPU", Resource.MEMORY: "memory"}
_LEAST_SHOWN: Final = 0.005
"""Smaller changes, in cores or GiB, are shown as 0."""
_DOUBTS: Final = {
    MissingRecommendation.NO_SAMPLES: "no usage is known",
    MissingRecommendation.TOO_FEW_SAMPLES: "there are too few samples",
    MissingRecommendation.SWITCHED_OFF: "the autoscaler's policy is Off",
}


_IGNORANCE: Final = (MissingRecommendation.NO_SAMPLES, MissingRecommendation.TOO_FEW_SAMPLES)


def list_rows(workloads: Sequence[WorkloadSizing], *, says_all: bool) -> Iterator[list[str]]:
    """Yield a row per container and resource; repeated cells are blank unless `says_all`."""
    blank = [""] * HEADER.index("")
    for workload in workloads:
        lead = [
            workload.workload.namespace,
            name_workload(workload),
            "-" if workload.autoscaler is None else workload.autoscaler.name,
        ]
        for container in workload.containers:
            whole = [*lead, container.name, str(container.pods), _show_history(container)]
            for resource in BOTH:
                yield [*whole, *_cells(workload, container, resource)]
                whole = whole if says_all else blank
            lead = lead if says_all else [""] * len(lead)


def _cells(workload: WorkloadSizing, container: ContainerSizing, resource: Resource) -> list[str]:
    recommended, current = container.recommended, container.current
    if recommended is None:
        steps = [f"{amounts.show_amount(resource, _of(current.requests, resource))} -> ?"]
        steps += [amounts.show_amount(resource, _of(current.limits, resource))]
    else:
        steps = [_show_step(current.requests, recommended.requests, resource)]
        steps += [_show_step(current.limits, recommended.limits, resource)]
    return [
        TITLES[resource],
        *steps,
        _show_change(container, resource),
        _show_share(workload, resource),
        container.severity_of(resource).value,
    ]


def _show_step(current: Resources | None, recommended: Resources | None, resource: Resource) -> str:
    """Format `current -> recommended`; only the current amount if the other is equal or None."""
    before = amounts.show_amount(resource, _of(current, resource))
    after = amounts.show_amount(resource, _of(recommended, resource))
    return before if after in (before, "-") else f"{before} -> {after}"


def _of(quantities: Resources | None, resource: Resource) -> int | None:
    return (quantities or NO_AMOUNTS).get(resource)


def _show_history(container: ContainerSizing) -> str:
    learned = container.learned
    if not learned.samples:
        return "published" if container.is_published else "-"
    days = learned.span.days
    # Fractions of a second are dropped.
    span = f"{days}d" if days else types.format_span(timedelta(seconds=learned.span.seconds))
    published = ", published" if container.is_published else ""
    return f"{span} ({100 * learned.confidence:.0f}%){published}"


def summarize(report: ClusterReport) -> Iterator[str]:
    """Yield the summary of a report, in sentences."""
    totals = report.totals
    if is_ignorant(report):
        yield "No usage is known, so nothing is recommended."
    elif not recommends(report):
        yield "Nothing is recommended."
    else:
        for resource in BOTH:
            subject = _NAMES[resource]
            yield f"{subject[0].upper()}{subject[1:]}: {_sum_up(totals, resource)}"
    yield from _describe_binding(totals)
    yield from _describe_doubts(report.workloads)
    yield from _describe_held(report.workloads)
    if report.hidden:
        yield f"Not shown, but counted: {report.hidden} of the better workloads."
    if totals.score is not None:
        grade = severity.letter(totals.score)
        yield f"Score: {totals.score} of 100, {grade}. Learned from {report.source}."
    yield from (f"Note: {note}." for note in report.notes)


def is_ignorant(report: ClusterReport) -> bool:
    """Return True if there are workloads, and too little usage is known of every container."""
    containers = _containers(report)
    return any(one.doubt in _IGNORANCE for one in containers) and not any(
        one.recommended for one in containers
    )


def recommends(report: ClusterReport) -> bool:
    """Return True if anything may be recommended, also for workloads that are not shown."""
    return report.hidden > 0 or any(one.recommended for one in _containers(report))


def _containers(report: ClusterReport) -> list[ContainerSizing]:
    return [one for workload in report.workloads for one in workload.containers]


def _show_change(container: ContainerSizing, resource: Resource) -> str:
    """Format the change of requests of all pods, in cores or GiB."""
    if container.recommended is None:
        return "?"
    change = amounts.in_large_units(resource, container.difference(resource))
    return f"{change:+.2f}" if abs(change) >= _LEAST_SHOWN else "0"


def _show_share(workload: WorkloadSizing, resource: Resource) -> str:
    """Format the share of its node that a pod takes; a star marks the binding resource."""
    if resource not in workload.shares:
        return "-"
    mark = "*" if resource is workload.binding else ""
    return f"{100 * workload.shares[resource]:.0f}%{mark}"


def name_workload(workload: WorkloadSizing) -> str:
    """Return the name of a workload in the form that kubectl takes."""
    kind = workload.workload.kind
    return f"{_SHORT_KINDS.get(kind, kind.lower())}/{workload.workload.name}"


def _sum_up(totals: ReportTotals, resource: Resource) -> str:
    requested, wanted = totals.requested[resource], totals.wanted[resource]
    change = amounts.show_large(resource, abs(wanted - requested))
    verdict = f"{change} {'saved' if wanted < requested else 'more needed'}"
    return (
        f"{amounts.show_large(resource, requested)} requested,"
        f" {amounts.show_large(resource, wanted)} recommended: "
        f"{verdict if wanted != requested else 'as it should be'}."
    )


def _describe_binding(totals: ReportTotals) -> Iterator[str]:
    before, after = totals.shares(totals.requested), totals.shares(totals.wanted)
    if not after:
        return
    binding = max(after, key=lambda kind: after[kind])
    shares = ", ".join(
        f"{_NAMES[kind]} {100 * before[kind]:.0f}% -> {100 * after[kind]:.0f}%" for kind in after
    )
    yield f"Of all nodes: {shares}; {_NAMES[binding]} binds."


def _describe_doubts(workloads: Sequence[WorkloadSizing]) -> Iterator[str]:
    doubts = [one.doubt for workload in workloads for one in workload.containers if one.doubt]
    for doubt, reason in _DOUBTS.items():
        if count := doubts.count(doubt):
            containers = "container" if count == 1 else "containers"
            yield f"Unknown: {count} {containers}, since {reason}."


def _describe_held(workloads: Sequence[WorkloadSizing]) -> Iterator[str]:
    for resource in BOTH:
        held = [each for each in workloads if any(resource in one.held for one in each.containers)]
        if held:
            names = ", ".join(name_workload(each) for each in held)
            yield f"Held: {_NAMES[resource]} of {names}, on which horizontal autoscalers scale."


_FORMAT_NAMES: Final = ("NAMESPACE", "WORKLOAD", "AUTOSCALER", "CONTAINER")
_NARROW: Final = ("WORKLOAD", "CONTAINER", "HISTORY", "", "REQUEST", "CHANGE", "SEVERITY")
_LONGEST: Final = 200
"""Width of a line if there is no screen."""
_COLOURS: Final = {
    SizeSeverity.UNKNOWN: "2",
    SizeSeverity.GOOD: "32",
    SizeSeverity.OK: "32",
    SizeSeverity.WARNING: "33",
    SizeSeverity.CRITICAL: "31",
}


def format_table(
    report: ClusterReport,
    *,
    is_wide: bool,
    with_namespace: bool,
    width: int | None,
    in_colour: bool,
) -> str:
    """Format a table as kubectl does, and the summary."""
    chosen = HEADER if is_wide else _NARROW
    if with_namespace and not is_wide:
        chosen = ("NAMESPACE", *chosen)
    rows = list(list_rows(report.workloads, says_all=False))
    places = [HEADER.index(title) for title in chosen]
    cells = [[row[place] for place in places] for row in (HEADER, *rows)]
    names = [place for place, title in enumerate(chosen) if title in _FORMAT_NAMES]
    lines = columns.lay_out(cells, names=names, width=width) if rows else []
    if in_colour:
        lines = [*lines[:1], *map(_colour, lines[1:])]
    words = [part for line in _words(report) for part in wrap(line, width or _LONGEST)]
    return "\n".join([*lines, "", *words]) + "\n"


def format_markdown(report: ClusterReport) -> str:
    """Format a Markdown table, and the summary."""
    table = markdown.format_table([HEADER, *list_rows(report.workloads, says_all=True)])
    return "\n".join([table, *(f"- {line}" for line in _words(report))]) + "\n"


def _words(report: ClusterReport) -> list[str]:
    return [columns.disarm(line) for line in summarize(report)]


def _colour(line: str) -> str:
    word = line.rsplit(" ", 1)[-1]
    return f"{line.removesuffix(word)}\x1b[{_COLOURS[SizeSeverity(word)]}m{word}\x1b[0m"
