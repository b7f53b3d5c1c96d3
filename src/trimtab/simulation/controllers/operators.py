"""Custom resources whose operator creates a StatefulSet, and keeps it at the wanted size.

Components know only the scale subresource of such a kind, and some kinds have none.
"""

from dataclasses import replace

from trimtab.simulation.controllers.replicas import Upkeep
from trimtab.simulation.world.objects import WorkloadObject


async def reconcile_database(upkeep: Upkeep, workload: WorkloadObject) -> None:
    """Create the StatefulSet of a custom resource, or bring it to the wanted size."""
    owned = upkeep.world.workloads_owned_by(workload.uid)
    if not owned:
        upkeep.world.add_workload(
            replace(
                workload,
                kind="StatefulSet",
                api_version="apps/v1",
                owner=workload.reference,
                has_scale=True,
            )
        )
    for each in owned:
        upkeep.store(replace(each, replicas=workload.replicas))
