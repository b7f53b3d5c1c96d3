"""Images as archives that containerd imports: layers, a configuration, and digests that lead there.

Nothing is compressed, since no archive leaves the machine. Equal files give equal archives: times
are zero, everything belongs to root, and names are in order.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig.fake_node import Json

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_OCI: Final = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a layer: a file of that content, a link, or else a folder."""

    name: str
    content: bytes | Path | None = None
    link: str = ""
    mode: int = 0o755


def write_layer(layer: Path, entries: Iterable[Entry]) -> None:
    """Write a layer of those entries, whichever order they come in."""
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(entries, key=lambda each: each.name):
            _add_entry(tar, entry)


def write_image(archive: Path, name: str, layers: Sequence[Path], settings: Json) -> None:
    """Write the archive of an image by that name, whose containers start with those settings."""
    digests = [_digest_file(layer) for layer in layers]
    config = _encode(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }
    )
    sizes = [layer.stat().st_size for layer in layers]
    manifest = _encode(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _describe(f"{_OCI}.config.v1+json", _digest(config), len(config)),
            "layers": [
                _describe(f"{_OCI}.layer.v1.tar", digest, size)
                for digest, size in zip(digests, sizes, strict=True)
            ],
        }
    )
    described = _describe(f"{_OCI}.manifest.v1+json", _digest(manifest), len(manifest))
    described["annotations"] = {"io.containerd.image.name": name}
    index = _encode({"schemaVersion": 2, "manifests": [described]})
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        _add_file(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        _add_file(tar, "index.json", index)
        for blob in (config, manifest):
            _add_file(tar, f"blobs/sha256/{_digest(blob)}", blob)
        for digest, layer in zip(digests, layers, strict=True):
            _add_file(tar, f"blobs/sha256/{digest}", layer)


def _add_entry(tar: tarfile.TarFile, entry: Entry) -> None:
    if entry.content is not None:
        _add_file(tar, entry.name, entry.content, entry.mode)
        return
    added = tarfile.TarInfo(entry.name)
    added.type = tarfile.SYMTYPE if entry.link else tarfile.DIRTYPE
    added.linkname, added.mode = entry.link, entry.mode
    tar.addfile(added)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes | Path, mode: int = 0o644) -> None:
    added = tarfile.TarInfo(name)
    added.mode = mode
    if isinstance(content, bytes):
        added.size = len(content)
        tar.addfile(added, io.BytesIO(content))
        return
    added.size = content.stat().st_size
    with content.open("rb") as file:
        tar.addfile(added, file)


def _describe(media_type: str, digest: str, size: int) -> Json:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
