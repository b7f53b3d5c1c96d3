import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import MIB

from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.report.severity import Severity, grade, letter, rank, score, worst


@pytest.mark.parametrize(
    ("resource", "current", "recommended", "expected"),
    [
        pytest.param(Resource.CPU, 100, 199, Severity.GOOD, id="hardly any CPU between them"),
        pytest.param(Resource.CPU, 100, 200, Severity.OK, id="a tenth of a core"),
        pytest.param(Resource.CPU, 350, 100, Severity.WARNING, id="a quarter of a core too much"),
        pytest.param(Resource.CPU, 100, 600, Severity.CRITICAL, id="half a core missing"),
        pytest.param(Resource.MEMORY, 0, 99 * MIB, Severity.GOOD, id="hardly any memory"),
        pytest.param(Resource.MEMORY, 0, 100 * MIB, Severity.OK, id="100 MiB"),
        pytest.param(Resource.MEMORY, 250 * MIB, 0, Severity.WARNING, id="250 MiB"),
        pytest.param(Resource.MEMORY, 0, 500 * MIB, Severity.CRITICAL, id="500 MiB"),
        pytest.param(Resource.CPU, None, 1, Severity.WARNING, id="no request at all"),
        pytest.param(Resource.CPU, None, None, Severity.GOOD, id="none, and none recommended"),
    ],
)
def test_differences_count_in_cores_and_mib_as_with_krr(
    resource: Resource, current: int | None, recommended: int | None, expected: Severity
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
    assert worst([Severity.UNKNOWN, Severity.GOOD, Severity.WARNING]) is Severity.WARNING
    assert worst([]) is Severity.UNKNOWN


@pytest.mark.parametrize(
    ("severities", "mark", "expected"),
    [
        pytest.param([Severity.GOOD, Severity.OK], 100, "A", id="nothing to complain about"),
        pytest.param([Severity.GOOD, Severity.WARNING], 65, "C", id="a warning costs less"),
        pytest.param([Severity.CRITICAL], 0, "F", id="nothing is right"),
        pytest.param([Severity.GOOD, Severity.UNKNOWN], 100, "A", id="unknown does not count"),
    ],
)
def test_the_score_is_the_part_that_is_right(
    severities: list[Severity], mark: int, expected: str
) -> None:
    assert score(severities) == mark
    assert letter(mark) == expected


def test_without_anything_known_there_is_no_score() -> None:
    assert score([Severity.UNKNOWN]) is None
