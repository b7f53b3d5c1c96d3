"""The flags of `trimtab backtest`."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimtab.backtest.sweep import Grid, Setting
from trimtab.cli.backtest.output import BacktestFormat
from trimtab.cli.flags import types
from trimtab.cli.flags.types import Count, Number, Numbers, Whole
from trimtab.cli.output.formats import Format


@types.flag_group("What is replayed", order=1)
@dataclass(frozen=True, slots=True)
class ReplayFlags:
    """Flags for the recorded usage and the policies to replay."""

    trace: str = ""
    """A file of recorded usage: CSV, gzipped if its name says so, or Parquet. Or a --namespace."""
    policy: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """What to compare: a file with a VerticalPodAutoscaler, or one of today, original, percentile,
    cost, static-p99, static-p99-max, clairvoyant-daily, clairvoyant-hourly. Repeat it, or separate
    names by commas. If none is named: today, original, percentile, cost and clairvoyant-daily. A
    sweep takes one file, or none.
    """
    scenario: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """With what requests it begins: as-is (those of today), over-strict, over-loose, under-strict,
    under-loose, under-strict-cpucap, or all but as-is: all. Repeat it, or separate names by
    commas; a sweep takes one. If none is named: as-is for a --namespace, over-strict for a file."""
    jobs: Count = None
    """How many processes; as many as there are cores if not given."""
    scheduler: str = ""
    """The address of a Dask scheduler, whose workers replay instead; trimtab must be there."""


@types.flag_group("From a cluster", order=4)
@dataclass(frozen=True, slots=True)
class PastFlags:
    """Flags for usage that Prometheus has, instead of a file."""

    namespace: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    """Replay the workloads of a namespace, as --prometheus-address remembers them. Repeat it."""
    selector: str = ""
    """Only workloads that have pods with these labels in the cluster now."""
    kubeconfig: str = ""
    """The file that says where the cluster is, unless kubectl's does; for --selector and as-is."""
    days: Whole = 14
    """How many days are replayed."""
    step_minutes: Whole = 5
    """How far values are apart."""


@types.flag_group("Output", order=2)
@dataclass(frozen=True, slots=True)
class AnswerFlags:
    """Flags for the output."""

    format: Annotated[BacktestFormat, Parameter(name=["--format", "-o"])] = Format.TABLE
    """Format of the results; html is one file with charts, readable offline."""
    output: Annotated[Path | None, Parameter(name=["--output", "--file", "-f"])] = None
    """File to write the results to."""
    per_workload: Annotated[bool, Parameter(negative="")] = False
    """A row for each workload, too."""
    by_size: Annotated[bool, Parameter(negative="")] = False
    """A row for each size class of CPU and of memory, too: who pays."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show no progress."""


@types.flag_group("Sweep", order=3)
@dataclass(frozen=True, slots=True)
class SweepFlags:
    """Flags for the recommender settings that a sweep tries."""

    sweep: Annotated[bool, Parameter(negative="")] = False
    """Try settings of the recommender in all combinations, and name the cheapest that is safe."""
    percentile: Numbers = Grid().percentiles
    """Percentiles of usage that targets are made from, between 0 and 1. Repeat it."""
    margin: Numbers = Grid().margins
    """What is added to every estimate, as a part of it. Repeat it."""
    half_life_hours: Numbers = (12, 24, 72)
    """After so many hours a sample counts half. Repeat it."""
    max_oom_per_month: Number = 0.1
    """OOM episodes that a workload may have in a month: names the cheapest setting within it."""

    def settings(self) -> list[Setting]:
        """Return all settings to try; none without --sweep."""
        half_lives = tuple(timedelta(hours=hours) for hours in self.half_life_hours)
        return list(Grid(self.percentile, self.margin, half_lives)) if self.sweep else []
