import pytest
from support.makers.records import a_container, a_pod, amounts

from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container
from trimtab.core.model.resources import Resources
from trimtab.simulation.world.limit_ranges import completed, find_limit_range_flaw, with_defaults
from trimtab.simulation.world.objects import LimitRange


def a_range(
    of: LimitRangeType = LimitRangeType.CONTAINER, name: str = "bounds", **bounds: Resources
) -> LimitRange:
    return completed(LimitRange("default", name, (LimitRangeItem(of, **bounds),)))  # type: ignore[arg-type]


def asking(requests: Resources | None = None, limits: Resources | None = None) -> Container:
    return a_container(requests=requests, limits=limits)


@pytest.mark.parametrize(
    ("item", "default"),
    [
        pytest.param(
            LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(cpu=500)),
            amounts(cpu=500),
            id="the largest limit of a container is its default",
        ),
        pytest.param(
            LimitRangeItem(
                LimitRangeType.CONTAINER, max=amounts(500, 900), default=amounts(cpu=100)
            ),
            amounts(100, 900),
            id="unless there is a default already",
        ),
        pytest.param(
            LimitRangeItem(LimitRangeType.POD, max=amounts(cpu=500)),
            None,
            id="a bound of whole pods is no default",
        ),
        pytest.param(
            LimitRangeItem(LimitRangeType.CONTAINER, min=amounts(cpu=5)),
            None,
            id="a lower bound is no default of a limit",
        ),
    ],
)
def test_a_limit_range_is_stored_with_its_defaults(
    item: LimitRangeItem, default: Resources | None
) -> None:
    (stored,) = completed(LimitRange("default", "bounds", (item,))).items

    assert stored.default == default


@pytest.mark.parametrize(
    ("container", "ranges", "filled"),
    [
        pytest.param(
            asking(limits=amounts(200)),
            [],
            Allocation(amounts(200), amounts(200)),
            id="what has a limit and no request requests its limit",
        ),
        pytest.param(
            asking(amounts(100), amounts(200)),
            [],
            Allocation(amounts(100), amounts(200)),
            id="what is said stays",
        ),
        pytest.param(
            asking(), [], Allocation(), id="where nobody says anything nothing is made up"
        ),
        pytest.param(
            asking(),
            [a_range(default=amounts(300))],
            Allocation(amounts(300), amounts(300)),
            id="a default is a limit and a request",
        ),
        pytest.param(
            asking(amounts(100)),
            [a_range(default=amounts(300))],
            Allocation(amounts(100), amounts(300)),
            id="a request of its own stays under a default limit",
        ),
        pytest.param(
            asking(limits=amounts(200)),
            [a_range(min=amounts(50))],
            Allocation(amounts(200), amounts(200)),
            id="a limit of its own comes before a lower bound",
        ),
        pytest.param(
            asking(),
            [a_range(min=amounts(50))],
            Allocation(amounts(50), None),
            id="a lower bound is the request of those that make none",
        ),
        pytest.param(
            asking(),
            [a_range(default=amounts(300)), a_range(default=amounts(400, 900), name="other")],
            Allocation(amounts(300, 900), amounts(300, 900)),
            id="a second range adds only what the first left open",
        ),
        pytest.param(
            asking(),
            [a_range(LimitRangeType.POD, max=amounts(300))],
            Allocation(),
            id="a bound of whole pods fills in nothing",
        ),
    ],
)
def test_a_pod_gets_what_it_does_not_say(
    container: Container, ranges: list[LimitRange], filled: Allocation
) -> None:
    (given,) = with_defaults(a_pod(container), ranges).containers

    assert given.spec == filled


@pytest.mark.parametrize(
    ("container", "limit_range"),
    [
        pytest.param(asking(), a_range(min=amounts(50)), id="no request where one is needed"),
        pytest.param(asking(amounts(40)), a_range(min=amounts(50)), id="a request too small"),
        pytest.param(
            asking(amounts(50), amounts(40)), a_range(min=amounts(50)), id="a limit too small"
        ),
        pytest.param(asking(amounts(40)), a_range(max=amounts(50)), id="no limit at all"),
        pytest.param(
            asking(amounts(40), amounts(60)), a_range(max=amounts(50)), id="a limit too large"
        ),
        pytest.param(
            asking(amounts(30), amounts(30)),
            a_range(LimitRangeType.POD, max=amounts(50)),
            id="two containers that are too large together",
        ),
        pytest.param(
            asking(amounts(20)),
            a_range(LimitRangeType.POD, min=amounts(50)),
            id="two containers that are too small together",
        ),
    ],
)
def test_what_a_limit_range_does_not_allow_is_named(
    container: Container, limit_range: LimitRange
) -> None:
    flaw = find_limit_range_flaw(a_pod(container, container), [limit_range])

    assert "usage per" in flaw


@pytest.mark.parametrize(
    ("limit_range", "second"),
    [
        pytest.param(
            a_range(min=amounts(40), max=amounts(50)),
            asking(amounts(40), amounts(50)),
            id="inside the bounds",
        ),
        pytest.param(
            a_range(LimitRangeType.POD, max=amounts(70)),
            asking(amounts(30)),
            id="of a whole pod those limits count that there are",
        ),
        pytest.param(
            a_range(LimitRangeType.POD, min=amounts(80)),
            asking(amounts(40), amounts(40)),
            id="the requests of a whole pod add up",
        ),
    ],
)
def test_what_a_limit_range_allows_has_no_flaw(limit_range: LimitRange, second: Container) -> None:
    pod = a_pod(asking(amounts(40), amounts(50)), second)

    assert find_limit_range_flaw(pod, [limit_range]) == ""


@pytest.mark.parametrize(
    ("requests", "limits", "is_refused"),
    [
        pytest.param(amounts(100), amounts(200), False, id="as large as it may be"),
        pytest.param(amounts(100), amounts(201), True, id="larger"),
        pytest.param(amounts(100), None, True, id="no limit at all"),
    ],
)
def test_a_limit_may_be_no_more_than_so_many_times_its_request(
    requests: Resources, limits: Resources | None, *, is_refused: bool
) -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max_cpu_ratio=2000)
    limit_range = LimitRange("default", "bounds", (item,))

    flaw = find_limit_range_flaw(a_pod(asking(requests, limits)), [limit_range])

    assert bool(flaw) is is_refused
