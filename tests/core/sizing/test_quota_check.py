"""The API server's rules for quotas, and what a new pod gets under them (D19)."""

from dataclasses import replace

import pytest
from support.makers.records import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.model.autoscalers import BoostType, ContainerPolicy, ControlledValues, CpuBoost
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import UPDATES, Allocation, Container, ContainerKind, Envelope, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.admission_patch import Sizing, size_pod
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quota_check import Refusal, find_refusal, room_for_siblings, usage_of
from trimtab.core.sizing.quotas import Claims, Quota, QuotaClaim, QuotaScope, Side
from trimtab.simulation.api_server.json_patch import apply_patch

CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
MEMORY = QuotaClaim(Side.REQUESTS, Resource.MEMORY)
CPU_LIMIT = QuotaClaim(Side.LIMITS, Resource.CPU)
MEMORY_LIMIT = QuotaClaim(Side.LIMITS, Resource.MEMORY)
ON = FeatureGates()
BARE = a_container()
SMALL = a_container(requests=amounts(100, 100 * MIB))
LARGE = an_autoscaler(a_recommendation(target=amounts(500, 200 * MIB)))
NOT_BEST_EFFORT = (QuotaScope("NotBestEffort"),)


def a_quota(
    left: Claims, *scopes: QuotaScope, used: Claims | None = None, name: str = "team"
) -> Quota:
    return Quota("default", name, left, scopes, used or {})


def specs(pod: Pod) -> list[Allocation]:
    return [each.spec for each in pod.containers]


@pytest.mark.parametrize(
    ("pod", "usage"),
    [
        pytest.param(a_pod(SMALL), {CPU: 100, MEMORY: 100 * MIB}, id="requests"),
        pytest.param(
            a_pod(a_container(limits=amounts(300))),
            {CPU: 300, CPU_LIMIT: 300},
            id="a limit stands for both",
        ),
        pytest.param(
            a_pod(SMALL, a_container("side", requests=amounts(50), kind=ContainerKind.SIDECAR)),
            {CPU: 150, MEMORY: 100 * MIB},
            id="sidecars too",
        ),
        pytest.param(
            a_pod(SMALL, init_peak=Allocation(amounts(400))),
            {CPU: 400, MEMORY: 100 * MIB},
            id="init containers instead",
        ),
        pytest.param(
            a_pod(
                SMALL,
                a_container("one", requests=amounts(50), kind=ContainerKind.SIDECAR),
                a_container("two", requests=amounts(70), kind=ContainerKind.SIDECAR),
                init_peak=Allocation(amounts(400)),
                init_steps=((0, Allocation(amounts(400))), (1, Allocation(amounts(380)))),
            ),
            {CPU: 430, MEMORY: 100 * MIB},
            id="sidecars beside the init containers after them",
        ),
        pytest.param(
            a_pod(SMALL, overhead=amounts(10, MIB)),
            {CPU: 110, MEMORY: 101 * MIB},
            id="overhead only where there is a limit, and for requests",
        ),
        pytest.param(
            a_pod(SMALL, envelope=Envelope(amounts(900), amounts(950))),
            {CPU: 900, MEMORY: 100 * MIB, CPU_LIMIT: 950},
            id="resources of the pod itself",
        ),
    ],
)
def test_quotas_count_the_whole_pod(pod: Pod, usage: Claims) -> None:
    found = usage_of(pod, specs(pod))

    assert {claim: amount for claim, amount in found.items() if amount} == usage


@pytest.mark.parametrize(
    ("pod", "quota", "refusal"),
    [
        pytest.param(a_pod(SMALL), a_quota({CPU: 100}), None, id="just enough"),
        pytest.param(
            a_pod(SMALL), a_quota({CPU: 99}), Refusal("team", CPU, 100, 99), id="too little"
        ),
        pytest.param(
            a_pod(SMALL),
            a_quota({MEMORY_LIMIT: 9000 * MIB}),
            Refusal("team", MEMORY_LIMIT, None, 9000 * MIB),
            id="an amount that is demanded",
        ),
        pytest.param(a_pod(BARE), a_quota({CPU: 9}, *NOT_BEST_EFFORT), None, id="not in the scope"),
        pytest.param(
            a_pod(SMALL, BARE),
            a_quota({CPU: 900}),
            Refusal("team", CPU, None, 900),
            id="demanded of each container",
        ),
        pytest.param(
            a_pod(SMALL, init_stated=Allocation({}, {})),
            a_quota({CPU: 900}),
            Refusal("team", CPU, None, 900),
            id="demanded of init containers",
        ),
        pytest.param(
            a_pod(BARE, init_peak=Allocation(amounts(10)), init_stated=Allocation(amounts(10))),
            a_quota({CPU: 900}, *NOT_BEST_EFFORT),
            Refusal("team", CPU, None, 900),
            id="an init container makes a pod burstable",
        ),
        pytest.param(
            a_pod(BARE, envelope=Envelope(amounts(500), {})),
            a_quota({CPU: 500}, *NOT_BEST_EFFORT),
            None,
            id="nothing is demanded beside resources of the pod",
        ),
        pytest.param(
            a_pod(a_container(requests=amounts(0))), a_quota({CPU: -5}), None, id="nothing asked"
        ),
        pytest.param(a_pod(SMALL), a_quota({}), None, id="not counted yet"),
        pytest.param(
            a_pod(SMALL),
            a_quota({CPU: 1}, QuotaScope("PriorityClass", "In", ("high",))),
            None,
            id="another priority",
        ),
        pytest.param(
            a_pod(SMALL, has_deadline=True),
            a_quota({CPU: 1}, QuotaScope("Terminating")),
            Refusal("team", CPU, 100, 1),
            id="with a deadline",
        ),
    ],
)
def test_a_quota_refuses_what_does_not_fit_and_what_is_not_stated(
    pod: Pod, quota: Quota, refusal: Refusal | None
) -> None:
    assert find_refusal([a_quota({}), quota], pod, specs(pod)) == refusal


def test_of_a_resize_only_growth_counts() -> None:
    pod = a_pod(SMALL)
    grown = [Allocation(amounts(150, 50 * MIB))]

    assert find_refusal([a_quota({CPU: 50, MEMORY: -9})], pod, grown, before=specs(pod)) is None
    assert find_refusal([a_quota({CPU: 49})], pod, grown, before=specs(pod)) == Refusal(
        "team", CPU, 50, 49
    )


def test_a_refusal_is_told_in_words() -> None:
    assert Refusal("team", CPU, 500, -3).words == (
        "ResourceQuota team leaves less requests.cpu than the 500m needed"
    )
    assert Refusal("team", MEMORY_LIMIT, None, 5).words == (
        "ResourceQuota team demands limits.memory of each container"
    )


@pytest.mark.parametrize(
    ("missing", "awaited", "used", "kept"),
    [
        pytest.param(2, 2, 0, 200, id="two are missing"),
        pytest.param(1, 2, 0, 200, id="one came a moment ago and is not counted yet"),
        pytest.param(0, 3, 300, 0, id="all may be missing, and all are counted"),
        pytest.param(0, 3, 100, 200, id="all may be missing, and only one is counted"),
        pytest.param(2, 2, 900, 200, id="others use the quota"),
    ],
)
def test_room_is_kept_for_pods_that_the_owner_still_has_to_create(
    missing: int, awaited: int, used: int, kept: int
) -> None:
    quota = a_quota({CPU: 1000}, used={CPU: used})

    assert room_for_siblings(quota, {CPU: 100}, missing=missing, awaited=awaited) == {CPU: kept}


def sized(container: Container, *quotas: Quota, missing: int = 0) -> tuple[Sizing, Pod]:
    """What a pod with one container gets, and the pod with it."""
    room = BoostRoom(quotas=quotas, missing_pods=missing, awaited_pods=missing)
    pod = a_pod(container)
    sizing = size_pod(pod, LARGE, gates=ON, room=room)
    return sizing, apply_patch(pod, sizing.patch)


@pytest.mark.parametrize(
    ("container", "quota", "requests"),
    [
        pytest.param(
            SMALL, a_quota({CPU: 500, MEMORY: 200 * MIB}), amounts(500, 200 * MIB), id="room enough"
        ),
        pytest.param(SMALL, a_quota({CPU: 499}), amounts(100, 200 * MIB), id="too little CPU"),
        pytest.param(
            SMALL, a_quota({MEMORY: 199 * MIB}), amounts(500, 100 * MIB), id="too little memory"
        ),
        pytest.param(
            SMALL,
            a_quota({CPU: 499, MEMORY: 199 * MIB}),
            amounts(100, 100 * MIB),
            id="too little of both",
        ),
        pytest.param(
            SMALL, a_quota({CPU: 99}), amounts(500, 200 * MIB), id="too little for the pod itself"
        ),
        pytest.param(
            BARE, a_quota({MEMORY_LIMIT: 9000 * MIB}, *NOT_BEST_EFFORT), {}, id="demands limits"
        ),
        pytest.param(BARE, a_quota({CPU: 100}, *NOT_BEST_EFFORT), {}, id="best effort fits"),
        pytest.param(
            BARE,
            a_quota({CPU: 900}, *NOT_BEST_EFFORT),
            amounts(500, 200 * MIB),
            id="all of it is stated",
        ),
        pytest.param(
            BARE,
            a_quota({MEMORY_LIMIT: 9000 * MIB}),
            amounts(500, 200 * MIB),
            id="refused with its own resources too",
        ),
    ],
)
def test_d19_resources_that_a_quota_refuses_are_left_out_with_a_note(
    container: Container, quota: Quota, requests: Resources
) -> None:
    sizing, pod = sized(container, a_quota({}, name="other"), quota)

    assert (pod.containers[0].spec.requests or {}) == requests
    for kind, target in amounts(500, 200 * MIB).items():
        words = f"{kind} NOT updated since a ResourceQuota would refuse the pod"
        assert (words in pod.annotations[UPDATES]) is (requests.get(kind) != target)
    assert all(sizing.notes.values())


def test_d19_a_recommendation_leaves_room_for_pods_that_are_missing() -> None:
    quota = a_quota({CPU: 800})
    _, alone = sized(SMALL, quota, missing=3)
    _, beside = sized(SMALL, quota, missing=4)

    assert alone.containers[0].spec.requests == amounts(500, 200 * MIB)
    assert beside.containers[0].spec.requests == amounts(100, 200 * MIB)


@pytest.mark.parametrize(
    ("left", "room"),
    [
        pytest.param({CPU: 300, MEMORY: 500 * MIB}, amounts(50, 200 * MIB), id="room for siblings"),
        pytest.param({CPU: 199, MEMORY: 500 * MIB}, amounts(50, 200 * MIB), id="it takes less CPU"),
        pytest.param({CPU: 300, MEMORY: 499 * MIB}, amounts(50, 100 * MIB), id="too little memory"),
    ],
)
def test_d19_siblings_need_the_smaller_of_both_sizes_of_each_resource(
    left: Claims, room: Resources
) -> None:
    pod = a_pod(SMALL)
    autoscaler = an_autoscaler(a_recommendation(target=amounts(50, 200 * MIB)))
    found = size_pod(
        pod, autoscaler, gates=ON, room=BoostRoom(quotas=[a_quota(left)], missing_pods=3)
    )

    assert apply_patch(pod, found.patch).containers[0].spec.requests == room


def test_d19_a_quota_that_is_short_of_memory_takes_no_boost_away() -> None:
    pod, quota = a_pod(SMALL), a_quota({CPU: 5000, MEMORY: 199 * MIB})
    autoscaler = replace(LARGE, boost=CpuBoost(BoostType.FACTOR, factor=3))
    new = apply_patch(
        pod, size_pod(pod, autoscaler, gates=ON, room=BoostRoom(quotas=[quota])).patch
    )

    assert new.containers[0].spec.requests == amounts(1500, 100 * MIB)
    assert "boost" not in new.annotations[UPDATES]


def test_a_boost_keeps_the_qos_class_that_is_left_without_the_recommended_memory() -> None:
    # With 80Mi of memory the pod would be Burstable, boosted or not.
    own = Allocation(amounts(100, 100 * MIB), amounts(300, 100 * MIB))
    pod = a_pod(a_container(requests=own.requests, limits=own.limits))
    only_requests = (ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),)
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(100, 80 * MIB)),
        policies=only_requests,
        boost=CpuBoost(BoostType.FACTOR, factor=3),
    )
    least = LimitRangeItem(LimitRangeType.CONTAINER, max_memory_ratio=1000)
    new = apply_patch(pod, size_pod(pod, autoscaler, gates=ON, room=BoostRoom([least])).patch)

    assert new.containers[0].spec.requests == amounts(299, 100 * MIB)


def test_a_pod_that_will_be_refused_takes_nothing_from_quotas() -> None:
    taken, _ = sized(SMALL, a_quota({CPU: 500}))
    refused, _ = sized(SMALL, a_quota({CPU: 50}))

    assert taken.claims == {"team": {CPU: 500}}
    assert refused.claims == {}
