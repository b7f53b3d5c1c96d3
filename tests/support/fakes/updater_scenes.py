"""What scenes with an updater have in common: settings, recommendations, a while that passes."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_recommendation, amounts

from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ApiError
from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards.rate_limit import PaceSettings
from trimtab.core.model.resources import Resource
from trimtab.updater.controller import Updater
from trimtab.updater.settings import UpdaterSettings

UP = a_recommendation(target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB))
UNPACED = UpdaterSettings(pace=PaceSettings(per_second=0), uses_admission_status=False)
"""As fast as can be, with an admission controller that is always there."""
SEVERAL_BUDGETS = ApiError(
    "POST eviction",
    Status(
        code=500,
        message="This pod has more than one PodDisruptionBudget, which the eviction subresource "
        "does not support.",
    ),
)
"""The API server's answer to evictions of pods that several budgets select."""


def an_updater(cluster: UpdaterCluster, settings: UpdaterSettings = UNPACED) -> Updater:
    return Updater(cluster, settings=settings, clock=cluster.clock)


def planning(**fields: object) -> UpdaterSettings:
    """Settings whose plans differ from the usual ones."""
    return replace(UNPACED, plan=replace(UNPACED.plan, **fields))  # type: ignore[arg-type]


async def let_run(updater: Updater, span: timedelta) -> None:
    """Let the updater run for a while."""
    running = asyncio.create_task(updater.run())
    await asyncio.sleep(span.total_seconds())
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def cpu(cluster: UpdaterCluster, name: str = "web") -> list[int]:
    """The CPU requests of all pods of a Deployment, in order."""
    return sorted(
        (container.spec.requests or {})[Resource.CPU]
        for pod in cluster.pods_of(name)
        for container in pod.containers
    )


def holds(updater: Updater) -> dict[str, str]:
    """By pod why it is held."""
    return {
        each.pod.name: each.reason.value for each in updater.last_plan if isinstance(each, Hold)
    }
