import pytest
from simulation.bare_cluster import a_placed_pod, a_workload, a_world, virtually
from support.makers.records import amounts, an_autoscaler

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import OwnerReference, WorkloadName
from trimtab.simulation.world.facts import Fact, FaultBegan
from trimtab.simulation.world.objects import LimitRange, WorkloadObject
from trimtab.simulation.world.tables import TableChange
from trimtab.simulation.world.virtual_time import START


@virtually
async def test_every_workload_has_an_identity_of_its_own() -> None:
    world = a_world()
    first = world.add_workload(a_workload())
    second = world.add_workload(a_workload())

    assert first.uid != second.uid
    assert second.created_at == START
    assert world.find_workload(first.identity) == second


@virtually
async def test_an_owner_of_the_same_name_is_not_the_same_owner() -> None:
    world = a_world()
    old = world.add_workload(a_workload())
    new = world.add_workload(a_workload())

    assert world.find_owner("default", new.reference) == new
    assert world.find_owner("default", old.reference) is None
    assert world.find_owner("elsewhere", new.reference) is None
    assert world.find_owner("default", None) is None


@virtually
async def test_what_a_workload_owns_is_found_whatever_its_kind() -> None:
    world = a_world()
    owner = world.add_workload(a_workload("Rollout"))
    owned = [
        world.add_workload(a_workload(kind, "below", owner=owner.reference))
        for kind in ("Job", "ReplicaSet", "Gadget")
    ]
    pod = world.pods.put(a_placed_pod(owner=owner.reference))

    assert world.workloads_owned_by(owner.uid) == owned
    assert world.pods_by_owner.under(owner.uid) == [pod]
    assert world.pods_by_node.under("node-0") == [pod]
    assert world.pods_by_namespace.under("default") == [pod]


@virtually
async def test_whoever_listens_to_workloads_hears_of_kinds_that_come_later() -> None:
    world, heard = a_world(), list[TableChange[WorkloadObject]]()
    world.subscribe_to_workloads(heard.append)
    made = [world.add_workload(a_workload(kind)) for kind in ("Deployment", "Gadget")]

    assert [change.after for change in heard] == made


@virtually
async def test_an_edit_of_an_autoscaler_is_a_new_generation() -> None:
    world = a_world()
    made = world.add_autoscaler(an_autoscaler())
    edited = world.change_autoscaler(made)

    assert (made.generation, edited.generation) == (1, 2)
    assert edited.uid == made.uid
    assert edited.resource_version != made.resource_version


def test_a_limit_range_has_its_defaults_once_it_is_stored() -> None:
    world = a_world()
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(cpu=500))
    stored = world.limit_ranges.put(LimitRange("default", "bounds", (item,)))

    assert stored.items[0].default == amounts(cpu=500)
    assert world.limit_ranges_in("default") == [stored]
    assert world.limit_ranges_in("elsewhere") == []


def test_listeners_are_told_every_fact() -> None:
    world, told = a_world(), list[Fact]()
    world.subscribe(told.append)
    fact = FaultBegan(START, "crash")
    world.record(fact)

    assert told == [fact]


@pytest.mark.parametrize(
    ("kind", "replicas", "api_version"),
    [
        pytest.param("Deployment", 3, "apps/v1", id="a Deployment counts its pods"),
        pytest.param("DaemonSet", 3, "apps/v1", id="a DaemonSet does"),
        pytest.param("ReplicationController", 3, "v1", id="the oldest kind has no group"),
        pytest.param("Job", None, "batch/v1", id="a Job has no replicas"),
        pytest.param("CronJob", None, "batch/v1", id="nor has a CronJob"),
    ],
)
def test_deciders_know_of_a_workload_what_the_wire_would_tell(
    kind: str, replicas: int | None, api_version: str
) -> None:
    workload = a_workload(kind, uid="it")

    assert workload.known.name == WorkloadName("default", kind, "web")
    assert workload.known.replicas == replicas
    assert workload.reference == OwnerReference(kind, "web", api_version, "it")
