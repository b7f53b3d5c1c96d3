"""The files and flags by which containerd, CNI and a kubelet make one node, apart from all others.

Each path that they write to lies in the node's folder, each cgroup under the node's own, and pods
are on a bridge of the node's. Pods of one node reach each other and the machine, nothing else.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig import node_images
from rig.certificates import Certificates, Issued
from rig.fake_node import Json

PORT: Final = 10250
HIGHEST_NUMBER: Final = 255
SNAPSHOTTER: Final = "native"
"""Copies images, which are small: layers could not be mounted on every file system."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is: its folder, and its number among the nodes of this machine."""

    name: str
    directory: Path
    number: int

    @property
    def address(self) -> str:
        """The node's own, at which the machine is reached from its pods."""
        return f"10.99.{self.number}.1"

    @property
    def subnet(self) -> str:
        """Where its pods get their addresses from."""
        return f"10.99.{self.number}.0/24"

    @property
    def bridge(self) -> str:
        """The network interface that its pods are on."""
        return f"trimtab-{self.number}"

    @property
    def bridge_mac(self) -> str:
        """A fixed one: an automatic one changes with the pods that come and go."""
        return f"02:99:00:00:00:{self.number:02x}"

    @property
    def cgroup(self) -> str:
        """The folder of all its cgroups, in every hierarchy."""
        return f"trimtab-node-{self.number}"

    @property
    def socket(self) -> Path:
        """Where containerd is asked."""
        return self.directory / "containerd.sock"


@dataclass(frozen=True, slots=True)
class Programs:
    """What a node runs, wherever it was found."""

    kubelet: Path
    containerd: Path
    ctr: Path
    runc: Path
    plugins: Path
    """The folder of the CNI plugins."""


def write(place: Place, found: Programs, made: Certificates, identity: Issued) -> None:
    """Write the settings of all programs of a node into its folder."""
    (place.directory / "cni").mkdir()
    texts = {
        "containerd.toml": _containerd(place, found),
        "cni/10-bridge.conflist": json.dumps(_network(place)),
        "kubelet.json": json.dumps(_kubelet(place, made, identity)),
    }
    for name, text in texts.items():
        (place.directory / name).write_text(text, encoding="utf-8")


def write_kubeconfig(path: Path, server: str, made: Certificates, identity: Issued) -> None:
    """Write what the kubelet logs in with."""
    cluster = {"server": server, "certificate-authority": str(made.authority)}
    user = {"client-certificate": str(identity.certificate), "client-key": str(identity.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "node", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "node"}}],
        "current-context": "rig",
    }
    path.write_text(json.dumps(config), encoding="utf-8")


def kubelet_flags(place: Place) -> list[str]:
    """What the kubelet does not take from its file."""
    return [
        f"--config={place.directory / 'kubelet.json'}",
        f"--kubeconfig={place.directory / 'kubeconfig'}",
        f"--root-dir={place.directory / 'kubelet'}",
        f"--cert-dir={place.directory / 'kubelet-certificates'}",
        f"--hostname-override={place.name}",
        f"--node-ip={place.address}",
        "--v=2",
    ]


def _containerd(place: Place, found: Programs) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "{place.directory}/containerd"
state = "{place.directory}/containerd-state"
[grpc]
  address = "{place.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{place.directory}/opt"
[{cri}]
  sandbox_image = "{node_images.PAUSE}"
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  # Root of a container may lack the right to lower the score of a process, and runc then fails.
  restrict_oom_score_adj = true
  [{cri}.cni]
    bin_dir = "{found.plugins}"
    conf_dir = "{place.directory}/cni"
  [{cri}.containerd]
    snapshotter = "{SNAPSHOTTER}"
    default_runtime_name = "runc"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        BinaryName = "{found.runc}"
        Root = "{place.directory}/runc"
        SystemdCgroup = false
"""


def _network(place: Place) -> Json:
    addresses = {
        "type": "host-local",
        "dataDir": str(place.directory / "addresses"),
        "ranges": [[{"subnet": place.subnet, "gateway": place.address}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    # Being the gateway or masking addresses would need forwarding and packet filters.
    bridge = {
        "type": "bridge",
        "bridge": place.bridge,
        "isGateway": False,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "1.0.0", "name": place.bridge, "plugins": [bridge]}


def _kubelet(place: Place, made: Certificates, identity: Issued) -> Json:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **_serving(place, made, identity),
        **_confinement(place),
        # The disk of a machine that builds things is full now and then; that is no test's matter.
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "eventRecordQPS": 0,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 400,
    }


def _serving(place: Place, made: Certificates, identity: Issued) -> Json:
    return {
        "address": place.address,
        "port": PORT,
        "healthzPort": 0,
        "tlsCertFile": str(identity.certificate),
        "tlsPrivateKeyFile": str(identity.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(made.authority)},
        },
        "authorization": {"mode": "Webhook"},
    }


def _confinement(place: Place) -> Json:
    return {
        "containerRuntimeEndpoint": f"unix://{place.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        # Kubelets with one folder for both delete each other's logs.
        "podLogsDir": str(place.directory / "logs"),
        "volumePluginDir": str(place.directory / "volume-plugins"),
        # Nobody is there; without an address each pod would be warned about.
        "clusterDNS": ["10.96.0.10"],
        "resolvConf": "",
    }
