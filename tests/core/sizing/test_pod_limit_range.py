import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import a_container, a_pod, a_recommendation, amounts
from support.strategies.records import pod, recommendation

from trimtab.core.model.autoscalers import ContainerRecommendation
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Container, Pod
from trimtab.core.model.resources import MAX_AMOUNT, Resource, Resources
from trimtab.core.sizing.capping import fit_pod

CPU = Resource.CPU


def a_range(
    minimum: Resources | None = None,
    maximum: Resources | None = None,
    default: Resources | None = None,
) -> LimitRangeItem:
    return LimitRangeItem(LimitRangeType.POD, minimum, maximum, default)


def equal_containers(count: int) -> list[Container]:
    same = amounts(100, 100)
    return [a_container(f"c{place}", requests=same, limits=same) for place in range(count)]


def advice(*targets: Resources) -> list[ContainerRecommendation]:
    return [a_recommendation(f"c{place}", target=target) for place, target in enumerate(targets)]


@pytest.mark.parametrize(
    ("targets", "item", "expected"),
    [
        pytest.param([4, 21, 90], a_range(amounts(150)), [6, 28, 118], id="a minimum rounds up"),
        pytest.param(
            [4, 21, 90], a_range(maximum=amounts(80)), [2, 14, 62], id="a maximum rounds down"
        ),
        pytest.param([4, 21, 90], a_range(amounts(115), amounts(115)), [4, 21, 90], id="it fits"),
        pytest.param([4, 21, 90], a_range({}, {}), [4, 21, 90], id="nothing is bound"),
        pytest.param(
            [100, 100], a_range(amounts(900), amounts(100)), [450, 450], id="minimum before maximum"
        ),
        pytest.param(
            [MAX_AMOUNT, 1], a_range(amounts(3 * MAX_AMOUNT)), [MAX_AMOUNT, 3], id="64 bits"
        ),
    ],
)
def test_cpu_of_all_containers_is_scaled_alike(
    targets: list[int], item: LimitRangeItem, expected: list[int]
) -> None:
    fitted = fit_pod(advice(*map(amounts, targets)), a_pod(*equal_containers(len(targets))), item)

    assert [one.target[CPU] for one in fitted] == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(a_range(maximum=amounts(1000)), [300, 400], id="they fit, whatever follows"),
        pytest.param(a_range(maximum=amounts(700)), [200, 400], id="others make room"),
        pytest.param(a_range(maximum=amounts(500)), [300, 400], id="nobody can make room"),
        pytest.param(a_range(amounts(1400)), [600, 800], id="a minimum is one of requests"),
    ],
)
def test_limits_that_follow_no_request_are_not_scaled(
    item: LimitRangeItem, expected: list[int]
) -> None:
    follows = a_container("c0", requests=amounts(100), limits=amounts(100))
    stays = a_container("c1", requests=amounts(10), limits=amounts(500))

    fitted = fit_pod(advice(amounts(300), amounts(400)), a_pod(follows, stays), item, {"c1"})

    assert [one.target[CPU] for one in fitted] == expected


def test_no_pod_ends_a_byte_short_of_the_minimum() -> None:
    fitted = fit_pod(
        advice(amounts(memory=1), amounts(memory=2)),
        a_pod(*equal_containers(2)),
        a_range(amounts(memory=100)),
    )

    assert [one.target for one in fitted] == [amounts(memory=34), amounts(memory=67)]


@pytest.mark.parametrize(
    ("container", "item", "expected"),
    [
        pytest.param(
            a_container("c0", requests=amounts(100), limits=amounts(150)),
            a_range(maximum=amounts(300)),
            200,
            id="the maximum bounds the sum of limits",
        ),
        pytest.param(
            a_container("c0", requests=amounts(100)),
            a_range(maximum=amounts(300), default=amounts(200)),
            150,
            id="the default limit counts",
        ),
        pytest.param(
            a_container("c0", requests=amounts(100)),
            a_range(maximum=amounts(300)),
            250,
            id="without limits nothing is bound",
        ),
        pytest.param(
            a_container("c0", requests=amounts(100)),
            a_range(amounts(900)),
            900,
            id="without limits the minimum is one of requests",
        ),
        pytest.param(
            a_container("c0", requests=amounts(200), limits=amounts(100)),
            a_range(amounts(200)),
            400,
            id="the minimum bounds the sum of limits too",
        ),
    ],
)
def test_limits_decide_whether_a_pod_fits(
    container: Container, item: LimitRangeItem, expected: int
) -> None:
    assert fit_pod(advice(amounts(250)), a_pod(container), item)[0].target == amounts(expected)


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        pytest.param(1000, [100, 200], id="it is reached with what stays"),
        pytest.param(1300, [200, 400], id="what stays is counted"),
    ],
)
def test_without_limits_what_is_not_recommended_counts_towards_the_minimum(
    minimum: int, expected: list[int]
) -> None:
    names = ("c0", "c1", "kept")
    containers = [a_container(name, requests=amounts(700, 1)) for name in names]
    kept = a_recommendation("kept", target=amounts(memory=1))
    entries = [*advice(amounts(100, 1), amounts(200, 1)), kept]

    fitted = fit_pod(entries, a_pod(*containers), a_range(amounts(minimum)))

    assert [one.target.get(CPU) for one in fitted] == [*expected, None]


def test_a_container_without_a_recommendation_takes_part_with_its_requests() -> None:
    containers = (
        a_container("c0", requests=amounts(400), limits=amounts(400)),
        a_container("other", requests=amounts(400), limits=amounts(400)),
        a_container("bare"),
    )

    fitted = fit_pod(advice(amounts(400)), a_pod(*containers), a_range(maximum=amounts(400)))

    assert fitted == (
        ContainerRecommendation("c0", amounts(200), uncapped_target=amounts(400)),
        ContainerRecommendation("other", amounts(200)),
    )


def test_target_and_bounds_are_scaled_each_for_itself() -> None:
    one = a_recommendation("c0", target=amounts(100), lower=amounts(50), upper=amounts(400))

    fitted = fit_pod([one], a_pod(*equal_containers(1)), a_range(amounts(80), amounts(200)))

    assert fitted[0].target == amounts(100)
    assert fitted[0].lower_bound == amounts(80)
    assert fitted[0].upper_bound == amounts(200)
    assert fitted[0].uncapped_target == amounts(100)


def test_what_is_not_recommended_stays_so() -> None:
    fitted = fit_pod(
        advice(amounts(100, 100), amounts(100)),
        a_pod(*equal_containers(2)),
        a_range(maximum=amounts(100, 50)),
    )

    assert [one.target for one in fitted] == [amounts(50, 50), amounts(50)]
    assert fitted[0].lower_bound is None


def test_of_two_recommendations_for_one_container_the_first_decides() -> None:
    twice = [a_recommendation("c0", target=amounts(100)), a_recommendation("c0", target=amounts(7))]

    fitted = fit_pod(twice, a_pod(*equal_containers(1)), a_range(maximum=amounts(50)))

    assert fitted[0].target == amounts(50)


@given(entries=st.lists(recommendation, max_size=4), pod=pod())
def test_without_an_item_nothing_changes(entries: list[ContainerRecommendation], pod: Pod) -> None:
    assert fit_pod(entries, pod, None) == tuple(entries)


@given(
    targets=st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
    maximum=st.integers(1, 10**6),
)
def test_a_pod_that_was_too_large_fits_afterwards(targets: list[int], maximum: int) -> None:
    fitted = fit_pod(
        advice(*map(amounts, targets)),
        a_pod(*equal_containers(len(targets))),
        a_range(maximum=amounts(maximum)),
    )

    assert sum(one.target[CPU] for one in fitted) <= maximum


@given(
    targets=st.lists(st.integers(0, 10**6), min_size=1, max_size=4).filter(any),
    minimum=st.integers(1, 10**6),
)
def test_a_pod_that_was_too_small_has_enough_cpu_afterwards(
    targets: list[int], minimum: int
) -> None:
    fitted = fit_pod(
        advice(*map(amounts, targets)),
        a_pod(*equal_containers(len(targets))),
        a_range(amounts(minimum)),
    )

    assert sum(one.target[CPU] for one in fitted) >= minimum
