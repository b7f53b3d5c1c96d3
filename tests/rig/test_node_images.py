"""Images packed by hand: each runs its program, and equal programs give equal images."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from rig import node_images

NAME = "docker.io/trimtab/it:1"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    program = tmp_path / "it"
    program.write_bytes(b"a static program")
    node_images.pack(program, NAME, tmp_path / "it.tar")
    return tmp_path / "it.tar"


def read_blobs(archive: Path) -> list[bytes]:
    with tarfile.open(archive) as tar:
        members = [each for each in tar if each.name.startswith("blobs/")]
        return [file.read() for each in members if (file := tar.extractfile(each))]


def test_an_image_runs_the_program_that_is_in_it(archive: Path) -> None:
    config, _, layer = read_blobs(archive)

    assert json.loads(config)["config"]["Entrypoint"] == ["/it"]
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
