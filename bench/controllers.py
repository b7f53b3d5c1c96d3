"""The kube-controller-manager of a control plane, for as long as a measurement wants it.

Of its controllers those run that make pods. Others would clear away what no kubelet answers for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rig import flags, processes, programs
from rig.controlplane import ControlPlane, Part
from rig.processes import Process

CONTROLLERS: Final = "--controllers=deployment-controller,replicaset-controller"


@contextmanager
def running(plane: ControlPlane) -> Iterator[Process]:
    """Run the controllers for as long as the block lasts."""
    port = plane.ports.controllers
    arguments = [*flags.for_controllers(plane.certificates, plane.kubeconfig, port), CONTROLLERS]
    program = programs.find(Part.CONTROLLERS)
    with processes.running(program, arguments, plane.directory, name="controllers") as process:
        process.wait_until(lambda: plane.is_healthy(port))
        yield process
