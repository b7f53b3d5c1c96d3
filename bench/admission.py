"""The webhook beside the original's, as processes on one real API server, taking turns.

    python -m bench.admission --sizes 1 1000 --rounds 3

In each round, for each size, each side is started, and asked about pods that an autoscaler is for
and about others: by a small Go program, over TLS, on eight connections that stay open, as fast as
it answers. HTTP/1.1 is spoken, as API servers speak it to webhooks.

Writes `results/admission.json` and the page of benchmarks; fails if a ratio got clearly worse.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Final

from bench import contests, fleet, page, webhooks
from bench.contests import Contest
from bench.page import GOVERNED, STARTED, STRANGE
from bench.reviews import TargetFleet
from bench.scoring import Entry, Side
from bench.telling import say
from bench.webhooks import LoadError, Webhook
from rig.controlplane import ControlPlane

REQUESTS: Final = 4000
"""Of each kind of pod."""
WARM_UP: Final = 500
CONTEST: Final = Contest(
    "admission",
    sizes=(1, 100, 1000, 10_000),
    rounds=3,
    short_size=1,
    programs=("original-admission",),
    tables=(page.ADMISSION, page.STARTING),
    recipes=(webhooks.LOAD,),
)


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
    """What is measured, in its order."""
    for size in sorted(sizes):
        for number, side in contests.take_turns(rounds):
            yield Case(size, number, side)


async def measure_all(plane: ControlPlane, given: argparse.Namespace) -> list[Entry]:
    """Everything that is asked for, on one control plane whose fleet grows."""
    found: list[Entry] = []
    bench = Bench(plane, WARM_UP if given.short else REQUESTS)
    async with fleet.manned(plane, TargetFleet) as targets:
        await targets.settle_strangers()
        _write(bench.strange, await targets.list_strange_reviews())
        for case in plan(given.sizes, given.rounds):
            if targets.size < case.size:
                await targets.grow(case.size)
                _write(bench.governed, await targets.list_reviews())
            found += map(contests.note, bench.measure(case))
    return found


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    return CONTEST.hold(CONTEST.parser().parse_args(arguments), measure_all)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
