import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, amounts

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType, effective_item
from trimtab.core.model.resources import BOTH, Resources

CONTAINER, POD = LimitRangeType.CONTAINER, LimitRangeType.POD

some_amounts = st.dictionaries(st.sampled_from(BOTH), st.integers(0, 10**12))
some_items = st.lists(
    st.builds(
        LimitRangeItem,
        st.sampled_from(LimitRangeType),
        min=st.none() | some_amounts,
        max=st.none() | some_amounts,
        default=st.none() | some_amounts,
    ),
    max_size=5,
)


def an_item(
    minimum: Resources | None = None,
    maximum: Resources | None = None,
    default: Resources | None = None,
    limit_type: LimitRangeType = CONTAINER,
) -> LimitRangeItem:
    return LimitRangeItem(limit_type, minimum, maximum, default)


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        pytest.param([], None, id="no items bound nothing"),
        pytest.param([an_item()], None, id="an item without maps bounds nothing"),
        pytest.param([an_item(amounts(1), limit_type=POD)], None, id="other types do not count"),
        pytest.param([an_item({})], an_item({}), id="an empty map is there all the same"),
        pytest.param(
            [an_item(amounts(100, MIB)), an_item(amounts(200))],
            an_item(amounts(200, MIB)),
            id="the highest minimum of each resource wins",
        ),
        pytest.param(
            [an_item(maximum=amounts(100, 2 * MIB)), an_item(maximum=amounts(200, MIB))],
            an_item(maximum=amounts(100, MIB)),
            id="the lowest maximum of each resource wins",
        ),
        pytest.param(
            [an_item(maximum=amounts(100, -1)), an_item(maximum=amounts(-200, MIB))],
            an_item(maximum=amounts(100, MIB)),
            id="below zero nothing is bounded",
        ),
        pytest.param(
            [an_item(default=amounts(1, 1)), an_item(default=amounts(2)), an_item(amounts(1))],
            an_item(amounts(1), default=amounts(2)),
            id="the last default wins as a whole",
        ),
    ],
)
def test_all_items_of_a_type_act_as_one(
    items: list[LimitRangeItem], expected: LimitRangeItem | None
) -> None:
    assert effective_item(items, CONTAINER) == expected


@given(items=some_items, limit_type=st.sampled_from(LimitRangeType))
def test_the_effective_item_is_at_least_as_tight_as_each_item(
    items: list[LimitRangeItem], limit_type: LimitRangeType
) -> None:
    effective = effective_item(items, limit_type) or LimitRangeItem(limit_type)

    for item in items:
        if item.type is limit_type:
            assert all((effective.min or {})[kind] >= low for kind, low in (item.min or {}).items())
            assert all((effective.max or {})[kind] <= top for kind, top in (item.max or {}).items())


@given(items=some_items, limit_type=st.sampled_from(LimitRangeType))
def test_the_effective_item_of_itself_is_itself(
    items: list[LimitRangeItem], limit_type: LimitRangeType
) -> None:
    effective = effective_item(items, limit_type)

    assert effective is None or effective_item([effective], limit_type) == effective
