"""HorizontalPodAutoscalers beside admission: new pods keep what these scale on."""

import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts

from trimtab.admission.admit import Admission
from trimtab.admission.settings import AdmissionSettings
from trimtab.core.model.autoscalers import CpuBoost
from trimtab.core.model.hpa import HpaConflict
from trimtab.core.model.pods import OwnerReference, WorkloadName
from trimtab.core.model.resources import Resource, Resources
from trimtab.simulation.api_server.json_patch import apply_patch

CPU, MEMORY = Resource.CPU, Resource.MEMORY
UP = a_recommendation(target=amounts(500, 500 * MIB))
NEW = a_pod(
    a_container(requests=amounts(100, 100 * MIB), limits=amounts(200, 200 * MIB)),
    owner=OwnerReference("ReplicaSet", "web-1", "apps/v1", "rs-web"),
)


def a_cluster(**fields: object) -> UpdaterCluster:
    cluster = UpdaterCluster()
    cluster.deploy()
    cluster.autoscale(UP, **fields)  # type: ignore[arg-type]
    return cluster


def admitted(admission: Admission) -> tuple[Resources | None, Resources | None]:
    spec = apply_patch(NEW, admission.admit(NEW)).containers[0].spec
    return spec.requests, spec.limits


@pytest.mark.parametrize(
    ("choice", "requests", "limits"),
    [
        pytest.param(
            HpaConflict.HOLD, amounts(100, 500 * MIB), amounts(200, 1000 * MIB), id="hold"
        ),
        pytest.param(
            HpaConflict.WARN, amounts(500, 500 * MIB), amounts(1000, 1000 * MIB), id="warn"
        ),
        pytest.param(
            HpaConflict.IGNORE, amounts(500, 500 * MIB), amounts(1000, 1000 * MIB), id="ignore"
        ),
    ],
)
def test_a_new_pod_keeps_the_cpu_that_a_horizontal_autoscaler_goes_by(
    choice: HpaConflict, requests: Resources, limits: Resources
) -> None:
    async def scene() -> None:
        cluster = a_cluster()
        cluster.scale_horizontally(CPU)
        admission = Admission(cluster, AdmissionSettings(hpa_conflict=choice))

        assert admitted(admission) == (requests, limits)

    run_virtually(scene())


def test_the_cached_size_of_the_last_pod_ends_with_a_horizontal_autoscaler() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        admission = Admission(cluster, AdmissionSettings())
        found = []
        for resources in ([], [CPU], [CPU, MEMORY], [MEMORY], []):
            cluster.scale_horizontally(*resources)
            found.append(admitted(admission)[0])

        assert found == [
            amounts(500, 500 * MIB),
            amounts(100, 500 * MIB),
            amounts(100, 100 * MIB),
            amounts(500, 100 * MIB),
            amounts(500, 500 * MIB),
        ]

    run_virtually(scene())


def test_no_pod_is_boosted_whose_cpu_a_horizontal_autoscaler_goes_by() -> None:
    async def scene() -> None:
        cluster = a_cluster(boost=CpuBoost(factor=3))
        cluster.scale_horizontally(CPU)
        admission = Admission(cluster, AdmissionSettings())

        assert admitted(admission)[0] == amounts(100, 500 * MIB)

    run_virtually(scene())


def test_a_new_pod_keeps_it_if_the_autoscaler_targets_an_owner_of_what_is_scaled() -> None:
    async def scene() -> None:
        cluster = a_cluster()
        cluster.own("web", WorkloadName("default", "App", "shop"))
        cluster.scale_horizontally(CPU)
        admission = Admission(cluster, AdmissionSettings())

        assert admitted(admission)[0] == amounts(100, 500 * MIB)

    run_virtually(scene())
