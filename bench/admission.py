"""The webhook beside the original's, as processes on one real API server, taking turns.

    python -m bench.admission --sizes 1 1000 --rounds 3

In each round, for each size, each side is started, and asked about pods that an autoscaler is for
and about others, and from 1000 on about pods of all autoscalers in random order: by a small Go
program, over TLS, on eight connections that stay open, as fast as it answers. HTTP/1.1 is spoken,
as API servers speak it to webhooks.

Writes `results/admission.json` and the page of benchmarks; fails if a ratio got clearly worse.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import time
from typing import Final

from bench import admission_tables, contests, fleet, webhooks
from bench.admission_tables import COLD, FULL, GOVERNED, STARTED, STRANGE, WARM, WORST
from bench.contests import Contest, Course, Turn
from bench.reviews import VARIANTS_PER_TARGET, TargetFleet
from bench.scoring import Entry
from bench.webhooks import LoadError, Webhook
from rig.controlplane import ControlPlane

REQUESTS: Final = 4000
"""Of each kind of pod."""
WARM_UP: Final = 500
WORST_REQUESTS: Final = 200
"""Of the largest pods."""
SCATTERED_FROM: Final = 1000
"""Number of autoscalers from which on pods of all of them are asked about in random order."""
CONTEST: Final = Contest(
    admission_tables.SECTION,
    sizes=(1, 100, 1000, 10_000),
    rounds=3,
    short_size=1,
    programs=("original-admission",),
    recipes=(webhooks.LOAD,),
)


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

    @property
    def worst(self) -> Path:
        """The file of reviews of the largest pods."""
        return self.plane.directory / "worst.jsonl"

    @property
    def scattered(self) -> Path:
        """The file of reviews of pods of all autoscalers, in random order, each once."""
        return self.plane.directory / "scattered.jsonl"

    @property
    def again(self) -> Path:
        """The file of some of the same reviews, in another random order."""
        return self.plane.directory / "again.jsonl"

    def measure(self, turn: Turn) -> Iterator[Entry]:
        """One side in one round: of each kind of pods, and of the process."""
        with webhooks.admitting(turn.side, self.plane) as webhook:
            webhook.wait_until_patching(self.governed)
            start = {"seconds": time() - webhook.started, "cpu": webhook.vitals().cpu_seconds}
            webhook.load(self.strange, WARM_UP)
            # Before the first patches, like a webhook that has little to do.
            start["resident"] = webhook.vitals().resident_bytes
            yield turn.entry(self._load(webhook, self.strange, is_patched=False), STRANGE)
            webhook.load(self.governed, WARM_UP)
            yield turn.entry(self._load(webhook, self.governed, is_patched=True), GOVERNED)
            yield turn.entry({**start, "peak": webhook.vitals().peak_bytes}, STARTED)
            if turn.size >= SCATTERED_FROM:
                yield from self._measure_scattered(webhook, turn)
            # Last, so that the most memory is that of usual pods.
            worst = self._load(webhook, self.worst, is_patched=True, requests=WORST_REQUESTS)
            yield turn.entry(worst, WORST)

    def _measure_scattered(self, webhook: Webhook, turn: Turn) -> Iterator[Entry]:
        """Pods of all autoscalers: none came before in these sizes, and then each once."""
        yield turn.entry(self._load(webhook, self.scattered, is_patched=True), COLD)
        webhook.load(self.scattered, turn.size * VARIANTS_PER_TARGET)
        yield turn.entry(self._load(webhook, self.again, is_patched=True), WARM)
        yield turn.entry({"peak": webhook.vitals().peak_bytes}, FULL)

    def _load(
        self, webhook: Webhook, reviews: Path, *, is_patched: bool, requests: int | None = None
    ) -> dict[str, float]:
        before = webhook.vitals().cpu_seconds
        answers = webhook.load(reviews, requests or self.requests)
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


def plan(sizes: Sequence[int], rounds: int) -> Iterator[Turn]:
    """What is measured, in its order: processes, each of which is asked about all kinds of pods."""
    for size in sorted(sizes):
        for number, side in contests.take_turns(rounds):
            yield Turn(STARTED, size, number, side)


async def measure_all(requests: int, plane: ControlPlane, course: Course) -> None:
    """Every turn of a course, on one control plane whose fleet grows."""
    bench = Bench(plane, requests)
    async with fleet.manned(plane, TargetFleet) as targets:
        await targets.settle_strangers()
        _write(bench.strange, await targets.list_strange_reviews())
        await targets.settle_largest()
        _write(bench.worst, await targets.list_worst_reviews())
        for turn in course:
            if targets.size < turn.size:
                await targets.grow(turn.size)
                _write(bench.governed, await targets.list_reviews())
                if targets.size >= SCATTERED_FROM:
                    _write(bench.scattered, await targets.scatter_reviews())
                    _write(bench.again, _draw(bench.scattered, REQUESTS))
            course.note(turn, *bench.measure(turn))
            # Nothing else is waited for here, and an interrupt is noticed only by who waits.
            await asyncio.sleep(0)


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _draw(path: Path, count: int) -> list[str]:
    """Lines of a file, drawn at random; some come twice."""
    return Random(count).choices(path.read_text(encoding="utf-8").splitlines(), k=count)


def main(arguments: Sequence[str]) -> int:
    """The exit code, after everything was measured, printed and recorded."""
    given = CONTEST.parse(CONTEST.parser(), arguments)
    requests = WARM_UP if given.short else REQUESTS
    return CONTEST.hold(given, plan(given.sizes, given.rounds), partial(measure_all, requests))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
