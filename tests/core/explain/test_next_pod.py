"""What the next pod would be given, as admission would give it."""

from collections.abc import Mapping

import pytest
from msgspec import structs
from support.makers.plans import UP, WEB, boosting
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.explain.next_pod import NextPod, size_newcomer
from trimtab.core.model.autoscalers import Autoscaler, ContainerPolicy, CpuBoost, Held, UpdateMode
from trimtab.core.model.cap_notes import NoteKind
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.matching import ObservedAutoscaler, index_by_workload
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.core.updates.snapshot import ObservedPod

SIZE = amounts(100, 100 * MIB)
POD = a_pod(
    a_container(requests=SIZE, limits=amounts(200), status=Allocation(amounts(1, 1))),
    ready_since=NOW - minutes(5),
)


def sized(autoscaler: Autoscaler, *limit_ranges: LimitRangeItem) -> NextPod:
    return sized_from(POD, autoscaler, None, BoostRoom(limit_ranges))


def sized_from(
    pod: Pod,
    autoscaler: Autoscaler,
    template: Mapping[str, Allocation] | None,
    room: BoostRoom = BoostRoom(),
) -> NextPod:
    index = index_by_workload([ObservedAutoscaler(autoscaler, Selector())])
    return size_newcomer(ObservedPod(pod, WEB), index, room, FeatureGates(), template)


def test_a_new_pod_gets_targets_and_limits_in_proportion() -> None:
    found = sized(an_autoscaler(UP))

    assert found.autoscaler == an_autoscaler().identity
    assert found.containers == {
        "app": Allocation(amounts(500, 500 * MIB), amounts(1000)),
    }


def test_limit_ranges_and_policies_bound_what_a_new_pod_gets() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(600))
    policies = (ContainerPolicy("app", max_allowed=amounts(memory=300 * MIB)),)
    found = sized(an_autoscaler(UP, policies=policies), item)

    assert found.containers["app"] == Allocation(amounts(300, 300 * MIB), amounts(600))
    assert {note.kind for note in found.notes["app"]} >= {
        NoteKind.LIMIT_RANGE_MAX,
        NoteKind.MAX_ALLOWED,
    }


def test_a_new_pod_keeps_what_its_template_says_in_mode_off() -> None:
    found = sized(an_autoscaler(UP, mode=UpdateMode.OFF))

    assert found == NextPod(None, {"app": Allocation(SIZE, amounts(200))}, {})


def test_a_new_pod_gets_its_boost() -> None:
    found = sized(boosting(UP))
    unclear = sized(an_autoscaler(UP, boost=CpuBoost()))

    assert found.containers["app"].requests == amounts(2000, 500 * MIB)
    assert unclear.is_boost_invalid
    assert unclear.containers["app"].requests == SIZE


SMALL = {"app": Allocation(amounts(50, 50 * MIB), amounts(200))}


@pytest.mark.parametrize(
    ("autoscaler", "room", "expected"),
    [
        pytest.param(
            an_autoscaler(UP, mode=UpdateMode.OFF),
            BoostRoom(),
            Allocation(amounts(50, 50 * MIB), amounts(200)),
            id="mode Off leaves all of it alone",
        ),
        pytest.param(
            an_autoscaler(UP, held=frozenset({Held(Resource.CPU)})),
            BoostRoom(),
            Allocation(amounts(50, 500 * MIB), amounts(200)),
            id="an HPA on CPU leaves the CPU alone",
        ),
        pytest.param(
            an_autoscaler(UP),
            BoostRoom(
                quotas=[Quota("default", "team", {QuotaClaim(Side.REQUESTS, Resource.CPU): 99})]
            ),
            Allocation(amounts(50, 500 * MIB), amounts(200)),
            id="a quota that is short of CPU",
        ),
        pytest.param(
            an_autoscaler(UP),
            BoostRoom(),
            Allocation(amounts(500, 500 * MIB), amounts(2000)),
            id="limits in the proportion of the template",
        ),
    ],
)
def test_what_admission_leaves_alone_is_as_the_template_says(
    autoscaler: Autoscaler, room: BoostRoom, expected: Allocation
) -> None:
    found = sized_from(POD, autoscaler, SMALL, room)

    assert found.containers == {"app": expected}
    assert found.is_from_template
    assert not sized_from(POD, autoscaler, None, room).is_from_template


def test_a_template_without_amounts_gets_those_of_limits_and_limit_ranges() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(memory=70 * MIB))
    template = {"app": Allocation(None, amounts(200))}
    off = an_autoscaler(UP, mode=UpdateMode.OFF)
    found = sized_from(POD, off, template, BoostRoom([item]))

    assert found.containers["app"] == Allocation(amounts(200, 70 * MIB), amounts(200, 70 * MIB))


def test_a_boosted_pod_says_nothing_about_the_boost_of_the_next_one() -> None:
    mark = format_original(Allocation(SIZE, amounts(200)))
    boosted = a_pod(
        a_container(requests=amounts(400, 100 * MIB), limits=amounts(800)),
        annotations={**BOOST_TOLD, annotation_name("app"): mark},
    )
    factor = an_autoscaler(mode=UpdateMode.OFF, boost=CpuBoost(factor=4))
    found = sized_from(boosted, factor, SMALL)

    assert found.containers["app"] == Allocation(amounts(200, 50 * MIB), amounts(800))


def test_a_container_that_is_not_in_the_template_is_as_it_runs() -> None:
    injected = a_container("proxy", index=1, requests=amounts(10), limits=amounts(20))
    pod = structs.replace(POD, containers=(*POD.containers, injected))
    found = sized_from(pod, an_autoscaler(UP, mode=UpdateMode.OFF), SMALL)

    assert found.containers["proxy"] == Allocation(amounts(10), amounts(20))
