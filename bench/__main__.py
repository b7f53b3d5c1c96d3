"""Everything that is measured, one part after the other, each in a process of its own.

    python -m bench
    python -m bench --parts updater stack --sizes 100
    python -m bench --short
    python -m bench --in-short

Flags that are not known here go to the contests with the original. A part that got worse, failed or
took too long does not keep the others from being measured; the exit code is then 1. Ctrl-C ends all
of it in order; what was complete until then is written down, and the exit code is 130.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from bench import interrupts, summary
from bench.telling import say
from bench.updater_tables import Task
from rig.progress import format_span

ALONE: Final = {"store": 1, "core": 2, "planning": 2, "writes": 1, "capacity": 3}
"""What is measured without a cluster, and how many minutes that takes on two quiet cores."""
CONTESTS: Final = {"recommender": 62, "updater": 34, "admission": 8, "stack": 46}
"""What is measured on one, beside the original."""
_ONE_ROUND: Final = ("--sizes", str(summary.SIZE), "--rounds", "1")
IN_SHORT: Final = {
    "admission": _ONE_ROUND,
    "recommender": _ONE_ROUND,
    "updater": (*_ONE_ROUND, "--tasks", Task.ALL, Task.ALL_CONTROLLED),
}
"""The flags by which the first table of the page is measured, but for the whole stack at rest."""
IN_SHORT_MINUTES: Final = {"admission": 2, "recommender": 10, "updater": 7}
JUDGED: Final = frozenset(("core", *CONTESTS))
"""What knows the flag by which a regress is accepted."""
MOST_SECONDS: Final = 2 * 60 * 60
"""No part takes as long as this."""


def make_parser() -> argparse.ArgumentParser:
    """The flags of the whole."""
    minutes = {**ALONE, **CONTESTS}
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=(
            "Measure Trimtab beside the original, in turns. All of it takes about "
            f"{sum(minutes.values())} minutes on two quiet cores, and longer where they are busy; "
            "what has to be built is built once before that. Minutes of the parts: "
            f"{', '.join(f'{part} {count}' for part, count in minutes.items())}."
        ),
        epilog="Other flags go to the contests: --sizes, --rounds, and their own.",
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=minutes, default=list(minutes), help="all by default")
    add("--short", action="store_true", help="small contests, in minutes, nothing written")
    add(
        "--in-short",
        action="store_true",
        help="one round of the first table of the page, without the stack at rest: "
        f"{sum(IN_SHORT_MINUTES.values())} minutes",
    )
    add("--accept", action="store_true", help="write down even what got worse")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Measure all parts that are asked for."""
    given, flags = make_parser().parse_known_args(arguments)
    minutes = {} if flags else {**ALONE, **CONTESTS}
    if given.in_short:
        given.parts = [part for part in IN_SHORT if part in given.parts]
        minutes = IN_SHORT_MINUTES
    if given.short:
        # What is measured alone has no short form, and writes its results.
        given.parts, flags = [part for part in given.parts if part in CONTESTS], ["--short", *flags]
    own = IN_SHORT if given.in_short else {}
    commands = {
        part: _command(part, (*own.get(part, ()), *flags), accepts=given.accept)
        for part in given.parts
    }
    with interrupts.raised():
        try:
            failed = run_all(commands, minutes)
        except KeyboardInterrupt:
            say("interrupted: what was complete is written down")
            return interrupts.EXIT_CODE
    if failed:
        say(f"worse than recorded, or failed: {', '.join(failed)}")
    return 1 if failed else 0


def run_all(commands: Mapping[str, Sequence[str]], minutes: Mapping[str, int]) -> list[str]:
    """Run the commands of parts, which may take so many minutes each; those that failed."""
    failed, began = [], time.monotonic()
    for number, part in enumerate(commands):
        passed = format_span(time.monotonic() - began)
        left = sum(minutes.get(each, 0) for each in list(commands)[number:])
        to_go = f", about {left} min to go" if left else ""
        say(f"part {number + 1} of {len(commands)}: {part}; {passed} so far{to_go}")
        if not _run(commands[part]):
            failed.append(part)
    return failed


def _command(part: str, flags: Sequence[str], *, accepts: bool) -> list[str]:
    accepting = ["--accept"] if accepts and part in JUDGED else []
    given = flags if part in CONTESTS else ()
    return [sys.executable, "-m", f"bench.{part}", *given, *accepting]


def _run(command: Sequence[str]) -> bool:
    try:
        code = interrupts.run_apart(command, MOST_SECONDS)
    except subprocess.TimeoutExpired:
        say(f"ended after {format_span(MOST_SECONDS)}")
        return False
    return code == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
