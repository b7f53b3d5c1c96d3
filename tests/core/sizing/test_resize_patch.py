from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.makers.pod_documents import apply, read_pod, write_pod
from support.makers.records import MIB, a_container, a_pod, amounts
from support.strategies.records import NAMES, allocation, pod

from trimtab.core.model.json_patch import Add, Remove
from trimtab.core.model.limits import QosClass, qos_class
from trimtab.core.model.pods import IN_PLACE_UPDATED, Allocation, ContainerKind, Pod
from trimtab.core.model.resources import Resources
from trimtab.core.sizing.resize_patch import ResizePatch, resize_patch
from trimtab.core.sizing.startup_boost import annotation_name

USUAL = a_container(requests=amounts(100, 128 * MIB), limits=amounts(200, 256 * MIB))
MARKED = Add("/metadata/annotations/vpaInPlaceUpdated", "true")
MAP = Add("/metadata/annotations", {})


def wants(requests: Resources | None = None, limits: Resources | None = None) -> Allocation:
    return Allocation(requests, limits)


def test_resources_and_metadata_are_patched_apart() -> None:
    wanted = {"app": wants(amounts(150, 128 * MIB), amounts(300, 256 * MIB))}

    assert resize_patch(a_pod(USUAL), wanted) == ResizePatch(
        resources=(
            Add("/spec/containers/0/resources/requests/cpu", "150m"),
            Add("/spec/containers/0/resources/limits/cpu", "300m"),
        ),
        metadata=(MAP, MARKED),
        keeps_qos=True,
    )


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param({}, id="nothing is wanted"),
        pytest.param({"app": Allocation()}, id="nothing of the container"),
        pytest.param({"app": wants(amounts(100, 128 * MIB), amounts(200))}, id="what it has"),
        pytest.param({"ghost": wants(amounts(1))}, id="for a container that is not there"),
    ],
)
def test_where_nothing_changes_there_is_no_patch(wanted: Mapping[str, Allocation]) -> None:
    assert resize_patch(a_pod(USUAL), wanted) is None


def test_sidecars_are_resized_in_their_own_list() -> None:
    sidecar = a_container("proxy", index=2, kind=ContainerKind.SIDECAR, requests=amounts(50))

    patch = resize_patch(a_pod(USUAL, sidecar), {"proxy": wants(amounts(80))})

    assert patch is not None
    assert patch.resources == (Add("/spec/initContainers/2/resources/requests/cpu", "80m"),)


def test_the_spec_decides_what_changes_not_the_status() -> None:
    lagging = a_container(requests=amounts(500), status=Allocation(amounts(100)))

    assert resize_patch(a_pod(lagging), {"app": wants(amounts(500))}) is None


IDLE = a_container(requests=amounts(0, 128 * MIB), limits=amounts(0, 256 * MIB))


@pytest.mark.parametrize(
    ("wanted", "changes"),
    [
        pytest.param(
            wants(amounts(500, 150 * MIB), amounts(memory=300 * MIB)),
            {"requests/memory": "150Mi", "limits/memory": "300Mi"},
            id="what it limits to zero is left alone",
        ),
        pytest.param(
            wants(amounts(500), amounts(600)),
            {"requests/cpu": "500m", "limits/cpu": "600m"},
            id="a limit that grows makes room",
        ),
        pytest.param(wants(amounts(0, 150 * MIB)), {"requests/memory": "150Mi"}, id="zero stays"),
    ],
)
def test_f30_a_resize_takes_no_limit_away(wanted: Allocation, changes: dict[str, str]) -> None:
    patch = resize_patch(a_pod(IDLE), {"app": wanted})

    assert patch is not None
    assert patch.resources == tuple(
        Add(f"/spec/containers/0/resources/{path}", amount) for path, amount in changes.items()
    )


def test_a_resize_that_a_limit_of_zero_forbids_is_none() -> None:
    assert resize_patch(a_pod(IDLE), {"app": wants(amounts(500))}) is None


@pytest.mark.parametrize(
    ("pod", "metadata"),
    [
        pytest.param(a_pod(USUAL), (MAP, MARKED), id="no annotations yet"),
        pytest.param(a_pod(USUAL, has_empty_annotations=True), (MARKED,), id="an empty map"),
        pytest.param(a_pod(USUAL, annotations={"team": "blue"}), (MARKED,), id="other annotations"),
        pytest.param(a_pod(USUAL, annotations={IN_PLACE_UPDATED: "true"}), (), id="marked before"),
    ],
)
def test_a_resized_pod_is_marked_once(pod: Pod, metadata: tuple[Add, ...]) -> None:
    patch = resize_patch(pod, {"app": wants(amounts(150))})

    assert patch is not None
    assert patch.metadata == metadata


def test_the_marks_of_ended_boosts_go_and_others_stay() -> None:
    marks = {annotation_name(name): "{}" for name in ("app", "side", "gone")}
    pod = a_pod(USUAL, annotations={"team": "blue", **marks})

    patch = resize_patch(
        pod, {"app": wants(amounts(50))}, ended_boosts=["gone", "app", "never", "app"]
    )

    assert patch is not None
    assert patch.metadata == (
        MARKED,
        Remove("/metadata/annotations/vpaCpuStartupBoost~1app"),
        Remove("/metadata/annotations/vpaCpuStartupBoost~1gone"),
    )


def test_a_boost_that_ends_without_a_change_only_loses_its_mark() -> None:
    pod = a_pod(USUAL, annotations={annotation_name("app"): "{}"})

    patch = resize_patch(pod, {"app": wants(amounts(100))}, ended_boosts=["app"])

    assert patch == ResizePatch(
        resources=(),
        metadata=(Remove("/metadata/annotations/vpaCpuStartupBoost~1app"),),
        keeps_qos=True,
    )


@pytest.mark.parametrize(
    ("allocations", "expected"),
    [
        pytest.param([], QosClass.BEST_EFFORT, id="no containers"),
        pytest.param([wants()], QosClass.BEST_EFFORT, id="nothing asked for"),
        pytest.param([wants(amounts(0, 0))], QosClass.BEST_EFFORT, id="zero asked for"),
        pytest.param([wants(), wants(amounts(1))], QosClass.BURSTABLE, id="a little somewhere"),
        pytest.param(
            [wants(amounts(1, 2), amounts(1, 2))], QosClass.GUARANTEED, id="as much as allowed"
        ),
        pytest.param([wants(None, amounts(1, 2))], QosClass.GUARANTEED, id="limits alone"),
        pytest.param(
            [wants(amounts(0, 2), amounts(1, 2))], QosClass.BURSTABLE, id="a request of zero"
        ),
        pytest.param([wants(amounts(1), amounts(1))], QosClass.BURSTABLE, id="memory not limited"),
        pytest.param(
            [wants(amounts(1, 2), amounts(1, 2)), wants()], QosClass.BURSTABLE, id="not everyone"
        ),
    ],
)
def test_the_class_of_a_pod_follows_from_what_its_containers_ask_for(
    allocations: list[Allocation], expected: QosClass
) -> None:
    assert qos_class(allocations) is expected


@pytest.mark.parametrize(
    ("own", "wanted", "keeps"),
    [
        pytest.param(wants(), wants(amounts(1)), False, id="best effort asks for something"),
        pytest.param(
            wants(amounts(1, 1), amounts(1, 1)),
            wants(amounts(2, 2), amounts(2, 2)),
            True,
            id="guaranteed grows",
        ),
        pytest.param(
            wants(amounts(2, 2), amounts(2, 2)),
            wants(amounts(1)),
            False,
            id="guaranteed with a lower request",
        ),
        pytest.param(
            wants(amounts(1, 2), amounts(2, 2)),
            wants(amounts(2)),
            False,
            id="burstable up to its limits",
        ),
        pytest.param(wants(amounts(1)), wants(amounts(1, 1)), True, id="burstable gets more"),
    ],
)
def test_a_patch_tells_whether_the_pod_keeps_its_class(
    *, own: Allocation, wanted: Allocation, keeps: bool
) -> None:
    container = a_container(requests=own.requests, limits=own.limits)
    patch = resize_patch(a_pod(container), {"app": wanted})

    assert patch is not None
    assert patch.keeps_qos is keeps


@given(
    pod=pod(),
    wanted=st.dictionaries(st.sampled_from(NAMES), allocation),
    boosted=st.sets(st.sampled_from(NAMES)),
)
def test_after_a_resize_there_is_nothing_left_to_resize(
    pod: Pod, wanted: Mapping[str, Allocation], boosted: set[str]
) -> None:
    assume(len({container.name for container in pod.containers}) == len(pod.containers))
    document = write_pod(pod)
    document["metadata"].setdefault("annotations", {}).update(
        {annotation_name(name): "{}" for name in boosted}
    )
    pod = read_pod(document)
    patch = resize_patch(pod, wanted, ended_boosts=NAMES)

    if patch is not None:
        assert all(isinstance(operation, Add) for operation in patch.resources)
        resized = apply(patch.metadata, apply(patch.resources, document))
        assert resize_patch(read_pod(resized), wanted, ended_boosts=NAMES) is None
    else:
        assert not boosted
