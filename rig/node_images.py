"""Images of our own programs, packed without any builder and without a registry.

An image is one static program and a few files around it, in a tar archive that containerd imports.
Equal programs give equal archives. `images/worker` is the workload of all tests; its `--help` and
docs/rig.md say what it can do.
"""

import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Final

from rig import building
from rig.building import Recipe

IMAGES: Final = Path(__file__).parent / "images"
PAUSE: Final = "docker.io/trimtab/pause:1"
WORKER: Final = "docker.io/trimtab/worker:1"

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_FILES: Final = {
    "etc/passwd": b"root:x:0:0:root:/:/none\nnobody:x:65534:65534:nobody:/:/none\n",
    "etc/group": b"root:x:0:\nnobody:x:65534:\n",
}
_FOLDER_MODES: Final = {"etc": 0o755, "tmp": 0o1777}
_OCI: Final = "application/vnd.oci.image"


def build(directory: Path) -> list[Path]:
    """The archives of all our images, in that folder; programs are built first if need be."""
    archives = []
    for name in (PAUSE, WORKER):
        program = name.rpartition("/")[2].partition(":")[0]
        archive = directory / f"{program}.tar"
        pack(building.build(Recipe(program, IMAGES / program)), name, archive)
        archives.append(archive)
    return archives


def pack(program: Path, name: str, archive: Path) -> None:
    """Write the archive of an image that runs the program."""
    layer = _pack_layer(program)
    packed = gzip.compress(layer, mtime=0)
    config = _encode(_config(program.name, layer))
    blobs = (config, packed)
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _describe(config, f"{_OCI}.config.v1+json"),
            "layers": [_describe(packed, f"{_OCI}.layer.v1.tar+gzip")],
        }
    )
    described = _describe(manifest, f"{_OCI}.manifest.v1+json")
    described["annotations"] = {"io.containerd.image.name": name}
    with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _encode({"schemaVersion": 2, "manifests": [described]}))
        for blob in (*blobs, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


def _pack_layer(program: Path) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder, mode in _FOLDER_MODES.items():
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for name, content in _FILES.items():
            _add(tar, name, content)
        _add(tar, program.name, program.read_bytes(), mode=0o755)
    return layer.getvalue()


def _config(program: str, layer: bytes) -> dict[str, object]:
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{program}"], "Env": ["PATH=/"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }


def _describe(blob: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
