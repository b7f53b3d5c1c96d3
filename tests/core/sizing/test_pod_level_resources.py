"""Pods with resources of their own: who gets what is wanted, and who has no room for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import UP, boosted, boosting, by_pod, planned, several, snapshot_of, told
from support.makers.records import (
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    minutes,
)

from trimtab.core.changes.outcomes import Resize, Unboost
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Envelope, Pod
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.admission_patch import size_pod
from trimtab.core.sizing.container_resources import Allotment
from trimtab.core.sizing.pod_level_resources import find_misfits
from trimtab.simulation.api_server.json_patch import apply_patch

SIDECAR = ContainerKind.SIDECAR


def a_pod_of(envelope: Envelope | None, *containers: Container) -> Pod:
    return a_pod(*containers, envelope=envelope)


def wanting(**cpu: int) -> dict[str, Allotment]:
    return {name: Allotment(amounts(millicores)) for name, millicores in cpu.items()}


def cpu_of(most: int, init: int = 0) -> Envelope:
    return Envelope(amounts(most), {}, amounts(init))


ONE = a_container("one", requests=amounts(100))
TWO = a_container("two", requests=amounts(100))
HELPER = a_container("helper", requests=amounts(100), kind=SIDECAR)


@pytest.mark.parametrize(
    ("envelope", "containers", "wanted", "misfits"),
    [
        pytest.param(None, (ONE, TWO), wanting(one=9000), (), id="a pod without bounds has room"),
        pytest.param(cpu_of(300), (ONE, TWO), wanting(one=200), (), id="what just fits"),
        pytest.param(
            cpu_of(300), (ONE, TWO), wanting(one=201), ("one",), id="one millicore too many"
        ),
        pytest.param(
            cpu_of(199),
            (ONE, TWO),
            wanting(one=100),
            ("one",),
            id="the same amount, where rounding makes containers larger than their pod",
        ),
        pytest.param(
            cpu_of(300),
            (ONE, TWO),
            wanting(one=250, two=50),
            (),
            id="what one container gives back another may have",
        ),
        pytest.param(
            cpu_of(300),
            (ONE, TWO),
            wanting(one=150, two=200),
            ("two",),
            id="of two that cannot both grow the first does",
        ),
        pytest.param(
            cpu_of(300),
            (ONE, HELPER),
            wanting(helper=201),
            ("helper",),
            id="a sidecar counts like a container",
        ),
        pytest.param(
            cpu_of(300, init=200),
            (ONE, HELPER),
            wanting(helper=150),
            ("helper",),
            id="a sidecar runs beside init containers",
        ),
        pytest.param(
            Envelope({}, amounts(300)),
            (ONE,),
            {"one": Allotment(amounts(100), amounts(301))},
            ("one",),
            id="a limit above that of the pod",
        ),
        pytest.param(
            Envelope({}, amounts(300)),
            (ONE, TWO),
            {
                "one": Allotment(amounts(100), amounts(300)),
                "two": Allotment(amounts(100), amounts(300)),
            },
            (),
            id="limits are not added up",
        ),
        pytest.param(
            Envelope(amounts(None, 100 * MIB), {}),
            (ONE,),
            wanting(one=9000),
            (),
            id="what the pod does not bound is free",
        ),
    ],
)
def test_a_container_gets_what_is_wanted_only_where_the_pod_has_room(
    envelope: Envelope | None,
    containers: tuple[Container, ...],
    wanted: dict[str, Allotment],
    misfits: tuple[str, ...],
) -> None:
    assert find_misfits(a_pod_of(envelope, *containers), wanted) == misfits


AMOUNTS = st.builds(amounts, st.integers(1, 500), st.integers(1, 500))


@given(
    st.lists(AMOUNTS, min_size=1, max_size=4), st.lists(AMOUNTS, min_size=4, max_size=4), AMOUNTS
)
def test_a_pod_that_fits_in_its_own_resources_fits_after_its_patch(
    asked: list[Resources], targets: list[Resources], spare: Resources
) -> None:
    most = {kind: sum(one[kind] for one in asked) + spare[kind] for kind in BOTH}
    containers = [
        a_container(f"c{index}", requests=one, index=index) for index, one in enumerate(asked)
    ]
    recommended = [
        a_recommendation(f"c{index}", target=target) for index, target in enumerate(targets)
    ]
    pod = a_pod_of(Envelope(most, most), *containers)
    sizing = size_pod(pod, an_autoscaler(*recommended), gates=FeatureGates())
    sized = apply_patch(pod, sizing.patch)

    for kind in BOTH:
        assert sum((one.spec.requests or {})[kind] for one in sized.containers) <= most[kind]
    for before, after in zip(containers, sized.containers, strict=True):
        if before.name in sizing.misfits:
            assert after.spec == before.spec


def test_a_container_without_room_is_not_resized_boosted_or_named_as_updated() -> None:
    pod = a_pod_of(cpu_of(150), a_container("app", requests=amounts(100)))
    autoscaler = an_autoscaler(a_recommendation(target={Resource.CPU: 500}))
    sizing = size_pod(pod, autoscaler, gates=FeatureGates())

    assert sizing.misfits == ("app",)
    assert [one.path for one in sizing.patch] == [
        "/metadata/annotations",
        "/metadata/annotations/vpaObservedContainers",
    ]


ROOMY = Envelope(amounts(300, 300 * MIB), {})
GROWTH = (
    a_recommendation("one", target=amounts(150, 100 * MIB), lower=amounts(140, 100 * MIB)),
    a_recommendation("two", target=amounts(200, 100 * MIB), lower=amounts(190, 100 * MIB)),
)
PAIR = tuple(a_container(name, requests=amounts(100, 100 * MIB)) for name in ("one", "two"))


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.UPSCALE_ONLY])
def test_a_resize_and_a_new_pod_leave_out_the_same_containers(mode: UpdateMode) -> None:
    pods = several(2, containers=PAIR, envelope=ROOMY)
    autoscaler = an_autoscaler(*GROWTH, mode=mode)
    resize, _ = [
        each for each in planned(snapshot_of(pods, autoscaler)) if isinstance(each, Resize)
    ]
    sizing = size_pod(pods[0], autoscaler, gates=FeatureGates())

    assert resize.wanted.keys() == {"one"}
    assert sizing.misfits == ("two",)


def test_no_pod_is_evicted_for_a_size_that_its_successor_would_not_get() -> None:
    pods = several(2, containers=PAIR, envelope=Envelope(amounts(200), {}))

    assert set(told(planned(snapshot_of(pods, an_autoscaler(*GROWTH))))) == {"NoRecommendation"}


def test_pods_that_differ_only_in_their_own_resources_are_judged_apart() -> None:
    tight, free = several(2, containers=PAIR)
    tight = structs.replace(tight, envelope=Envelope(amounts(200), {}))
    outcomes = planned(snapshot_of([tight, free], an_autoscaler(*GROWTH)))

    assert by_pod(outcomes) == {"web-0": "NoRecommendation", "web-1": "Evict"}


def test_where_the_recommendation_does_not_fit_a_boost_goes_back_to_the_spec() -> None:
    pod = structs.replace(
        boosted(ready=minutes(2)), envelope=Envelope(amounts(450, 900 * MIB), amounts(1000))
    )
    (outcome,) = planned(snapshot_of([pod], boosting(UP)))

    assert isinstance(outcome, Unboost)
    assert outcome.wanted == {"app": Allocation(amounts(100), {})}
