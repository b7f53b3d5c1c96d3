"""The page of benchmarks, made of the results that are written down: never typed.

python -m bench.page
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench import scoring, stack_tables, updater_tables
from bench.scoring import Entry, Measure, Side, Table, Unit
from rig.fake_node import Json

PAGE: Final = Path(__file__).parents[1] / "docs/benchmarks.md"
RESULTS: Final = Path(__file__).parent / "results"
RECOMMENDER: Final = Table(
    (
        Measure("settled_cpu", "CPU per tick", Unit.SECONDS),
        Measure("settled_server_cpu", "CPU of the API server and etcd per tick", Unit.SECONDS),
        Measure("settled_writes", "API writes per tick", Unit.COUNT),
        Measure("settled_reads", "API reads per tick", Unit.COUNT),
        Measure("settled_seconds", "A tick lasts", Unit.SECONDS, is_judged=False),
        Measure("resident", "Resident memory", Unit.MEBIBYTES),
        Measure("peak", "The most memory", Unit.MEBIBYTES),
        Measure("young_cpu", "CPU per tick, histories minutes old", Unit.SECONDS),
        Measure("young_writes", "API writes per tick, histories minutes old", Unit.COUNT),
        Measure(
            "first_seconds", "New cluster: all recommended after", Unit.SECONDS, is_judged=False
        ),
        Measure("first_cpu", "New cluster: CPU until then", Unit.SECONDS),
        Measure("restart_seconds", "Restart: first tick done after", Unit.SECONDS, is_judged=False),
        Measure("restart_cpu", "Restart: CPU until then", Unit.SECONDS),
    )
)
GOVERNED: Final = "with an autoscaler"
STRANGE: Final = "others"
STARTED: Final = "process"
"""What the groups of the webhook's entries are: two kinds of pods, and the process as such."""
ADMISSION: Final = Table(
    (
        Measure("cpu", "CPU per 1 000 requests", Unit.SECONDS),
        Measure("seconds", "1 000 requests take", Unit.SECONDS, is_judged=False),
        Measure("p50", "Half are answered within", Unit.MILLISECONDS, is_judged=False),
        Measure("p99", "99 % are answered within", Unit.MILLISECONDS, is_judged=False),
    ),
    "Pods",
    (GOVERNED, STRANGE),
)
STARTING: Final = Table(
    (
        Measure("seconds", "Start: first patch after", Unit.SECONDS, is_judged=False),
        Measure("cpu", "Start: CPU until then", Unit.SECONDS),
        Measure("resident", "Resident memory", Unit.MEBIBYTES),
        Measure("peak", "The most memory", Unit.MEBIBYTES),
    ),
    "Of the",
    (STARTED,),
)
_GROWTH: Final = ("settled_cpu", "settled_writes", "resident", "restart_cpu")
_HEAD: Final = """\
# Benchmarks

Trimtab and the original, version 1.8.1, side by side. `make bench` measures both in one run, in
turns, and writes this page from the files in `bench/results`; `make bench BENCH=--short` tries all
of it in minutes, and `make bench BENCH='--parts updater --sizes 100 --rounds 5'` renews a part. A
ratio says **how many times more the original needs**; it is taken within a round, and told as the
median of the rounds with the least and the most. CPU seconds, requests and bytes mean something on
any machine; the time that passes depends on what else the machine does, and is not judged.
"""
_RECOMMENDER: Final = """
## The recommender

Both as processes on one real API server, with the same objects: autoscalers with two pods of two
containers each. No controller and no kubelet runs, the pods are written as running, and usage comes
from a small metrics API behind the API server, so that nothing but the two sides and the server
uses the cores. Ticks come every 5 to 30 seconds instead of every minute; ours saves everything once
in ten ticks, as it does by default, and all ten are measured. Limits are how many requests a second
a side allows itself: *default* is 50 for both, *lifted* is as many as it likes. The original waits
for a whole interval before its first tick; that wait is taken off its times. Histories are eight
days old where nothing else is said.

"""
_GROWTH_HEAD: Final = """
How costs grow with the number of autoscalers, as an exponent (1 is linear, 2 is quadratic), limits
lifted:

| | Trimtab | original |
|---|--:|--:|
"""
_ADMISSION: Final = """
## The webhook

Both as processes on one real API server, with the same objects, certificates and default flags.
Reviews of new pods come over TLS on eight connections that stay open, by HTTP/1.1 as API servers
speak it to webhooks, as fast as they are answered; the program that sends them uses the same cores.
Pods *with an autoscaler* get a patch for two containers; *others* belong to a Deployment, too, but
no autoscaler is for it. Pods of at most a hundred Deployments come in turn, again and again, as
they do when Deployments grow. Times are those of a busy machine.

"""
_ADMISSION_GROWTH: Final = """
What grows with the number of autoscalers, from {least} to {most}:

| | Trimtab | original |
|---|--:|--:|
"""
_BOUNDS: Final = """
What bounds them, by profiles (cProfile, 3 000 autoscalers):

- *A tick in the long run.* A third goes into checkpoints (a tenth of them each time: drafting,
  one request each, and the watch event that comes back), somewhat less into decoding usage, a
  quarter into statuses, the rest into autoscalers and pods. All of it is linear. The original
  walks all pods for each autoscaler when it writes checkpoints.
- *A tick of young histories.* Bounds halve with the second sample, so every status is written, as
  the original does in every tick. What is left is the price of a request in Python.
- *Memory and CPU of small clusters.* Before its first line of work our process has spent half a
  second of CPU on imports and holds 52 MiB, 16 of them for numpy, as many for the interpreter with
  TLS, the rest for our own records and how they are told. A quarter of the time goes into making
  the classes of those records. At 100 autoscalers the original needs less of both.
- *New clusters.* The same imports come first; then the API server takes the statuses, ten at
  a time, as fast as it can on the cores that both share. The figures leave out that the original
  waits for a minute by default before it begins.
"""
_ADMISSION_BOUNDS: Final = """
What bounds them, by profiles (cProfile, 100 autoscalers, pods with an autoscaler):

- *CPU per request.* Of a pod without an autoscaler a third is the review itself, of one with an
  autoscaler half: reading the review and the pod, finding owners and autoscaler. A pod is read no
  further than it takes to see that the last one of its autoscaler got the same; the patch is
  encoded already then. The rest is TLS, HTTP and the event loop.
- *Start and memory of small clusters.* Imports come first: 0.4 s of CPU and 39 MiB before the
  first object is listed.
"""
_CAPACITY: Final = """
## One recommender for many containers

A recommender whose API server is played within its own process: lists are answered by pages made on
the spot, writes are taken. All else is the product. It starts with full checkpoints; the original
has no part in this.

| Containers | Autoscalers | The most memory | CPU: until all is listed | first tick | each tick |
|--:|--:|--:|--:|--:|--:|
"""
_STORE: Final = """
## Stored pods

A pod of {wire_bytes_per_pod} bytes on the wire takes {stored_bytes_per_pod} bytes in a store;
{pods} of them are listed in {cpu_seconds_to_fill} s of CPU.
"""
_CORE: Final = """
## One tick of the histograms

CPU time of one sample and three percentiles for every container, in one process beside the
original's own histograms, medians of {rounds} rounds in turn. Every percentile and the weight of
every bucket is equal, bit for bit; see [the whole table](../bench/results/core.md).

| Histograms | Trimtab | original | ratio | Bytes each, ratio |
|---|--:|--:|--:|--:|
"""


def format_page(results: Path = RESULTS) -> str:
    """The page that the results in a folder make."""
    parts = [_HEAD, *_tell_of_recommender(scoring.read_entries(results / "recommender.json"))]
    if updater := scoring.read_entries(results / "updater.json"):
        parts += updater_tables.tell(updater, _read(results / "planning.json"))
    if admission := scoring.read_entries(results / "admission.json"):
        parts += [_ADMISSION, format_admission(admission), _ADMISSION_BOUNDS]
    if stack := scoring.read_entries(results / "stack.json"):
        parts += stack_tables.tell(stack)
    if (results / "capacity.json").exists():
        parts += [_CAPACITY, *map(_format_capacity, _read(results / "capacity.json")["runs"])]
    core = _read(results / "core.json")
    parts += [_CORE.format(rounds=core["rounds"]), *map(_format_core, core["comparisons"])]
    parts.append(_STORE.format(**_read(results / "store.json")))
    return "".join(parts)


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(format_page(), encoding="utf-8")


def _read(path: Path) -> Json:
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


def _tell_of_recommender(entries: Sequence[Entry]) -> Iterator[str]:
    if not entries:
        return
    yield _RECOMMENDER
    cases = scoring.list_cases(entries)
    yield RECOMMENDER.format(entries)
    rounds = {size: max(one.round for one in entries if one.size == size) for _, size in cases}
    told = ", ".join(f"{count} of {size}" for size, count in rounds.items())
    yield f"\nRounds recorded: {told}.\n"
    sizes = {entry.size for entry in entries if entry.group == "lifted"}
    if len(sizes) > 1:
        yield _GROWTH_HEAD
        for measure in RECOMMENDER.measures:
            if measure.name in _GROWTH:
                slopes = [scoring.growth(entries, "lifted", side, measure.name) for side in Side]
                yield f"| {measure.title} | {slopes[0]:.2f} | {slopes[1]:.2f} |\n"
    yield _BOUNDS


def format_admission(entries: Sequence[Entry]) -> str:
    """What was measured of the webhooks, as Markdown tables."""
    tables = "\n".join(table.format(entries) for table in (ADMISSION, STARTING))
    return "".join((tables, *_tell_of_admission_growth(entries)))


def _tell_of_admission_growth(entries: Sequence[Entry]) -> Iterator[str]:
    sizes = {entry.size for entry in entries}
    least, most = min(sizes), max(sizes)
    if least == most:
        return
    yield _ADMISSION_GROWTH.format(least=least, most=most)
    for group in (GOVERNED, STRANGE):
        slopes = [scoring.growth(entries, group, side, "cpu") for side in Side]
        title = f"CPU per request, pods {group}, exponent"
        yield f"| {title} | {slopes[0]:.2f} | {slopes[1]:.2f} |\n"
    ends = [scoring.score(entries, (STARTED, size), "resident") for size in (least, most)]
    added = (ends[1].ours - ends[0].ours, ends[1].original - ends[0].original)
    told = [f"{one / (most - least) / 1024:.1f} KiB" for one in added]
    yield f"| Resident memory per autoscaler | {told[0]} | {told[1]} |\n"


def _format_capacity(run: Json) -> str:
    count = f"{run['containers']:,}".replace(",", " ")
    return (
        f"| {count} | {run['autoscalers']:.0f} | {Unit.MEBIBYTES.tell(run['peak_bytes'])} "
        f"| {run['cpu_seconds_to_list']:.1f} s | {run['cpu_seconds_of_first_tick']:.1f} s "
        f"| {run['cpu_seconds_per_tick']:.2f} s |\n"
    )


def _format_core(found: Json) -> str:
    workload = found["workload"]
    count = f"{workload['containers']:,}".replace(",", " ")
    sides = " | ".join(f"{found[side]['total_ms']:.2f} ms" for side in ("ours", "original"))
    return (
        f"| {count} {workload['name']} | {sides} | **{found['cpu_ratio']:.1f}** "
        f"| {found['memory_ratio']:.1f} |\n"
    )


if __name__ == "__main__":
    write()
