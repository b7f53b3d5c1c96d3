import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.makers.records import MIB, amounts
from support.strategies.records import amount, resources, sane_allocation

from trimtab.core.model.cap_notes import Note, NoteKind
from trimtab.core.model.limits import (
    ProportionalLimits,
    proportional_limit,
    proportional_limits,
    request_for_limit,
    scale,
)
from trimtab.core.model.pods import Allocation
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources

CPU, MEMORY = Resource.CPU, Resource.MEMORY


def has(requests: Resources | None = None, limits: Resources | None = None) -> Allocation:
    return Allocation(requests, limits)


@pytest.mark.parametrize(
    ("amount", "numerator", "denominator", "expected"),
    [
        pytest.param(10, 3, 4, 7, id="a remainder is dropped"),
        pytest.param(10, 4, 5, 8, id="an even share"),
        pytest.param(10, 3, 0, 10, id="over nothing it stays"),
        pytest.param(MAX_AMOUNT, 2, 1, MAX_AMOUNT, id="beyond 64 bits it is cut"),
        pytest.param(MAX_AMOUNT, 2, 2, MAX_AMOUNT, id="only the result counts for the cut"),
    ],
)
def test_an_amount_is_scaled_exactly(
    amount: int, numerator: int, denominator: int, expected: int
) -> None:
    assert scale(amount, numerator=numerator, denominator=denominator) == expected


@pytest.mark.parametrize(
    ("current", "requests", "default", "expected"),
    [
        pytest.param(
            has(amounts(100, 128 * MIB), amounts(200, 256 * MIB)),
            amounts(500, 512 * MIB),
            None,
            amounts(1000, 1024 * MIB),
            id="a limit twice the request stays so",
        ),
        pytest.param(
            has(amounts(30, 30000001), amounts(70, 70000003)),
            amounts(217, 100000007),
            None,
            amounts(506, 233333351),
            id="a ratio that does not divide is rounded down",
        ),
        pytest.param(
            has(amounts(100), amounts(100)), amounts(7), None, amounts(7), id="equal stays equal"
        ),
        pytest.param(
            has(None, amounts(200)), amounts(500), None, amounts(500), id="no request was a limit"
        ),
        pytest.param(
            has(amounts(0), amounts(200)), amounts(500), None, amounts(500), id="zero is no request"
        ),
        pytest.param(
            has(amounts(100)), amounts(500), amounts(300), amounts(1500), id="a default limit"
        ),
        pytest.param(
            has(amounts(100), amounts(0)),
            amounts(500),
            amounts(300),
            amounts(1500),
            id="zero is no limit",
        ),
        pytest.param(
            has(amounts(100), amounts(200)),
            amounts(500),
            amounts(300),
            amounts(1000),
            id="its own limit counts before the default",
        ),
    ],
)
def test_limits_keep_their_proportion(
    current: Allocation, requests: Resources, default: Resources | None, expected: Resources
) -> None:
    assert proportional_limits(current, requests, default).limits == expected


@pytest.mark.parametrize(
    ("current", "requests", "expected"),
    [
        pytest.param(
            has(amounts(100, MIB), amounts(200)),
            amounts(500, MIB),
            ProportionalLimits(amounts(1000), (Note(MEMORY, NoteKind.NO_LIMIT_TO_SCALE),)),
            id="a resource without a limit",
        ),
        pytest.param(
            has(amounts(100, MIB), amounts(200, MIB)),
            amounts(500),
            ProportionalLimits(amounts(1000), (Note(MEMORY, NoteKind.NO_REQUEST_TO_FOLLOW),)),
            id="a resource without a recommendation",
        ),
        pytest.param(
            has(amounts(1), amounts(2)),
            amounts(MAX_AMOUNT),
            ProportionalLimits(
                amounts(MAX_AMOUNT),
                (Note(CPU, NoteKind.RATIO_LOST), Note(MEMORY, NoteKind.NO_LIMIT_TO_SCALE)),
            ),
            id="a limit beyond 64 bits",
        ),
        pytest.param(
            has(amounts(100, MIB)),
            amounts(500, MIB),
            ProportionalLimits({}),
            id="no notes where there are no limits at all",
        ),
    ],
)
def test_a_missing_limit_is_noted(
    current: Allocation, requests: Resources, expected: ProportionalLimits
) -> None:
    assert proportional_limits(current, requests) == expected


@pytest.mark.parametrize(
    ("current", "requests"),
    [
        pytest.param(has(amounts(100, MIB), amounts(200, MIB)), amounts(500), id="one controlled"),
        pytest.param(has(amounts(0, 0), amounts(0, 0)), amounts(500, MIB), id="all zero"),
        pytest.param(has(amounts(100, MIB), amounts(200, MIB)), amounts(0, 0), id="zero advice"),
        pytest.param(has(amounts(2000), amounts(1)), amounts(6), id="a limit below its request"),
    ],
)
def test_f30_no_limit_becomes_zero(current: Allocation, requests: Resources) -> None:
    assert 0 not in proportional_limits(current, requests).limits.values()


@given(current=sane_allocation(), requests=resources, default=st.none() | resources)
def test_f30_a_limit_is_never_zero_nor_below_the_new_request(
    current: Allocation, requests: Resources, default: Resources | None
) -> None:
    limits = proportional_limits(current, requests, default).limits

    assert all(limit >= max(requests[kind], 1) for kind, limit in limits.items())


@given(current=sane_allocation(), kind=st.sampled_from(BOTH), request=amount)
def test_setting_the_same_request_again_changes_no_limit(
    current: Allocation, kind: Resource, request: int
) -> None:
    limit = proportional_limit(kind, current, request)
    assume(limit is not None and limit < MAX_AMOUNT)
    assert limit is not None
    after = Allocation({kind: request}, {kind: limit})

    assert proportional_limit(kind, after, request) == limit


@pytest.mark.parametrize(
    ("current", "default", "expected"),
    [
        pytest.param(has(amounts(100), amounts(150)), None, 200, id="by the ratio"),
        pytest.param(has(amounts(100)), None, None, id="no limit, no bound"),
        pytest.param(has(amounts(100)), amounts(200), 150, id="by the default limit"),
        pytest.param(has(None, amounts(150)), None, 300, id="a limit stands for both"),
    ],
)
def test_a_bound_on_limits_bounds_requests(
    current: Allocation, default: Resources | None, expected: int | None
) -> None:
    assert request_for_limit(CPU, current, 300, default) == expected


@given(current=sane_allocation(), kind=st.sampled_from(BOTH), bound=st.integers(1, 10**9))
def test_a_request_inside_its_bound_leads_to_a_limit_inside_it(
    current: Allocation, kind: Resource, bound: int
) -> None:
    request = request_for_limit(kind, current, bound)
    assume(request)
    assert request is not None

    assert (proportional_limit(kind, current, request) or 0) <= bound
