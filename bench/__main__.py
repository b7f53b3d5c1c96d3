"""Everything that is measured, one part after the other, each in a process of its own.

    python -m bench
    python -m bench --parts updater stack --sizes 100
    python -m bench --short

Flags that are not known here go to the contests with the original. A part that got worse, failed or
took too long does not keep the others from being measured; the exit code is then 1.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench.telling import say
from rig.progress import format_span

ALONE: Final = ("store", "core", "planning", "capacity")
"""What is measured without a cluster."""
CONTESTS: Final = ("recommender", "updater", "admission", "stack")
MOST_SECONDS: Final = 2 * 60 * 60
"""No part takes as long as this."""


def main(arguments: Sequence[str]) -> int:
    """Measure all parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parts = (*ALONE, *CONTESTS)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="all by default")
    parser.add_argument("--short", action="store_true", help="small contests, nothing written")
    given, flags = parser.parse_known_args(arguments)
    if given.short:
        # What is measured alone has no short form, and writes its results.
        given.parts, flags = [part for part in given.parts if part in CONTESTS], ["--short", *flags]
    failed = [part for part in given.parts if not _measure(part, flags)]
    if failed:
        say(f"worse than recorded, or failed: {', '.join(failed)}")
    return 1 if failed else 0


def _measure(part: str, flags: Sequence[str]) -> bool:
    say(f"{part} begins")
    began = time.monotonic()
    command = [sys.executable, "-m", f"bench.{part}", *(flags if part in CONTESTS else ())]
    try:
        code = subprocess.run(command, check=False, timeout=MOST_SECONDS).returncode
    except subprocess.TimeoutExpired:
        code = 1
    say(f"{part} took {format_span(time.monotonic() - began)}")
    return code == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
