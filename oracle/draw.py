"""Random but realistic questions for the original, in the format of the golden files.

A case depends only on its set, the seed and its number, so that a failing one can be drawn alone.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Final

from oracle.draws import autoscalers, disruption, labels, pods, quantities, usage
from oracle.draws.dice import Dice, Json

DRAWS: Final[dict[str, Callable[[Dice], Json]]] = {
    "admission": pods.an_admission,
    "capping": pods.a_capping,
    "eviction_limits": disruption.some_evictions,
    "histogram": usage.a_histogram,
    "priority": disruption.some_priorities,
    "quantity": quantities.a_text,
    "recommendation": usage.a_recommendation,
    "selectors": labels.a_selection,
    "vpa_validation": autoscalers.a_review,
}


def draw(set_name: str, *, count: int, seed: int) -> str:
    """The text of a golden file without answers."""
    cases = [
        {
            "name": f"seed {seed}, case {number}",
            "input": DRAWS[set_name](Dice(set_name, seed, number)),
        }
        for number in range(count)
    ]
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
    return f'{{"set":"{set_name}",\n"cases":[\n' + ",\n".join(lines) + "\n]}\n"


def main() -> None:
    """Print drawn questions."""
    parser = argparse.ArgumentParser(prog="python -m oracle.draw", description=__doc__)
    parser.add_argument("set", choices=sorted(DRAWS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.stdout.write(draw(arguments.set, count=arguments.count, seed=arguments.seed))


if __name__ == "__main__":
    main()
