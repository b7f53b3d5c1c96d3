"""`trimtab backtest`: replay recorded usage of workloads under policies."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.validation.manifests import judge
from trimtab.backtest.contenders import BUILT_IN, TEMPLATE, AutoscalerContender, Contender
from trimtab.backtest.demand import Demand, Flaws
from trimtab.backtest.fleet import FleetSums
from trimtab.backtest.runs import Run, run_all
from trimtab.backtest.scenarios import SCENARIOS, Scenario
from trimtab.backtest.scores import bootstrap, score
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
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.validation import SettingsError

_USUAL: Final = ("today", "original", *Estimator, "clairvoyant-daily")
_SEED: Final = 1
"""Seed of the bootstrap, fixed so that confidence intervals are reproducible."""
_FEW: Final = 5
"""Minimum number of workloads for a meaningful bootstrap."""


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
        progress.shown(1.0, is_quiet=answer.quiet) as shown,
    ):
        outcomes = run_all(
            runs,
            demand,
            workers=workers,
            report=lambda share: shown.show(share, f"{share:4.0%} replayed"),
            keeps_timeline=answer.format is Format.HTML,
        )
    rows = [
        row
        for run, outcome in zip(runs, outcomes, strict=True)
        for row in _rows(run, outcome.tally, demand, per_workload=answer.per_workload)
    ]
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
    scenarios = [_find_scenario(name) for name in replay.scenario or (usual,)]
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
    totals = [row.scores for row in rows if not row.workload]
    if not settings:
        return None
    points = [Point(setting, scores) for setting, scores in zip(settings, totals, strict=True)]
    return SweepAnswer(points, most_risk)


def _compared(names: Sequence[str]) -> list[Contender]:
    return [each for name in names for each in _find_contenders(name)]


def _check_sizes(demand: Demand, *, is_asked_for: bool) -> None:
    """Warn of workloads with unknown requests; refuse a chosen as-is if none are known."""
    unknown = np.flatnonzero(np.isnan(demand.sizes).any(axis=(0, 1)))
    if is_asked_for and len(unknown) == len(demand):
        raise UsageError("as-is needs requests, and none are known: choose another --scenario")
    if len(unknown):
        names = ", ".join(demand.workloads[place] for place in unknown.tolist())
        sys.stderr.write(f"note: these begin over-strict, as their requests are unknown: {names}\n")


def _find_scenario(name: str) -> Scenario:
    if name not in SCENARIOS:
        raise UsageError(f"no scenario is called {name!r}: try {', '.join(SCENARIOS)}")
    return SCENARIOS[name]


def _find_contenders(name: str) -> list[Contender]:
    """Return the built-in policy of a name, or the policies in the file of that name."""
    if name in BUILT_IN:
        return [BUILT_IN[name]]
    if not Path(name).exists():
        raise UsageError(f"no policy and no file is called {name!r}: try {', '.join(BUILT_IN)}")
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


def _rows(run: Run, tally: FleetSums, demand: Demand, *, per_workload: bool) -> Iterator[Row]:
    intervals = bootstrap(tally, _SEED) if tally.workloads >= _FEW else {}
    yield Row(run.scenario.name, run.contender.name, score(tally), intervals)
    for place, workload in enumerate(demand.workloads if per_workload else ()):
        alone = score(tally, np.array([place]))
        yield Row(run.scenario.name, run.contender.name, alone, {}, workload)


def _check_output(output: Path | None) -> None:
    """Refuse an output folder that does not exist before hours of replay, not after."""
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {output.parent}")
