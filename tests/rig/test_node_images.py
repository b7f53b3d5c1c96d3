"""Images packed by hand: what containerd reads is consistent, complete and always the same."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rig import node_images

NAME = "docker.io/trimtab/it:1"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    program = tmp_path / "it"
    program.write_bytes(b"a static program")
    node_images.pack(program, NAME, tmp_path / "it.tar")
    return tmp_path / "it.tar"


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {
            entry.name: file.read()
            for entry in tar
            if entry.isfile() and (file := tar.extractfile(entry))
        }


def find(files: dict[str, bytes], described: dict[str, Any]) -> bytes:
    """The blob that is described, which must be what it is said to be."""
    kind, _, digest = described["digest"].partition(":")
    blob = files[f"blobs/{kind}/{digest}"]
    assert hashlib.sha256(blob).hexdigest() == digest
    assert len(blob) == described["size"]
    return blob


def test_an_image_leads_from_its_name_to_the_program_that_it_runs(archive: Path) -> None:
    files = read(archive)
    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(find(files, described))
    config = json.loads(find(files, manifest["config"]))
    layer = gzip.decompress(find(files, manifest["layers"][0]))

    assert described["annotations"] == {"io.containerd.image.name": NAME}
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["Entrypoint"] == ["/it"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        program = tar.extractfile("it")
        assert program is not None
        assert program.read() == b"a static program"
        assert tar.getmember("it").mode == 0o755
        assert tar.getmember("tmp").mode == 0o1777


def test_equal_programs_give_equal_archives(archive: Path, tmp_path: Path) -> None:
    node_images.pack(tmp_path / "it", NAME, tmp_path / "again.tar")

    assert (tmp_path / "again.tar").read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("name", ["pause", "worker"])
def test_each_image_has_sources_that_go_can_build(name: str) -> None:
    assert (node_images.IMAGES / name / "go.mod").is_file()
    assert (node_images.IMAGES / name / "main.go").is_file()
