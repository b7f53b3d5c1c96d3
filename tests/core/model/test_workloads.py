"""Chains of owners, as far as they are known."""

import pytest

from trimtab.core.model.pods import OwnerReference, WorkloadName
from trimtab.core.model.workloads import MAX_LEVELS, Workload, owners_above

APP, WEB, SET = (
    WorkloadName("default", kind, "web") for kind in ("App", "Deployment", "ReplicaSet")
)


def owned(name: WorkloadName, owner: WorkloadName | None = None) -> Workload:
    return Workload(name, None if owner is None else OwnerReference(owner.kind, owner.name))


@pytest.mark.parametrize(
    ("workloads", "owners"),
    [
        pytest.param([], [], id="nothing is known"),
        pytest.param([owned(SET)], [], id="nobody owns it"),
        pytest.param([owned(SET, WEB), owned(WEB)], [WEB], id="one level"),
        pytest.param([owned(SET, WEB), owned(WEB, APP)], [WEB, APP], id="the last is not known"),
        pytest.param([owned(SET, SET)], [SET] * MAX_LEVELS, id="a circle comes to an end"),
    ],
)
def test_owners_are_told_from_the_nearest_up_to_the_first_that_is_not_known(
    workloads: list[Workload], owners: list[WorkloadName]
) -> None:
    known = {each.name: each for each in workloads}

    assert list(owners_above(SET, known.get)) == owners
