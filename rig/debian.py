"""Programs of Debian packages, used without installing anything.

A package is fetched with apt and unpacked into the cache, once, by its name and version. Programs
that are installed come first. Shared libraries that a package needs are left to the machine: one
that has apt has those of our packages.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from rig import building, progress

_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/sbin", "bin", "sbin")
# Else apt under root hands downloads to a user that may not write into our folder.
_AS_OURSELVES: Final = "-oAPT::Sandbox::User=root"


class PackageError(RuntimeError):
    """A package that cannot be fetched, or that does not hold what is looked for."""


def find(program: str, package: str) -> Path:
    """The path of a program: an installed one, else the one in the package, fetched if need be."""
    installed = find_installed(program)
    if installed:
        return installed
    unpacked = unpack(package)
    found = shutil.which(program, path=_join(unpacked))
    if not found:
        raise PackageError(f"the package {package} holds no program {program}: see {unpacked}")
    return Path(found)


def find_installed(program: str) -> Path | None:
    """The path of a program on PATH or in a system folder that PATH may lack."""
    found = shutil.which(program) or shutil.which(program, path=_join(Path("/")))
    return Path(found) if found else None


def unpack(package: str) -> Path:
    """The folder of a package's files, fetched if it never was; a kept one is not renewed."""
    kept = sorted(_cache().glob(f"{package}_*"))
    return kept[-1] if kept else _fetch(package)


def list_needs(package: str) -> list[str]:
    """The packages that a package depends on; of alternatives the first, whatever the version."""
    control = (unpack(package) / "DEBIAN/control").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:Pre-)?Depends: (.*)$", control, re.MULTILINE)
    wishes = [wish for line in lines for wish in line.split(",")]
    return [re.split(r"[\s(:|]", wish.strip(), maxsplit=1)[0] for wish in wishes]


def why_not() -> str | None:
    """Why packages cannot be had here, if so."""
    missing = [name for name in ("apt-get", "dpkg-deb") if not shutil.which(name)]
    return f"no {missing[0]} to fetch packages of Debian with" if missing else None


def _fetch(package: str) -> Path:
    reason = why_not()
    if reason:
        raise PackageError(f"{package} is not at hand: {reason}")
    progress.say(f"{package}: fetching the package of Debian")
    _cache().mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and moved there whole, so that two at once do no harm.
    with tempfile.TemporaryDirectory(dir=_cache(), prefix=".fetching-") as name:
        folder = Path(name)
        archive = _download(package, folder)
        unpacked = folder / archive.stem
        _run(["dpkg-deb", "--raw-extract", str(archive), str(unpacked)], folder)
        kept = _cache() / archive.stem
        if not kept.exists():
            unpacked.rename(kept)
    return kept


def _download(package: str, folder: Path) -> Path:
    try:
        _run(["apt-get", _AS_OURSELVES, "download", package], folder)
    except PackageError:
        # The machine's lists of packages are missing or old. New ones of our own leave them alone,
        # and nobody has to be root for that.
        own = _own_lists(folder)
        _run(["apt-get", *own, "update"], folder)
        _run(["apt-get", *own, "download", package], folder)
    (archive,) = folder.glob(f"{package}_*.deb")
    return archive


def _own_lists(folder: Path) -> list[str]:
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    settings = {"Dir::State::Lists": "lists", "Dir::Cache": "cache"}
    return [_AS_OURSELVES, *(f"-o{key}={folder / value}" for key, value in settings.items())]


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def _cache() -> Path:
    return building.cache_directory() / "debian"


def _join(root: Path) -> str:
    return os.pathsep.join(str(root / folder) for folder in _PROGRAM_FOLDERS)
