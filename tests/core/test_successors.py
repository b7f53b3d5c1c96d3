"""Successors that would lose what their autoscaler no longer sets."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from makers import BOOST_TOLD, MIB, a_container, amounts, an_autoscaler
from plan_makers import DOWN, REPLICA_SET, UP, planned, several, snapshot_of, told

from trimtab.core.annotations import UPDATES
from trimtab.core.assessment import PlanSettings
from trimtab.core.autoscalers import Autoscaler, ContainerPolicy, Held, UpdateMode
from trimtab.core.boost import annotation_name
from trimtab.core.disruption import DisruptionSettings
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.pods import Allocation, Pod, PodPhase, WorkloadName
from trimtab.core.quotas import Claim, Quota, Side
from trimtab.core.resources import Resource
from trimtab.core.successors import takes_more_than_it_gives, template_of

SIZED = "Pod resources updated by web: container 0: cpu request, memory request"
ALL_AT_ONCE = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
CPU_HELD = frozenset({Held(Resource.CPU)})


def sized(cpu: int, memory: int, **fields: object) -> list[Pod]:
    """Pods that were given so many millicores and mebibytes."""
    container = a_container(requests=amounts(cpu, memory * MIB))
    return several(2, containers=(container,), annotations={UPDATES: SIZED}, **fields)


def a_template(
    cpu: int | None, memory: int = 100
) -> Mapping[WorkloadName, Mapping[str, Allocation]]:
    return {REPLICA_SET: {"app": Allocation(amounts(cpu, memory * MIB))}}


@pytest.mark.parametrize(
    ("autoscaler", "template", "expected"),
    [
        pytest.param(
            an_autoscaler(UP, held=CPU_HELD), 90, "SuccessorSmaller", id="an HPA scales on its CPU"
        ),
        pytest.param(
            an_autoscaler(
                UP,
                policies=(ContainerPolicy("*", controlled_resources=(Resource.MEMORY,)),),
            ),
            90,
            "SuccessorSmaller",
            id="its policy leaves CPU out",
        ),
        pytest.param(
            an_autoscaler(UP, held=CPU_HELD), None, "SuccessorSmaller", id="no request at all"
        ),
        pytest.param(an_autoscaler(UP, held=CPU_HELD), 120, "Evict", id="it gains more memory"),
        pytest.param(an_autoscaler(UP, held=CPU_HELD), 600, "Evict", id="a larger template"),
        pytest.param(an_autoscaler(UP), 90, "Evict", id="its CPU is recommended"),
    ],
)
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
def test_no_pod_is_evicted_whose_successor_loses_more_than_it_gains(
    autoscaler: Autoscaler, template: int | None, expected: str, mode: UpdateMode
) -> None:
    snapshot = snapshot_of(
        sized(500, 100),
        replace(autoscaler, mode=mode),
        template_sizes=a_template(template),
        resizes_in_place=False,
    )

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {expected}


def test_a_pod_that_does_not_run_has_nothing_to_lose() -> None:
    pending = sized(500, 100, phase=PodPhase.PENDING)
    autoscaler = an_autoscaler(DOWN, held=CPU_HELD)
    snapshot = snapshot_of(pending, autoscaler, template_sizes=a_template(90))

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {"Evict"}


def test_an_owner_whose_template_is_not_known_keeps_no_pod_from_eviction() -> None:
    snapshot = snapshot_of(sized(500, 100), an_autoscaler(UP, held=CPU_HELD))

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {"Evict"}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(20, "QuotaExceeded", id="the template fits beside the pod"),
        pytest.param(300, "Evict", id="it does not, so that the successor waits for room"),
    ],
)
def test_d19_a_known_template_tells_which_size_a_tight_quota_gives(
    template: int, expected: str
) -> None:
    left = Quota("default", "team", {Claim(Side.REQUESTS, Resource.CPU): 100})
    snapshot = snapshot_of(
        sized(480, 100),
        an_autoscaler(UP),
        quotas={"default": [left]},
        template_sizes=a_template(template),
    )

    assert expected in told(planned(snapshot))


def test_containers_beside_the_template_stay_and_defaults_fill_it() -> None:
    (pod,) = several(1, containers=(a_container(), a_container(name="b", requests=amounts(7))))
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(50))

    assert template_of(pod, None, ()) is None
    assert template_of(pod, {"app": Allocation(amounts(5))}, ()) == [
        Allocation(amounts(5)),
        Allocation(amounts(7)),
    ]
    found = template_of(pod, {"app": Allocation()}, [item])
    assert found is not None
    assert [each.requests for each in found] == [amounts(50), amounts(7)]


def test_a_boost_and_a_trifle_are_no_loss() -> None:
    (boosted,) = several(
        1,
        containers=(a_container(requests=amounts(500, 100 * MIB)),),
        annotations={**BOOST_TOLD, annotation_name("app"): "{}"},
    )
    plain = replace(boosted, annotations={})

    assert not takes_more_than_it_gives(boosted, {}, [Allocation(amounts(5, 100 * MIB))], 0.1)
    assert not takes_more_than_it_gives(plain, {}, [Allocation(amounts(460, 100 * MIB))], 0.1)
    assert not takes_more_than_it_gives(plain, {}, [Allocation({}, amounts(500, 100 * MIB))], 0.1)
    assert takes_more_than_it_gives(plain, {}, [Allocation(amounts(450, 100 * MIB))], 0.1)
