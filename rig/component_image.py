"""The image of our components, made without a container engine and without a registry.

It holds what the one of the Containerfile does: Debian's Python, the runtime dependencies that
requirements.txt pins, and our own wheel; no shell, and a user that is not root. Python and the
dependencies are kept in the cache, by a digest of all that went into them; the sources are packed
anew each time.
"""

import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import trimtab
from rig import building, oci, progress, python_root
from rig.fake_node import Json
from rig.oci import Entry

NAME: Final = f"docker.io/trimtab/trimtab:{trimtab.__version__}"
"""What the chart asks for."""
SOURCES: Final = Path(__file__).parent.parent
PINNED: Final = SOURCES / "requirements.txt"
USER: Final = 65534
"""Nobody, as the chart and the Containerfile say too."""

_PACKAGES: Final = "usr/lib/python3/dist-packages"
_STARTER: Final = b"""\
#!/usr/bin/python3
import sys

from trimtab.cli.main import main

sys.exit(main())
"""
_FILES: Final = (
    Entry("etc/group", f"root:x:0:\nnogroup:x:{USER}:\n".encode(), mode=0o644),
    Entry(
        "etc/passwd",
        f"root:x:0:0:root:/:/none\nnobody:x:{USER}:{USER}:nobody:/tmp:/none\n".encode(),
        mode=0o644,
    ),
    Entry("usr/bin/trimtab", _STARTER),
)
SETTINGS: Final[Json] = {
    "Entrypoint": ["/usr/bin/trimtab"],
    "Env": ["PATH=/usr/bin", "LANG=C.UTF-8", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
    "User": f"{USER}:{USER}",
    "WorkingDir": "/",
}


def build(archive: Path, sources: Path = SOURCES) -> None:
    """Write the archive of the image, of the sources as they are now."""
    root = find_root()
    with tempfile.TemporaryDirectory(dir=archive.parent.resolve(), prefix=".packing-") as name:
        folder = Path(name)
        _unpack_wheel(root, folder, sources)
        layer = folder / "layer.tar"
        entries = [*python_root.list_entries(root), *python_root.list_entries(folder / "root")]
        oci.write_layer(layer, _newest([*entries, *_FILES]))
        # Written beside its place and moved there whole: nobody imports half of it.
        oci.write_image(folder / "image.tar", NAME, [layer], SETTINGS)
        (folder / "image.tar").replace(archive)


def find_root() -> Path:
    """Where Python and all dependencies are, put together first if these very ones never were."""
    packages = python_root.list_packages()
    kept = building.cache_directory() / f"image-root-{_digest(packages)}"
    if not kept.exists():
        _assemble(kept, packages)
    return kept


def _assemble(kept: Path, packages: list[Path]) -> None:
    progress.say(f"image: putting Python and its packages into {kept} (a minute the first time)")
    # Put together beside its place and moved there whole, so that two at once do no harm.
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".assembling-") as name:
        root = Path(name) / "root"
        python_root.assemble(root, packages)
        python_root.fetch_wheels(root, PINNED, root / _PACKAGES)
        python_root.compile_modules(root, root)
        if not kept.exists():
            root.rename(kept)


def _unpack_wheel(root: Path, folder: Path, sources: Path) -> None:
    """Put our own package, compiled, below a folder's `root`."""
    flags = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    pip = [sys.executable, "-m", "pip", "wheel", *flags, "--wheel-dir", str(folder)]
    progress.run([*pip, str(sources)], "image: the wheel", directory=folder, logs=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "root" / _PACKAGES)
    python_root.compile_modules(root, folder / "root")


def _newest(entries: Iterable[Entry]) -> Iterable[Entry]:
    """The entries without those that later ones of the same name replace."""
    return {entry.name: entry for entry in entries}.values()


def _digest(packages: Iterable[Path]) -> str:
    digest = hashlib.sha256("\0".join(package.name for package in packages).encode())
    for file in (PINNED, Path(python_root.__file__)):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
