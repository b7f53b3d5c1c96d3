"""Archives of images: every digest leads to what it is the digest of, and nothing is by chance."""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig import oci
from rig.oci import Entry

NAME = "docker.io/trimtab/it:1"
SETTINGS = {"Entrypoint": ["/it"], "User": "65534:65534"}
ENTRIES = [
    Entry("tmp", mode=0o1777),
    Entry("it", b"a program"),
    Entry("etc"),
    Entry("etc/passwd", b"nobody", mode=0o644),
    Entry("bin", link="usr/bin"),
]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    oci.write_layer(tmp_path / "layer.tar", ENTRIES)
    return tmp_path / "layer.tar"


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry))}


def find(files: dict[str, bytes], described: dict[str, Any]) -> bytes:
    """The blob that is described, which must be what it is said to be."""
    kind, _, digest = described["digest"].partition(":")
    blob = files[f"blobs/{kind}/{digest}"]
    assert hashlib.sha256(blob).hexdigest() == digest
    assert len(blob) == described["size"]
    return blob


def test_an_image_leads_from_its_name_to_its_settings_and_layers(
    layer: Path, tmp_path: Path
) -> None:
    second = tmp_path / "second.tar"
    oci.write_layer(second, [Entry("more", b"more")])
    oci.write_image(tmp_path / "it.tar", NAME, [layer, second], SETTINGS)
    files = read(tmp_path / "it.tar")
    (described,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(find(files, described))
    config = json.loads(find(files, manifest["config"]))
    layers = [find(files, each) for each in manifest["layers"]]

    assert described["annotations"] == {"io.containerd.image.name": NAME}
    assert layers == [layer.read_bytes(), second.read_bytes()]
    assert config["config"] == SETTINGS
    digests = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]
    assert config["rootfs"]["diff_ids"] == digests


def test_a_layer_keeps_modes_and_links_and_belongs_to_root(layer: Path) -> None:
    with tarfile.open(layer) as tar:
        found = {entry.name: entry for entry in tar}

    assert {name: entry.mode for name, entry in found.items() if not entry.issym()} == {
        "etc": 0o755,
        "etc/passwd": 0o644,
        "it": 0o755,
        "tmp": 0o1777,
    }
    assert found["bin"].linkname == "usr/bin"
    assert {(entry.uid, entry.gid, entry.mtime) for entry in found.values()} == {(0, 0, 0)}


@given(st.permutations(ENTRIES))
def test_the_order_of_entries_does_not_change_a_layer(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    folder = tmp_path_factory.mktemp("layers")
    oci.write_layer(folder / "one.tar", ENTRIES)
    oci.write_layer(folder / "two.tar", entries)

    assert (folder / "one.tar").read_bytes() == (folder / "two.tar").read_bytes()


def test_files_on_disk_and_in_memory_make_the_same_layer(layer: Path, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"a program")
    entries = [each for each in ENTRIES if each.name != "it"]
    oci.write_layer(tmp_path / "two.tar", [*entries, Entry("it", tmp_path / "program")])

    assert (tmp_path / "two.tar").read_bytes() == layer.read_bytes()
