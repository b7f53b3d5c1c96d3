"""Share of their boosts that pods can have: a boost never prevents a pod's creation (D19)."""

import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)
from support.models.pod_rules import refusals

from trimtab.core.model.autoscalers import (
    Autoscaler,
    BoostType,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    CpuBoost,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.limits import qos_class
from trimtab.core.model.pods import UPDATES, Allocation, Container, ContainerKind, Envelope, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.admission_patch import size_pod
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side
from trimtab.core.sizing.startup_boost import annotation_name, before_boost, format_original
from trimtab.simulation.api_server.json_patch import apply_patch

ON, OFF = FeatureGates(), FeatureGates(cpu_startup_boost=False)
TRIPLE = CpuBoost(factor=3)
CPU, CPU_LIMIT = QuotaClaim(Side.REQUESTS, Resource.CPU), QuotaClaim(Side.LIMITS, Resource.CPU)

GUARANTEED = a_container(requests=amounts(500, MIB), limits=amounts(500, MIB))
BURSTABLE = a_container(requests=amounts(500, MIB), limits=amounts(1000, MIB))
UNLIMITED = a_container(requests=amounts(500, MIB))
SIDECAR = a_container(
    "proxy", kind=ContainerKind.SIDECAR, requests=amounts(100), limits=amounts(100)
)
REQUESTS_ONLY = (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),)


def more(millicores: int) -> CpuBoost:
    return CpuBoost(BoostType.QUANTITY, quantity_millicores=millicores)


def boosting(boost: CpuBoost = TRIPLE, **fields: object) -> Autoscaler:
    return an_autoscaler(mode=UpdateMode.OFF, boost=boost, **fields)  # type: ignore[arg-type]


def per_container(**fields: object) -> BoostRoom:
    return BoostRoom([LimitRangeItem(LimitRangeType.CONTAINER, **fields)])  # type: ignore[arg-type]


def per_pod(**fields: object) -> BoostRoom:
    return BoostRoom([LimitRangeItem(LimitRangeType.POD, **fields)])  # type: ignore[arg-type]


def in_quota(awaited: int = 0, *scopes: QuotaScope, **left: int) -> BoostRoom:
    claims = {"requests": CPU, "limits": CPU_LIMIT}
    amounts_left = {claims[name]: amount for name, amount in left.items()}
    return BoostRoom(quotas=[Quota("default", "team", amounts_left, scopes)], awaited_pods=awaited)


def sized(pod: Pod, autoscaler: Autoscaler, room: BoostRoom, gates: FeatureGates = ON) -> Pod:
    return apply_patch(pod, size_pod(pod, autoscaler, gates=gates, room=room).patch)


def cpu_of(pod: Pod) -> list[tuple[int | None, int | None]]:
    return [
        ((each.spec.requests or {}).get(Resource.CPU), (each.spec.limits or {}).get(Resource.CPU))
        for each in pod.containers
    ]


@pytest.mark.parametrize(
    ("container", "boost", "room", "expected"),
    [
        pytest.param(GUARANTEED, TRIPLE, BoostRoom(), (1500, 1500), id="nothing bounds it"),
        pytest.param(
            GUARANTEED,
            TRIPLE,
            per_container(max=amounts(1000)),
            (1000, 1000),
            id="the largest container",
        ),
        pytest.param(
            GUARANTEED, TRIPLE, per_pod(max=amounts(1000)), (1000, 1000), id="the largest pod"
        ),
        pytest.param(
            GUARANTEED, more(800), per_container(max=amounts(1000)), (1000, 1000), id="a quantity"
        ),
        pytest.param(
            GUARANTEED,
            TRIPLE,
            per_container(max=amounts(500)),
            (500, 500),
            id="the limit is as large as may be already",
        ),
        pytest.param(
            BURSTABLE,
            TRIPLE,
            per_container(max=amounts(1200, 9 * MIB)),
            (1199, 1200),
            id="a limit that cannot grow leaves room for a request",
        ),
        pytest.param(
            BURSTABLE,
            more(100),
            per_container(max=amounts(1050)),
            (600, 1050),
            id="a limit that grows by less than its request",
        ),
        pytest.param(
            BURSTABLE, TRIPLE, per_pod(max=amounts(2000)), (1500, 2000), id="the limits of a pod"
        ),
        pytest.param(
            BURSTABLE, TRIPLE, in_quota(requests=750), (750, 1500), id="a quota of requests"
        ),
        pytest.param(
            BURSTABLE, TRIPLE, in_quota(limits=1250), (1249, 1250), id="a quota of limits"
        ),
        pytest.param(
            UNLIMITED, TRIPLE, in_quota(limits=1), (1500, None), id="no limit is none of a quota"
        ),
        pytest.param(
            GUARANTEED, TRIPLE, in_quota(requests=499), (500, 500), id="not even the pod fits"
        ),
        pytest.param(
            GUARANTEED,
            TRIPLE,
            in_quota(2, requests=2000),
            (1000, 1000),
            id="two more pods of its owner are awaited",
        ),
        pytest.param(
            GUARANTEED,
            TRIPLE,
            in_quota(3, requests=2000),
            (500, 500),
            id="the awaited ones need all that is left",
        ),
        pytest.param(
            GUARANTEED,
            TRIPLE,
            in_quota(0, QuotaScope("Terminating"), requests=0),
            (1500, 1500),
            id="a quota for other pods",
        ),
        pytest.param(
            a_container(),
            more(500),
            in_quota(0, QuotaScope("NotBestEffort"), requests=9000),
            (None, None),
            id="a quota that counts the pod for its boost alone",
        ),
        pytest.param(
            UNLIMITED,
            TRIPLE,
            BoostRoom([LimitRangeItem(LimitRangeType.NODE, max=amounts(700, 9 * MIB))]),
            (700, None),
            id="the largest node",
        ),
        pytest.param(
            BURSTABLE, TRIPLE, BoostRoom(max_millicores=900), (900, 1000), id="the operator"
        ),
        pytest.param(
            GUARANTEED, TRIPLE, BoostRoom(max_millicores=900), (900, 900), id="of limits as well"
        ),
        pytest.param(
            BURSTABLE,
            TRIPLE,
            per_container(max_cpu_ratio=2000),
            (1500, 3000),
            id="a ratio that the pod keeps",
        ),
    ],
)
def test_d19_how_far_a_boost_goes(
    container: Container,
    boost: CpuBoost,
    room: BoostRoom,
    expected: tuple[int | None, int | None],
) -> None:
    pod = sized(a_pod(container), boosting(boost), room)

    assert cpu_of(pod) == [expected]
    assert (annotation_name("app") in pod.annotations) is (
        expected[0] != (container.spec.requests or {}).get(Resource.CPU)
    )


@pytest.mark.parametrize(
    ("room", "words"),
    [
        pytest.param(
            per_container(max=amounts(1000)),
            "cpu startup boost capped to fit the LimitRange, cpu request, cpu limit",
            id="capped",
        ),
        pytest.param(
            per_pod(max=amounts(500)),
            "cpu startup boost capped to fit the LimitRange, cpu NOT boosted since no room is left",
            id="nothing left of a limit range",
        ),
        pytest.param(
            in_quota(requests=0),
            "cpu startup boost capped to fit the ResourceQuota, "
            "cpu NOT boosted since no room is left",
            id="nothing left of a quota",
        ),
        pytest.param(
            BoostRoom([LimitRangeItem(LimitRangeType.NODE, max=amounts(600, MIB))]),
            "cpu startup boost capped to fit the largest node, cpu request, cpu limit",
            id="a small node",
        ),
    ],
)
def test_d19_the_annotation_says_what_has_cut_a_boost(room: BoostRoom, words: str) -> None:
    pod = sized(a_pod(GUARANTEED), boosting(), room)

    assert pod.annotations[UPDATES] == f"Pod resources updated by web: container 0: {words}"


def test_a_boost_that_has_all_the_room_it_needs_has_no_note() -> None:
    pod = sized(a_pod(GUARANTEED), boosting(), per_container(max=amounts(1500)))

    assert pod.annotations[UPDATES].endswith("container 0: cpu request, cpu limit")


@pytest.mark.parametrize(
    "boost", [pytest.param(CpuBoost(factor=1), id="once"), pytest.param(more(0), id="no more")]
)
def test_a_container_that_is_not_to_be_boosted_gets_its_plain_recommendation(
    boost: CpuBoost,
) -> None:
    pod = a_pod(a_container(requests=amounts(1000), limits=amounts(1000)), SIDECAR)
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(200)),
        a_recommendation("proxy", target=amounts(200)),
        boost=CpuBoost(factor=2),
        policies=(ContainerPolicy("app", boost=boost),),
    )
    found = sized(pod, autoscaler, BoostRoom())

    assert cpu_of(found) == [(200, 200), (400, 400)]
    assert annotation_name("app") not in found.annotations
    assert annotation_name("proxy") in found.annotations


@pytest.mark.parametrize(
    ("limit", "cpu"),
    [
        pytest.param(1, (0, 1), id="the end of the boost would change the class"),
        pytest.param(2, (500, 502), id="it would not"),
    ],
)
def test_a_container_that_asks_for_no_cpu_is_boosted_if_its_class_stays(
    limit: int, cpu: tuple[int, int]
) -> None:
    container = a_container(requests=amounts(0, MIB), limits=amounts(limit, MIB))

    found = sized(a_pod(container), boosting(more(500)), BoostRoom())

    assert cpu_of(found) == [cpu]


def test_a_container_that_the_end_of_its_boost_would_restart_gets_none() -> None:
    restarting = structs.replace(GUARANTEED, restarts_on_resize=frozenset({Resource.CPU}))
    beside = structs.replace(GUARANTEED, name="side", index=1)
    calm = structs.replace(beside, restarts_on_resize=frozenset({Resource.MEMORY}))
    pod = sized(a_pod(restarting, calm), boosting(), BoostRoom())

    assert cpu_of(pod) == [(500, 500), (1500, 1500)]
    assert annotation_name("app") not in pod.annotations
    assert annotation_name("side") in pod.annotations
    assert pod.annotations[UPDATES] == (
        "Pod resources updated by web: "
        "container 0: cpu startup boost left out since its end would restart the container; "
        "container 1: cpu request, cpu limit"
    )


def test_a_pod_of_windows_gets_no_boost_since_it_could_never_end() -> None:
    pod = sized(a_pod(GUARANTEED, is_windows=True), boosting(), BoostRoom())

    assert cpu_of(pod) == [(500, 500)]
    assert annotation_name("app") not in pod.annotations
    assert pod.annotations[UPDATES] == (
        "Pod resources updated by web: "
        "container 0: cpu startup boost left out since Windows pods cannot be resized"
    )


@pytest.mark.parametrize(
    ("priority", "most", "cpu"),
    [
        pytest.param(0, 0, 1500, id="a pod without a class"),
        pytest.param(-10, 0, 1500, id="a pod that others preempt"),
        pytest.param(1, 0, 500, id="a pod that preempts others"),
        pytest.param(1000, 1000, 1500, id="allowed by the operator"),
        pytest.param(1001, 1000, 500, id="above what the operator allows"),
    ],
)
def test_a_pod_that_could_preempt_others_for_its_boost_gets_none(
    priority: int, most: int, cpu: int
) -> None:
    pod = a_pod(GUARANTEED, preemption_priority=priority)
    pod = sized(pod, boosting(), BoostRoom(max_priority=most))

    words = "container 0: cpu startup boost left out since the pod could preempt others for it"
    assert cpu_of(pod) == [(cpu, cpu)]
    assert (words in pod.annotations[UPDATES]) is (cpu == 500)
    assert (annotation_name("app") in pod.annotations) is (cpu == 1500)


def test_containers_share_what_a_pod_may_have_and_keep_what_only_they_may() -> None:
    pod = a_pod(GUARANTEED, structs.replace(GUARANTEED, name="side", index=1))
    small = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(1200))
    all_of_it = LimitRangeItem(LimitRangeType.POD, max=amounts(1700))

    assert cpu_of(sized(pod, boosting(), BoostRoom([small]))) == [(1200, 1200)] * 2
    assert cpu_of(sized(pod, boosting(), BoostRoom([small, all_of_it]))) == [(850, 850)] * 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, [(500, 500), (300, 300)], id="beside the other containers"),
        pytest.param(
            {"init_peak": Allocation(amounts(650), amounts(650))},
            [(500, 500), (150, 150)],
            id="beside an init container",
        ),
        pytest.param(
            {"overhead": amounts(200)}, [(500, 500), (300, 300)], id="a sandbox is no container"
        ),
    ],
)
def test_a_sidecar_counts_beside_whatever_runs_with_it(
    fields: dict[str, object], expected: list[tuple[int, int]]
) -> None:
    policies = (ContainerPolicy("app", boost=CpuBoost(factor=1)),)
    pod = a_pod(GUARANTEED, SIDECAR, **fields)  # type: ignore[arg-type]

    assert cpu_of(sized(pod, boosting(policies=policies), per_pod(max=amounts(800)))) == expected


def test_a_quota_counts_the_sandbox_as_well() -> None:
    pod = a_pod(GUARANTEED, overhead=amounts(200))

    assert cpu_of(sized(pod, boosting(), in_quota(requests=1000))) == [(800, 800)]


@pytest.mark.parametrize(
    "envelope",
    [
        pytest.param(Envelope(amounts(800), {}), id="requests"),
        pytest.param(Envelope({}, amounts(700)), id="limits"),
        pytest.param(Envelope(amounts(9000), amounts(9000)), id="both, with much room"),
    ],
)
def test_d8_a_pod_that_kubernetes_cannot_resize_is_not_boosted(envelope: Envelope) -> None:
    pod = sized(a_pod(GUARANTEED, envelope=envelope), boosting(), BoostRoom())

    assert cpu_of(pod) == [(500, 500)]
    assert annotation_name("app") not in pod.annotations
    assert "startup boost left out" in pod.annotations["vpaUpdates"]


def test_the_ratio_of_a_whole_pod_holds_while_one_container_is_boosted() -> None:
    bursting = a_container(requests=amounts(100, MIB), limits=amounts(400, MIB))
    steady = a_container("side", index=1, requests=amounts(900), limits=amounts(900))
    policies = (ContainerPolicy("side", mode=ContainerMode.OFF, boost=CpuBoost(factor=1)),)
    autoscaler = boosting(CpuBoost(factor=10), policies=policies)
    item = LimitRangeItem(LimitRangeType.POD, max_cpu_ratio=2000)
    pod = sized(a_pod(bursting, steady), autoscaler, BoostRoom([item]))

    assert cpu_of(pod) == [(1000, 2900), (900, 900)]
    assert refusals(pod, [item]) == []


def test_d19_a_boost_whose_end_a_limit_range_would_refuse_is_not_given() -> None:
    item = LimitRangeItem(LimitRangeType.POD, max_cpu_ratio=1000)
    idle, proxy = a_container(requests={}, limits={}), structs.replace(SIDECAR, index=0)
    autoscaler = an_autoscaler(
        a_recommendation("proxy", target=amounts(50, MIB)), boost=more(200), policies=REQUESTS_ONLY
    )
    pod = sized(a_pod(idle, proxy), autoscaler, BoostRoom([item]))

    # Without the boost of "app" the limits of the pod would be twice its requests.
    assert cpu_of(pod) == [(None, None), (100, 100)]
    assert annotation_name("app") not in pod.annotations


def test_a_pod_boosted_before_its_quota_was_full_is_created_without_its_boost() -> None:
    mark = format_original(GUARANTEED.spec)
    boosted = a_container(requests=amounts(1500, MIB), limits=amounts(1500, MIB))
    pod = a_pod(boosted, annotations={**BOOST_TOLD, annotation_name("app"): mark})
    found = sized(pod, boosting(), in_quota(requests=500))

    assert cpu_of(found) == [(500, 500)]
    assert annotation_name("app") not in found.annotations


def test_the_claims_of_a_pod_are_what_quotas_will_count() -> None:
    room = in_quota(requests=1000, limits=5000)
    pod = a_pod(GUARANTEED, SIDECAR, overhead=amounts(50))
    sizing = size_pod(pod, boosting(), gates=ON, room=room)

    assert sizing.claims == {"team": {CPU: 1000, CPU_LIMIT: 1000}}
    assert json.dumps(sizing.claims["team"][CPU]) == "1000"


small = st.integers(0, 4000)
cpu_bounds = st.none() | small.map(lambda amount: {Resource.CPU: amount})
items = st.lists(
    st.builds(
        LimitRangeItem,
        st.sampled_from([LimitRangeType.CONTAINER, LimitRangeType.POD]),
        max=cpu_bounds,
        max_cpu_ratio=st.none() | st.integers(1000, 6000),
    ),
    max_size=3,
)
scopes = st.lists(
    st.sampled_from(["NotBestEffort", "BestEffort", "NotTerminating"]).map(QuotaScope), max_size=1
)
quota_lists = st.lists(
    st.builds(
        Quota,
        st.just("default"),
        st.sampled_from("abc"),
        st.dictionaries(st.sampled_from([CPU, CPU_LIMIT]), st.integers(0, 12_000)),
        scopes.map(tuple),
    ),
    max_size=2,
)
boosts = st.builds(
    CpuBoost,
    st.sampled_from(BoostType),
    st.integers(1, 10),
    st.integers(0, 5000),
)


@st.composite
def containers(draw: st.DrawFn, name: str, kind: ContainerKind, index: int) -> Container:
    request = draw(st.none() | st.integers(0, 2000))
    extra = draw(st.none() | st.sampled_from([0, 0, 1, 10, 700]))
    limit = None if extra is None else max((request or 0) + extra, 1)
    memory = draw(st.none() | st.just(MIB))
    return a_container(
        name,
        index=index,
        kind=kind,
        # The API server copies a limit to a missing request before it calls webhooks.
        requests=amounts(limit if request is None else request, memory),
        limits=amounts(limit, draw(st.sampled_from([memory, None]))),
    )


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    found = [
        draw(containers(name, kind, index))
        for name, kind, index in (
            ("app", ContainerKind.REGULAR, 0),
            ("side", ContainerKind.REGULAR, 1),
            ("proxy", ContainerKind.SIDECAR, 0),
        )
        if name == "app" or draw(st.booleans())
    ]
    init = draw(st.none() | small.map(amounts))
    own = draw(st.none() | st.tuples(cpu_bounds, cpu_bounds))
    return a_pod(
        *found,
        init_peak=Allocation(init, init),
        overhead=draw(st.just({}) | st.just(amounts(50))),
        envelope=None if own is None else Envelope(own[0] or {}, own[1] or {}, init or {}),
    )


@st.composite
def autoscalers(draw: st.DrawFn) -> Autoscaler:
    advice = [
        a_recommendation(name, target=amounts(draw(st.integers(1, 3000)), MIB))
        for name in ("app", "side", "proxy")
        if draw(st.booleans())
    ]
    values = draw(st.sampled_from(ControlledValues))
    return an_autoscaler(
        *advice,
        mode=draw(st.sampled_from([UpdateMode.OFF, UpdateMode.AUTO])),
        boost=draw(boosts),
        policies=(ContainerPolicy("*", controlled_values=values),),
    )


# The boost of one container makes room for the smaller request of another, until it ends.
@example(
    a_pod(
        a_container(requests={}, limits={}),
        a_container(
            "proxy", kind=ContainerKind.SIDECAR, requests=amounts(2), limits=amounts(2), index=0
        ),
    ),
    an_autoscaler(
        a_recommendation("proxy", target=amounts(1, MIB)),
        mode=UpdateMode.AUTO,
        boost=more(2),
        policies=REQUESTS_ONLY,
    ),
    [LimitRangeItem(LimitRangeType.POD, max_cpu_ratio=1000)],
    [],
    None,
)
@given(pods(), autoscalers(), items, quota_lists, st.none() | st.integers(1, 5000))
def test_d19_whatever_is_boosted_no_pod_is_refused_for_it(
    pod: Pod,
    autoscaler: Autoscaler,
    limit_ranges: list[LimitRangeItem],
    quotas: list[Quota],
    most: int | None,
) -> None:
    assume(len({quota.name for quota in quotas}) == len(quotas))
    room = BoostRoom(limit_ranges, most, quotas)
    usual = sized(pod, autoscaler, room, OFF)
    boosted = sized(pod, autoscaler, room)

    assert refusals(usual, limit_ranges, quotas) or not refusals(boosted, limit_ranges, quotas)
    for before, after in zip(usual.containers, boosted.containers, strict=True):
        for kind, amount in (before.spec.requests or {}).items():
            assert (after.spec.requests or {})[kind] >= amount
        for kind, amount in (before.spec.limits or {}).items():
            assert (after.spec.limits or {})[kind] >= amount


@given(pods(), autoscalers(), items, quota_lists)
def test_a_boosted_pod_is_of_the_class_that_it_goes_back_to(
    pod: Pod, autoscaler: Autoscaler, limit_ranges: list[LimitRangeItem], quotas: list[Quota]
) -> None:
    room = BoostRoom(limit_ranges, quotas=quotas)
    usual = sized(pod, autoscaler, room, OFF)
    boosted = sized(pod, autoscaler, room)
    rest = [
        structs.replace(before.spec, requests={**(before.spec.requests or {}), Resource.CPU: least})
        if (original := before_boost(boosted, before.name)) is not None
        and not (before.spec.requests or {}).get(Resource.CPU)
        and (least := (original.requests or {})[Resource.CPU])
        else before.spec
        for before in usual.containers
    ]

    assert qos_class(rest) is qos_class(each.spec for each in boosted.containers)
