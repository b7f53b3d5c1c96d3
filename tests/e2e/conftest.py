"""A real API server for the whole run, with our CRDs applied by kubectl."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rig import controlplane, programs
from rig.controlplane import ControlPlane

ROOT = Path(__file__).parents[2]

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with controlplane.running() as plane:
        yield plane


@pytest.fixture(scope="session")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    program = programs.find("kubectl")

    def run(*arguments: str, given: str | None = None) -> str:
        command = [str(program), f"--kubeconfig={control_plane.kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def applied_crds(kubectl: Kubectl) -> str:
    """What kubectl says to our CRDs; the API server serves them from then on."""
    manifest = str(ROOT / "deploy/crds.yaml")
    said = kubectl("apply", "--server-side", "-f", manifest)
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", manifest)
    return said
