import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import a_container, a_pod, a_recommendation, amounts

from trimtab.core.changes.change import are_fulfilled
from trimtab.core.model.autoscalers import ChangeDirection, EvictionRequirement
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, Resource, Resources

HIGHER = ChangeDirection.TARGET_HIGHER
LOWER = ChangeDirection.TARGET_LOWER
CPU = (Resource.CPU,)
MEMORY = (Resource.MEMORY,)

EITHER_HIGHER = (EvictionRequirement(BOTH, HIGHER),)
CPU_HIGHER = (EvictionRequirement(CPU, HIGHER),)
EACH_HIGHER = (EvictionRequirement(CPU, HIGHER), EvictionRequirement(MEMORY, HIGHER))
EITHER_LOWER = (EvictionRequirement(BOTH, LOWER),)
CPU_HIGHER_MEMORY_LOWER = (EvictionRequirement(CPU, HIGHER), EvictionRequirement(MEMORY, LOWER))
COLUMNS = (EITHER_HIGHER, CPU_HIGHER, EACH_HIGHER, EITHER_LOWER, CPU_HIGHER_MEMORY_LOWER)

UP, SAME, DOWN = 200, 100, 50


def fulfilled(
    requirements: tuple[EvictionRequirement, ...],
    *pairs: tuple[Resources | None, Resources | None],
) -> bool:
    """Whether they hold for containers with these requests and targets, None for no target."""
    pod = a_pod(*(a_container(f"c{i}", requests=pair[0]) for i, pair in enumerate(pairs)))
    recommendation = [
        a_recommendation(f"c{i}", target=pair[1])
        for i, pair in enumerate(pairs)
        if pair[1] is not None
    ]
    return are_fulfilled(requirements, pod, recommendation)


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param(EITHER_HIGHER, True, id="what grows meets it"),
        pytest.param(CPU_HIGHER, True, id="cpu grows"),
        pytest.param(EACH_HIGHER, False, id="memory does not grow"),
        pytest.param(EITHER_LOWER, False, id="what shrinks does not count"),
        pytest.param(CPU_HIGHER_MEMORY_LOWER, False, id="nor beside what grows"),
        pytest.param((), True, id="no requirement"),
    ],
)
def test_of_growth_alone_nothing_meets_a_requirement_to_shrink(
    requirements: tuple[EvictionRequirement, ...], *, expected: bool
) -> None:
    pod = a_pod(a_container(requests=amounts(SAME, SAME)))
    mixed = [a_recommendation(target=amounts(UP, DOWN))]

    assert are_fulfilled(requirements, pod, mixed, only_growth=True) is expected


@pytest.mark.parametrize(
    ("cpu", "memory", "row"),
    [
        pytest.param(UP, UP, "yyynn", id="both grow"),
        pytest.param(UP, SAME, "yynnn", id="cpu grows"),
        pytest.param(UP, DOWN, "yynyy", id="cpu grows and memory shrinks"),
        pytest.param(SAME, UP, "ynnnn", id="memory grows"),
        pytest.param(DOWN, UP, "ynnyn", id="memory grows and cpu shrinks"),
        pytest.param(DOWN, DOWN, "nnnyn", id="both shrink"),
        pytest.param(SAME, SAME, "nnnnn", id="nothing changes"),
    ],
)
def test_the_decision_table_for_a_single_container(cpu: int, memory: int, row: str) -> None:
    pair = (amounts(100, 100), amounts(cpu, memory))

    assert "".join("ny"[fulfilled(column, pair)] for column in COLUMNS) == row


@pytest.mark.parametrize(
    ("requirements", "pairs", "expected"),
    [
        pytest.param(
            EACH_HIGHER,
            [(amounts(100, 100), amounts(UP, SAME)), (amounts(100, 100), amounts(SAME, UP))],
            True,
            id="different containers serve different requirements",
        ),
        pytest.param(
            EACH_HIGHER,
            [(amounts(100, 100), amounts(UP, SAME)), (amounts(100, 100), amounts(UP, DOWN))],
            False,
            id="nobody serves one of them",
        ),
        pytest.param(
            CPU_HIGHER,
            [(amounts(100, 100), None), (amounts(100, 100), amounts(UP, SAME))],
            True,
            id="a container that is not controlled is skipped",
        ),
        pytest.param(CPU_HIGHER, [(amounts(100, 100), None)], False, id="none is controlled"),
        pytest.param((), [(amounts(100, 100), None)], False, id="no requirement, none controlled"),
        pytest.param(
            (), [(amounts(100, 100), amounts(SAME, SAME))], True, id="no requirement at all"
        ),
        pytest.param(
            EACH_HIGHER,
            [(amounts(100), amounts(UP, DOWN))],
            True,
            id="a missing memory request counts as growing memory",
        ),
        pytest.param(
            EITHER_LOWER, [(None, amounts(DOWN, DOWN))], False, id="no request cannot shrink"
        ),
        pytest.param(
            CPU_HIGHER,
            [(amounts(100), amounts(SAME, UP))],
            False,
            id="a missing memory request says nothing about cpu",
        ),
        pytest.param(
            (EvictionRequirement(CPU, LOWER),),
            [(amounts(100, 100), amounts(memory=UP))],
            False,
            id="cpu that is not controlled does not shrink",
        ),
        pytest.param(
            (EvictionRequirement((), HIGHER),),
            [(amounts(100, 100), amounts(UP, UP))],
            False,
            id="a requirement without resources never holds",
        ),
        pytest.param(
            (EvictionRequirement(BOTH, None),),
            [(amounts(100, 100), amounts(SAME, UP))],
            False,
            id="an unknown direction never holds",
        ),
    ],
)
def test_requirements_over_several_containers_and_odd_inputs(
    *,
    requirements: tuple[EvictionRequirement, ...],
    pairs: list[tuple[Resources | None, Resources | None]],
    expected: bool,
) -> None:
    assert fulfilled(requirements, *pairs) is expected


def test_the_status_of_a_container_counts_before_its_spec() -> None:
    pod = a_pod(a_container(requests=amounts(300, 300), status=Allocation(amounts(100, 100))))

    assert are_fulfilled(CPU_HIGHER, pod, [a_recommendation(target=amounts(200, 200))])


def test_an_injected_sidecar_is_looked_at_even_if_admission_never_saw_it() -> None:
    pod = a_pod(
        a_container("app", requests=amounts(100, 100)),
        a_container("proxy", requests=amounts(100, 100)),
        annotations={"vpaObservedContainers": "app"},
    )
    recommendation = [
        a_recommendation("app", target=amounts(100, 100)),
        a_recommendation("proxy", target=amounts(200, 100)),
    ]

    assert are_fulfilled(CPU_HIGHER, pod, recommendation)


sizes = st.dictionaries(st.sampled_from(BOTH), st.integers(0, 3))
requirement_lists = st.lists(
    st.builds(
        EvictionRequirement,
        st.lists(st.sampled_from(BOTH), max_size=2).map(tuple),
        st.sampled_from([HIGHER, LOWER, None]),
    ),
    max_size=3,
).map(tuple)


@given(requirement_lists, requirement_lists, st.lists(st.tuples(sizes, sizes), max_size=3))
def test_another_requirement_can_only_hold_pods_back(
    some: tuple[EvictionRequirement, ...],
    more: tuple[EvictionRequirement, ...],
    pairs: list[tuple[Resources, Resources]],
) -> None:
    assert fulfilled(some, *pairs) or not fulfilled(some + more, *pairs)
