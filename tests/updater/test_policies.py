"""Resource policies beside the updater: what they do not control is left as it is."""

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import an_updater, holds, let_run
from support.makers.records import MIB, a_recommendation, amounts, minutes

from trimtab.core.model.autoscalers import ContainerPolicy, UpdateMode
from trimtab.core.model.resources import Resource, Resources

UP = a_recommendation(target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB))
ONLY_MEMORY = (ContainerPolicy("*", controlled_resources=(Resource.MEMORY,)),)


def requests(cluster: UpdaterCluster) -> list[Resources]:
    return [pod.containers[0].current.requests or {} for pod in cluster.pods_of("web")]


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.RECREATE])
def test_a_target_of_a_resource_that_is_not_controlled_is_not_applied(mode: UpdateMode) -> None:
    async def scene() -> None:
        cluster = UpdaterCluster()
        cluster.deploy()
        cluster.autoscale(UP, mode=mode, policies=ONLY_MEMORY)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))

        assert requests(cluster) == [amounts(100, 500 * MIB)] * 2
        assert set(holds(updater).values()) == {"InsideBounds"}

    run_virtually(scene())
