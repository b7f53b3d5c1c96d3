import pytest

from trimtab.core.model.resources import BOTH
from trimtab.simulation.demo.workloads import FOLLOWER, LEADER, nodes, parts, workloads
from trimtab.simulation.world.loads import ROLE_LABEL
from trimtab.simulation.world.objects import WorkloadObject


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.name)
@pytest.mark.parametrize("role", [LEADER, FOLLOWER])
def test_every_pod_belongs_to_one_part_whatever_its_role(
    workload: WorkloadObject, role: str
) -> None:
    labels = {**workload.template.labels, ROLE_LABEL: role}
    found = [part for part in parts() if part.labels.matches(labels)]

    assert len(found) == 1
    target = found[0].autoscaler.target
    assert target is not None
    assert (target.kind, target.name) == (workload.kind, workload.name)


def test_all_nodes_have_room_for_what_the_owners_asked_for() -> None:
    for resource in BOTH:
        asked = sum(
            (workload.replicas or 1) * (container.allocation.requests or {})[resource]
            for workload in workloads()
            for container in workload.template.containers
        )

        assert asked < sum(node.capacity[resource] for node in nodes())


def test_titles_are_unique_and_short_enough_for_a_column() -> None:
    titles = [part.title for part in parts()]

    assert len(set(titles)) == len(titles)
    assert max(map(len, titles)) <= 9
