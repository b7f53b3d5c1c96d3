"""What installing on the rig takes: values for its pods, and images on its node.

The Service of the API server itself leads nowhere there, so pods are told where it is. Everything
else is as in any cluster: the webhook is asked by its Service.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from rig import building, chart, debian, node_images, node_settings, programs
from rig.building import Recipe
from rig.node import Node

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
NAMESPACE = "trimtab-system"
CLUSTER_WIDE = (
    "clusterroles",
    "clusterrolebindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
)
"""Kinds of what an installation has outside of its namespace, but for CRDs."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A real node that has the image of our components, and the way of its pods to the server."""

    on: Node
    api: Mapping[str, str]

    def values(self) -> Json:
        """Values for this cluster, with components that are quicker than usual."""
        environment = [{"name": name, "value": value} for name, value in self.api.items()]
        common = {"replicas": 1, "extraEnv": environment}
        return {
            "recommender": {**common, "extraArgs": {"recommender-interval": "2s"}},
            "updater": {**common, "extraArgs": {"updater-interval": "2s", "cool-down": "0s"}},
            "admissionController": {
                **common,
                "extraArgs": {"status-lease-update-interval": "1s"},
            },
        }

    def write_values(self, folder: Path) -> Path:
        path = folder / "my-values.yaml"
        path.write_text(yaml.safe_dump(self.values()), encoding="utf-8")
        return path

    def write_manifests(self, folder: Path) -> None:
        """The files of `deploy`, rendered with the values of this cluster."""
        given = self.write_values(folder)
        (folder / "deploy").mkdir()
        for manifest in chart.MANIFESTS:
            flags = (*manifest.flags, "--values", str(given))
            text = chart.render_plain(replace(manifest, flags=flags))
            (folder / manifest.path).write_text(text, encoding="utf-8")
        crds = (ROOT / "deploy/crds.yaml").read_text(encoding="utf-8")
        (folder / "deploy/crds.yaml").write_text(crds, encoding="utf-8")

    def load_worker(self, name: str, folder: Path) -> None:
        """Let our worker, which is idle if nobody tells it otherwise, have another name, too."""
        program = building.build(Recipe("worker", node_images.IMAGES / "worker"))
        node_images.pack(program, name, folder / "worker.tar")
        self.on.load_image(folder / "worker.tar")

    def surroundings(self, folder: Path) -> dict[str, str]:
        """The variables of somebody whose cluster this is, and who has all programs on PATH."""
        found = [programs.find(name).parent for name in ("helm", "kubectl")]
        folders = [*found, debian.find("ctr", "containerd").parent, Path(sys.executable).parent]
        return {
            **os.environ,
            "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]),
            "KUBECONFIG": str(self.on.plane.kubeconfig),
            **{f"HELM_{each}_HOME": str(folder / "helm") for each in ("CACHE", "CONFIG", "DATA")},
            "COLUMNS": "80",
            # Where ctr finds the containerd of the node.
            "CONTAINERD_ADDRESS": str(self.on.place.socket),
            "CONTAINERD_SNAPSHOTTER": node_settings.SNAPSHOTTER,
        }

    def kubectl(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """What kubectl says, in a folder."""
        command = [str(programs.find("kubectl")), f"--kubeconfig={self.on.plane.kubeconfig}"]
        return subprocess.run(
            [*command, *words], cwd=folder, capture_output=True, text=True, check=False
        )

    def clear(self) -> None:
        """Take away whatever somebody has installed, and traces that other tests have left."""
        self.kubectl("delete", "namespace", NAMESPACE, "shop", "--ignore-not-found")
        own = "--selector=app.kubernetes.io/instance=trimtab"
        self.kubectl("delete", ",".join(CLUSTER_WIDE), own)
        self.kubectl("delete", "--ignore-not-found", "-f", str(ROOT / "deploy/crds.yaml"))
        leases = ("vpa-admission-controller", "vpa-recommender-lease", "vpa-updater")
        self.kubectl("delete", "lease", "--namespace=kube-system", "--ignore-not-found", *leases)


@dataclass(frozen=True, slots=True)
class Step:
    """A block of commands on a page, and what the page says that they print."""

    commands: str
    promised: str


def read_steps(page: str) -> Iterator[Step]:
    """All commands of a page, in their order."""
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    for index, (kind, text) in enumerate(blocks):
        if kind == "sh":
            following = blocks[index + 1 : index + 2]
            yield Step(text, "".join(said for kind, said in following if kind == "text"))


def find_missing(promised: str, printed: str) -> list[str]:
    """The lines that were promised and are not there in that order; `…` stands for anything."""
    lines = iter([" ".join(line.split()) for line in printed.splitlines()])
    return [
        line
        for line in promised.splitlines()
        if not any(re.fullmatch(_pattern(line), candidate) for candidate in lines)
    ]


def _pattern(line: str) -> str:
    parts = [part.strip() for part in " ".join(line.split()).split("…")]
    return ".*".join(re.escape(part) for part in parts)


class Shell:
    """A shell that keeps what is exported from one block of commands to the next."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._exported = folder / ".exported"
        self._exported.touch()

    def run(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Run them all; what they print is on one stream, as one sees it."""
        return subprocess.run(
            self._command(f"{commands}\nexport -p > {self._exported}"),
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def start(self, commands: str) -> subprocess.Popen[str]:
        """Start commands of which the last one runs until it is interrupted."""
        return subprocess.Popen(
            self._command(commands),
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _command(self, commands: str) -> list[str]:
        return ["bash", "-euo", "pipefail", "-c", f". {self._exported}\n{commands}"]
