"""The webhook beside the original's, as processes on one real API server, taking turns.

    python -m bench.admission --sizes 1 1000 --rounds 3

In each round, for each size, each side is started, and asked about pods that an autoscaler is for
and about others: by a small Go program, over TLS, on eight connections that stay open, as fast as
it answers. HTTP/1.1 is spoken, as API servers speak it to webhooks.

Writes `results/admission.json` and the page of benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time
from typing import Final

from bench import fleet, page, scoring, webhooks
from bench.page import GOVERNED, STARTED, STRANGE
from bench.reviews import TargetFleet
from bench.scoring import Entry, Side
from bench.webhooks import LoadError, Webhook
from rig import building, controlplane, programs
from rig.controlplane import ControlPlane

RESULTS: Final = Path(__file__).parent / "results/admission.json"
SIZES: Final = (1, 100, 1000, 10_000)
REQUESTS: Final = 4000
"""Of each kind of pod."""
WARM_UP: Final = 500


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured at a time."""

    size: int
    round: int
    side: Side

    def entry(self, group: str, values: dict[str, float]) -> Entry:
        """What was measured under some conditions."""
        return Entry(group, self.size, self.round, self.side, values)


@dataclass(frozen=True, slots=True)
class Bench:
    """What is needed for a measurement."""

    plane: ControlPlane
    requests: int

    @property
    def governed(self) -> Path:
        """The file of reviews of pods that an autoscaler is for."""
        return self.plane.directory / "governed.jsonl"

    @property
    def strange(self) -> Path:
        """The file of reviews of other pods."""
        return self.plane.directory / "strange.jsonl"

    def measure(self, case: Case) -> Iterator[Entry]:
        """One side in one round."""
        say(f"{case.size} autoscalers, round {case.round}: {case.side}")
        with webhooks.admitting(case.side, self.plane) as webhook:
            webhook.wait_until_patching(self.governed)
            start = {"seconds": time() - webhook.started, "cpu": webhook.vitals().cpu_seconds}
            webhook.load(self.strange, WARM_UP)
            # Before the first patches, like a webhook that has little to do.
            start["resident"] = webhook.vitals().resident_bytes
            yield case.entry(STRANGE, self._load(webhook, self.strange, is_patched=False))
            webhook.load(self.governed, WARM_UP)
            yield case.entry(GOVERNED, self._load(webhook, self.governed, is_patched=True))
            yield case.entry(STARTED, {**start, "peak": webhook.vitals().peak_bytes})

    def _load(self, webhook: Webhook, reviews: Path, *, is_patched: bool) -> dict[str, float]:
        before = webhook.vitals().cpu_seconds
        answers = webhook.load(reviews, self.requests)
        spent = webhook.vitals().cpu_seconds - before
        if answers.patched != (answers.answered if is_patched else 0):
            raise LoadError(f"{answers}")
        thousands = answers.answered / 1000
        return {
            "cpu": spent / thousands,
            "seconds": answers.seconds / thousands,
            "p50": answers.p50,
            "p99": answers.p99,
        }


def plan(sizes: Sequence[int], rounds: int) -> Iterator[Case]:
    """What is measured, in its order: the sides take turns, and so does who is first."""
    for size in sorted(sizes):
        for number in range(1, rounds + 1):
            sides = list(Side)
            for side in sides if number % 2 else reversed(sides):
                yield Case(size, number, side)


async def measure_all(plane: ControlPlane, cases: Sequence[Case], requests: int) -> list[Entry]:
    """Everything that is planned, on one control plane whose fleet grows."""
    found = []
    bench = Bench(plane, requests)
    async with fleet.manned(plane, TargetFleet) as targets:
        await targets.settle_strangers()
        _write(bench.strange, await targets.list_strange_reviews())
        for case in cases:
            if targets.size < case.size:
                await targets.grow(case.size)
                _write(bench.governed, await targets.list_reviews())
            for entry in bench.measure(case):
                say(json.dumps(asdict(entry)))
                found.append(entry)
    return found


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def say(text: str) -> None:
    """Tell whoever waits."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


def parse_arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.admission")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="autoscalers")
    parser.add_argument("--rounds", type=int, default=3, help="of each side and size")
    parser.add_argument("--short", action="store_true", help="one small round, nothing written")
    parser.add_argument("--accept", action="store_true", help="write down even what got worse")
    return parser.parse_args()


def main() -> int:
    """Measure, print and write everything; 1 if a ratio got worse, 2 if a program is missing."""
    given = parse_arguments()
    try:
        programs.find("original-admission")
        building.build(webhooks.LOAD)
    except building.BuildError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    sizes, rounds = ((1,), 1) if given.short else (given.sizes, given.rounds)
    cases = list(plan(sizes, rounds))
    with controlplane.running() as plane:
        requests = WARM_UP if given.short else REQUESTS
        entries = asyncio.run(measure_all(plane, cases, requests))
    print(page.format_admission(entries))
    recorded = scoring.read_entries(RESULTS)
    regresses = list(page.find_admission_regresses(entries, recorded))
    for regress in regresses:
        print(f"worse: {regress}")
    if not given.short and (given.accept or not regresses):
        facts = scoring.machine_facts()
        scoring.write_entries(RESULTS, scoring.renew(recorded, entries), facts)
        page.write()
    return 1 if regresses else 0


if __name__ == "__main__":
    sys.exit(main())
