"""Recorded answers of the original: drawn and written anew, or the present ones computed again."""

import argparse
import json
import sys
from pathlib import Path

from oracle import original
from oracle.draw import DRAWS, draw
from rig.building import BuildError


def main() -> int:
    """Write golden files as the command line asks; 2 when the original cannot be had."""
    arguments = _parser().parse_args()
    try:
        if arguments.rewrite:
            _rewrite(arguments.rewrite)
        else:
            _write(arguments.out, arguments.set or sorted(DRAWS), arguments.count, arguments.seed)
    except (original.OriginalError, BuildError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m oracle", description=__doc__)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=Path, help="draw cases and write them into this directory")
    target.add_argument("--rewrite", type=Path, help="answer the files of this directory again")
    parser.add_argument("--count", type=int, default=200, help="cases to draw for each set")
    parser.add_argument("--seed", type=int, default=1, help="which cases to draw")
    parser.add_argument("--set", action="append", choices=sorted(DRAWS), help="only this set")
    return parser


def _write(directory: Path, sets: list[str], count: int, seed: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    questions = ((name, draw(name, count=count, seed=seed)) for name in sets)
    for name, text in original.answer(questions):
        (directory / f"{name}.json").write_text(text, encoding="utf-8")
        sys.stderr.write(f"{name}: {len(json.loads(text)['cases'])} cases\n")


def _rewrite(directory: Path) -> None:
    files = sorted(directory.glob("*.json"))
    questions = [(path.name, path.read_text(encoding="utf-8")) for path in files]
    recorded = dict(questions)
    for name, text in original.answer(questions):
        (directory / name).write_text(text, encoding="utf-8")
        sys.stderr.write(f"{name}: {'as recorded' if text == recorded[name] else 'CHANGED'}\n")


if __name__ == "__main__":
    sys.exit(main())
