"""The programs of a cluster: found where they are installed, else built from Go modules.

A further program is one more row of `PROGRAMS`; a further version of Kubernetes is one more folder
of `modules` (docs/rig.md says how to make it).
"""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig import building, debian, progress
from rig.building import Recipe

MODULES: Final = Path(__file__).parent / "modules"
DEFAULT_KUBERNETES: Final = "1.35"

_KUBERNETES: Final = "k8s.io/kubernetes"
_ORIGINAL: Final = "k8s.io/autoscaler/vertical-pod-autoscaler"
_STAMP: Final = "k8s.io/component-base/version"


class ProgramError(RuntimeError):
    """A program that is not installed and that we cannot build."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that can be built from the Go module registry."""

    package: str
    versioned: str
    """The Go module whose version is the program's."""
    folder: str = "tools"
    """Which folder of `modules` pins it; that of Kubernetes is chosen by its version."""

    @property
    def is_kubernetes(self) -> bool:
        """Whether it is built from the folder of the chosen Kubernetes version."""
        return self.versioned == _KUBERNETES


PROGRAMS: Final[Mapping[str, Program]] = {
    "etcd": Program("go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": Program(f"{_KUBERNETES}/cmd/kube-apiserver", _KUBERNETES),
    "kube-controller-manager": Program(f"{_KUBERNETES}/cmd/kube-controller-manager", _KUBERNETES),
    "kube-scheduler": Program(f"{_KUBERNETES}/cmd/kube-scheduler", _KUBERNETES),
    "kubelet": Program(f"{_KUBERNETES}/cmd/kubelet", _KUBERNETES),
    "metrics-server": Program(
        "sigs.k8s.io/metrics-server/cmd/metrics-server",
        "sigs.k8s.io/metrics-server",
        # Of a newer Kubernetes than the other tools, which would be drawn along.
        folder="metrics-server",
    ),
    "kubectl": Program(".", "k8s.io/kubectl", folder="kubectl"),
    "helm": Program("helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", folder="helm"),
    "kwok": Program("sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"),
    "original-recommender": Program(f"{_ORIGINAL}/pkg/recommender", _ORIGINAL, folder="original"),
    "original-updater": Program(f"{_ORIGINAL}/pkg/updater", _ORIGINAL, folder="original"),
    "original-admission": Program(
        f"{_ORIGINAL}/pkg/admission-controller", _ORIGINAL, folder="original"
    ),
}
PACKAGES: Final[Mapping[str, str]] = {"prometheus": "prometheus", "promtool": "prometheus"}
"""Packages of Debian with programs that we do not build."""


def find(name: str) -> Path:
    """The path of a program: an installed one, else one built or fetched before, else now."""
    found = find_installed(name)
    if found:
        return found
    if name in PACKAGES:
        return debian.find(name, PACKAGES[name])
    if name in PROGRAMS:
        return building.build(recipe(name))
    raise ProgramError(f"{name} is not installed: it is looked for in KUBEBUILDER_ASSETS and PATH")


def find_all(names: Iterable[str]) -> dict[str, Path]:
    """The paths of programs by their names; what has to be built first is said before it is."""
    wanted = list(names)
    missing = [recipe(name) for name in wanted if name in PROGRAMS and not _is_at_hand(name)]
    if missing:
        titles = ", ".join(each.title for each in missing)
        progress.say(f"{len(missing)} of {len(wanted)} programs have to be built: {titles}")
    return {name: find(name) for name in wanted}


def _is_at_hand(name: str) -> bool:
    return bool(find_installed(name)) or building.kept_path(recipe(name)).exists()


def find_installed(name: str) -> Path | None:
    """The path of a program in `$KUBEBUILDER_ASSETS`, or else on PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = (shutil.which(name, path=assets) if assets else None) or shutil.which(name)
    return Path(found) if found else None


def recipe(name: str) -> Recipe:
    """How a program of the table is built."""
    program = PROGRAMS[name]
    directory = kubernetes_directory() if program.is_kubernetes else MODULES / program.folder
    version = _pinned_version(directory, program.versioned)
    flags = _linker_flags(version) if program.is_kubernetes else "-s -w"
    return Recipe(name, directory, program.package, version, flags)


def kubernetes_directory() -> Path:
    """The folder that pins the Kubernetes of `$KUBERNETES_VERSION`, such as 1.35."""
    version = os.environ.get("KUBERNETES_VERSION") or DEFAULT_KUBERNETES
    directory = MODULES / f"kubernetes-{version}"
    if not directory.is_dir():
        known = sorted(path.name.partition("-")[2] for path in MODULES.glob("kubernetes-*"))
        raise ProgramError(
            f"KUBERNETES_VERSION is {version}, and only {', '.join(known)} can be built: "
            "docs/rig.md says how to add one"
        )
    return directory


def _pinned_version(directory: Path, module: str) -> str:
    text = (directory / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if not found:
        raise ProgramError(f"go.mod of {directory.name} does not pin {module}")
    return found[1]


def _linker_flags(version: str) -> str:
    # Without these stamps clients see v0.0.0.
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {_STAMP}.{key}={value}" for key, value in stamps.items())])
