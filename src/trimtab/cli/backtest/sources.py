"""Sources of recorded usage for `trimtab backtest`: a file, or Prometheus."""

import asyncio
import csv
import gzip
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Final, Protocol, TextIO, cast

from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire import lists
from trimtab.api.wire.codec import DecodeError
from trimtab.backtest.demand import Demand, DemandError, Flaws, gather
from trimtab.backtest.recordings import parse_samples, read_past, recordings_of
from trimtab.cli.backtest.flags import PastFlags
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.flags.common import ClusterFlags, LogFlags
from trimtab.cli.flags.recommender import PrometheusFlags
from trimtab.cli.runtime import cluster_connection, cluster_problems, history_source, logs
from trimtab.cli.runtime.history_source import PastOrder
from trimtab.cluster.clock import RealClock
from trimtab.cluster.errors import ClusterError
from trimtab.cluster.http import paths
from trimtab.core.model.pods import Pod
from trimtab.core.usage import history_samples
from trimtab.simulation.load import traces
from trimtab.simulation.load.traces import Recording, TraceError

_REMEDY: Final = (
    "name Prometheus by --prometheus-address, from outside the cluster that of a kubectl"
    " port-forward: http://localhost:9090"
)
_MOST_DAYS: Final = 10 * 365
_DAY_MINUTES: Final = 24 * 60
_MOST_MOMENTS: Final = 2000
"""Maximum moments per query; a query whose answer is still too large is split."""
_VALUES: Final = "values"
"""The column that marks a file of whole series."""


class _Frame(Protocol):
    def write_csv(self) -> str: ...


class _Polars(Protocol):
    """The part of polars, an optional extra, that is used here."""

    def read_parquet(self, source: Path) -> _Frame: ...


@dataclass(frozen=True, slots=True)
class Source:
    """Recorded usage to replay."""

    name: str
    """The origin of the usage, for people."""
    demand: Demand
    flaws: Flaws


def read_file(name: str) -> Source:
    """Read the usage in a file; a UsageError if it holds none."""
    try:
        with _open(Path(name)) as lines:
            recordings, flaws = _parse(lines)
        return Source(name, _gather(recordings, flaws), flaws)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UsageError(
            f"{name} ends in .gz and is no whole gzip file ({error});"
            " rename it, or compress it again"
        ) from error
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is no UTF-8 text (byte {error.start}); gzipped files must end in .gz,"
            " and Parquet in .parquet"
        ) from error
    except (TraceError, DemandError, csv.Error) as error:
        raise UsageError(f"{name}: {error}") from error


def _gather(recordings: Sequence[Recording], flaws: Flaws) -> Demand:
    if not recordings and flaws.too_short:
        raise TraceError(f"every workload has less than an hour: {', '.join(flaws.too_short)}")
    return gather(recordings)


def read_cluster(flags: PastFlags, prometheus: PrometheusFlags, *, asks_sizes: bool) -> Source:
    """Read the usage of workloads in namespaces; a FailedError if it cannot be read."""
    if flags.days < 1 or flags.step_minutes < 1:
        raise UsageError("--days and --step-minutes must be at least 1")
    if flags.days > _MOST_DAYS or flags.step_minutes > _DAY_MINUTES:
        raise UsageError(
            f"--days must be at most {_MOST_DAYS}, and --step-minutes at most {_DAY_MINUTES}"
        )
    logs.set_up(LogFlags(v=0))
    try:
        recordings, flaws = asyncio.run(
            _read_namespaces(
                flags,
                history_source.order_prometheus(prometheus, os.environ),
                asks_sizes=asks_sizes,
            )
        )
    except ClusterError as error:
        raise FailedError(f"{error}; {_REMEDY}") from error
    name = f"{', '.join(flags.namespace)} at {prometheus.prometheus_address}"
    if not recordings:
        flaw = "; ".join(flaws.lines()) or "no usage is remembered"
        raise FailedError(f"nothing to replay of {name}: {flaw}")
    return Source(name, gather(recordings), flaws)


def _open(path: Path) -> TextIO:
    return StringIO(_read_parquet(path)) if path.suffix == ".parquet" else traces.open_lines(path)


def _read_parquet(path: Path) -> str:
    """Return the table in a Parquet file as CSV."""
    try:
        polars = cast("_Polars", import_module("polars"))
    except ImportError as error:
        raise UsageError("Parquet needs the extra: pip install 'trimtab[parquet]'") from error
    path.stat()  # A missing file raises OSError, as for the other formats.
    try:
        return polars.read_parquet(path).write_csv()
    except Exception as error:
        # Errors of polars share no base class that is known without importing it.
        raise TraceError(f"no Parquet: {error}") from error


def _parse(lines: TextIO) -> tuple[list[Recording], Flaws]:
    head = lines.readline()
    if not head:
        raise TraceError("the file is empty")
    lines.seek(0)
    if _VALUES in next(csv.reader([head]), []):
        return traces.parse_recordings(lines), Flaws()
    return parse_samples(lines)


async def _read_namespaces(
    flags: PastFlags, order: PastOrder, *, asks_sizes: bool
) -> tuple[list[Recording], Flaws]:
    clock = RealClock()
    pods = await _find_pods(flags, clock) if flags.selector or asks_sizes else {}
    recordings: list[Recording] = []
    flaws = Flaws()
    async with order.source(clock, lambda _: None) as source:
        for namespace in flags.namespace:
            sys.stderr.write(f"reading {flags.days} days of {namespace}\n")
            shards = history_samples.plan_shards(
                namespace,
                end=clock.now(),
                length=timedelta(days=flags.days),
                step=timedelta(minutes=flags.step_minutes),
                most_moments=_MOST_MOMENTS,
            )
            past = await read_past(source, shards)
            found, flaw = recordings_of(
                past, pods.get(namespace, ()), only_live=bool(flags.selector)
            )
            recordings += found
            flaws += flaw
    return recordings, flaws


async def _find_pods(flags: PastFlags, clock: RealClock) -> Mapping[str, Sequence[Pod]]:
    """Return the current pods; none, with a note, if they are unreadable and not selected by."""
    try:
        return await _list_pods(flags, clock)
    except (ClusterError, FailedError) as error:
        problem = str(error)
        if isinstance(error, ClusterError):
            problem = cluster_problems.explain_problem(error, "the address in the kubeconfig")
        if flags.selector:
            raise FailedError(problem) from error
        sys.stderr.write(f"note: what is requested today cannot be read: {problem}\n")
        return {}


async def _list_pods(flags: PastFlags, clock: RealClock) -> Mapping[str, Sequence[Pod]]:
    """Return the pods that the selector matches now, by namespace."""
    cluster = ClusterFlags(kubeconfig=flags.kubeconfig)
    parameters = {"labelSelector": flags.selector} if flags.selector else {}
    async with cluster_connection.connected(cluster, clock, os.environ) as client:
        bodies = {
            namespace: await client.fetch(paths.pods(namespace), parameters)
            for namespace in flags.namespace
        }
    try:
        return {
            namespace: lists.decode_list(body, decode_pod).items
            for namespace, body in bodies.items()
        }
    except DecodeError as error:
        raise FailedError(f"the cluster's pods cannot be read: {error}") from error
