"""Settings of a node: everything it writes lies in its own folder, cgroup and network."""

import ipaddress
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rig import node_settings
from rig.certificates import Certificates, Issued
from rig.node_settings import Place, Programs

FOUND = Programs(
    kubelet=Path("/programs/kubelet"),
    containerd=Path("/programs/containerd"),
    ctr=Path("/programs/ctr"),
    runc=Path("/programs/runc"),
    plugins=Path("/programs/cni"),
)
PAIR = Issued(Path("/pki/it.crt"), Path("/pki/it.key"))
MADE = Certificates(
    authority=Path("/pki/ca.crt"),
    server=PAIR,
    account_key=Path("/pki/accounts.key"),
    account_public_key=Path("/pki/accounts.pub"),
    kubelet_client=PAIR,
    proxy=PAIR,
)
PATH = re.compile(r"(?:unix://)?(/[^\s\"]+)")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place("node-7", tmp_path, 7)
    node_settings.write(place, FOUND, MADE, PAIR)
    return place


def strings(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for each in value.values() for text in strings(each)]
        case list():
            return [text for each in value for text in strings(each)]
        case str():
            return [value]
        case _:
            return []


def test_no_program_of_a_node_is_told_of_a_path_outside_its_folder(place: Place) -> None:
    kubelet = json.loads((place.directory / "kubelet.json").read_text("utf-8"))
    containerd = tomllib.loads((place.directory / "containerd.toml").read_text("utf-8"))
    network = json.loads((place.directory / "cni/10-bridge.conflist").read_text("utf-8"))
    told = strings([kubelet, containerd, network, node_settings.kubelet_flags(place)])
    paths = {found[1] for text in told if (found := PATH.fullmatch(text.rpartition("=")[2]))}

    outside = {path for path in paths if not path.startswith(str(place.directory))}
    assert outside == {
        "/pki/it.crt",
        "/pki/it.key",
        "/pki/ca.crt",
        "/programs/runc",
        "/programs/cni",
        f"/{place.cgroup}",
    }


def test_pods_get_addresses_of_the_network_that_the_node_is_in(place: Place) -> None:
    network = json.loads((place.directory / "cni/10-bridge.conflist").read_text("utf-8"))
    (bridge,) = network["plugins"]

    assert bridge["bridge"] == place.bridge
    assert not bridge["isGateway"]
    assert not bridge["ipMasq"]
    assert ipaddress.ip_address(place.address) in ipaddress.ip_network(place.subnet)


def test_nodes_of_one_machine_share_neither_names_nor_addresses() -> None:
    places = [Place("node-0", Path(), number) for number in range(256)]

    for name in ("address", "subnet", "bridge", "bridge_mac", "cgroup"):
        assert len({getattr(place, name) for place in places}) == 256
    # More than that the kernel refuses.
    assert max(len(place.bridge) for place in places) <= 15


def test_the_kubelet_logs_in_with_its_own_certificate(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    node_settings.write_kubeconfig(file, "https://127.0.0.1:6443", MADE, PAIR)
    config = json.loads(file.read_text("utf-8"))

    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["users"][0]["user"] == {
        "client-certificate": "/pki/it.crt",
        "client-key": "/pki/it.key",
    }
