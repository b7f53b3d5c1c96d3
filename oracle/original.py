"""The original as a program: built once into a cache outside the tree, then asked file by file."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rig import building

RECIPE: Final = building.Recipe("oracle", Path(__file__).parent)
MODULE: Final = "k8s.io/autoscaler/vertical-pod-autoscaler"


class OriginalError(RuntimeError):
    """The original refused a whole file."""


def answer(questions: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """The text of each named golden file with every `expected` computed by the original."""
    program = building.build(RECIPE)
    crds = building.module_directory(RECIPE, MODULE) / "deploy/vpa-v1-crd-gen.yaml"
    for name, text in questions:
        run = subprocess.run(
            [program, "-crd", crds],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise OriginalError(f"the original refused {name}: {run.stderr}")
        _say(_dropped(name, run.stderr.splitlines()))
        yield name, run.stdout


def _dropped(name: str, lines: list[str]) -> str:
    causes = Counter(line.partition('": ')[2] for line in lines)
    return "".join(f"{name}: {count} dropped: {cause}\n" for cause, count in causes.most_common(5))


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
