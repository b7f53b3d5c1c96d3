"""What a kubelet writes about a pod, step by step, in the order in which a real one shows it.

A container that is killed is first terminated, then waits (CrashLoopBackOff) with that end as its
last one, then runs again and has been restarted once more.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from typing import Final

from trimtab.core.pods import Allocation, Container, Pod, PodPhase, Termination

OOM_KILLED: Final = "OOMKilled"
COMPLETED: Final = "Completed"
ERROR: Final = "Error"


def change_containers(
    pod: Pod, names: Collection[str], change: Callable[[Container], Container]
) -> Pod:
    """The pod with some of its containers changed."""
    return replace(
        pod,
        containers=tuple(
            change(container) if container.name in names else container
            for container in pod.containers
        ),
    )


def run(container: Container, allocation: Allocation) -> Container:
    """It runs, with what it was given; for the first time, or again."""
    ended = container.termination or container.last_termination
    return replace(
        container,
        status=allocation,
        is_running=True,
        termination=None,
        last_termination=ended,
        restart_count=container.restart_count + (ended is not None),
    )


def terminate(
    container: Container, reason: str, started_at: datetime | None, now: datetime
) -> Container:
    """It has ended, and lies there."""
    return replace(
        container,
        is_running=False,
        # The end before this one stays its last one for as long as it lies there.
        termination=Termination(reason, started_at, now),
    )


def wait(container: Container) -> Container:
    """It waits for its next run."""
    return replace(
        container,
        is_running=False,
        termination=None,
        last_termination=container.termination or container.last_termination,
    )


def is_over(pod: Pod) -> bool:
    """Whether a pod has ended for good."""
    return pod.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
