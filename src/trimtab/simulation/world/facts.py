"""Facts: records of what happened in a simulated cluster, for the journal and the checkers."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.json_patch import Patch
from trimtab.core.model.pods import Pod


@dataclass(frozen=True, slots=True)
class PodCreated:
    """A pod was created: as its workload wanted it, and as admission changed it."""

    at: datetime
    wanted: Pod
    pod: Pod
    patch: Patch
    """Changes of the webhook; empty also if it did not answer."""
    webhook_answered: bool


@dataclass(frozen=True, slots=True)
class PodRefused:
    """The API server refused to create a pod."""

    at: datetime
    wanted: Pod
    """The pod as its creator sent it, with the defaults of the server."""
    pod: Pod
    """The pod as admission changed it."""
    flaw: str
    """Message of the server."""
    own_flaw: str
    """Message that the pod without the changes of admission would have got; empty for none."""


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """A component evicted a pod."""

    at: datetime
    actor: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class PodResized:
    """A component changed the resources of a running pod."""

    at: datetime
    actor: str
    before: Pod
    after: Pod


@dataclass(frozen=True, slots=True)
class PodPatched:
    """A component changed the metadata of a pod."""

    at: datetime
    actor: str
    before: Pod
    after: Pod


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was removed."""

    at: datetime
    pod: Pod


@dataclass(frozen=True, slots=True)
class ContainerKilled:
    """A container was OOM-killed."""

    at: datetime
    pod: Pod
    container_name: str
    memory_bytes: int
    """Memory that the container tried to use."""
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class PodPressedOut:
    """The kubelet evicted a pod because its node had no memory left."""

    at: datetime
    pod: Pod
    blamed: tuple[MemoryEviction, ...] = ()
    """Reports about the containers that used more than they request."""


@dataclass(frozen=True, slots=True)
class UsageTold:
    """The metrics server reported the usage of containers to a component."""

    at: datetime
    actor: str
    usage: UsageColumns


@dataclass(frozen=True, slots=True)
class StatusPublished:
    """A component wrote the status of an autoscaler."""

    at: datetime
    actor: str
    before: Autoscaler
    after: Autoscaler


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """A component wrote a checkpoint."""

    at: datetime
    actor: str
    before: Checkpoint | None
    after: Checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointDeleted:
    """A component deleted a checkpoint."""

    at: datetime
    actor: str
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """A component wrote a lease."""

    at: datetime
    actor: str
    lease: Lease


@dataclass(frozen=True, slots=True)
class EventEmitted:
    """A component emitted an event."""

    at: datetime
    actor: str
    event: Event


@dataclass(frozen=True, slots=True)
class FaultBegan:
    """A fault began."""

    at: datetime
    fault: str


@dataclass(frozen=True, slots=True)
class FaultEnded:
    """A fault ended."""

    at: datetime
    fault: str


@dataclass(frozen=True, slots=True)
class ProcessStarted:
    """A copy of a component began to run."""

    at: datetime
    actor: str


@dataclass(frozen=True, slots=True)
class ProcessCrashed:
    """A copy of a component crashed, in the middle of its work."""

    at: datetime
    actor: str
    during: str
    """The request at which it crashed."""


Fact: TypeAlias = (
    PodCreated
    | PodRefused
    | PodEvicted
    | PodResized
    | PodPatched
    | PodGone
    | ContainerKilled
    | PodPressedOut
    | UsageTold
    | StatusPublished
    | CheckpointSaved
    | CheckpointDeleted
    | LeaseWritten
    | EventEmitted
    | FaultBegan
    | FaultEnded
    | ProcessStarted
    | ProcessCrashed
)
