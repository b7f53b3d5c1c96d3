"""`trimtab backtest`: what policies would have done to workloads whose usage was recorded."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, assert_never

import numpy as np
from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from trimtab.api.autoscalers import decode_autoscaler
from trimtab.api.manifests import judge
from trimtab.backtest.contenders import BUILT_IN, Contender, Governed
from trimtab.backtest.demand import Demand, DemandError, gather
from trimtab.backtest.runs import Run, run_all
from trimtab.backtest.scenarios import SCENARIOS, Scenario
from trimtab.backtest.scores import bootstrap, score
from trimtab.backtest.tables import Row, cells, header, to_csv, to_json, to_markdown
from trimtab.backtest.tally import Tally
from trimtab.cli.manifest_files import read_autoscalers
from trimtab.cli.usage import UsageError
from trimtab.core.gates import FeatureGates
from trimtab.simulation.traces import TraceError, read_recordings

_USUAL: Final = ("today", "original", "trimtab", "clairvoyant-daily")
_SEED: Final = 1
"""Intervals of confidence are drawn, the same ones each time."""
_FEW: Final = 5
"""With fewer workloads than this, drawing among them says nothing."""


class Format(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def backtest(
    *,
    trace: str,
    policy: tuple[str, ...] = _USUAL,
    scenario: tuple[str, ...] = ("over-strict",),
    as_: Annotated[Format, Parameter(name="--format")] = Format.TABLE,
    per_workload: Annotated[bool, Parameter(negative="")] = False,
    jobs: int | None = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """What the policies would have done, as a table: 0.

    Args:
        trace: A file of recorded usage: CSV, gzipped if its name says so.
        policy: What to compare: a file with a VerticalPodAutoscaler, or one of today, original,
            trimtab, static-p99, static-p99-max, clairvoyant-daily, clairvoyant-hourly. Repeat it.
        scenario: With what requests it begins: over-strict, over-loose, under-strict, under-loose
            or under-strict-cpucap. Repeat it.
        as_: How the answer is written.
        per_workload: A row for each workload, too.
        jobs: How many processes; as many as there are cores if not given.
        quiet: Tell no progress.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs must be at least 1, not {jobs}")
    contenders = [each for name in policy for each in _find_contenders(name)]
    runs = [Run(each, _find_scenario(name)) for name in scenario for each in contenders]
    demand = _read_demand(trace)
    tell = (lambda _done, _total: None) if quiet else _tell
    tallies = run_all(runs, demand, jobs=jobs or os.cpu_count() or 1, tell=tell)
    rows = [
        row
        for run, tally in zip(runs, tallies, strict=True)
        for row in _rows(run, tally, demand, per_workload=per_workload)
    ]
    _write(rows, as_)
    return 0


def _find_scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise UsageError(f"no scenario is called {name!r}: try {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def _find_contenders(name: str) -> list[Contender]:
    """The policy that is built in under a name, or those in the file of that name."""
    if name in BUILT_IN:
        return [BUILT_IN[name]]
    if not Path(name).exists():
        raise UsageError(f"no policy and no file is called {name!r}: try {', '.join(BUILT_IN)}")
    manifests = read_autoscalers(name)
    if not manifests:
        raise UsageError(f"{name} holds no VerticalPodAutoscaler")
    for judgement in judge(manifests, gates=FeatureGates(), allow_overlapping=True):
        if judgement.errors:
            raise UsageError(f"{name}: {judgement.name}: {judgement.errors[0]}")
    autoscalers = [decode_autoscaler(json.dumps(manifest).encode()) for manifest in manifests]
    return [Governed(autoscaler.name, autoscaler) for autoscaler in autoscalers]


def _read_demand(trace: str) -> Demand:
    try:
        return gather(read_recordings(Path(trace)))
    except OSError as error:
        raise UsageError(f"cannot read {trace}: {error.strerror or error}") from error
    except (TraceError, DemandError, UnicodeDecodeError) as error:
        raise UsageError(f"{trace} is no recorded usage: {error}") from error


def _rows(run: Run, tally: Tally, demand: Demand, *, per_workload: bool) -> Iterator[Row]:
    intervals = bootstrap(tally, _SEED) if tally.workloads >= _FEW else {}
    yield Row(run.scenario.name, run.contender.name, score(tally), intervals)
    for place, workload in enumerate(demand.workloads if per_workload else ()):
        alone = score(tally, np.array([place]))
        yield Row(run.scenario.name, run.contender.name, alone, {}, workload)


def _write(rows: Sequence[Row], as_: Format) -> None:
    match as_:
        case Format.TABLE:
            _print_table(rows)
        case Format.JSON:
            sys.stdout.write(to_json(rows))
        case Format.CSV:
            sys.stdout.write(to_csv(rows))
        case Format.MARKDOWN:
            sys.stdout.write(to_markdown(rows))
        case _:
            assert_never(as_)


def _print_table(rows: Sequence[Row]) -> None:
    """One score a line, one policy a column: that fits on a screen."""
    console = Console(file=sys.stdout, highlight=False)
    for scenario in dict.fromkeys(row.scenario for row in rows):
        chosen = [row for row in rows if row.scenario == scenario]
        table = Table(title=f"starting {scenario}", title_justify="left", box=None)
        table.add_column("")
        for row in chosen:
            table.add_column(row.workload or row.policy, justify="right")
        titles, *columns = header()[2:], *(cells(row)[2:] for row in chosen)
        for line in zip(titles, *columns, strict=True):
            table.add_row(*line)
        console.print(table)


def _tell(done: int, total: int) -> None:
    sys.stderr.write(f"\r{done} of {total} parts replayed")
    sys.stderr.write("\n" if done == total else "")
    sys.stderr.flush()
