"""Go programs, built once from pinned modules and kept outside the work tree.

A program is kept by its name, its version and a digest of all that went into it, so nothing is
built twice and nothing stale is used. A build says how far it is.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig import progress, toolchain

_FETCHING: Final = "go: downloading "


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

    @property
    def title(self) -> str:
        """The name and the version, as far as there is one."""
        return f"{self.name} {self.version}".strip()


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
    progress.say(f"{recipe.title}: building into {kept.parent} (some minutes the first time)")
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its place and moved there whole, so that two builds at once do no harm.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".building-") as folder:
        unfinished = Path(folder) / recipe.name
        _compile(recipe, unfinished)
        unfinished.replace(kept)


def _compile(recipe: Recipe, target: Path) -> None:
    flags = ["-v", "-trimpath", "-ldflags", recipe.linker_flags, "-o", str(target)]
    try:
        progress.run(
            [_find_go(), "build", *flags, recipe.package],
            recipe.title,
            directory=recipe.directory,
            logs=target.parent,
            environment={"CGO_ENABLED": "0"},
            describe=_describe,
        )
    except progress.ProgressError as error:
        raise BuildError(f"{recipe.name} could not be built:\n{error}") from error


def _describe(lines: Sequence[str]) -> str:
    """What Go is at, by what it has said so far."""
    fetched = [line for line in lines if line.startswith(_FETCHING)]
    compiled = len(lines) - len(fetched)
    if compiled:
        return f"{compiled} packages compiled, the last was {lines[-1]}"
    return f"{len(fetched)} modules fetched"


def _find_go() -> str:
    try:
        return str(toolchain.find(cache_directory()))
    except toolchain.ToolchainError as error:
        raise BuildError(str(error)) from error
