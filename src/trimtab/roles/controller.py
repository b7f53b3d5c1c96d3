"""The role keeper: read all leases, find out who holds the roles, write what differs.

A tick looks at everything and reacts to no event, so the next tick makes up for anything missed.
Before it changes a group, the role keeper reads the lease from the server itself. Before it gives
a pod the role, it asks the server which other pods have it. Views may be old, and no two pods may
lead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.codec import DecodeError
from trimtab.cluster.errors import ClusterError, ConflictError, NotFoundError
from trimtab.cluster.ports import NO_TRACES, Clock, RoleCluster, Tracer
from trimtab.core import roles
from trimtab.core.model.pods import Pod
from trimtab.core.roles import Post, RolePlan, Tenure
from trimtab.roles.reports import (
    Broken,
    Changed,
    Outdated,
    RoleChange,
    RoleChangeFailed,
    RoleReportSink,
    RolesPlanned,
    RoleViewNotReady,
    discard,
)
from trimtab.roles.settings import RolesSettings
from trimtab.roles.state import RolesMemory

_logger: Final = logging.getLogger(__name__)


def _always() -> bool:
    return True


class RoleKeeper:
    """Keeps the label of a role on the pods that hold leases, and on no others."""

    def __init__(
        self,
        cluster: RoleCluster,
        *,
        settings: RolesSettings,
        clock: Clock,
        elapsed: Callable[[], timedelta],
        may_act: Callable[[], bool] = _always,
        report: RoleReportSink = discard,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._clock = clock
        self._elapsed = elapsed
        self._may_act = may_act
        self._report = report
        self._tracer = tracer
        self._memory = RolesMemory(settings.role, settings.pace)
        self._pods = cluster.pods.index(_owner_uid)
        self.plans: Sequence[RolePlan] = ()
        """Plans of the last tick."""

    async def run(self) -> None:
        """Tick at once and at every interval, for ever."""
        self._memory.begin_anew()
        while True:
            await self._guard()
            await self._clock.sleep(self._settings.interval)

    async def tick(self) -> None:
        """Plan all roles, and make the changes that are due."""
        age = self._cluster.age()
        if age is None or age > self._settings.max_view_age:
            self._report(RoleViewNotReady())
            return
        self.plans = self._plan()
        self._report(RolesPlanned(self.plans))
        if not self._settings.paused:
            await self._carry_out([plan for plan in self.plans if not plan.is_idle])

    async def _guard(self) -> None:
        try:
            with self._tracer.span("tick"):
                await self.tick()
        except Exception as error:
            # One malformed object must not stop all the others for ever.
            _logger.exception("tick failed")
            self._report(Broken(error))

    def _plan(self) -> list[RolePlan]:
        posts = [post for post in self._posts() if not self._is_in_doubt(post)]
        self._look_at_leases(posts)
        return [self._plan_one(post) for post in posts]

    def _posts(self) -> Iterable[Post]:
        ignored = self._settings.ignored_namespaces
        posts = roles.list_posts(self._cluster.workloads(), self._settings.leases)
        return [post for post in posts if post.workload.namespace not in ignored]

    def _is_in_doubt(self, post: Post) -> bool:
        """True if the lease of the post exists but cannot be decoded."""
        place = post.workload.namespace, post.lease
        return any((each.namespace, each.name) == place for each in self._cluster.leases.unreadable)

    def _look_at_leases(self, posts: Sequence[Post]) -> None:
        before, memory = self._memory.sightings, self._memory
        memory.forget_others(post.workload for post in posts)
        now, wall_time = self._elapsed(), self._clock.now()
        memory.sightings = {
            post.workload: roles.observe(
                before.get(post.workload), tenure, now=now, wall_time=wall_time
            )
            for post in posts
            if (tenure := self._seen(post)) is not None
        }

    def _seen(self, post: Post) -> Tenure | None:
        return _tenure(self._cluster.leases.find(post.workload.namespace, post.lease))

    def _plan_one(self, post: Post) -> RolePlan:
        now, settings = self._clock.now(), self._settings
        seen = [pod for owner in sorted(post.owners) for pod in self._pods.under(owner)]
        # The watch may not have shown our own patches yet; planning by it would write them twice.
        pods = self._memory.as_written(seen, now)
        sighting = self._memory.sightings.get(post.workload)
        found = roles.find_holder(sighting, pods, self._elapsed())
        pace = self._memory.pace(post.workload, now)
        may_give = roles.can_give(pace, settings.pace)
        return roles.plan_role(post, settings.role, pods, found, may_give=may_give)

    async def _carry_out(self, plans: Sequence[RolePlan]) -> None:
        slots = asyncio.Semaphore(self._settings.concurrency)

        async def change(plan: RolePlan) -> None:
            async with slots:
                try:
                    await self._change(plan)
                except (ClusterError, DecodeError) as error:
                    self._report(RoleChangeFailed(plan, error))

        async with asyncio.TaskGroup() as group:
            for plan in plans:
                group.create_task(change(plan))

    async def _change(self, plan: RolePlan) -> None:
        # The lease is read from the server at the last moment: a watch may be seconds behind.
        if not await self._still_stands(plan):
            self._report(Outdated(plan))
            return
        # Take first: two pods with the role are worse than none for a moment.
        for pod in plan.takes:
            # It may be gone, or have lost the label already; the server lists other holders below.
            with suppress(ConflictError, NotFoundError):
                await self._take(plan, pod)
        if plan.gives_to is not None:
            # Not suppressed here: while any other pod keeps the role, it must not be given.
            for pod in await self._others(plan, plan.gives_to):
                await self._take(plan, pod)
            await self._give(plan, plan.gives_to)

    async def _still_stands(self, plan: RolePlan) -> bool:
        post = plan.post
        sighting = self._memory.sightings.get(post.workload)
        live = _tenure(await self._cluster.fetch_lease(post.workload.namespace, post.lease))
        seen = None if sighting is None else sighting.tenure
        return roles.still_stands(plan.standing, seen, live)

    async def _others(self, plan: RolePlan, pod: Pod) -> list[Pod]:
        """Return the group's other pods that have the role, as the server lists them now."""
        role = self._settings.role
        found = await self._cluster.list_labelled(pod.namespace, role.label, role.value)
        return [each for each in found if plan.post.employs(each) and each.uid != pod.uid]

    async def _take(self, plan: RolePlan, pod: Pod) -> None:
        # Asked before every write: the process may lose its own lease between two of them.
        if self._may_act():
            await self._cluster.patch_pod(pod, self._settings.role.take())
            self._note(plan, pod, RoleChange.TAKE)

    async def _give(self, plan: RolePlan, pod: Pod) -> None:
        if self._may_act():
            await self._cluster.patch_pod(pod, self._settings.role.give(pod))
            self._note(plan, pod, RoleChange.GIVE)

    def _note(self, plan: RolePlan, pod: Pod, change: RoleChange) -> None:
        is_worn = change is RoleChange.GIVE
        self._memory.write(plan.post.workload, pod, self._clock.now(), is_worn=is_worn)
        self._report(Changed(plan, pod, change))


def _owner_uid(pod: Pod) -> str:
    return "" if pod.owner is None else pod.owner.uid


def _tenure(lease: Lease | None) -> Tenure | None:
    if lease is None:
        return None
    return Tenure(lease.holder, lease.duration, lease.renewed_at)
