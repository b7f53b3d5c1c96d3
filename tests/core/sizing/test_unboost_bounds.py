"""Where boosts end in namespaces whose LimitRanges refuse the usual size."""

import pytest
from support.makers.records import MIB, a_container, a_pod, amounts

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation
from trimtab.core.sizing.unboost_bounds import nearest_accepted

CONTAINER, POD = LimitRangeType.CONTAINER, LimitRangeType.POD
FREE = Allocation(amounts(400, 100 * MIB))
LIMITED = Allocation(amounts(400, 100 * MIB), amounts(800, 200 * MIB))
BACK = Allocation(amounts(100), {})
BACK_LIMITED = Allocation(amounts(100), amounts(200))


@pytest.mark.parametrize(
    ("has", "wanted", "item", "expected"),
    [
        pytest.param(
            FREE,
            BACK,
            LimitRangeItem(CONTAINER, min=amounts(50)),
            BACK,
            id="nothing is refused",
        ),
        pytest.param(
            FREE,
            BACK,
            LimitRangeItem(CONTAINER, min=amounts(200)),
            Allocation(amounts(200), {}),
            id="a minimum",
        ),
        pytest.param(
            LIMITED,
            BACK_LIMITED,
            LimitRangeItem(CONTAINER, min=amounts(300)),
            Allocation(amounts(300), amounts(300)),
            id="a minimum above the limit",
        ),
        pytest.param(
            LIMITED,
            BACK_LIMITED,
            LimitRangeItem(CONTAINER, max=amounts(150, 1000 * MIB)),
            Allocation(amounts(100), amounts(150)),
            id="a maximum",
        ),
        pytest.param(
            LIMITED,
            BACK_LIMITED,
            LimitRangeItem(CONTAINER, max_cpu_ratio=1500),
            Allocation(amounts(134), amounts(200)),
            id="a ratio",
        ),
        pytest.param(
            FREE,
            BACK,
            LimitRangeItem(POD, min=amounts(300)),
            Allocation(amounts(300), {}),
            id="a minimum of pods",
        ),
        pytest.param(
            FREE,
            BACK,
            LimitRangeItem(CONTAINER, min=amounts(500)),
            Allocation(amounts(400), {}),
            id="a minimum above the boost",
        ),
        pytest.param(
            FREE,
            BACK,
            LimitRangeItem(CONTAINER, min=amounts(200, 200 * MIB)),
            BACK,
            id="memory that no end of a boost can change",
        ),
    ],
)
def test_a_boost_ends_at_the_nearest_size_that_is_accepted(
    has: Allocation, wanted: Allocation, item: LimitRangeItem, expected: Allocation
) -> None:
    pod = a_pod(a_container(requests=has.requests, limits=has.limits, status=has))

    assert nearest_accepted(pod, {"app": wanted}, [item]) == {"app": expected}
