"""What a recommender writes in the long run, counted: no figure of it depends on the machine.

    python -m bench.writes

A recommender with full checkpoints whose API server is played within its own process (`capacity`),
and whose clock goes on by a minute from tick to tick, with steady usage and with usage that swings.
Usage never repeats. Counted are the first ten ticks after the one that follows the start, when
memory windows have just begun, and the second hour. The original has no part in this: it writes
every status and every checkpoint in each tick.

Writes `results/writes.json` and the page of benchmarks.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import capacity, page, scoring
from bench.capacity import CHECKPOINTS, PlayedServer, SteppedClock
from bench.telling import say
from bench.workloads import CONTAINERS, Swing
from rig.fake_node import Json
from trimtab.cli.runtime import process

RESULTS: Final = Path(__file__).parent / "results/writes.json"
AUTOSCALERS: Final = 1000
SPANS: Final = {"ticks 1 to 10": range(1, 11), "ticks 61 to 120": range(61, 121)}
STATUS: Final = "status"


async def count(swing: Swing, autoscalers: int, ticks: int) -> list[dict[str, int]]:
    """Return what is written in each tick after the first one, by kind, and the bytes of it."""
    clock = SteppedClock()
    server = PlayedServer(autoscalers, clock, swing, answers=ticks + 1)
    recommender, feeding = await capacity.start_recommender(server, clock)
    await recommender.tick()
    found = []
    for _ in range(ticks):
        clock.skip()
        server.written.clear()
        server.written_bytes.clear()
        await recommender.tick()
        found.append(
            {
                "statuses": server.written[STATUS],
                "checkpoints": server.written[CHECKPOINTS],
                "bytes": server.written_bytes.total(),
            }
        )
    feeding.cancel()
    return found


def summarize(swing: Swing, ticks: list[dict[str, int]]) -> Iterator[Json]:
    """The averages of the spans that are told."""
    for title, numbers in SPANS.items():
        chosen = [ticks[number - 1] for number in numbers]
        sums = {name: sum(tick[name] for tick in chosen) for name in chosen[0]}
        averages = {name: round(total / len(chosen), 1) for name, total in sums.items()}
        yield {"swing": swing.value, "ticks": title, **averages}


async def _measure(_stop: asyncio.Event) -> None:
    most = max(max(numbers) for numbers in SPANS.values())
    runs: list[Json] = []
    for swing in Swing:
        say(f"{most} ticks of {AUTOSCALERS} autoscalers, {swing} usage")
        runs += summarize(swing, await count(swing, AUTOSCALERS, most))
    document = {
        "autoscalers": AUTOSCALERS,
        "of_the_original": AUTOSCALERS * (1 + len(CONTAINERS)),
        "commit": scoring.describe_commit(),
        "runs": runs,
    }
    scoring.write_json(RESULTS, document)
    page.write()


def main() -> int:
    """Count, and write it down."""
    return process.run(_measure)


if __name__ == "__main__":
    sys.exit(main())
