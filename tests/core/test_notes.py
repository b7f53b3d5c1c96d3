import pytest
from makers import a_container

from trimtab.core.notes import ContainerUpdate, Note, NoteKind, format_note, format_updates
from trimtab.core.pods import ContainerKind
from trimtab.core.resources import BOTH, Resource

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
