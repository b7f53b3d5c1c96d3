import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB

from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.report.severity import SizeSeverity, grade, letter, rank, score, worst


@pytest.mark.parametrize(
    ("resource", "current", "recommended", "expected"),
    [
        pytest.param(Resource.CPU, 100, 199, SizeSeverity.GOOD, id="hardly any CPU between them"),
        pytest.param(Resource.CPU, 100, 200, SizeSeverity.OK, id="a tenth of a core"),
        pytest.param(
            Resource.CPU, 350, 100, SizeSeverity.WARNING, id="a quarter of a core too much"
        ),
        pytest.param(Resource.CPU, 100, 600, SizeSeverity.CRITICAL, id="half a core missing"),
        pytest.param(Resource.MEMORY, 0, 99 * MIB, SizeSeverity.GOOD, id="hardly any memory"),
        pytest.param(Resource.MEMORY, 0, 100 * MIB, SizeSeverity.OK, id="100 MiB"),
        pytest.param(Resource.MEMORY, 250 * MIB, 0, SizeSeverity.WARNING, id="250 MiB"),
        pytest.param(Resource.MEMORY, 0, 500 * MIB, SizeSeverity.CRITICAL, id="500 MiB"),
        pytest.param(Resource.CPU, None, 1, SizeSeverity.WARNING, id="no request at all"),
        pytest.param(Resource.CPU, None, None, SizeSeverity.GOOD, id="none, and none recommended"),
    ],
)
def test_differences_count_in_cores_and_mib_as_with_krr(
    resource: Resource, current: int | None, recommended: int | None, expected: SizeSeverity
) -> None:
    assert grade(resource, current, recommended) is expected


@given(st.sampled_from(BOTH), st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_larger_difference_is_never_less_severe(
    resource: Resource, current: int, nearer: int, further: int
) -> None:
    near, far = sorted((nearer, further))

    assert rank(grade(resource, current, current + near)) <= rank(
        grade(resource, current, current + far)
    )


def test_the_worst_counts_and_unknown_is_no_severity_at_all() -> None:
    assert (
        worst([SizeSeverity.UNKNOWN, SizeSeverity.GOOD, SizeSeverity.WARNING])
        is SizeSeverity.WARNING
    )
    assert worst([]) is SizeSeverity.UNKNOWN


@pytest.mark.parametrize(
    ("severities", "mark", "expected"),
    [
        pytest.param(
            [SizeSeverity.GOOD, SizeSeverity.OK], 100, "A", id="nothing to complain about"
        ),
        pytest.param([SizeSeverity.GOOD, SizeSeverity.WARNING], 65, "C", id="a warning costs less"),
        pytest.param([SizeSeverity.CRITICAL], 0, "F", id="nothing is right"),
        pytest.param(
            [SizeSeverity.GOOD, SizeSeverity.UNKNOWN], 100, "A", id="unknown does not count"
        ),
    ],
)
def test_the_score_is_the_part_that_is_right(
    severities: list[SizeSeverity], mark: int, expected: str
) -> None:
    assert score(severities) == mark
    assert letter(mark) == expected


def test_without_anything_known_there_is_no_score() -> None:
    assert score([SizeSeverity.UNKNOWN]) is None
