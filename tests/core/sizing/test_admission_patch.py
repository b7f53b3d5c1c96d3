import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.makers.pod_documents import apply, read_pod, write_pod
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
)
from support.strategies.records import (
    autoscaler,
    limit_ranges,
    pod,
    policy,
    sane_allocation,
    signed_resources,
)

from trimtab.core.model.autoscalers import (
    Autoscaler,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    CpuBoost,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add, Operation
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, ContainerKind, Pod
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.new_pods.operations import resource_operations
from trimtab.core.sizing.startup_boost import BoostError, annotation_name, format_original
from trimtab.simulation.api_server.json_patch import apply_patch

ON = FeatureGates()
OFF = FeatureGates(cpu_startup_boost=False)
DOUBLE = CpuBoost(factor=2)

ADVICE = a_recommendation(target=amounts(500, 512 * MIB))
USUAL = a_container(requests=amounts(100, 128 * MIB), limits=amounts(200, 256 * MIB))
SIDECAR = a_container(
    "proxy", index=1, kind=ContainerKind.SIDECAR, requests=amounts(50), limits=amounts(50)
)


def admitted(pod: Pod, autoscaler: Autoscaler | None, **options: Any) -> dict[str, Any]:
    """The pod's document as admission leaves it."""
    patch = admission_patch(pod, autoscaler, **{"gates": ON, **options})
    return apply(patch, write_pod(pod))


def resources_of(document: dict[str, Any], kind: str = "containers", index: int = 0) -> Any:
    return document["spec"][kind][index].get("resources")


def annotations_of(document: dict[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] = document["metadata"]["annotations"]
    return annotations


def paths(operations: tuple[Operation, ...]) -> list[str]:
    return [operation.path for operation in operations]


def test_an_unmanaged_pod_is_left_as_it_is() -> None:
    assert admission_patch(a_pod(USUAL), None, gates=ON) == ()


def test_a_pod_gets_requests_and_the_limits_that_follow() -> None:
    document = admitted(a_pod(USUAL), an_autoscaler(ADVICE))

    assert resources_of(document) == {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert annotations_of(document) == {
        "vpaUpdates": "Pod resources updated by web: container 0: "
        "cpu request, memory request, cpu limit, memory limit",
        "vpaObservedContainers": "app",
    }


def test_operations_stand_in_the_order_in_which_they_need_each_other() -> None:
    boosted = an_autoscaler(ADVICE, boost=DOUBLE)

    patch = admission_patch(a_pod(a_container(limits=amounts(200))), boosted, gates=ON)

    assert paths(patch) == [
        "/metadata/annotations",
        "/metadata/annotations/vpaCpuStartupBoost~1app",
        "/spec/containers/0/resources/requests",
        "/spec/containers/0/resources/requests/cpu",
        "/spec/containers/0/resources/requests/memory",
        "/spec/containers/0/resources/limits/cpu",
        "/metadata/annotations/vpaUpdates",
        "/metadata/annotations/vpaObservedContainers",
    ]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(Allocation(), ["", "/requests", "/requests/cpu"], id="no resources"),
        pytest.param(Allocation({}), ["/requests/cpu"], id="requests of something else"),
        pytest.param(Allocation(None, {}), ["/requests", "/requests/cpu"], id="limits alone"),
    ],
)
def test_only_missing_maps_are_made(own: Allocation, expected: list[str]) -> None:
    container = Container("app", spec=own)

    operations = tuple(resource_operations(container, requests=amounts(1), limits={}))

    assert paths(operations) == [f"/spec/containers/0/resources{path}" for path in expected]


@pytest.mark.parametrize(
    ("pod", "makes_map"),
    [
        pytest.param(a_pod(USUAL), True, id="no annotations"),
        pytest.param(a_pod(USUAL, has_empty_annotations=True), False, id="an empty map"),
        pytest.param(a_pod(USUAL, annotations={"team": "blue"}), False, id="others' annotations"),
    ],
)
def test_the_map_of_annotations_is_made_where_it_is_missing(*, pod: Pod, makes_map: bool) -> None:
    patch = admission_patch(pod, an_autoscaler(ADVICE), gates=ON)

    assert (patch[0] == Add("/metadata/annotations", {})) is makes_map
    assert annotations_of(apply(patch, write_pod(pod))).items() >= pod.annotations.items()


def test_sidecars_come_after_the_regular_containers_under_their_own_name() -> None:
    autoscaler = an_autoscaler(ADVICE, a_recommendation("proxy", target=amounts(80)))

    document = admitted(a_pod(USUAL, SIDECAR), autoscaler)

    assert resources_of(document, "initContainers", 1) == {
        "requests": {"cpu": "80m"},
        "limits": {"cpu": "80m"},
    }
    assert annotations_of(document)["vpaObservedContainers"] == "app, proxy"
    assert "; init container 1: " in annotations_of(document)["vpaUpdates"]


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(an_autoscaler(), id="no recommendation"),
        pytest.param(an_autoscaler(ADVICE, mode=UpdateMode.OFF), id="mode off"),
        pytest.param(an_autoscaler(a_recommendation("ghost", target=amounts(1))), id="a ghost's"),
    ],
)
def test_without_advice_only_the_observed_containers_are_written_down(silent: Autoscaler) -> None:
    document = admitted(a_pod(USUAL), silent)

    assert resources_of(document) == resources_of(write_pod(a_pod(USUAL)))
    assert annotations_of(document) == {"vpaObservedContainers": "app"}


def test_a_bare_regular_container_gets_an_empty_map_like_in_the_original() -> None:
    bare = a_container("bare", kind=ContainerKind.SIDECAR)

    document = admitted(a_pod(a_container(), bare), an_autoscaler())

    assert resources_of(document) == {}
    assert resources_of(document, "initContainers") is None
    assert annotations_of(document)["vpaUpdates"] == "Pod resources updated by web: container 0: "


@pytest.mark.parametrize("gates", [ON, OFF], ids=["gate on", "gate off"])
def test_a_container_in_mode_off_is_left_alone(gates: FeatureGates) -> None:
    policies = (ContainerPolicy("app", mode=ContainerMode.OFF),)

    document = admitted(a_pod(USUAL), an_autoscaler(ADVICE, policies=policies), gates=gates)

    assert resources_of(document) == resources_of(write_pod(a_pod(USUAL)))
    assert annotations_of(document) == {"vpaObservedContainers": "app"}


@pytest.mark.parametrize("gates", [ON, OFF], ids=["gate on", "gate off"])
def test_a_bare_container_in_mode_off_does_not_even_get_an_empty_map(gates: FeatureGates) -> None:
    policies = (ContainerPolicy("*", mode=ContainerMode.OFF),)

    document = admitted(a_pod(a_container()), an_autoscaler(policies=policies), gates=gates)

    assert resources_of(document) is None
    assert "vpaUpdates" not in annotations_of(document)


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(
            an_autoscaler(ADVICE, boost=DOUBLE),
            {
                "requests": {"cpu": "1", "memory": "512Mi"},
                "limits": {"cpu": "2", "memory": "1Gi"},
            },
            id="over the recommendation",
        ),
        pytest.param(
            an_autoscaler(ADVICE, boost=DOUBLE, mode=UpdateMode.OFF),
            {
                "requests": {"cpu": "200m", "memory": "128Mi"},
                "limits": {"cpu": "400m", "memory": "256Mi"},
            },
            id="over its own request in mode off",
        ),
        pytest.param(
            an_autoscaler(
                ADVICE, boost=DOUBLE, policies=(ContainerPolicy("app", mode=ContainerMode.OFF),)
            ),
            {
                "requests": {"cpu": "200m", "memory": "128Mi"},
                "limits": {"cpu": "400m", "memory": "256Mi"},
            },
            id="over its own request where the container is off",
        ),
        pytest.param(
            an_autoscaler(
                ADVICE,
                boost=DOUBLE,
                policies=(ContainerPolicy("*", controlled_values=ControlledValues.REQUESTS_ONLY),),
            ),
            {
                "requests": {"cpu": "200m", "memory": "256Mi"},
                "limits": {"cpu": "200m", "memory": "256Mi"},
            },
            id="not where the limit leaves no room",
        ),
        pytest.param(
            an_autoscaler(ADVICE, policies=(ContainerPolicy("app", boost=CpuBoost(factor=4)),)),
            {
                "requests": {"cpu": "2", "memory": "512Mi"},
                "limits": {"cpu": "4", "memory": "1Gi"},
            },
            id="by the container's own boost",
        ),
    ],
)
def test_a_boosted_container_starts_with_more_cpu(
    autoscaler: Autoscaler, expected: dict[str, Any]
) -> None:
    assert resources_of(admitted(a_pod(USUAL), autoscaler)) == expected


@pytest.mark.parametrize("name", ["app", "*"])
def test_a_target_of_a_resource_that_is_not_controlled_is_not_applied(name: str) -> None:
    policies = (ContainerPolicy(name, controlled_resources=(Resource.MEMORY,)),)
    document = admitted(a_pod(USUAL), an_autoscaler(ADVICE, policies=policies))

    assert resources_of(document) == {
        "requests": {"cpu": "100m", "memory": "512Mi"},
        "limits": {"cpu": "200m", "memory": "1Gi"},
    }


def test_a_boost_writes_down_what_the_spec_asked_for() -> None:
    document = admitted(a_pod(USUAL), an_autoscaler(ADVICE, boost=DOUBLE))

    assert json.loads(annotations_of(document)[annotation_name("app")]) == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "200m", "memory": "256Mi"},
        "usualRequests": {"cpu": "500m"},
        "usualLimits": {"cpu": "1"},
    }


def test_a_boost_of_what_the_spec_asks_for_writes_it_down_once() -> None:
    document = admitted(a_pod(USUAL), an_autoscaler(boost=DOUBLE))

    assert json.loads(annotations_of(document)[annotation_name("app")]).keys() == {
        "requests",
        "limits",
    }


@pytest.mark.parametrize(
    ("pod", "autoscaler", "gates"),
    [
        pytest.param(
            a_pod(USUAL), an_autoscaler(ADVICE, boost=CpuBoost(factor=1)), ON, id="a factor of one"
        ),
        pytest.param(a_pod(a_container()), an_autoscaler(boost=DOUBLE), ON, id="twice nothing"),
        pytest.param(a_pod(USUAL), an_autoscaler(ADVICE, boost=DOUBLE), OFF, id="the gate is off"),
        pytest.param(a_pod(USUAL), an_autoscaler(ADVICE), ON, id="no boost asked for"),
    ],
)
def test_a_boost_that_raises_nothing_leaves_no_mark(
    pod: Pod, autoscaler: Autoscaler, gates: FeatureGates
) -> None:
    assert annotation_name("app") not in annotations_of(admitted(pod, autoscaler, gates=gates))


@pytest.mark.parametrize(
    "none",
    [
        pytest.param(CpuBoost(factor=1), id="a factor of one"),
        pytest.param(CpuBoost("Quantity", quantity_millicores=0), id="a quantity of zero"),
    ],
)
def test_d7_a_container_whose_boost_is_switched_off_gets_its_plain_recommendation(
    none: CpuBoost,
) -> None:
    large = a_container(requests=amounts(1000, MIB), limits=amounts(1000, MIB))
    policies = (ContainerPolicy("app", boost=none),)
    document = admitted(a_pod(large), an_autoscaler(ADVICE, boost=DOUBLE, policies=policies))

    assert resources_of(document)["requests"]["cpu"] == "500m"
    assert annotation_name("app") not in annotations_of(document)


def test_d21_a_factor_multiplies_a_limit_that_comes_from_the_namespace_too() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(300))
    pod = a_pod(a_container(requests=amounts(100, MIB)))

    document = admitted(pod, an_autoscaler(ADVICE, boost=CpuBoost(factor=5)), limit_ranges=[item])

    assert resources_of(document)["requests"]["cpu"] == "2500m"
    assert resources_of(document)["limits"]["cpu"] == "7500m"


def test_the_operators_maximum_caps_the_boost() -> None:
    autoscaler = an_autoscaler(ADVICE, boost=CpuBoost(factor=10))

    document = admitted(a_pod(USUAL), autoscaler, max_boost_millicores=1500)

    assert resources_of(document)["requests"]["cpu"] == "1500m"


@pytest.mark.parametrize("gates", [ON, OFF], ids=["gate on", "gate off"])
def test_a_malformed_boost_is_an_error_only_while_the_gate_is_on(gates: FeatureGates) -> None:
    autoscaler = an_autoscaler(ADVICE, boost=CpuBoost("Quantity"))

    if gates.cpu_startup_boost:
        with pytest.raises(BoostError, match="quantity"):
            admission_patch(a_pod(USUAL), autoscaler, gates=gates)
    else:
        assert admission_patch(a_pod(USUAL), autoscaler, gates=gates)


def test_f31_containers_with_odd_names_get_a_valid_patch() -> None:
    odd = "a/b~1~c"
    pod = a_pod(a_container(odd, requests=amounts(100)))

    document = admitted(pod, an_autoscaler(boost=DOUBLE))

    assert annotation_name(odd) in annotations_of(document)


@given(pod=pod(), autoscaler=autoscaler, items=limit_ranges)
def test_f28_f31_any_pod_gets_a_valid_patch(
    pod: Pod, autoscaler: Autoscaler, items: list[LimitRangeItem]
) -> None:
    document = admitted(pod, autoscaler, limit_ranges=items)

    assert annotations_of(document)["vpaObservedContainers"] == ", ".join(
        container.name for container in pod.containers
    )


@given(pod=pod(), target=signed_resources, rule=policy, items=limit_ranges)
def test_no_patch_ever_holds_a_negative_amount(
    pod: Pod, target: Resources, rule: ContainerPolicy, items: list[LimitRangeItem]
) -> None:
    advice = [a_recommendation(container.name, target=target) for container in pod.containers]
    autoscaler = an_autoscaler(*advice, policies=(replace(rule, container_name="*"),))

    for operation in admission_patch(pod, autoscaler, gates=ON, limit_ranges=items):
        text = operation.value if isinstance(operation, Add) else None
        assert not (isinstance(text, str) and (text.startswith("-") or ':"-' in text))


@pytest.mark.parametrize(
    ("autoscaler", "requests"),
    [
        pytest.param(
            an_autoscaler(ADVICE, policies=(ContainerPolicy("*", max_allowed=amounts(-5)),)),
            {"cpu": "500m", "memory": "512Mi"},
            id="a maximum below zero bounds nothing",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(-5, 512 * MIB))),
            {"cpu": "100m", "memory": "512Mi"},
            id="advice below zero is none",
        ),
    ],
)
def test_an_amount_below_zero_changes_nothing(
    autoscaler: Autoscaler, requests: dict[str, str]
) -> None:
    assert resources_of(admitted(a_pod(USUAL), autoscaler))["requests"] == requests


@given(pod=pod(sane_allocation()), autoscaler=autoscaler, gates=st.sampled_from([ON, OFF]))
@example(
    pod=a_pod(a_container(requests=amounts(memory=1), limits=amounts(memory=2))),
    autoscaler=an_autoscaler(a_recommendation(target=amounts(memory=2**63 - 1))),
    gates=ON,
)
def test_after_a_patch_there_is_nothing_left_to_patch(
    pod: Pod, autoscaler: Autoscaler, gates: FeatureGates
) -> None:
    assume(len({container.name for container in pod.containers}) == len(pod.containers))
    new = read_pod(write_pod(pod))
    once = admitted(new, autoscaler, gates=gates)
    twice = admitted(read_pod(once), autoscaler, gates=gates)

    assert twice["spec"] == once["spec"]
    # A limit that no integer can hold loses its ratio to the request once, and has none then.
    if "failed to keep limit to request ratio" not in str(once["metadata"]):
        assert twice == once


MARK = format_original(Allocation(amounts(100, 128 * MIB), amounts(200, 256 * MIB)))


@pytest.mark.parametrize(
    ("mark", "millicores", "boosted", "original"),
    [
        pytest.param(MARK, 200, "200m", "100m", id="boosted already"),
        pytest.param(MARK, 150, "200m", "100m", id="boosted by less before"),
        pytest.param(MARK, 300, "600m", "300m", id="the mark of another container"),
        pytest.param("corrupt", 200, "400m", "200m", id="a mark that cannot be read"),
    ],
)
def test_a_pod_that_brings_a_boost_along_is_not_boosted_again(
    mark: str, millicores: int, boosted: str, original: str
) -> None:
    own = a_container(requests=amounts(millicores), limits=amounts(2 * millicores))
    pod = a_pod(own, annotations={**BOOST_TOLD, annotation_name("app"): mark})

    document = admitted(pod, an_autoscaler(boost=DOUBLE))

    kept = json.loads(annotations_of(document)[annotation_name("app")])
    assert resources_of(document)["requests"]["cpu"] == boosted
    assert kept["requests"]["cpu"] == original


@pytest.mark.parametrize("told", [{}, BOOST_TOLD], ids=["a mark alone", "a whole copy"])
@pytest.mark.parametrize("autoscaler", [None, an_autoscaler()], ids=["none", "without a boost"])
def test_a_mark_that_no_boost_explains_is_removed(
    autoscaler: Autoscaler | None, told: dict[str, str]
) -> None:
    marks = {annotation_name(name): MARK for name in ("app", "gone")}
    pod = a_pod(USUAL, annotations={"team": "blue", **told, **marks})

    document = admitted(pod, autoscaler)

    assert resources_of(document) == resources_of(write_pod(pod))
    assert annotations_of(document).keys().isdisjoint(marks)
    assert annotations_of(document)["team"] == "blue"


def test_a_mark_of_a_template_is_not_the_base_of_a_boost() -> None:
    own = a_container(requests=amounts(150), limits=amounts(300))
    pod = a_pod(own, annotations={annotation_name("app"): MARK})

    document = admitted(pod, an_autoscaler(boost=DOUBLE))

    assert resources_of(document)["requests"]["cpu"] == "300m"
    mark = json.loads(annotations_of(document)[annotation_name("app")])
    assert mark["requests"]["cpu"] == "150m"


def test_with_the_gate_off_marks_are_left_alone() -> None:
    pod = a_pod(USUAL, annotations={annotation_name("app"): MARK})

    document = admitted(pod, an_autoscaler(), gates=OFF)

    assert resources_of(document) == resources_of(write_pod(pod))
    assert annotations_of(document)[annotation_name("app")] == MARK


@given(pod=pod(sane_allocation()), autoscaler=autoscaler)
def test_admission_never_leaves_a_limit_below_its_request(pod: Pod, autoscaler: Autoscaler) -> None:
    assume(len({container.name for container in pod.containers}) == len(pod.containers))
    admitted_pod = read_pod(admitted(read_pod(write_pod(pod)), autoscaler))

    for container in admitted_pod.containers:
        requests = container.spec.requests or {}
        for kind, limit in (container.spec.limits or {}).items():
            assert requests.get(kind, 0) <= limit


def test_f30_a_limit_of_zero_goes_where_a_request_is_set() -> None:
    idle = a_container(requests=amounts(0, 0), limits=amounts(0, 0))
    document = admitted(a_pod(idle), an_autoscaler(a_recommendation(target=amounts(500))))

    assert resources_of(document) == {
        "requests": {"cpu": "500m", "memory": "0"},
        "limits": {"memory": "0"},
    }


def test_f30_a_limit_of_zero_goes_where_a_boost_sets_a_request() -> None:
    idle = a_container(limits=amounts(0))
    boost = CpuBoost("Quantity", quantity_millicores=300)
    document = admitted(a_pod(idle), an_autoscaler(mode=UpdateMode.OFF, boost=boost))

    assert resources_of(document) == {"requests": {"cpu": "300m"}, "limits": {}}


def test_claims_on_devices_survive_the_patch() -> None:
    claiming = a_container(has_claims=True)
    opened = resource_operations(claiming, requests=amounts(500), limits={})

    assert paths(tuple(opened)) == [
        "/spec/containers/0/resources/requests",
        "/spec/containers/0/resources/requests/cpu",
    ]


def cpu_requests(document: dict[str, Any]) -> list[str]:
    return [each["resources"]["requests"]["cpu"] for each in document["spec"]["containers"]]


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        pytest.param(3000, ["1", "2"], id="all of it fits"),
        pytest.param(2250, ["750m", "1500m"], id="each gets the same share of its boost"),
        pytest.param(1500, ["500m", "1"], id="there is room without a boost only"),
        pytest.param(900, ["300m", "600m"], id="not even that fits"),
    ],
)
def test_f26_the_boosts_of_all_containers_together_fit_on_some_node(
    room: int, expected: list[str]
) -> None:
    containers = [a_container(name, index=index) for index, name in enumerate(("app", "side"))]
    advice = [
        a_recommendation("app", target=amounts(500, MIB)),
        a_recommendation("side", target=amounts(1000, MIB)),
    ]
    item = LimitRangeItem(LimitRangeType.NODE, max=amounts(room, 4096 * MIB))

    document = admitted(
        a_pod(*containers), an_autoscaler(*advice, boost=DOUBLE), limit_ranges=[item]
    )

    assert cpu_requests(document) == expected


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=4),
    st.integers(2, 9),
    st.integers(1, 40_000),
)
def test_f26_whatever_is_boosted_a_node_that_could_take_the_pod_still_can(
    targets: list[int], factor: int, room: int
) -> None:
    names = [f"c{index}" for index in range(len(targets))]
    pod = a_pod(*(a_container(name, index=index) for index, name in enumerate(names)))
    advice = [
        a_recommendation(name, target=amounts(target, 1))
        for name, target in zip(names, targets, strict=True)
    ]
    item = LimitRangeItem(LimitRangeType.NODE, max=amounts(room, 4096 * MIB))
    patch = admission_patch(
        pod,
        an_autoscaler(*advice, boost=CpuBoost(factor=factor)),
        gates=ON,
        limit_ranges=[item],
    )
    sized = apply_patch(pod, patch)
    total = sum((each.spec.requests or {})[Resource.CPU] for each in sized.containers)

    assert total <= max(room, len(targets))


@pytest.mark.parametrize(
    ("target", "requests", "words"),
    [
        pytest.param(
            amounts(500, 500), amounts(500, 128 * MIB), "memory NOT updated", id="a forgotten unit"
        ),
        pytest.param(
            amounts(10**8, 200 * MIB), amounts(100, 200 * MIB), "cpu NOT updated", id="too much"
        ),
        pytest.param(
            amounts(0, 0), amounts(100, 128 * MIB), "memory NOT updated since", id="nothing"
        ),
    ],
)
def test_a_target_that_no_container_can_have_is_left_out(
    target: Resources, requests: Resources, words: str
) -> None:
    given = a_pod(a_container(requests=amounts(100, 128 * MIB)))

    found = apply_patch(
        given, admission_patch(given, an_autoscaler(a_recommendation(target=target)), gates=ON)
    )

    assert found.containers[0].spec.requests == requests
    assert words in found.annotations["vpaUpdates"]
