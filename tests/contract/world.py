"""What the contract of the ports needs of a world: what to make in it, and what may go wrong.

Whatever stands behind `cluster/ports.py` offers these two protocols to be tested. A test knows no
more of a world than this, and no time but that of its clock. All objects are in one namespace that
the test has for itself; "listed" means as the world has it now, never as a view shows it.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.cluster.errors import Right
from trimtab.cluster.ports import Clock, Cluster, RoleCluster, UsageSource, WebhookHost
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.limit_ranges import LimitRangeItem
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod, ResizeState, WorkloadName
from trimtab.core.model.resources import Resources

CUSTOM_KIND = ("example.com/v1", "Rollout")
"""A kind that nobody here knows, and that can be scaled."""


class Link(Protocol):
    """One process's way into the world, and what may happen to it alone."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def roles(self) -> RoleCluster:
        """The same cluster, for who hands out roles."""

    @property
    def usage(self) -> UsageSource: ...

    @property
    def webhooks(self) -> WebhookHost: ...

    async def cut(self) -> None:
        """Break every watch and connection; new ones can be made at once."""

    def silent(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts nothing gets through, and nothing breaks."""

    def busy(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts every request is turned away: too many requests (429)."""

    def failing(self) -> AbstractAsyncContextManager[None]:
        """While the block lasts every write is answered with an error of the server's (500)."""


class World(Protocol):
    """A cluster in which a test makes things and lets things go wrong."""

    namespace: str
    clock: Clock

    def elapsed(self) -> timedelta:
        """The time since some fixed moment, on a clock that nobody can set."""

    def joined(self, *, without: Right | None = None) -> AbstractAsyncContextManager[Link]:
        """A process that has listed everything; only of one that lacks a right it may be less."""

    async def restart(self) -> None:
        """Restart the server: every watch breaks, and it may have forgotten old versions."""

    async def forget_history(self) -> None:
        """Forget every version that a watch could go on from, and break all watches."""

    async def list_pods(self) -> Sequence[Pod]: ...

    async def list_autoscalers(self) -> Sequence[Autoscaler]: ...

    async def list_checkpoints(self) -> Sequence[Checkpoint]:
        """The checkpoints that can be read."""

    async def create_pod(
        self, name: str, *, resize: ResizeState | None = None, is_placed: bool = True
    ) -> None:
        """A pod of its own with a container `app` of 100m and 100Mi, labelled `app=<name>`.

        It runs and is ready when this returns; without a place it stays pending. `resize` is how
        its node treats every resize; None for those that succeed.
        """

    async def label_pod(self, name: str, label: str, value: str) -> None: ...

    async def delete_pod(self, name: str) -> None: ...

    async def create_workload(self, kind: str, name: str, *, replicas: int = 1) -> WorkloadName:
        """A workload whose pods, labelled `app=<name>`, run and are ready when this returns.

        A Deployment owns them through a ReplicaSet, a CronJob through a Job, one of the custom kind
        through a ReplicaSet; a DaemonSet has one for each of the world's nodes. Those of a Job may
        have succeeded by then.
        """

    async def create_autoscaler(self, name: str, target: WorkloadName) -> None: ...

    async def delete_autoscaler(self, name: str) -> None: ...

    async def delete_registration(self, name: str) -> None:
        """Delete a webhook's registration, which is in no namespace."""

    async def create_disruption_budget(self, app: str, *, min_available: int) -> None:
        """A PodDisruptionBudget of the pods labelled `app=<app>`, which holds on return."""

    async def scale_horizontally(self, target: WorkloadName, *, container: str = "") -> None:
        """A HorizontalPodAutoscaler `hpa` that goes by CPU: of the pods, or of one container."""

    async def delete_horizontal(self) -> None:
        """Delete that one."""

    async def create_limit_range(self, name: str, item: LimitRangeItem) -> None: ...

    async def create_quota(self, name: str, requests: Resources) -> None:
        """A ResourceQuota of what all pods may request, whose use is counted on return."""

    async def annotate_namespace(self, annotation: str, value: str) -> None: ...

    def node(self, node: Node) -> AbstractAsyncContextManager[None]:
        """A further node, for as long as the block lasts; nothing is heard of it."""

    async def spoil_checkpoint(self, name: str) -> None:
        """Make a checkpoint that is there and that nobody can read, or make one unreadable."""

    async def set_usage(self, pod: str, *, cpu_millicores: int, memory_bytes: int) -> None:
        """Let the pod's container `app` be measured to use so much."""

    async def starve_pod(self, pod: str, *, memory_bytes: int) -> None:
        """Let the node tell that it evicted the pod because `app` used so much memory."""
