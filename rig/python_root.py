"""A file system with Debian's Python and what that needs, and nothing else: no shell, no tools.

Packages are unpacked, never installed, so their scripts do not run; what these would have made is
made here. Wheels are fetched by the very interpreter that they are for.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pip

from rig import debian, progress
from rig.oci import Entry

_ROOTS: Final = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
"""The interpreter, its modules, and what wheels with C++ in them take for granted."""
_KINDS: Final = re.compile(r"lib|python3|zlib")
"""Of what these depend on, only Python and libraries: the rest is for the scripts of packages."""
_MERGED: Final = ("bin", "lib", "lib64", "sbin")
_LEFT_OUT: Final = (
    "DEBIAN",
    "etc",
    "sbin",
    "usr/bin/py3*",
    "usr/lib/*/gconv",
    "usr/lib/valgrind",
    "usr/lib/python3.*/ensurepip",
    "usr/lib/python3.*/idlelib",
    "usr/lib/python3.*/lib2to3",
    "usr/lib/python3.*/pydoc_data",
    "usr/sbin",
    "usr/share",
)
_TESTS: Final = ("*/tests", "*/*/tests")


def list_packages() -> list[Path]:
    """The folders of all packages that are needed, fetched if need be, ordered by name."""
    found: dict[str, Path] = {}
    wanted = [*_ROOTS]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = debian.unpack(name)
            wanted += filter(_KINDS.match, debian.list_needs(name))
    return [found[name] for name in sorted(found)]


def assemble(root: Path, packages: list[Path]) -> None:
    """Put packages together in a folder, with one `/usr` for all."""
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        shutil.copytree(package, root, symlinks=True, dirs_exist_ok=True)
    _remove(root, _LEFT_OUT)
    for name, mode in {"etc": 0o755, "tmp": 0o1777}.items():
        (root / name).mkdir()
        (root / name).chmod(mode)


def fetch_wheels(root: Path, pinned: Path, packages: Path) -> None:
    """Put the wheels that a file pins by their hashes into a folder, for the Python of a root."""
    wheels_only = ["--only-binary=:all:", "--no-deps", "--require-hashes"]
    where = ["--requirement", str(pinned), "--target", str(packages)]
    quietly = ["--disable-pip-version-check", "--no-compile", "--no-warn-script-location"]
    run(root, [str(Path(pip.__file__).parent), "install", *quietly, *wheels_only, *where])
    _remove(packages, (*_TESTS, "bin"))


def compile_modules(root: Path, top: Path) -> None:
    """Compile all modules below a folder that becomes `/`, with the Python of a root.

    A file system that is read-only could not keep them later.
    """
    # By their hashes, which nobody compares, since times are not kept in layers.
    flags = ["-q", "--invalidation-mode=unchecked-hash", "-s", str(top), "-p", "/"]
    run(root, ["-m", "compileall", *flags, str(top / "usr/lib")])


def run(root: Path, arguments: list[str]) -> None:
    """Run the Python of a root on this machine, with the libraries of the root."""
    (loader,) = root.glob("usr/lib/*/ld-linux-*.so.*")
    python = [str(loader), "--library-path", str(loader.parent), str(find_python(root))]
    # Without a seed the order in sets, and so the compiled modules, would be chance.
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0"}
    progress.run(
        [*python, *arguments],
        "image",
        directory=root,
        logs=root.parent,
        environment=environment,
    )


def find_python(root: Path) -> Path:
    """The interpreter of a root, by its full name."""
    (python,) = root.glob("usr/bin/python3.*")
    return python


def list_entries(root: Path) -> Iterator[Entry]:
    """All that is in a folder, as a layer has it."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder) / name for name in (*folders, *files)):
            name = str(path.relative_to(root))
            if path.is_symlink():
                yield Entry(name, link=str(path.readlink()))
            elif path.is_dir():
                yield Entry(name, mode=path.stat().st_mode & 0o7777)
            else:
                yield Entry(name, path, mode=0o755 if path.stat().st_mode & 0o100 else 0o644)


def _remove(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
