"""A control plane before anything runs: its folder, its ports, its nodes and what it tells."""

import json
import tempfile
from pathlib import Path

import pytest

from rig import controlplane
from rig.controlplane import ControlPlane, Part, Ports


@pytest.fixture
def plane(tmp_path: Path) -> ControlPlane:
    return controlplane._prepare(tmp_path, tmp_path / "logs", frozenset({Part.CONTROLLERS}))


def test_every_listener_has_a_port_of_its_own(plane: ControlPlane) -> None:
    ports = [getattr(plane.ports, field) for field in Ports.__dataclass_fields__]

    assert len(set(ports)) == len(ports) == 7
    assert plane.port == plane.ports.apiserver


def test_the_kubeconfig_names_the_server_its_authority_and_a_token(plane: ControlPlane) -> None:
    config = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    tokens = (plane.directory / "tokens.csv").read_text(encoding="utf-8")

    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == f"https://127.0.0.1:{plane.port}"
    assert Path(cluster["certificate-authority"]) == plane.certificates.authority
    assert config["users"][0]["user"] == {"token": plane.token}
    assert tokens == f"{plane.token},admin,admin,system:masters\n"


def test_a_server_that_is_not_there_can_neither_be_read_nor_healthy(plane: ControlPlane) -> None:
    assert not plane.can_read("/readyz")
    assert not plane.is_healthy(plane.port)


def test_last_words_are_the_ends_of_all_logs_and_their_place(plane: ControlPlane) -> None:
    (plane.logs / "etcd.log").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (plane.logs / "kwok.log").write_text("four\n", encoding="utf-8")

    assert plane.last_words(2).splitlines() == [
        "etcd.log:",
        "two",
        "three",
        "kwok.log:",
        "four",
        f"(all logs: {plane.logs})",
    ]


def test_a_folder_goes_with_its_block_and_so_do_those_of_killed_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed, foreign = tmp_path / "trimtab-rig-killed", tmp_path / "trimtab-rig-foreign"
    killed.mkdir()
    foreign.mkdir()
    (killed / "lock").write_text('{"pid": "1"}', encoding="utf-8")
    with controlplane._own_directory() as first, controlplane._own_directory() as second:
        both = first.is_dir() and second.is_dir() and first != second

    assert both
    assert sorted(tmp_path.iterdir()) == [foreign]
