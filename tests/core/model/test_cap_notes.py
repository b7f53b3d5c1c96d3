import pytest
from support.makers.records import a_container

from trimtab.core.model.cap_notes import (
    ContainerUpdate,
    Note,
    NoteKind,
    format_note,
    format_updates,
    was_sized,
)
from trimtab.core.model.pods import IN_PLACE_UPDATED, UPDATES, ContainerKind
from trimtab.core.model.resources import BOTH, Resource

CPU, MEMORY = Resource.CPU, Resource.MEMORY


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NoteKind.MIN_ALLOWED, "cpu capped to minAllowed"),
        (NoteKind.MAX_ALLOWED, "cpu capped to maxAllowed"),
        (NoteKind.CONTAINER_LIMIT, "cpu capped to container limit"),
        (NoteKind.LIMIT_RANGE_MIN, "cpu capped to fit Min in container LimitRange"),
        (NoteKind.LIMIT_RANGE_MAX, "cpu capped to fit Max in container LimitRange"),
        (
            NoteKind.LIMIT_RANGE_REFUSES,
            "cpu NOT updated since the LimitRange would refuse the pod",
        ),
        (
            NoteKind.PODS_REFUSED,
            "cpu NOT updated since pods of the recommended size were not created",
        ),
        (
            NoteKind.BOOST_REFUSED,
            "cpu startup boost left out since boosted pods were not created",
        ),
        (NoteKind.NO_LIMIT_TO_SCALE, "cpu: limit NOT set since originalLimit is nil or 0"),
        (NoteKind.NO_REQUEST_TO_FOLLOW, "cpu: limit NOT set since recommendedRequest is nil or 0"),
        (
            NoteKind.RATIO_LOST,
            "cpu: failed to keep limit to request ratio; capping limit to int64",
        ),
    ],
)
def test_a_note_reads_as_people_know_it(kind: NoteKind, expected: str) -> None:
    assert format_note(Note(CPU, kind)) == expected


def test_every_kind_of_note_has_its_own_text() -> None:
    texts = {format_note(Note(resource, kind)) for resource in BOTH for kind in NoteKind}

    assert len(texts) == len(BOTH) * len(NoteKind)


@pytest.mark.parametrize(
    ("updates", "expected"),
    [
        pytest.param(
            [ContainerUpdate(a_container(), requests=BOTH, limits=(CPU,))],
            "container 0: cpu request, memory request, cpu limit",
            id="requests, then limits",
        ),
        pytest.param(
            [
                ContainerUpdate(
                    a_container(), requests=(CPU,), notes=(Note(MEMORY, NoteKind.MAX_ALLOWED),)
                )
            ],
            "container 0: memory capped to maxAllowed, cpu request",
            id="notes first",
        ),
        pytest.param([ContainerUpdate(a_container())], "container 0: ", id="nothing to tell"),
        pytest.param(
            [
                ContainerUpdate(a_container(index=1), requests=(CPU,)),
                ContainerUpdate(a_container(index=2, kind=ContainerKind.SIDECAR), limits=(CPU,)),
            ],
            "container 1: cpu request; init container 2: cpu limit",
            id="several containers, a sidecar among them",
        ),
    ],
)
def test_an_update_is_told_container_by_container(
    updates: list[ContainerUpdate], expected: str
) -> None:
    assert format_updates("web", updates) == f"Pod resources updated by web: {expected}"


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        pytest.param(ContainerUpdate(a_container(), requests=(CPU,)), True, id="a request"),
        pytest.param(ContainerUpdate(a_container(), limits=(MEMORY,)), True, id="a limit"),
        pytest.param(ContainerUpdate(a_container()), False, id="nothing"),
    ],
)
def test_a_pod_was_sized_where_admission_set_an_amount(
    update: ContainerUpdate, *, expected: bool
) -> None:
    others = [ContainerUpdate(a_container(index=1)), ContainerUpdate(a_container(index=3))]
    updates = format_updates("web", [others[0], update, others[1]])

    assert was_sized({UPDATES: updates}) is expected


@pytest.mark.parametrize("kind", NoteKind)
def test_no_note_alone_makes_a_pod_a_sized_one(kind: NoteKind) -> None:
    noted = ContainerUpdate(a_container(), notes=tuple(Note(each, kind) for each in BOTH))

    assert not was_sized({UPDATES: format_updates("cpu-request", [noted])})


def test_a_pod_was_sized_once_it_was_resized() -> None:
    assert was_sized({IN_PLACE_UPDATED: "true"})
    assert not was_sized({})
