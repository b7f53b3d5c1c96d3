"""`trimtab backtest`: replay recorded usage of workloads under policies."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.validation.manifests import judge
from trimtab.backtest import scores, sizes
from trimtab.backtest.contenders import BUILT_IN, TEMPLATE, AutoscalerContender, Contender
from trimtab.backtest.demand import Demand, Flaws
from trimtab.backtest.fleet import FleetSums
from trimtab.backtest.runs import Run, run_all
from trimtab.backtest.scenarios import SCENARIOS, Scenario
from trimtab.backtest.sweep import Point, Setting, governed
from trimtab.backtest.tables import Row
from trimtab.cli.backtest.executors import open_pool
from trimtab.cli.backtest.flags import AnswerFlags, PastFlags, ReplayFlags, SweepFlags
from trimtab.cli.backtest.html import ReportContents
from trimtab.cli.backtest.output import SweepAnswer, format_findings
from trimtab.cli.backtest.sources import read_cluster, read_file
from trimtab.cli.errors import UsageError
from trimtab.cli.flags.recommender import PrometheusFlags
from trimtab.cli.output import files, progress
from trimtab.cli.output.formats import Format
from trimtab.core.histogram.buckets import Ints
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.validation import SettingsError

_USUAL: Final = ("today", "original", *Estimator, "clairvoyant-daily")
_SEED: Final = 1
"""Seed of the bootstrap, fixed so that confidence intervals are reproducible."""
_FEW: Final = 5
"""Minimum number of workloads for a meaningful bootstrap."""
_BASE: Final = "original"
"""The policy with which all others are compared."""
_ALL: Final = "all"
"""Stands for all scenarios that begin with made-up requests."""

_REPLAY: Final = ReplayFlags()
_ANSWER: Final = AnswerFlags()
_NO_SWEEP: Final = SweepFlags()
_NO_PAST: Final = PastFlags()
_PROMETHEUS: Final = PrometheusFlags()


def backtest(
    *,
    replay: ReplayFlags = _REPLAY,
    past: PastFlags = _NO_PAST,
    prometheus: PrometheusFlags = _PROMETHEUS,
    answer: AnswerFlags = _ANSWER,
    sweep: SweepFlags = _NO_SWEEP,
) -> int:
    """Replay the policies and write their scores; return 0."""
    if bool(replay.trace) == bool(past.namespace):
        raise UsageError("whose usage? either --trace names a file of it, or --namespace whose")
    runs, settings = _plan_runs(replay, sweep)
    _check_output(answer.output)
    begins_real = any(run.scenario.is_real for run in runs)
    if replay.trace:
        source = read_file(replay.trace)
    else:
        source = read_cluster(past, prometheus, asks_sizes=begins_real)
    demand = source.demand
    _print_flaws(source.flaws)
    if begins_real:
        _check_sizes(demand, is_asked_for=bool(replay.scenario))
    with (
        open_pool(replay.jobs, replay.scheduler) as workers,
        progress.shown(1.0, is_quiet=answer.quiet, has_lines=False) as shown,
    ):
        outcomes = run_all(
            runs,
            demand,
            workers=workers,
            report=lambda share: shown.show(share, f"{share:4.0%} replayed"),
            keeps_timeline=answer.format is Format.HTML,
        )
    rows = _list_rows(runs, [outcome.tally for outcome in outcomes], demand, answer)
    best = _answer(settings, rows, sweep.max_oom_per_month)
    findings = ReportContents(source.name, demand, runs, outcomes, rows)
    files.write_out(format_findings(findings, answer.format, best), answer.output)
    return 0


def _plan_runs(replay: ReplayFlags, sweep: SweepFlags) -> tuple[list[Run], list[Setting]]:
    """Return the runs to replay, and the settings if this is a sweep."""
    if replay.jobs is not None and replay.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, not {replay.jobs}")
    settings = _check_settings(sweep)
    names = replay.policy
    contenders = _swept(settings, names) if settings else _compared(names or _USUAL)
    usual = "over-strict" if replay.trace else "as-is"
    scenarios = _find_scenarios(replay.scenario or (usual,))
    if settings and len(scenarios) > 1:
        raise UsageError("a sweep has one --scenario")
    return [Run(each, start) for start in scenarios for each in contenders], settings


def _check_settings(flags: SweepFlags) -> list[Setting]:
    """Return all settings of the sweep, none if there is no sweep; refuse invalid ones."""
    try:
        settings = flags.settings()
        for setting in settings:
            governed(setting, TEMPLATE)
    except OverflowError as error:
        raise UsageError("--half-life-hours: no half-life may be that long") from error
    except SettingsError as error:
        raise UsageError(f"no such setting: {error}") from error
    if flags.sweep and not settings:
        raise UsageError("a sweep needs a --percentile, a --margin and a --half-life-hours")
    return settings


def _swept(settings: Sequence[Setting], policy: Sequence[str]) -> list[Contender]:
    """Return one contender per setting, all with the same autoscaler."""
    named = _compared(policy)
    autoscalers = [each.autoscaler for each in named if isinstance(each, AutoscalerContender)]
    if len(named) > 1 or len(named) != len(autoscalers):
        raise UsageError("a sweep takes one autoscaler as its --policy")
    autoscaler = autoscalers[0] if autoscalers else TEMPLATE
    return [governed(setting, autoscaler) for setting in settings]


def _answer(
    settings: Sequence[Setting], rows: Sequence[Row], most_risk: float
) -> SweepAnswer | None:
    totals = [row.scores for row in rows if row.is_total]
    if not settings:
        return None
    points = [Point(setting, found) for setting, found in zip(settings, totals, strict=True)]
    return SweepAnswer(points, most_risk)


def _compared(given: Sequence[str]) -> list[Contender]:
    """Return the policies of names and files; names may be separated by commas."""
    names = [
        name.strip()
        for text in given
        for name in ([text] if Path(text).exists() else text.split(","))
    ]
    return [each for name in dict.fromkeys(names) for each in _find_contenders(name)]


def _check_sizes(demand: Demand, *, is_asked_for: bool) -> None:
    """Warn of workloads with unknown requests; refuse a chosen as-is if none are known."""
    unknown = np.flatnonzero(np.isnan(demand.sizes).any(axis=(0, 1)))
    if is_asked_for and len(unknown) == len(demand):
        raise UsageError("as-is needs requests, and none are known: choose another --scenario")
    if len(unknown):
        names = ", ".join(demand.workloads[place] for place in unknown.tolist())
        sys.stderr.write(f"note: these begin over-strict, as their requests are unknown: {names}\n")


def _find_scenarios(given: Sequence[str]) -> list[Scenario]:
    """Return the scenarios of names, which may be separated by commas; each of them once."""
    names = [name.strip() for text in given for name in text.split(",")]
    for name in names:
        if name not in (*SCENARIOS, _ALL):
            known = ", ".join([*SCENARIOS, _ALL])
            raise UsageError(f"--scenario: there is no {name!r}; choose from {known}")
    made_up = [each.name for each in SCENARIOS.values() if not each.is_real]
    chosen = [each for name in names for each in (made_up if name == _ALL else [name])]
    return [SCENARIOS[name] for name in dict.fromkeys(chosen)]


def _find_contenders(name: str) -> list[Contender]:
    """Return the built-in policy of a name, or the policies in the file of that name."""
    if name in BUILT_IN:
        return [BUILT_IN[name]]
    if not Path(name).exists():
        known = ", ".join(BUILT_IN)
        raise UsageError(
            f"--policy: there is no {name!r}; name a file with a VerticalPodAutoscaler,"
            f" or choose from {known}"
        )
    manifests = files.read_autoscalers(name)
    if not manifests:
        raise UsageError(f"{name} holds no VerticalPodAutoscaler")
    for judgement in judge(manifests, gates=FeatureGates(), allow_overlapping=True):
        if judgement.errors:
            raise UsageError(f"{name}: {judgement.name}: {judgement.errors[0]}")
    autoscalers = [decode_autoscaler(json.dumps(manifest).encode()) for manifest in manifests]
    return [AutoscalerContender(autoscaler.name, autoscaler) for autoscaler in autoscalers]


def _print_flaws(flaws: Flaws) -> None:
    """Write the flaws of the recorded usage to standard error: they limit what scores mean."""
    for line in flaws.lines():
        sys.stderr.write(f"note: {line}\n")


def _list_rows(
    runs: Sequence[Run], tallies: Sequence[FleetSums], demand: Demand, answer: AnswerFlags
) -> list[Row]:
    """Return the rows of all runs, compared with the original where it was replayed too."""
    bases = {
        run.scenario.name: tally
        for run, tally in zip(runs, tallies, strict=True)
        if run.contender.name == _BASE
    }
    classes = sizes.size_classes(demand) if answer.by_size else []
    rows = []
    for run, tally in zip(runs, tallies, strict=True):
        base = None if run.contender.name == _BASE else bases.get(run.scenario.name)
        row = partial(_row, run, tally, base)
        rows.append(row(np.arange(len(demand))))
        rows += [row(each.workloads, size=each.name) for each in classes]
        if answer.per_workload:
            names = enumerate(demand.workloads)
            rows += [row(np.array([place]), workload=name) for place, name in names]
    return rows


def _row(
    run: Run,
    tally: FleetSums,
    base: FleetSums | None,
    workloads: Ints,
    *,
    size: str = "",
    workload: str = "",
) -> Row:
    is_few = len(workloads) < _FEW
    return Row(
        run.scenario.name,
        run.contender.name,
        scores.score(tally, workloads),
        {} if is_few else scores.bootstrap(tally, _SEED, workloads),
        workload,
        size,
        len(workloads),
        {} if base is None else scores.compare(tally, base, None if is_few else _SEED, workloads),
    )


def _check_output(output: Path | None) -> None:
    """Refuse an output folder that does not exist before hours of replay, not after."""
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {output.parent}")
