"""What the next pod would be given, as admission would give it."""

from makers import MIB, NOW, a_container, a_pod, amounts, an_autoscaler, minutes
from plan_makers import UP, WEB, boosting

from trimtab.core.autoscalers import Autoscaler, ContainerPolicy, CpuBoost, UpdateMode
from trimtab.core.boost_room import BoostRoom
from trimtab.core.gates import FeatureGates
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.matching import ObservedAutoscaler, index_by_workload
from trimtab.core.newcomers import Newcomer, size_newcomer
from trimtab.core.notes import NoteKind
from trimtab.core.pods import Allocation
from trimtab.core.selectors import Selector
from trimtab.core.snapshot import ObservedPod

SIZE = amounts(100, 100 * MIB)
POD = a_pod(
    a_container(requests=SIZE, limits=amounts(200), status=Allocation(amounts(1, 1))),
    ready_since=NOW - minutes(5),
)


def sized(autoscaler: Autoscaler, *limit_ranges: LimitRangeItem) -> Newcomer:
    index = index_by_workload([ObservedAutoscaler(autoscaler, Selector())])
    return size_newcomer(ObservedPod(POD, WEB), index, BoostRoom(limit_ranges), FeatureGates())


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

    assert found == Newcomer(None, {"app": Allocation(SIZE, amounts(200))}, {})


def test_a_new_pod_gets_its_boost() -> None:
    found = sized(boosting(UP))
    unclear = sized(an_autoscaler(UP, boost=CpuBoost()))

    assert found.containers["app"].requests == amounts(2000, 500 * MIB)
    assert unclear.is_boost_invalid
    assert unclear.containers["app"].requests == SIZE
