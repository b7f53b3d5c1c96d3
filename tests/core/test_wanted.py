import pytest
from makers import MIB, a_container, a_pod, a_recommendation, amounts, an_autoscaler

from trimtab.core.autoscalers import (
    Autoscaler,
    ContainerMode,
    ContainerPolicy,
    ControlledValues,
    UpdateMode,
)
from trimtab.core.boost import annotation_name, format_original
from trimtab.core.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.outcomes import Wanted
from trimtab.core.pods import Allocation, Pod
from trimtab.core.wanted import (
    growing_but_for_cpu,
    only_growing,
    wanted_after_boost,
    wanted_by_autoscaler,
)

ORIGINAL = Allocation(amounts(100, MIB), amounts(200, MIB))
BOOSTED = {annotation_name("app"): format_original(ORIGINAL)}
RECOMMENDED = Allocation(amounts(150, 2 * MIB), amounts(300, 2 * MIB))


def boosted_pod(**annotations: str) -> Pod:
    return a_pod(
        a_container("app", requests=amounts(400)), a_container("side"), annotations=annotations
    )


def test_the_targets_and_their_limits_are_wanted() -> None:
    pod = a_pod(a_container(requests=amounts(100, MIB), limits=amounts(200)))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150, 2 * MIB)))

    assert wanted_by_autoscaler(pod, autoscaler, ()) == {
        "app": Allocation(amounts(150, 2 * MIB), amounts(300))
    }


def test_the_limits_of_requests_only_are_left_alone() -> None:
    pod = a_pod(a_container(requests=amounts(100), limits=amounts(200)))
    policy = ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY)
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150)), policies=(policy,))

    assert wanted_by_autoscaler(pod, autoscaler, ()) == {"app": Allocation(amounts(150), {})}


def test_what_is_wanted_fits_the_limit_range() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(120))
    pod = a_pod(a_container(requests=amounts(100), limits=amounts(100)))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(150)))

    assert wanted_by_autoscaler(pod, autoscaler, [item]) == {
        "app": Allocation(amounts(120), amounts(120))
    }


@pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(150)), mode=UpdateMode.OFF), id="mode off"
        ),
        pytest.param(
            an_autoscaler(
                a_recommendation(target=amounts(150)),
                policies=(ContainerPolicy("*", mode=ContainerMode.OFF),),
            ),
            id="container off",
        ),
        pytest.param(an_autoscaler(), id="no recommendation"),
        pytest.param(an_autoscaler(a_recommendation("x", target=amounts(1))), id="another's"),
    ],
)
def test_nothing_is_wanted_for_what_is_not_scaled(autoscaler: Autoscaler) -> None:
    assert wanted_by_autoscaler(a_pod(), autoscaler, ()) == {}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            Allocation(amounts(200, MIB), amounts(400, MIB)),
            {"app": Allocation(amounts(200), amounts(400))},
            id="only cpu grows",
        ),
        pytest.param(
            Allocation(amounts(50, 4 * MIB)),
            {"app": Allocation(amounts(memory=4 * MIB), {})},
            id="only memory grows, without limits",
        ),
        pytest.param(
            Allocation(amounts(101), amounts(150)),
            {"app": Allocation(amounts(101), amounts(200))},
            id="a limit never shrinks",
        ),
        pytest.param(Allocation(amounts(100, 2 * MIB), {}), {}, id="the same is no growth"),
        pytest.param(Allocation(amounts(50, MIB)), {}, id="everything shrinks"),
        pytest.param(Allocation(), {}, id="nothing is wanted"),
    ],
)
def test_only_what_grows_is_kept(wanted: Allocation, expected: Wanted) -> None:
    pod = a_pod(a_container(requests=amounts(100, 2 * MIB), limits=amounts(200, 4 * MIB)))

    assert only_growing(pod, {"app": wanted, "gone": wanted}) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(
            Allocation(amounts(50, MIB), amounts(60, MIB)),
            Allocation(amounts(50), amounts(60)),
            id="cpu falls and memory stays",
        ),
        pytest.param(
            Allocation(amounts(50, 3 * MIB), amounts(60, 3 * MIB)),
            Allocation(amounts(50, 3 * MIB), amounts(60, 4 * MIB)),
            id="memory grows and its limit does not shrink",
        ),
        pytest.param(
            Allocation(amounts(300), amounts(310)),
            Allocation(amounts(300), amounts(310)),
            id="the limit of the boost does not stay",
        ),
        pytest.param(Allocation(), Allocation({}, {}), id="nothing is wanted"),
    ],
)
def test_where_nothing_shrinks_the_cpu_of_a_boost_still_may(
    wanted: Allocation, expected: Allocation
) -> None:
    app = a_container(requests=amounts(200, 2 * MIB), limits=amounts(400, 4 * MIB))
    pod = a_pod(app, a_container("side", requests=amounts(100, MIB)))
    others = {"side": Allocation(amounts(50, 2 * MIB)), "gone": wanted}

    assert growing_but_for_cpu(pod, ["app", "lost"], {"app": wanted, **others}) == {
        "app": expected,
        "side": Allocation(amounts(memory=2 * MIB), {}),
    }


def test_a_missing_request_grows_whatever_it_becomes() -> None:
    pod = a_pod(a_container(requests=amounts(100)))

    assert only_growing(pod, {"app": Allocation(amounts(50, 1))}) == {
        "app": Allocation(amounts(memory=1), {})
    }


@pytest.mark.parametrize(
    ("by_autoscaler", "others", "expected"),
    [
        pytest.param({"app": RECOMMENDED}, False, {"app": RECOMMENDED}, id="the recommendation"),
        pytest.param(
            {},
            False,
            {"app": Allocation(amounts(100), amounts(200))},
            id="without one the spec's cpu and no memory",
        ),
        pytest.param(
            {"app": Allocation(amounts(memory=2 * MIB), amounts(memory=3 * MIB))},
            False,
            {"app": Allocation(amounts(100, 2 * MIB), amounts(200, 3 * MIB))},
            id="the spec's cpu where only memory is recommended",
        ),
        pytest.param(
            {"app": RECOMMENDED, "side": RECOMMENDED},
            True,
            {"app": RECOMMENDED, "side": RECOMMENDED},
            id="other containers along with it",
        ),
        pytest.param(
            {"app": RECOMMENDED, "side": RECOMMENDED},
            False,
            {"app": RECOMMENDED},
            id="other containers left alone",
        ),
    ],
)
def test_what_a_container_gets_when_its_boost_ends(
    *, by_autoscaler: Wanted, others: bool, expected: Wanted
) -> None:
    pod = boosted_pod(**BOOSTED)

    assert wanted_after_boost(pod, ["app"], by_autoscaler, others=others) == expected


def test_a_container_that_is_still_boosted_is_left_alone() -> None:
    pod = boosted_pod(**BOOSTED, **{annotation_name("side"): format_original(ORIGINAL)})
    by_autoscaler = {"app": RECOMMENDED, "side": RECOMMENDED}

    assert wanted_after_boost(pod, ["app"], by_autoscaler, others=True) == {"app": RECOMMENDED}


@pytest.mark.parametrize(
    ("pod", "expired"),
    [
        pytest.param(boosted_pod(**{annotation_name("app"): "}"}), ["app"], id="a corrupt mark"),
        pytest.param(boosted_pod(), ["app"], id="no mark"),
        pytest.param(
            boosted_pod(**{annotation_name("gone"): format_original(ORIGINAL)}),
            ["gone"],
            id="a container that is gone",
        ),
    ],
)
def test_a_mark_that_says_nothing_restores_nothing(pod: Pod, expired: list[str]) -> None:
    assert wanted_after_boost(pod, expired, {}, others=True) == {}
