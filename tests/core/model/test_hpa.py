"""Horizontal autoscalers beside ours: which resources are held, and that nothing changes these."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from support.makers.plans import (
    DOWN,
    SMALL,
    UP,
    WEB,
    boosted,
    boosting,
    planned,
    several,
    snapshot_of,
    told,
)
from support.makers.pod_documents import apply, write_pod
from support.makers.records import (
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)
from support.strategies.records import (
    NAMES,
    autoscaler,
    limit_ranges,
    pod,
    recommendation,
    sane_allocation,
)

from trimtab.core.changes.outcomes import Evict, Resize, Unboost
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerRecommendation,
    Held,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hpa import (
    Horizontal,
    HpaClaim,
    Marking,
    Scaling,
    find_claims,
    scaling_among,
)
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import OwnerReference, Pod, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.capping import cap_for_pod
from trimtab.core.sizing.startup_boost import BoostError

CPU, MEMORY = Resource.CPU, Resource.MEMORY
BOTH_HELD = frozenset({Held(CPU), Held(MEMORY)})
ON = FeatureGates()

Json = dict[str, Any]

held_resources = st.frozensets(
    st.builds(Held, st.sampled_from(BOTH), st.sampled_from(["*", *NAMES])), min_size=1
)


def a_horizontal(
    *resources: Resource, name: str = "web", containers: Sequence[tuple[str, Resource]] = ()
) -> Horizontal:
    of_containers = frozenset(Held(resource, container) for container, resource in containers)
    return Horizontal("default", name, "Deployment", "web", frozenset(resources), of_containers)


def held(autoscaler: Autoscaler, *resources: Resource) -> Autoscaler:
    return replace(autoscaler, held=frozenset(map(Held, resources)))


TWO = (
    a_recommendation(target=amounts(500, 500 * MIB)),
    a_recommendation("log", target=amounts(memory=50 * MIB)),
)


@pytest.mark.parametrize(
    ("horizontals", "claims"),
    [
        pytest.param([], (), id="nobody scales it horizontally"),
        pytest.param([a_horizontal()], (), id="another metric is nobody's business"),
        pytest.param([a_horizontal(CPU)], (HpaClaim("web", CPU),), id="a resource of whole pods"),
        pytest.param(
            [a_horizontal(CPU, MEMORY)], (HpaClaim("web", CPU), HpaClaim("web", MEMORY)), id="both"
        ),
        pytest.param(
            [a_horizontal(containers=[("log", MEMORY)])],
            (HpaClaim("web", MEMORY, ("log",)),),
            id="a resource of one container",
        ),
        pytest.param(
            [a_horizontal(containers=[("log", CPU), ("ghost", MEMORY)])],
            (),
            id="what is not recommended is not claimed",
        ),
        pytest.param(
            [a_horizontal(CPU, containers=[("app", CPU)])],
            (HpaClaim("web", CPU),),
            id="whole pods are more than one container",
        ),
        pytest.param(
            [a_horizontal(MEMORY, name="b"), a_horizontal(CPU, name="a")],
            (HpaClaim("a", CPU), HpaClaim("b", MEMORY)),
            id="several, in the order of their names",
        ),
    ],
)
def test_a_resource_that_is_recommended_and_scaled_on_is_claimed(
    horizontals: list[Horizontal], claims: tuple[HpaClaim, ...]
) -> None:
    assert find_claims(an_autoscaler(), TWO, horizontals) == claims


def test_an_autoscaler_that_only_recommends_is_in_nobodys_way() -> None:
    only_recommends = an_autoscaler(mode=UpdateMode.OFF)

    assert find_claims(only_recommends, TWO, [a_horizontal(CPU)]) == ()


def test_a_boost_is_in_the_way_also_where_the_mode_is_off() -> None:
    claims = find_claims(boosting(mode=UpdateMode.OFF), TWO, [a_horizontal(CPU)])

    assert claims == (HpaClaim("web", CPU),)


APP = WorkloadName("default", "App", "shop")
OWNED = {WEB: Workload(WEB, OwnerReference("App", "shop"))}
ON_WEB = a_horizontal(CPU)
ON_APP = Horizontal("default", "app", "App", "shop", frozenset({MEMORY}))


@pytest.mark.parametrize(
    ("workload", "known", "found"),
    [
        pytest.param(WEB, {}, [ON_WEB], id="the workload itself"),
        pytest.param(APP, {}, [ON_APP], id="owners that nobody knows lead nowhere"),
        pytest.param(APP, OWNED, [ON_APP, ON_WEB], id="one that it owns"),
        pytest.param(
            APP._replace(namespace="elsewhere"), OWNED, [], id="of the same name elsewhere"
        ),
        pytest.param(WEB, OWNED, [ON_WEB], id="not what scales its owner"),
    ],
)
def test_who_scales_a_workload_or_one_that_it_owns_is_found(
    workload: WorkloadName, known: dict[WorkloadName, Workload], found: list[Horizontal]
) -> None:
    scaling = scaling_among([ON_WEB, ON_APP], known.get)

    assert list(scaling.of(workload)) == found


def test_of_a_well_known_workload_nobody_looks_at_all_others_of_the_namespace() -> None:
    def refuse(namespace: str) -> list[Horizontal]:
        raise AssertionError(namespace)

    scaling = Scaling(lambda _: [ON_WEB], refuse, OWNED.get)

    assert scaling.of(WEB) == [ON_WEB]


class Horizontals:
    """Horizontal autoscalers that come and go."""

    def __init__(self, *known: Horizontal) -> None:
        self.known = list(known)
        self.marking = Marking(self._under)

    def _under(self, workload: WorkloadName) -> list[Horizontal]:
        return [each for each in self.known if each.target == workload]


def test_an_autoscaler_is_marked_with_all_that_is_scaled_on() -> None:
    others = Horizontals(a_horizontal(CPU), a_horizontal(containers=[("log", MEMORY)], name="log"))

    marked = others.marking.mark(an_autoscaler())

    assert marked == replace(an_autoscaler(), held=frozenset({Held(CPU), Held(MEMORY, "log")}))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"target": TargetReference("StatefulSet", "web")}, id="another kind"),
        pytest.param({"target": TargetReference("Deployment", "db")}, id="another name"),
        pytest.param({"namespace": "elsewhere"}, id="another namespace"),
        pytest.param({"target": None}, id="no target at all"),
    ],
)
def test_an_autoscaler_of_another_workload_is_left_as_it_is(other: Json) -> None:
    mine = an_autoscaler(**other)

    assert Horizontals(a_horizontal(CPU)).marking.mark(mine) is mine


def test_the_marked_one_is_the_very_same_until_something_changes() -> None:
    others, mine = Horizontals(a_horizontal(CPU)), an_autoscaler()
    first, again = others.marking.mark(mine), others.marking.mark(mine)
    changed = others.marking.mark(replace(mine))
    others.known = [a_horizontal(MEMORY)]
    moved = others.marking.mark(mine)
    others.known = []

    assert again is first
    assert changed is not first
    assert moved.held == {Held(MEMORY)}
    assert others.marking.mark(mine) is mine


def test_the_marked_one_is_the_very_same_when_others_change_and_hold_the_same() -> None:
    others, mine = Horizontals(a_horizontal(CPU)), an_autoscaler()
    first = others.marking.mark(mine)
    others.known = [a_horizontal(CPU), a_horizontal(CPU, name="again")]

    assert others.marking.mark(mine) is first


def test_what_is_scaled_on_is_looked_at_again_only_after_a_change() -> None:
    class Telling(Horizontal):
        looks = 0

        @property
        def claims(self) -> frozenset[Held]:
            type(self).looks += 1
            return frozenset({Held(CPU)})

    others, mine = Horizontals(Telling("default", "web", "Deployment", "web")), an_autoscaler()
    marked = [others.marking.mark(mine) for _ in range(3)]

    assert Telling.looks == 1
    assert all(each.held == {Held(CPU)} for each in marked)


def test_one_that_scales_on_something_else_leaves_an_autoscaler_as_it_is() -> None:
    others, mine = Horizontals(a_horizontal()), an_autoscaler()

    assert others.marking.mark(mine) is mine
    assert others.marking.mark(mine) is mine


@given(
    recommendations=st.lists(recommendation, max_size=4),
    pod=pod(),
    items=limit_ranges,
    held=held_resources,
)
def test_what_is_held_is_in_no_capped_recommendation(
    recommendations: list[ContainerRecommendation],
    pod: Pod,
    items: list[LimitRangeItem],
    held: frozenset[Held],
) -> None:
    for one in cap_for_pod(recommendations, pod, (), items, held).recommendations:
        for kind in (*one.target, *(one.lower_bound or ()), *(one.upper_bound or ())):
            assert Held(kind) not in held
            assert Held(kind, one.container_name) not in held


@given(pod=pod(sane_allocation()), autoscaler=autoscaler, items=limit_ranges, held=held_resources)
def test_admission_never_changes_a_resource_that_is_held(
    pod: Pod, autoscaler: Autoscaler, items: list[LimitRangeItem], held: frozenset[Held]
) -> None:
    marked = replace(autoscaler, held=held)
    before = write_pod(pod)
    try:
        patch = admission_patch(pod, marked, gates=ON, limit_ranges=items)
    except BoostError:
        reject()
    after = apply(patch, write_pod(pod))

    for kind in ("containers", "initContainers"):
        pairs = zip(before["spec"].get(kind, ()), after["spec"].get(kind, ()), strict=True)
        for was, now in pairs:
            for resource in BOTH:
                if Held(resource) in held or Held(resource, was["name"]) in held:
                    assert _amounts(now, resource) == _amounts(was, resource)


def _amounts(container: Json, resource: Resource) -> list[object]:
    own = container.get("resources") or {}
    return [(own.get(which) or {}).get(resource) for which in ("requests", "limits")]


def test_a_container_without_advice_keeps_what_is_held_under_a_pod_limit_range() -> None:
    small = a_container(requests=SMALL)
    other = a_container("log", index=1, requests=SMALL)
    item = LimitRangeItem(LimitRangeType.POD, min=amounts(1000))
    marked = held(an_autoscaler(a_recommendation(target=amounts(50, 50 * MIB))), CPU)

    patch = admission_patch(a_pod(small, other), marked, gates=ON, limit_ranges=[item])

    assert not any(operation.path.endswith("/cpu") for operation in patch)


MODES = [UpdateMode.RECREATE, UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("advice", [UP, DOWN], ids=["up", "down"])
def test_pods_are_left_alone_where_all_that_would_change_is_held(
    mode: UpdateMode, advice: ContainerRecommendation
) -> None:
    marked = replace(an_autoscaler(advice, mode=mode), held=BOTH_HELD)

    assert told(planned(snapshot_of(several(2), marked))) == ["ScaledHorizontally"] * 2


def test_a_pod_that_has_what_is_recommended_is_not_said_to_be_held() -> None:
    marked = replace(an_autoscaler(a_recommendation(target=SMALL)), held=BOTH_HELD)

    assert told(planned(snapshot_of(several(2), marked))) == ["InsideBounds"] * 2


def test_the_resource_that_is_not_held_is_still_brought_to_pods_and_no_other() -> None:
    marked = held(an_autoscaler(UP, mode=UpdateMode.IN_PLACE), CPU)
    first, *_ = planned(snapshot_of(several(2), marked))

    assert isinstance(first, Resize)
    assert first.wanted["app"].requests == amounts(memory=500 * MIB)


def test_an_eviction_for_the_sake_of_memory_does_not_ask_for_cpu_that_is_held() -> None:
    first, *_ = planned(snapshot_of(several(2), held(an_autoscaler(UP), CPU)))

    assert isinstance(first, Evict)
    assert first.wanted["app"].requests == amounts(memory=500 * MIB)


def test_a_boost_that_is_over_goes_back_to_the_pod_spec_although_its_cpu_is_held() -> None:
    marked = held(boosting(UP), CPU)
    (end,) = planned(snapshot_of([boosted(ready=minutes(2))], marked))

    assert isinstance(end, Unboost)
    assert (end.wanted["app"].requests or {})[CPU] == SMALL[CPU]


def test_no_new_pod_is_boosted_whose_cpu_is_held() -> None:
    patch = admission_patch(a_pod(), held(boosting(UP), CPU), gates=ON)

    assert not any("boost" in str(each) or each.path.endswith("/cpu") for each in patch)


def test_all_of_a_workload_is_found_by_the_name_that_plans_use() -> None:
    assert a_horizontal(CPU).target == WEB
