"""`trimtab report`: the requests of all workloads of a cluster, and recommended ones."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeAlias, assert_never

from trimtab.api.wire import selector_text
from trimtab.api.wire.codec import DecodeError
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ViewFlags
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.flags import start, types
from trimtab.cli.flags.common import LogFlags
from trimtab.cli.output import columns, csv, documents
from trimtab.cli.output.formats import Format
from trimtab.cli.report.flags import LookFlags, OutputFlags, PastFlags, ReportFormat, Sort
from trimtab.cli.report.html import to_html
from trimtab.cli.report.observe import ClusterReport, ReportOptions, make_report
from trimtab.cli.report.patches import draft_patches, write_patches
from trimtab.cli.report.records import csv_rows, to_record
from trimtab.cli.report.text import format_markdown, format_table, is_ignorant
from trimtab.cli.runtime import cluster_connection, history_source, logs
from trimtab.cluster.clock import RealClock
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.report import severity
from trimtab.core.report.sizes import WorkloadSizing
from trimtab.recommender.settings import HistorySettings

_VIEW: Final = ViewFlags()
_LOOK: Final = LookFlags()
_OUTPUT: Final = OutputFlags()
_PAST: Final = PastFlags()
_FAILED: Final = 1
_NO_USAGE: Final = (
    "no usage is known of any container; watch for longer (--watch-for), or read what was"
    " (--prometheus-address)"
)
_SHORT: Final = timedelta(milliseconds=200)

_Key: TypeAlias = Callable[[WorkloadSizing], tuple[object, ...]]


def report(
    *,
    look: LookFlags = _LOOK,
    shown_as: OutputFlags = _OUTPUT,
    past: PastFlags = _PAST,
    view: ViewFlags = _VIEW,
) -> int:
    """Print requests and recommendations of all workloads: 0, or 1 if no usage is known."""
    order = _order(look, past, view)
    logs.set_up(LogFlags(v=0))
    clock = RealClock()
    connection = cluster_connection.choose_connection(
        view.kubeconfig, clock, os.environ, view.context
    )
    found = asyncio.run(make_report(order, connection, clock))
    shown = _choose(found.workloads, shown_as)
    chosen = replace(found, workloads=shown, hidden=len(found.workloads) - len(shown))
    sys.stdout.write(_format(chosen, shown_as.output, view))
    if shown_as.patch is not None:
        _write_patches(chosen.workloads, shown_as)
    if is_ignorant(found):
        read_cluster.say(f"trimtab: {_NO_USAGE}")
        return _FAILED
    return 0


def _order(look: LookFlags, past: PastFlags, view: ViewFlags) -> ReportOptions:
    """Return the options of the report; a UsageError if the flags are invalid."""
    if look.watch_for < timedelta(0):
        raise UsageError(
            f"--watch-for: {types.format_span(look.watch_for)} is less than no time; try 2m"
        )
    if look.min_samples < 1:
        raise UsageError(f"--min-samples: {look.min_samples} is less than 1")
    history = start.make_settings(
        lambda: HistorySettings(
            past.history_length,
            past.history_resolution,
            patience=_SHORT,
            workers=past.prometheus_max_queries,
        ),
        start.list_changed(past),
    )
    return ReportOptions(
        view,
        _parse_selector(look.selector),
        look.watch_for,
        look.min_samples,
        history_source.order_prometheus(past, os.environ) if past.prometheus_address else None,
        history,
    )


def _parse_selector(text: str) -> Selector:
    try:
        return selector_text.decode_selector_text(text, "--selector")
    except DecodeError as error:
        raise UsageError(f"{error}: try app=web or tier!=back") from error


def _choose(workloads: Sequence[WorkloadSizing], shown_as: OutputFlags) -> list[WorkloadSizing]:
    """Return the workloads of the minimum severity, in the order of --sort."""
    chosen = [
        each
        for each in workloads
        if severity.rank(each.severity) >= severity.rank(shown_as.min_severity)
    ]
    # The sort is stable: equal workloads stay ordered by namespace, kind and name.
    return sorted(chosen, key=_key(shown_as.sort))


def _key(sort: Sort) -> _Key:
    match sort:
        case Sort.NAME:
            return lambda each: (each.workload,)
        case Sort.SEVERITY:
            return lambda each: (-severity.rank(each.severity),)
        case Sort.CPU:
            return lambda each: (-abs(each.difference(Resource.CPU)),)
        case Sort.MEMORY:
            return lambda each: (-abs(each.difference(Resource.MEMORY)),)
        case _:
            assert_never(sort)


def _format(found: ClusterReport, output: ReportFormat, view: ViewFlags) -> str:
    match output:
        case Format.TABLE | Format.WIDE:
            return format_table(
                found,
                is_wide=output is Format.WIDE,
                with_namespace=view.all_namespaces,
                width=columns.screen_width(),
                in_colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ,
            )
        case Format.JSON:
            return documents.format_json(to_record(found))
        case Format.YAML:
            return documents.format_yaml(to_record(found))
        case Format.CSV:
            return csv.format_csv(csv_rows(found))
        case Format.MARKDOWN:
            return format_markdown(found)
        case Format.HTML:
            return to_html(found)
        case _:
            assert_never(output)


def _write_patches(workloads: Sequence[WorkloadSizing], shown_as: OutputFlags) -> None:
    assert shown_as.patch is not None
    least = timedelta(0) if shown_as.allow_thin_data else shown_as.min_history
    patches = draft_patches(workloads, shown_as.patch, least)
    try:
        write_patches(patches, shown_as.out)
    except OSError as error:
        raise FailedError(f"cannot write {shown_as.out}: {error.strerror or error}") from error
    for line in patches.left_out:
        read_cluster.say(f"trimtab: no file for {line}")
    read_cluster.say(f"trimtab: {len(patches.files)} files are in {shown_as.out}")
