"""One recommender for a hundred thousand containers: what it holds, and what a tick costs.

    python -m bench.capacity
    python -m bench.capacity --compare 10000  # the estimators `percentile` and `cost`

Everything is the product's own but the network: an API server in this very process answers lists
with pages that it makes on the spot, says nothing more, and takes every write. So this process
holds what a real one would, and a little more. The original has no part in this.

Writes `results/capacity.json` and the page of benchmarks; fails if it holds more than it may.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

from bench import measuring, page, scoring, workloads
from bench.telling import say
from bench.usage_server import Answers
from bench.workloads import CONTAINERS, PODS, Manifest, Swing, Workload
from rig.fake_node import Json
from trimtab.api.kinds.checkpoints import encode_checkpoint
from trimtab.cli.runtime import process
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live.cluster import LiveCluster, Scope
from trimtab.cluster.usage.metrics_api import MetricsApi
from trimtab.core.model.estimation import Estimator
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.recommender.controller import Recommender
from trimtab.recommender.settings import RecommenderSettings

RESULTS: Final = Path(__file__).parent / "results/capacity.json"
SIZES: Final = (10_000, 100_000)
LIMIT_BYTES: Final = 2 * 1024**3
COST_LIMIT_BYTES: Final = 1229 * 1024**2
"""1.2 GiB, for `cost` with the largest size."""
MOST_TICK_RATIO: Final = 1.5
"""What a tick of `cost` may take of one of `percentile`."""
_COSTS: Final = ("cpu_seconds_of_first_tick", "cpu_seconds_per_tick", "cpu_seconds_to_save_all")
TICKS: Final = 10
"""In so many everything is saved once."""
_KIB: Final = 1024
_INTERVAL: Final = timedelta(minutes=1)
_WORKLOADS_PER_PAGE: Final = 250
CHECKPOINTS: Final = "verticalpodautoscalercheckpoints"


class SteppedClock(RealClock):
    """The time as the machine has it, and the intervals that nobody waited for."""

    def __init__(self) -> None:
        self._skipped = timedelta()

    def now(self) -> datetime:
        """The present moment, intervals later."""
        return super().now() + self._skipped

    def elapsed(self) -> timedelta:
        """The time since some fixed moment, intervals later."""
        return super().elapsed() + self._skipped

    def skip(self) -> None:
        """Let an interval pass.

        The metrics API tells whole seconds, and usage of a moment is counted once: ticks that
        follow each other at once would have the less to do the faster they are.
        """
        self._skipped += _INTERVAL


class PlayedServer(Client):
    """An API server with workloads, as a client sees it."""

    def __init__(
        self, count: int, clock: RealClock, swing: Swing = Swing.NARROW, answers: int = 1
    ) -> None:
        self._clock = clock
        self._workloads = [Workload(number) for number in range(count)]
        self._swing = swing
        # One answer only: what a real server has ready is not in the process that asks.
        self._usage = Answers(self._workloads, answers, swing)
        self._now = clock.now()
        self.writes = 0
        self.written: Counter[str] = Counter()
        """By kind of object how often it was written."""
        self.written_bytes: Counter[str] = Counter()

    async def fetch(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        *,
        headers: tuple[tuple[str, str], ...] = (),
        is_urgent: bool = False,
    ) -> bytes:
        """A page of a list, or all usage."""
        del headers, is_urgent
        if path.startswith("/apis/metrics.k8s.io/"):
            return self._usage.tell(self._clock.now())
        start = int((parameters or {}).get("continue", "0"))
        end = start + _WORKLOADS_PER_PAGE
        return make_page(self._objects(path, self._workloads[start:end]), end, len(self._workloads))

    async def stream(self, path: str, parameters: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Nothing more."""
        del path, parameters
        return _silence()

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, is_exempt: bool = False
    ) -> bytes:
        """Whatever is written is taken."""
        del content_type, is_exempt
        self._note(path, body)
        return b"{}"

    async def post(self, path: str, body: bytes, *, is_urgent: bool = False) -> bytes:
        """Whatever is created is taken."""
        del is_urgent
        self._note(path, body)
        return b"{}"

    def _note(self, path: str, body: bytes) -> None:
        kind = CHECKPOINTS if CHECKPOINTS in path else path.rpartition("/")[2]
        self.writes += 1
        self.written[kind] += 1
        self.written_bytes[kind] += len(body)

    def _objects(self, path: str, chosen: Iterable[Workload]) -> list[bytes]:
        kind = path.rpartition("/")[2]
        if kind == CHECKPOINTS:
            return [
                encode_checkpoint(checkpoint)
                for one in chosen
                for checkpoint in workloads.checkpoints(one, self._now, self._swing)
            ]
        return [json.dumps(each).encode() for one in chosen for each in self._manifests(kind, one)]

    def _manifests(self, kind: str, workload: Workload) -> list[Manifest]:
        match kind:
            case "pods":
                return self._pods(workload)
            case "deployments":
                return [workloads.deployment(workload)]
            case "replicasets":
                return [workloads.replica_set(workload)]
            case "verticalpodautoscalers":
                return [workloads.autoscaler(workload)]
            case _:
                return []

    def _pods(self, workload: Workload) -> list[Manifest]:
        status = workloads.running_status(self._now)
        return [{**workloads.pod(workload, name), "status": status} for name in workload.pods]


async def _silence() -> AsyncGenerator[bytes, None]:
    await asyncio.Event().wait()
    yield b""


def make_page(items: Sequence[bytes], end: int, count: int) -> bytes:
    """Return a page of a list; as on a real server, an empty page is the last one."""
    token = f',"continue":"{end}"' if items and end < count else ""
    head = f'{{"metadata":{{"resourceVersion":"1"{token}}},"items":['.encode()
    return head + b",".join(items) + b"]}"


async def start_recommender(
    server: PlayedServer, clock: RealClock, estimator: Estimator = Estimator.PERCENTILE
) -> tuple[Recommender, asyncio.Task[None]]:
    """A recommender that has seen everything and done nothing, and what keeps its view fresh."""
    scope = Scope(pending_pods=False, limit_ranges=False, memory_evictions=True)
    cluster = LiveCluster(server, scope, clock=clock, random=Random(1))
    settings = RecommenderSettings(recommendations=RecommendationSettings(estimator=estimator))
    recommender = Recommender(cluster, MetricsApi(server), settings=settings, clock=clock)
    feeding = asyncio.create_task(cluster.run())
    await cluster.synced()
    # As every component does when all is listed.
    process.collect_garbage()
    return recommender, feeding


async def live(containers: int, estimator: Estimator = Estimator.PERCENTILE) -> dict[str, float]:
    """A start and some ticks of a recommender with so many containers, in figures."""
    clock = SteppedClock()
    server = PlayedServer(containers // (PODS * len(CONTAINERS)), clock)
    recommender, feeding = await start_recommender(server, clock, estimator)
    listed_at = time.process_time()
    first = await recommender.tick()
    ticked_at = time.process_time()
    spent = []
    for _ in range(TICKS):
        clock.skip()
        begin = time.process_time()
        await recommender.tick()
        spent.append(time.process_time() - begin)
    begin = time.process_time()
    await recommender.save_all()
    saved = time.process_time() - begin
    feeding.cancel()
    return {
        "containers": containers,
        "autoscalers": first.autoscalers,
        "restored_checkpoints": first.restored,
        "cpu_seconds_to_list": round(listed_at, 2),
        "cpu_seconds_of_first_tick": round(ticked_at - listed_at, 2),
        "cpu_seconds_per_tick": round(median(spent), 3),
        "cpu_seconds_to_save_all": round(saved, 2),
        "writes": server.writes,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB,
        "resident_bytes": measuring.read_own().resident_bytes,
    }


def main() -> int:
    """Measure, and write down each size as soon as it is known; 1 if it holds more than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.capacity")
    parser.add_argument("--containers", type=int, help="only so many, in this very process")
    parser.add_argument(
        "--estimator", type=Estimator, default=Estimator.PERCENTILE, help="the one in use there"
    )
    parser.add_argument("--compare", type=int, metavar="CONTAINERS", help="only the estimators")
    given = parser.parse_args()
    if given.compare is not None:
        return compare(given.compare)
    if given.containers is not None:
        return process.run(partial(_report, given.containers, given.estimator))
    runs = []
    for number, size in enumerate(SIZES, start=1):
        say(f"{number} of {len(SIZES)}: {size} containers")
        runs.append(_measure_apart(size))
        write_runs(RESULTS, runs)
        page.write()
    most = max(run["peak_bytes"] for run in runs)
    print(f"{most / 1024**2:.0f} MiB at most, of {LIMIT_BYTES / 1024**2:.0f}")
    return 0 if most <= LIMIT_BYTES else 1


def write_runs(path: Path, runs: Sequence[Json]) -> None:
    """Write down runs in place of those of the same sizes."""
    known = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
    renewed = {run["containers"]: run for run in (*known, *runs)}
    scoring.write_json(path, {"runs": [renewed[size] for size in sorted(renewed)]})


def compare(containers: int) -> int:
    """Measure each estimator apart, and print the figures of `cost` as ratios to the original's."""
    usual, cost = (_measure_apart(containers, each) for each in Estimator)
    for name in (*_COSTS, "peak_bytes"):
        print(f"{name}: {cost[name] / usual[name]:.2f}")
    return int(
        cost["cpu_seconds_per_tick"] > MOST_TICK_RATIO * usual["cpu_seconds_per_tick"]
        or cost["peak_bytes"] > COST_LIMIT_BYTES
    )


async def _report(containers: int, estimator: Estimator, _stop: asyncio.Event) -> None:
    print(json.dumps(await live(containers, estimator)))


def _measure_apart(
    containers: int, estimator: Estimator = Estimator.PERCENTILE
) -> dict[str, float]:
    """The figures of a fresh process, whose memory holds nothing of an earlier run."""
    given = (f"--containers={containers}", f"--estimator={estimator}")
    command = [sys.executable, "-m", "bench.capacity", *given]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    # Behind it stands what a component logs at its end.
    told = answer.splitlines()[0]
    print(told, flush=True)
    found: dict[str, float] = json.loads(told)
    return found


if __name__ == "__main__":
    sys.exit(main())
