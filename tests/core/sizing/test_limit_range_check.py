"""No pod is made, or evicted for a size, that a LimitRange would refuse (D19)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import planned, snapshot_of, told
from support.makers.records import (
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
)
from support.models.pod_rules import refusals

from trimtab.core.changes.outcomes import Evict
from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    CpuBoost,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import UPDATES, Allocation, Container, ContainerKind, Envelope, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.admission_patch import size_pod
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.limit_range_check import checked_items, with_defaults, would_refuse
from trimtab.simulation.api_server.json_patch import apply_patch

ON = FeatureGates()
CONTAINER, POD, NODE = LimitRangeType
CPU, MEMORY = Resource.CPU, Resource.MEMORY
REQUESTS_ONLY = (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),)


def asking(kind: Resource, request: int | None, limit: int | None) -> Allocation:
    return Allocation(
        None if request is None else {kind: request}, None if limit is None else {kind: limit}
    )


def a_ratio(limit_type: LimitRangeType, kind: Resource, thousandths: int) -> LimitRangeItem:
    if kind is CPU:
        return LimitRangeItem(limit_type, max_cpu_ratio=thousandths)
    return LimitRangeItem(limit_type, max_memory_ratio=thousandths)


def is_refused(item: LimitRangeItem, pod: Pod) -> bool:
    return would_refuse(checked_items([item]), pod, [each.spec for each in pod.containers])


@pytest.mark.parametrize("limit_type", [CONTAINER, POD])
@pytest.mark.parametrize("kind", Resource)
@pytest.mark.parametrize(
    ("rule", "bound", "request_", "limit", "expected"),
    [
        pytest.param("min", 200, 200, None, False, id="request at the minimum"),
        pytest.param("min", 200, 199, None, True, id="request below the minimum"),
        pytest.param("min", 200, None, None, True, id="no request where there is a minimum"),
        pytest.param("min", 200, 0, 199, True, id="limit below the minimum"),
        pytest.param("min", 200, None, 200, False, id="limit that stands for the request"),
        pytest.param("max", 200, 100, 200, False, id="limit at the maximum"),
        pytest.param("max", 200, 100, 201, True, id="limit above the maximum"),
        pytest.param("max", 200, 100, None, True, id="no limit where there is a maximum"),
        pytest.param("max", 200, 201, 200, True, id="request above the maximum"),
        pytest.param("ratio", 2000, 100, 200, False, id="limit at the ratio"),
        pytest.param("ratio", 2000, 100, 201, True, id="limit above the ratio"),
        pytest.param("ratio", 1500, 100, 151, True, id="limit above a broken ratio"),
        pytest.param("ratio", 2000, 100, None, True, id="no limit where there is a ratio"),
        pytest.param("ratio", 2000, 0, 200, True, id="request of nothing where there is a ratio"),
        pytest.param("ratio", 2000, None, None, True, id="nothing where there is a ratio"),
    ],
)
def test_each_rule_is_that_of_the_api_server(
    limit_type: LimitRangeType,
    kind: Resource,
    rule: str,
    bound: int,
    request_: int | None,
    limit: int | None,
    expected: bool,  # noqa: FBT001
) -> None:
    items = {
        "min": LimitRangeItem(limit_type, min={kind: bound}),
        "max": LimitRangeItem(limit_type, max={kind: bound}),
        "ratio": a_ratio(limit_type, kind, bound),
    }
    pod = a_pod(structs.replace(a_container(), spec=asking(kind, request_, limit)))

    assert is_refused(items[rule], pod) is expected


@pytest.mark.parametrize("kind", Resource)
@pytest.mark.parametrize(
    ("most", "fields", "expected"),
    [
        pytest.param(399, {}, True, id="sidecars run beside regular containers"),
        pytest.param(400, {}, False, id="all of them fit"),
        pytest.param(599, {"init": 500}, True, id="sidecars run beside init containers"),
        pytest.param(600, {"init": 500}, False, id="init containers end before others start"),
        pytest.param(400, {"init": 300}, False, id="a small init container does not count"),
        pytest.param(299, {"own": 300}, True, id="the pod's own resources are too much"),
        pytest.param(300, {"own": 300}, False, id="the pod's own resources count alone"),
    ],
)
def test_a_whole_pod_counts_as_at_its_worst_moment(
    kind: Resource,
    most: int,
    fields: dict[str, int],
    expected: bool,  # noqa: FBT001
) -> None:
    app, proxy = asking(kind, 300, 300), asking(kind, 100, 100)
    pod = a_pod(
        structs.replace(a_container("app"), spec=app),
        structs.replace(a_container("proxy", kind=ContainerKind.SIDECAR), spec=proxy),
    )
    if "init" in fields:
        pod = structs.replace(pod, init_peak=asking(kind, fields["init"], fields["init"]))
    if "own" in fields:
        pod = structs.replace(pod, envelope=Envelope({kind: fields["own"]}, {kind: fields["own"]}))

    assert is_refused(LimitRangeItem(POD, max={kind: most}), pod) is expected


def test_containers_without_an_amount_add_nothing_to_that_of_the_pod() -> None:
    pod = a_pod(
        a_container("app", requests=amounts(500)),
        a_container("side", requests=amounts(10), limits=amounts(500)),
    )

    assert not is_refused(LimitRangeItem(POD, max_cpu_ratio=2000), pod)


def test_each_container_must_fit() -> None:
    pod = a_pod(a_container("app", limits=amounts(200)), a_container("side", limits=amounts(300)))

    assert is_refused(LimitRangeItem(CONTAINER, max=amounts(200)), pod)


def test_the_room_on_nodes_refuses_no_pod() -> None:
    assert not is_refused(LimitRangeItem(NODE, max=amounts(1, 1)), a_pod())


def test_a_container_that_leaves_amounts_out_gets_those_of_the_limit_range() -> None:
    item = LimitRangeItem(CONTAINER, min=amounts(memory=1), default=amounts(500))
    only_limit = Allocation(None, amounts(200))

    assert with_defaults([item], Allocation()) == Allocation(amounts(500, 1), amounts(500))
    assert with_defaults([item], only_limit) == Allocation(amounts(200, 1), amounts(200))
    assert with_defaults([], only_limit) == only_limit


def test_a_container_without_an_amount_requests_the_default_request() -> None:
    item = LimitRangeItem(CONTAINER, default=amounts(500), default_request=amounts(70))
    only_limit, only_request = Allocation(None, amounts(200)), Allocation(amounts(100))

    assert with_defaults([item], Allocation()) == Allocation(amounts(70), amounts(500))
    assert with_defaults([item], only_limit) == Allocation(amounts(200), amounts(200))
    assert with_defaults([item], only_request) == Allocation(amounts(100), amounts(500))


def asked_for(kind: Resource, request: int, limit: int | None, name: str = "app") -> Container:
    index = 0 if name == "app" else 1
    return structs.replace(a_container(name, index=index), spec=asking(kind, request, limit))


def advised(kind: Resource, amount: int, name: str = "app") -> ContainerRecommendation:
    target = {kind: amount}
    return a_recommendation(name, target=target, lower=target, upper=target)


def bounded(**bounds: Resources) -> tuple[ContainerPolicy, ...]:
    return (ContainerPolicy("*", **bounds),)  # type: ignore[arg-type]


def scenes(kind: Resource) -> dict[str, tuple[Pod, LimitRangeItem, Autoscaler]]:
    """Pods that were valid without a patch and refused with it."""
    # Less than a mebibyte of memory would be suspicious.
    unit = MIB if kind is MEMORY else 1

    def asks(request: int, limit: int | None, name: str = "app") -> Container:
        return asked_for(kind, request * unit, None if limit is None else limit * unit, name)

    def of(amount: int) -> Resources:
        return {kind: amount * unit}

    def advice(amount: int, name: str = "app") -> ContainerRecommendation:
        return advised(kind, amount * unit, name)

    low, high = bounded(max_allowed=of(100)), bounded(min_allowed=of(1000))
    return {
        "ratio of a container": (
            a_pod(asks(500, 1000)),
            a_ratio(CONTAINER, kind, 2000),
            an_autoscaler(advice(100), policies=REQUESTS_ONLY),
        ),
        "ratio of the pod": (
            a_pod(asks(500, None), asks(10, 500, "side")),
            a_ratio(POD, kind, 2000),
            an_autoscaler(advice(100), advice(100, "side")),
        ),
        "maximum of the pod": (
            a_pod(asks(150, 150), asks(50, None, "side")),
            LimitRangeItem(POD, max=of(300)),
            an_autoscaler(advice(200), advice(1000, "side")),
        ),
        "maxAllowed below the minimum": (
            a_pod(asks(200, None)),
            LimitRangeItem(CONTAINER, min=of(200)),
            an_autoscaler(advice(100), policies=low),
        ),
        "minAllowed above the maximum": (
            a_pod(asks(200, 200)),
            LimitRangeItem(CONTAINER, max=of(500), default=of(500)),
            an_autoscaler(advice(100), policies=high),
        ),
    }


SCENES = [
    pytest.param(kind, name, id=f"{kind} {name}") for kind in Resource for name in scenes(CPU)
]


@pytest.mark.parametrize(("kind", "name"), SCENES)
def test_a_pod_that_a_limit_range_would_refuse_keeps_its_own_resources(
    kind: Resource, name: str
) -> None:
    pod, item, autoscaler = scenes(kind)[name]

    sizing = size_pod(pod, autoscaler, gates=ON, room=BoostRoom([item]))
    new = apply_patch(pod, sizing.patch)

    assert [each.spec for each in new.containers] == [each.spec for each in pod.containers]
    words = f"{kind} NOT updated since the LimitRange would refuse the pod"
    assert words in new.annotations[UPDATES]
    assert sizing.notes.keys() == {each.name for each in pod.containers}


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize(("kind", "name"), SCENES)
def test_no_pod_is_evicted_for_a_size_that_its_successor_cannot_have(
    kind: Resource, name: str, mode: UpdateMode
) -> None:
    pod, item, autoscaler = scenes(kind)[name]
    pods = [a_pod(*pod.containers, name=f"web-{index}", age=hours(24)) for index in range(4)]
    found = {"default": [item]}
    snapshot = snapshot_of(
        pods, replace(autoscaler, mode=mode), limit_ranges=found, resizes_in_place=False
    )

    assert set(told(planned(snapshot))) == {"LimitRangeRefuses"}
    assert "Evict" in told(planned(replace(snapshot, limit_ranges={})))


def test_a_pod_loses_only_its_boost_where_that_is_enough() -> None:
    # The boost would take the limit of zero away, and the maximum asks for a limit.
    idle = asked_for(CPU, 0, 0)
    boost = CpuBoost(BoostType.QUANTITY, quantity_millicores=300)
    autoscaler = an_autoscaler(advised(MEMORY, MIB), boost=boost)
    room = BoostRoom([LimitRangeItem(CONTAINER, max=amounts(500))])

    new = apply_patch(a_pod(idle), size_pod(a_pod(idle), autoscaler, gates=ON, room=room).patch)

    assert new.containers[0].spec == Allocation(amounts(0, MIB), amounts(0))
    assert (
        "cpu startup boost capped to fit the LimitRange, cpu NOT boosted"
        in (new.annotations[UPDATES])
    )


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(100, "Evict", id="its memory grows"),
        pytest.param(500, "LimitRangeRefuses", id="it has its memory"),
    ],
)
def test_a_limit_range_that_refuses_cpu_takes_no_memory(memory: int, expected: str) -> None:
    container = a_container(requests=amounts(500, memory * MIB), limits=amounts(1000))
    advice = a_recommendation(target=amounts(100, 500 * MIB), lower=amounts(100, 400 * MIB))
    autoscaler = an_autoscaler(advice, policies=REQUESTS_ONLY, mode=UpdateMode.RECREATE)
    items = [a_ratio(CONTAINER, CPU, 2000)]
    pods = [a_pod(container, name=f"web-{n}", age=hours(24)) for n in range(2)]

    new = apply_patch(pods[0], size_pod(pods[0], autoscaler, gates=ON, room=BoostRoom(items)).patch)
    outcomes = planned(snapshot_of(pods, autoscaler, limit_ranges={"default": items}))

    assert new.containers[0].spec.requests == amounts(500, 500 * MIB)
    assert "cpu NOT updated since the LimitRange" in new.annotations[UPDATES]
    assert expected in told(outcomes)
    assert [each.wanted for each in outcomes if isinstance(each, Evict)] == [
        {"app": Allocation(amounts(None, 500 * MIB), {})}
    ] * (expected == "Evict")


def test_a_pod_that_would_be_refused_as_it_came_gets_what_is_recommended() -> None:
    pod = a_pod(asked_for(CPU, 500, 5000))
    autoscaler = an_autoscaler(advised(CPU, 100), policies=REQUESTS_ONLY)
    room = BoostRoom([a_ratio(CONTAINER, CPU, 2000)])

    new = apply_patch(pod, size_pod(pod, autoscaler, gates=ON, room=room).patch)

    assert new.containers[0].spec.requests == amounts(100)


def test_no_pod_is_evicted_that_a_newer_limit_range_would_refuse_either_way() -> None:
    pods = [a_pod(asked_for(CPU, 500, 5000), name=f"web-{n}", age=hours(24)) for n in range(4)]
    autoscaler = an_autoscaler(advised(CPU, 100), policies=REQUESTS_ONLY, mode=UpdateMode.RECREATE)
    items = {"default": [a_ratio(CONTAINER, CPU, 2000)]}

    outcomes = planned(snapshot_of(pods, autoscaler, limit_ranges=items))

    assert set(told(outcomes)) == {"LimitRangeRefuses"}


def test_no_pod_is_evicted_whose_successor_would_be_refused_for_its_defaults() -> None:
    # The autoscaler sets no CPU, so the successor gets that of the LimitRange.
    bare = structs.replace(a_container(), spec=Allocation(amounts(memory=100 * MIB)))
    pods = [a_pod(bare, name=f"web-{n}", age=hours(24)) for n in range(4)]
    autoscaler = an_autoscaler(advised(MEMORY, 200 * MIB), mode=UpdateMode.RECREATE)
    item = replace(a_ratio(CONTAINER, CPU, 1000), default=amounts(333), default_request=amounts(70))

    outcomes = planned(snapshot_of(pods, autoscaler, limit_ranges={"default": [item]}))

    assert set(told(outcomes)) == {"LimitRangeRefuses"}


def test_a_pod_without_limits_is_evicted_where_its_successor_gets_a_default() -> None:
    pods = [a_pod(asked_for(CPU, 500, None), name=f"web-{n}", age=hours(24)) for n in range(4)]
    autoscaler = an_autoscaler(advised(CPU, 100), policies=REQUESTS_ONLY, mode=UpdateMode.RECREATE)
    items = {"default": [LimitRangeItem(CONTAINER, max=amounts(1000), default=amounts(1000))]}

    assert "Evict" in told(planned(snapshot_of(pods, autoscaler, limit_ranges=items)))


@pytest.mark.parametrize(
    ("sidecars_before", "is_refused"),
    [
        pytest.param(0, True, id="the init container comes first"),
        pytest.param(1, False, id="the sidecar runs beside it"),
    ],
)
def test_sidecars_count_beside_the_init_containers_after_them(
    sidecars_before: int, *, is_refused: bool
) -> None:
    first = asking(CPU, 1000, 1000)
    pod = a_pod(
        asked_for(CPU, 100, 1500),
        structs.replace(asked_for(CPU, 250, 1000), name="side", kind=ContainerKind.SIDECAR),
        init_peak=first,
        init_steps=((sidecars_before, first),),
    )
    specs = [each.spec for each in pod.containers]

    # Limits of 2500m beside requests of 1000m, or of 1250m.
    assert would_refuse([a_ratio(POD, CPU, 2000)], pod, specs) is is_refused


some_amounts = st.none() | st.integers(0, 1000)
some_containers = st.tuples(some_amounts, some_amounts, st.sampled_from(ContainerKind))
some_bounds = st.none() | st.integers(1, 1000).map(lambda bound: {CPU: bound})
some_items = st.lists(
    st.builds(
        LimitRangeItem,
        st.sampled_from([CONTAINER, POD]),
        min=some_bounds,
        max=some_bounds,
        max_cpu_ratio=st.none() | st.integers(1000, 4000),
    ),
    min_size=1,
    max_size=3,
)


@given(
    st.lists(some_containers, min_size=1, max_size=3),
    some_items,
    st.integers(1, 1000),
    st.sampled_from(ControlledValues),
    st.sampled_from([None, CpuBoost(factor=3)]),
    st.dictionaries(st.integers(0, 3), st.integers(1, 1000), max_size=2),
)
def test_no_patch_makes_a_valid_pod_one_that_is_refused(
    shapes: Sequence[tuple[int | None, int | None, ContainerKind]],
    items: list[LimitRangeItem],
    target: int,
    values: ControlledValues,
    boost: CpuBoost | None,
    init: dict[int, int],
) -> None:
    containers = [
        a_container(
            f"c{index}",
            index=index,
            kind=kind,
            requests=amounts(min(limit if request is None else request, limit)),
            limits=amounts(limit),
        )
        if limit is not None
        else a_container(f"c{index}", index=index, kind=kind, requests=amounts(request or 0))
        for index, (request, limit, kind) in enumerate(shapes)
    ]
    pod = a_pod(*containers)
    if init:
        # By the number of sidecars that start before: the init containers of the pod.
        steps = tuple((count, asking(CPU, given, given)) for count, given in init.items())
        most = max(init.values())
        pod = structs.replace(pod, init_peak=asking(CPU, most, most), init_steps=steps)
    advice = [advised(CPU, target, each.name) for each in containers]
    policies = (ContainerPolicy("*", controlled_values=values),)
    autoscaler = an_autoscaler(*advice, policies=policies, boost=boost)

    sizing = size_pod(pod, autoscaler, gates=ON, room=BoostRoom(items))

    if not refusals(pod, items):
        assert not refusals(apply_patch(pod, sizing.patch), items)
