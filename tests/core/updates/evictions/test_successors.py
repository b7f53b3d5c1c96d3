"""Successors that would lose what their autoscaler no longer sets."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import DOWN, REPLICA_SET, UP, planned, several, snapshot_of, told
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)

from trimtab.core.changes.outcomes import Evict
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerPolicy,
    ControlledValues,
    CpuBoost,
    Held,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import (
    UPDATES,
    Allocation,
    Container,
    Pod,
    PodPhase,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.admission_patch import size_pod, size_successor
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.container_resources import overlaid
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.core.updates.evictions.successors import (
    from_template,
    takes_more_than_it_gives,
    template_of,
)
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.simulation.api_server.json_patch import apply_patch

SIZED = "Pod resources updated by web: container 0: cpu request, memory request"
ALL_AT_ONCE = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
CPU_HELD = frozenset({Held(Resource.CPU)})
REQUESTS_ONLY = (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),)
MODES = [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY]
OOM_KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))


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
    left = Quota("default", "team", {QuotaClaim(Side.REQUESTS, Resource.CPU): 100})
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
    plain = structs.replace(boosted, annotations={})

    assert not takes_more_than_it_gives(boosted, {}, [Allocation(amounts(5, 100 * MIB))], 0.1)
    assert not takes_more_than_it_gives(plain, {}, [Allocation(amounts(460, 100 * MIB))], 0.1)
    assert not takes_more_than_it_gives(plain, {}, [Allocation({}, amounts(500, 100 * MIB))], 0.1)
    assert takes_more_than_it_gives(plain, {}, [Allocation(amounts(450, 100 * MIB))], 0.1)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param(10, "SuccessorSmaller", id="the app would lose nearly all of its CPU"),
        pytest.param(800, "SuccessorSmaller", id="a fifth is too much as well"),
        pytest.param(950, "Evict", id="a trifle"),
        pytest.param(1000, "Evict", id="nothing"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_no_container_pays_for_the_growth_of_another(
    template: int, expected: str, mode: UpdateMode
) -> None:
    app = a_container(requests=amounts(1000))
    sidecar = a_container("sidecar", index=1, requests=amounts(10))
    autoscaler = an_autoscaler(
        a_recommendation("sidecar", target=amounts(1000), lower=amounts(900)), mode=mode
    )
    sizes = {"app": Allocation(amounts(template)), "sidecar": Allocation(amounts(10))}
    snapshot = snapshot_of(
        several(2, containers=(app, sidecar), annotations={UPDATES: SIZED}),
        autoscaler,
        template_sizes={REPLICA_SET: sizes},
        resizes_in_place=False,
    )

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {expected}


@pytest.mark.parametrize(
    ("template", "expected"), [(100, "SuccessorSmaller"), (480, "Evict"), (500, "Evict")]
)
@pytest.mark.parametrize("mode", MODES)
def test_no_gain_of_cpu_makes_up_for_memory(template: int, expected: str, mode: UpdateMode) -> None:
    snapshot = snapshot_of(
        sized(10, 500),
        an_autoscaler(UP, held=frozenset({Held(Resource.MEMORY)}), mode=mode),
        template_sizes=a_template(10, template),
        resizes_in_place=False,
    )

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {expected}


def size(cpu: int, memory: int | None = None) -> Resources:
    """Return so many millicores, and as many mebibytes if nothing else is said."""
    return amounts(cpu, (cpu if memory is None else memory) * MIB)


def once_unbound(last_termination: Termination | None = None) -> list[Pod]:
    """Pods whose limits grew with their requests, before their policy left limits alone."""
    container = a_container(
        requests=size(900), limits=size(1800), last_termination=last_termination
    )
    return several(2, containers=(container,), annotations={UPDATES: SIZED}, age=hours(48))


def bound_by_template(limit: int) -> Mapping[WorkloadName, Mapping[str, Allocation]]:
    return {REPLICA_SET: {"app": Allocation(size(100), size(limit))}}


@pytest.mark.parametrize(
    ("limit", "recommended", "lower", "expected"),
    [
        pytest.param(200, 1200, 1000, "SuccessorSmaller", id="far less than it has"),
        pytest.param(800, 1200, 700, "SuccessorSmaller", id="less, though it should grow"),
        pytest.param(300, 500, 400, "SuccessorSmaller", id="less than its lower bound"),
        pytest.param(450, 500, 400, "Evict", id="it should shrink, and needs no more"),
        pytest.param(1100, 1200, 1000, "Evict", id="not all that is recommended, but more"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_limits_of_the_template_bound_the_successor(
    limit: int, recommended: int, lower: int, expected: str, mode: UpdateMode
) -> None:
    target = a_recommendation(target=size(recommended), lower=size(lower), upper=size(recommended))
    autoscaler = an_autoscaler(target, mode=mode, policies=REQUESTS_ONLY)
    snapshot = snapshot_of(
        once_unbound(),
        autoscaler,
        template_sizes=bound_by_template(limit),
        resizes_in_place=False,
    )
    found = planned(snapshot, ALL_AT_ONCE)
    evicted = [each.wanted["app"].requests for each in found if isinstance(each, Evict)]

    if mode is UpdateMode.UPSCALE_ONLY and recommended < 900:
        expected = "OnlyShrinks"
    assert set(told(found)) == {expected}
    assert evicted == [size(min(limit, recommended))] * (2 if expected == "Evict" else 0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param(size(2000, 200), "SuccessorSmaller", id="it would get less memory"),
        pytest.param(size(200, 2000), "Evict", id="less CPU is no reason to die on"),
    ],
)
def test_an_oom_kill_is_not_answered_with_less_memory(
    limits: Resources, expected: str, mode: UpdateMode
) -> None:
    autoscaler = an_autoscaler(
        a_recommendation(target=size(1200), lower=size(1000)), mode=mode, policies=REQUESTS_ONLY
    )
    template = {REPLICA_SET: {"app": Allocation(size(100), limits)}}
    pods = once_unbound(last_termination=OOM_KILLED)

    snapshot = snapshot_of(pods, autoscaler, template_sizes=template, resizes_in_place=False)

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {expected}


def test_a_limit_range_that_cuts_any_successor_is_named_as_the_reason() -> None:
    autoscaler = an_autoscaler(a_recommendation(target=size(1200), lower=size(1000)))
    container = a_container(requests=size(900), limits=size(1800))
    pods = several(2, containers=(container,), annotations={UPDATES: SIZED}, node_name="one")
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(1000))
    snapshot = snapshot_of(
        pods,
        autoscaler,
        limit_ranges={"default": [item]},
        template_sizes=bound_by_template(200),
    )

    assert set(told(planned(snapshot, ALL_AT_ONCE))) == {"LimitRangeRefuses"}


some_amounts = st.builds(size, *[st.integers(1, 8).map(lambda one: one * 100)] * 2)


@st.composite
def some_sizes(draw: st.DrawFn) -> tuple[Allocation, Allocation]:
    """Draw requests of two containers, and limits that are not below them."""

    def one() -> Allocation:
        requests, limits = draw(some_amounts), draw(st.none() | some_amounts)
        if limits is None:
            return Allocation(requests)
        return Allocation(requests, {kind: max(limits[kind], requests[kind]) for kind in BOTH})

    return one(), one()


def pair_of_containers(sizes: tuple[Allocation, Allocation]) -> tuple[Container, ...]:
    return tuple(
        a_container(name, index=index, requests=own.requests, limits=own.limits)
        for index, (name, own) in enumerate(zip(("app", "beside"), sizes, strict=True))
    )


some_autoscalers = st.builds(
    lambda targets, **fields: an_autoscaler(
        *(
            a_recommendation(name, target=target, lower=target, upper=target)
            for name, target in zip(("app", "beside"), targets, strict=True)
        ),
        **fields,
    ),
    st.tuples(some_amounts, some_amounts),
    mode=st.sampled_from(MODES),
    policies=st.sampled_from([(), REQUESTS_ONLY]),
    held=st.sampled_from([frozenset(), CPU_HELD]),
)


@given(
    has=some_sizes(),
    template=some_sizes(),
    autoscaler=some_autoscalers,
    most=st.none() | some_amounts,
)
def test_the_plan_foresees_what_admission_makes_of_the_template(
    has: tuple[Allocation, Allocation],
    template: tuple[Allocation, Allocation],
    autoscaler: Autoscaler,
    most: Resources | None,
) -> None:
    items = [] if most is None else [LimitRangeItem(LimitRangeType.CONTAINER, max=most)]
    pods = several(2, containers=pair_of_containers(has), node_name="one")
    snapshot = snapshot_of(
        pods,
        autoscaler,
        limit_ranges={"default": items},
        template_sizes={REPLICA_SET: dict(zip(("app", "beside"), template, strict=True))},
        resizes_in_place=False,
    )

    new = a_pod(*pair_of_containers(template))
    sizing = size_pod(new, autoscaler, gates=FeatureGates(), room=BoostRoom(items))
    gets = {
        each.name: each.spec.requests or {} for each in apply_patch(new, sizing.patch).containers
    }
    target = {each.container_name: each.target for each in autoscaler.recommendation or ()}

    for each in planned(snapshot, ALL_AT_ONCE):
        if not isinstance(each, Evict):
            continue
        for container in each.pod.containers:
            name, own = container.name, container.spec.requests or {}
            wanted = (each.wanted.get(name) or Allocation()).requests or {}
            assert {kind: gets[name][kind] for kind in wanted} == wanted
            if most is None:
                kept = {kind: min(own[kind], target[name][kind]) for kind in wanted}
                assert all(gets[name][kind] >= amount for kind, amount in kept.items())


@given(has=some_sizes(), template=some_sizes(), autoscaler=some_autoscalers)
def test_a_boost_is_foreseen_in_the_size_that_the_template_gets(
    has: tuple[Allocation, Allocation],
    template: tuple[Allocation, Allocation],
    autoscaler: Autoscaler,
) -> None:
    boosting = replace(autoscaler, boost=CpuBoost(factor=2))
    (pod,) = several(1, containers=pair_of_containers(has))
    sizes = dict(zip(("app", "beside"), template, strict=True))
    new = a_pod(*pair_of_containers(template))
    gates = FeatureGates(cpu_startup_boost=True)

    found = template_of(pod, sizes, ())
    assert found is not None
    successor = from_template(pod, found, sizes)
    foreseen = size_successor(successor, boosting, gates=gates, room=BoostRoom())
    sized = apply_patch(new, size_pod(new, boosting, gates=gates).patch)

    assert [overlaid(each.spec, foreseen.get(each.name)) for each in successor.containers] == [
        overlaid(each.spec, Allocation()) for each in sized.containers
    ]
