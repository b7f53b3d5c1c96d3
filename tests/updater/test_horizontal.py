"""HorizontalPodAutoscalers beside the updater: what they scale on is left as it is."""

from dataclasses import replace

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.fakes.updater_scenes import UNPACED, an_updater, holds, let_run
from support.makers.records import MIB, a_recommendation, amounts, minutes

from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.pods import WorkloadName
from trimtab.core.model.resources import Resource, Resources

CPU, MEMORY = Resource.CPU, Resource.MEMORY
BEFORE = amounts(100, 100 * MIB)
UP = a_recommendation(target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB))


def a_cluster(*resources: Resource, mode: UpdateMode = UpdateMode.IN_PLACE) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy()
    cluster.autoscale(UP, mode=mode)
    cluster.scale_horizontally(*resources)
    return cluster


def requests(cluster: UpdaterCluster) -> list[Resources]:
    pods = sorted(cluster.truth.values(), key=lambda pod: pod.name)
    return [pod.containers[0].current.requests or {} for pod in pods]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([], amounts(500, 500 * MIB), id="nobody scales it horizontally"),
        pytest.param([CPU], amounts(100, 500 * MIB), id="CPU is held"),
        pytest.param([MEMORY], amounts(500, 100 * MIB), id="memory is held"),
        pytest.param([CPU, MEMORY], BEFORE, id="both are held"),
    ],
)
def test_pods_get_what_is_recommended_but_for_what_is_scaled_on(
    resources: list[Resource], expected: Resources
) -> None:
    async def scene() -> None:
        cluster = a_cluster(*resources)
        await let_run(an_updater(cluster), minutes(30))

        assert requests(cluster) == [expected, expected]

    run_virtually(scene())


def test_what_scales_a_deployment_holds_also_where_the_autoscaler_is_for_its_owner() -> None:
    async def scene() -> None:
        cluster = a_cluster(CPU)
        cluster.own("web", WorkloadName("default", "App", "shop"))
        await let_run(an_updater(cluster), minutes(30))

        assert requests(cluster) == [amounts(100, 500 * MIB)] * 2

    run_virtually(scene())


def test_nothing_is_evicted_for_the_sake_of_what_is_held_and_the_plan_says_why() -> None:
    async def scene() -> None:
        cluster = a_cluster(CPU, MEMORY, mode=UpdateMode.RECREATE)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))

        assert cluster.acts == []
        assert set(holds(updater).values()) == {"ScaledHorizontally"}

    run_virtually(scene())


def test_once_the_other_one_is_gone_pods_get_all_of_it() -> None:
    async def scene() -> None:
        cluster = a_cluster(CPU)
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))
        cluster.scale_horizontally()
        await let_run(updater, minutes(30))

        assert requests(cluster) == [UP.target, UP.target]

    run_virtually(scene())


def test_from_the_moment_on_that_another_one_is_there_it_is_left_to_it() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        updater = an_updater(cluster)
        await let_run(updater, minutes(30))
        cluster.scale_horizontally(CPU)
        more = a_recommendation(target=amounts(900, 900 * MIB), lower=amounts(800, 800 * MIB))
        cluster.autoscale(more, mode=UpdateMode.IN_PLACE)
        await let_run(updater, minutes(60))

        assert requests(cluster) == [amounts(500, 900 * MIB)] * 2

    run_virtually(scene())


@pytest.mark.parametrize("choice", [HpaConflict.WARN, HpaConflict.IGNORE])
def test_who_only_warns_or_ignores_it_holds_nothing(choice: HpaConflict) -> None:
    async def scene() -> None:
        cluster = a_cluster(CPU, MEMORY)
        await let_run(an_updater(cluster, replace(UNPACED, hpa_conflict=choice)), minutes(30))

        assert requests(cluster) == [UP.target, UP.target]

    run_virtually(scene())


def test_a_horizontal_autoscaler_of_another_workload_holds_nothing() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        cluster.scale_horizontally(CPU, MEMORY, name="api")
        await let_run(an_updater(cluster), minutes(30))

        assert requests(cluster) == [UP.target, UP.target]

    run_virtually(scene())
