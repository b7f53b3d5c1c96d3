from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import (
    BOOST_TOLD,
    MIB,
    NOW,
    a_pod,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)
from support.strategies.records import allocation, boost, duration, moment, sane_allocation

from trimtab.core.model.autoscalers import Autoscaler, BoostType, ContainerPolicy, CpuBoost
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limits import proportional_limits
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.model.resources import MAX_AMOUNT, Resource, Resources
from trimtab.core.sizing.startup_boost import (
    BoostError,
    BoostSpan,
    annotation_name,
    before_boost,
    boost_duration,
    boost_ends,
    boosted_containers,
    boosted_millicores,
    crowded_out,
    expired_boosts,
    format_original,
    is_overdue,
    next_boost_end,
    parse_original,
    span_boost,
)

FACTOR, QUANTITY = BoostType.FACTOR, BoostType.QUANTITY
GATES = FeatureGates()
ORIGINAL = Allocation(amounts(100, MIB), amounts(200, MIB))


def factor(count: int | None, after: timedelta | None = None) -> CpuBoost:
    return CpuBoost(FACTOR, factor=count, duration=after)


def quantity(millicores: int | None) -> CpuBoost:
    return CpuBoost(QUANTITY, quantity_millicores=millicores)


def has(requests: Resources | None = None, limits: Resources | None = None) -> Allocation:
    return Allocation(requests, limits)


def boosted_pod(*names: str, age: timedelta = minutes(5), ready: datetime | None = NOW) -> Pod:
    marks = {annotation_name(name): format_original(ORIGINAL) for name in names}
    return a_pod(age=age, ready_since=ready, annotations={"team": "blue", **BOOST_TOLD, **marks})


@pytest.mark.parametrize(
    ("given_boost", "base", "expected"),
    [
        pytest.param(factor(2), 100, 200, id="a factor multiplies"),
        pytest.param(factor(1), 100, 100, id="one changes nothing"),
        pytest.param(CpuBoost("", factor=3), 100, 300, id="no type means factor"),
        pytest.param(quantity(500), 100, 600, id="a quantity is added"),
        pytest.param(factor(2), MAX_AMOUNT, MAX_AMOUNT, id="64 bits are the end"),
        pytest.param(quantity(1), MAX_AMOUNT, MAX_AMOUNT, id="also of a sum"),
    ],
)
def test_a_boost_raises_its_base(given_boost: CpuBoost, base: int, expected: int) -> None:
    assert boosted_millicores(given_boost, base) == expected


@pytest.mark.parametrize(
    ("malformed", "field"),
    [
        pytest.param(factor(None), "factor", id="no factor"),
        pytest.param(factor(0), "factor", id="a factor below one"),
        pytest.param(quantity(None), "quantity", id="no quantity"),
        pytest.param(CpuBoost("Percent", factor=2), "type", id="an unknown type"),
    ],
)
def test_a_boost_that_says_no_amount_is_an_error_that_names_the_field(
    malformed: CpuBoost, field: str
) -> None:
    with pytest.raises(BoostError, match=rf"^startupBoost\.cpu\.{field}: ") as caught:
        boosted_millicores(malformed, 100)

    assert caught.value.field == field


def whole_boost(
    own: Allocation, advice: int | None, given_boost: CpuBoost, *, controls_limits: bool = True
) -> tuple[int, int | None] | None:
    """The request and the limit of a boost that nothing caps."""
    advised = {} if advice is None else {Resource.CPU: advice}
    scaled = proportional_limits(own, advised).limits if controls_limits else {}
    found = span_boost(own, given_boost, has(advised, scaled), controls_limits=controls_limits)
    return None if found is None else (found.request, found.limit)


@pytest.mark.parametrize(
    ("own", "advice", "given_boost", "expected"),
    [
        pytest.param(
            has(amounts(100), amounts(100)),
            100,
            factor(2),
            (200, 200),
            id="over the recommendation",
        ),
        pytest.param(
            has(amounts(100), amounts(200)),
            None,
            factor(3),
            (300, 600),
            id="over the own request where nothing is recommended",
        ),
        pytest.param(
            has(amounts(100), amounts(200)),
            0,
            factor(3),
            (300, 600),
            id="over the own request where zero is recommended",
        ),
        pytest.param(has(amounts(100)), 500, factor(2), (1000, None), id="without a limit"),
        pytest.param(
            has(None, amounts(200)),
            None,
            quantity(500),
            (700, 700),
            id="a limit alone stands for both",
        ),
        pytest.param(has(), None, quantity(500), (500, None), id="without anything"),
        pytest.param(has(), None, factor(2), None, id="a factor over nothing"),
        pytest.param(has(amounts(100)), 500, factor(1), None, id="a factor of one"),
        pytest.param(
            has(amounts(1000), amounts(2000)), 200, factor(1), None, id="one never raises (D7)"
        ),
        pytest.param(
            has(amounts(1000), amounts(2000)), 200, quantity(0), None, id="nor does nothing more"
        ),
        pytest.param(
            has(amounts(1000), amounts(2000)),
            200,
            factor(2),
            (1000, 2000),
            id="never below the own request",
        ),
        pytest.param(
            has(amounts(1000), amounts(2000)),
            200,
            quantity(100),
            (1000, 2000),
            id="never below the own limit",
        ),
        pytest.param(has(amounts(500)), 500, quantity(-100), None, id="never lower than without"),
        pytest.param(
            has(amounts(500), amounts(1000)),
            None,
            quantity(750),
            (1250, 1750),
            id="a quantity is added to both (D21)",
        ),
        pytest.param(
            has(amounts(100), amounts(400)),
            200,
            quantity(50),
            (250, 850),
            id="to the limit that follows from the recommendation",
        ),
    ],
)
def test_how_much_a_container_is_boosted(
    own: Allocation,
    advice: int | None,
    given_boost: CpuBoost,
    expected: tuple[int, int | None] | None,
) -> None:
    assert whole_boost(own, advice, given_boost) == expected


@pytest.mark.parametrize(
    ("limit", "advice", "expected"),
    [
        pytest.param(200, 150, (199, 200), id="one below the limit"),
        pytest.param(1000, 150, (300, 1000), id="a limit that is not reached"),
        pytest.param(300, 150, (300, 300), id="just the limit"),
        pytest.param(None, 150, (300, None), id="no limit"),
        pytest.param(200, 200, None, id="the recommendation is the limit already"),
    ],
)
def test_where_only_requests_are_controlled_a_boost_stays_below_the_limit(
    limit: int | None, advice: int, expected: tuple[int, int | None] | None
) -> None:
    own = has(amounts(100), amounts(limit))

    assert whole_boost(own, advice, factor(2), controls_limits=False) == expected


@pytest.mark.parametrize("limit", [0, 1])
def test_a_limit_of_a_millicore_or_none_leaves_no_room_for_a_boost(limit: int) -> None:
    own = has(amounts(limit), amounts(limit))

    assert whole_boost(own, None, quantity(500), controls_limits=False) is None


def test_a_limit_that_only_the_namespace_sets_bounds_a_boost() -> None:
    own, usual = has(amounts(100)), has({}, {})
    found = span_boost(own, factor(9), usual, controls_limits=True, default_limit=300)

    assert found == BoostSpan(100, 300, 299, 300, moves_limit=False)


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        pytest.param(1500, 3000, id="whole"),
        pytest.param(1000, 2000, id="half of the boost"),
        pytest.param(501, 1002, id="next to nothing"),
        pytest.param(500, 1000, id="nothing"),
    ],
)
def test_a_boost_that_is_cut_keeps_the_same_part_of_its_limit(asked: int, limit: int) -> None:
    span = span_boost(
        has(amounts(500), amounts(1000)), factor(3), has({}, {}), controls_limits=True
    )

    assert span is not None
    assert span.limit_at(asked) == limit


@given(
    own=sane_allocation(),
    given_boost=boost,
    advice=st.none() | st.integers(0, 10**6),
    controls_limits=st.booleans(),
)
def test_a_boost_never_lowers_a_container(
    *, own: Allocation, given_boost: CpuBoost, advice: int | None, controls_limits: bool
) -> None:
    found = whole_boost(own, advice, given_boost, controls_limits=controls_limits)
    own_request = (own.requests or {}).get(Resource.CPU, 0)

    if found is not None:
        request, limit = found
        # Below its limit a container keeps its QoS class, which the recommendation may ask for.
        most = request if limit is None else limit - (advice is not None and not controls_limits)
        assert request >= min(own_request, most)
        assert request > (own_request if advice is None else advice)
        assert limit is None or limit >= request


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(None, timedelta(), id="no autoscaler"),
        pytest.param(an_autoscaler(), timedelta(), id="no boost"),
        pytest.param(an_autoscaler(boost=factor(2)), timedelta(), id="no time given"),
        pytest.param(an_autoscaler(boost=factor(2, minutes(1))), minutes(1), id="in general"),
        pytest.param(
            an_autoscaler(
                boost=factor(2, minutes(1)),
                policies=(ContainerPolicy("app", boost=factor(3, minutes(2))),),
            ),
            minutes(2),
            id="the container's own",
        ),
        pytest.param(
            an_autoscaler(
                boost=factor(2, minutes(1)), policies=(ContainerPolicy("*", boost=factor(3)),)
            ),
            minutes(1),
            id="inherited by the container's own boost",
        ),
        pytest.param(
            an_autoscaler(
                boost=factor(2, minutes(1)),
                policies=(ContainerPolicy("app", boost=factor(3, timedelta())),),
            ),
            timedelta(),
            id="none for the container",
        ),
    ],
)
def test_how_long_a_boost_outlasts_readiness(
    autoscaler: Autoscaler | None, expected: timedelta
) -> None:
    assert boost_duration(autoscaler, "app") == expected


@pytest.mark.parametrize(
    ("pod", "after", "limit", "expected"),
    [
        pytest.param(
            a_pod(age=minutes(5), ready_since=NOW), minutes(2), None, NOW + minutes(2), id="ready"
        ),
        pytest.param(a_pod(age=minutes(5)), minutes(2), None, None, id="not ready yet"),
        pytest.param(a_pod(age=minutes(5)), minutes(2), timedelta(), None, id="no hard limit"),
        pytest.param(
            a_pod(age=minutes(5)),
            minutes(2),
            minutes(30),
            NOW + minutes(25),
            id="never ready, the hard limit",
        ),
        pytest.param(
            a_pod(age=minutes(5), ready_since=NOW),
            hours(2),
            minutes(30),
            NOW + minutes(25),
            id="a longer time, the hard limit",
        ),
        pytest.param(
            a_pod(age=minutes(5), ready_since=NOW), minutes(-2), None, NOW, id="a negative time"
        ),
        pytest.param(
            Pod("default", "web-0", created_at=NOW),
            minutes(2),
            minutes(30),
            NOW + minutes(30),
            id="without a start its creation counts",
        ),
        pytest.param(Pod("default", "web-0"), minutes(2), minutes(30), None, id="no times at all"),
    ],
)
def test_when_a_boost_ends(
    pod: Pod, after: timedelta, limit: timedelta | None, expected: datetime | None
) -> None:
    assert boost_ends(pod, after, limit) == expected


def test_a_boost_without_end_in_sight_does_not_overflow() -> None:
    late = datetime(9999, 12, 31, tzinfo=UTC)

    assert boost_ends(a_pod(ready_since=late), timedelta(days=10**6), None) == datetime.max.replace(
        tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("pod", "now", "expected"),
    [
        pytest.param(boosted_pod("app", "side"), NOW, ("side",), id="each in its own time"),
        pytest.param(boosted_pod("app"), NOW + minutes(1), ("app",), id="as soon as it is over"),
        pytest.param(
            boosted_pod("app", "gone"), NOW + hours(1), ("app", "gone"), id="also without container"
        ),
        pytest.param(boosted_pod("app", "side", ready=None), NOW, (), id="not ready, not over"),
        pytest.param(
            boosted_pod("app", ready=None, age=minutes(31)), NOW, ("app",), id="the hard limit"
        ),
        pytest.param(a_pod(ready_since=NOW), NOW + hours(1), (), id="never boosted"),
    ],
)
def test_which_boosts_are_over(pod: Pod, now: datetime, expected: tuple[str, ...]) -> None:
    autoscaler = an_autoscaler(policies=(ContainerPolicy("app", boost=factor(2, minutes(1))),))

    assert expired_boosts(pod, autoscaler, now, gates=GATES) == expected


def test_f25_a_boost_ends_when_readiness_flaps_and_when_the_autoscaler_is_gone() -> None:
    flapping = boosted_pod("app", age=minutes(31), ready=NOW - timedelta(seconds=1))
    autoscaler = an_autoscaler(boost=factor(2, minutes(10)))

    assert expired_boosts(flapping, autoscaler, NOW, gates=GATES) == ("app",)
    assert expired_boosts(boosted_pod("app"), None, NOW, gates=GATES) == ("app",)


def test_while_the_gate_is_off_no_boost_ends() -> None:
    gates = FeatureGates(cpu_startup_boost=False)

    assert expired_boosts(boosted_pod("app"), None, NOW + hours(9), gates=gates) == ()


def test_the_annotations_tell_which_containers_are_boosted() -> None:
    assert boosted_containers(boosted_pod("side", "app")) == ("app", "side")
    assert boosted_containers(a_pod(annotations={"vpaUpdates": "x"})) == ()


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(
            has(amounts(100, 128 * MIB), amounts(200, 256 * MIB)),
            '{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"200m","memory":"256Mi"}}',
            id="everything",
        ),
        pytest.param(has(amounts(100)), '{"requests":{"cpu":"100m"},"limits":{}}', id="one amount"),
        pytest.param(has(), '{"requests":{},"limits":{}}', id="nothing"),
    ],
)
def test_the_annotation_holds_what_the_spec_asked_for(own: Allocation, expected: str) -> None:
    assert format_original(own) == expected


@given(own=allocation)
def test_what_is_written_down_is_read_again(own: Allocation) -> None:
    limit = (own.limits or {}).get(Resource.CPU)
    # No pod requests more than its limit.
    assume(limit is None or (own.requests or {}).get(Resource.CPU, 0) <= limit)

    assert parse_original(format_original(own)) == Allocation(own.requests or {}, own.limits or {})


def test_a_boost_does_not_end_beside_a_limit_of_zero() -> None:
    """The limit was removed for the boost."""
    mark = format_original(has(amounts(0), amounts(0)), has(amounts(80), amounts(0)))
    pod = a_pod(annotations={annotation_name("app"): mark})

    assert before_boost(pod, "app") == Allocation(amounts(80), {})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}', id="above its limit"),
        pytest.param("}", id="no json"),
        pytest.param("[]", id="no object"),
        pytest.param('{"requests":[]}', id="no map"),
        pytest.param('{"requests":{"cpu":"many"}}', id="no quantity"),
        pytest.param('{"requests":{"cpu":"-1"}}', id="a negative quantity"),
        pytest.param('{"requests":{"cpu":true}}', id="no text"),
        pytest.param('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", id="a deep nest"),
        pytest.param("\ud800", id="half a character"),
    ],
)
def test_a_corrupt_annotation_is_no_allocation(text: str) -> None:
    assert parse_original(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{}", has({}, {}), id="an empty object"),
        pytest.param('{"requests":null,"limits":{"cpu":2}}', has({}, amounts(2000)), id="a number"),
        pytest.param(
            '{"requests":{"cpu":"0.1","x/y":"1"},"other":1}', has(amounts(100), {}), id="more"
        ),
    ],
)
def test_odd_but_clear_annotations_are_understood(text: str, expected: Allocation) -> None:
    assert parse_original(text) == expected


@given(text=st.text())
def test_f28_no_annotation_stops_the_reading(text: str) -> None:
    original = parse_original(text)

    assert original is None or original.requests is not None


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(
            {
                annotation_name("app"): format_original(
                    has(amounts(100, 5 * MIB), amounts(200, 9 * MIB))
                )
            },
            has(amounts(100), amounts(200)),
            id="the cpu of the spec, not its memory",
        ),
        pytest.param(
            {annotation_name("app"): format_original(has())},
            has(amounts(1), {}),
            id="the least of what cannot be taken away",
        ),
        pytest.param(
            {annotation_name("app"): format_original(has(None, amounts(200)))},
            has(amounts(200), amounts(200)),
            id="a limit stands for both",
        ),
        pytest.param({annotation_name("app"): "?"}, None, id="nobody knows"),
        pytest.param({}, None, id="it is not boosted"),
    ],
)
def test_what_a_container_goes_back_to(
    annotations: Mapping[str, str], expected: Allocation | None
) -> None:
    assert before_boost(a_pod(annotations=annotations), "app") == expected


@pytest.mark.parametrize(
    ("pod", "limit", "expected"),
    [
        pytest.param(a_pod(age=minutes(30)), minutes(30), True, id="as long as it may"),
        pytest.param(a_pod(age=minutes(29)), minutes(30), False, id="not yet"),
        pytest.param(a_pod(age=hours(9)), None, False, id="no limit"),
        pytest.param(a_pod(age=hours(9)), minutes(0), False, id="zero is no limit"),
        pytest.param(
            a_pod(started_at=None, created_at=NOW - hours(1)), minutes(30), True, id="never started"
        ),
        pytest.param(a_pod(started_at=None), minutes(30), False, id="of unknown age"),
    ],
)
def test_a_boost_is_overdue_whether_the_pod_is_ready_or_not(
    *, pod: Pod, limit: timedelta | None, expected: bool
) -> None:
    ready = structs.replace(pod, ready_since=NOW)

    assert is_overdue(pod, NOW, limit) is is_overdue(ready, NOW, limit) is expected


@given(after=duration, limit=duration, ready=moment, started=moment)
def test_a_boost_never_ends_before_the_pod_is_ready_or_its_time_is_up(
    after: timedelta | None,
    limit: timedelta | None,
    ready: datetime | None,
    started: datetime | None,
) -> None:
    pod = Pod("default", "web-0", ready_since=ready, started_at=started)
    end = boost_ends(pod, after or timedelta(), limit)

    if end is not None:
        assert (ready is not None and end >= ready) or (
            started is not None and limit is not None and end == started + limit
        )


def test_of_the_boosted_pods_of_a_node_the_youngest_are_too_many() -> None:
    pods = [
        a_pod(name=f"web-{number}", created_at=NOW - minutes(number)) for number in (3, 1, 2, 1.5)
    ]
    nameless = a_pod(name="of-no-age")

    assert crowded_out([*pods, nameless], 2) == {"uid-web-1", "uid-web-1.5", "uid-of-no-age"}
    assert crowded_out(pods, 4) == frozenset()


def test_the_next_end_is_that_of_the_container_whose_boost_ends_first() -> None:
    marks = {annotation_name(name): "{}" for name in ("app", "side")}
    pod = a_pod(annotations=BOOST_TOLD | marks, age=minutes(5), ready_since=NOW - minutes(1))
    policy = ContainerPolicy("side", boost=CpuBoost(factor=2, duration=minutes(3)))
    autoscaler = an_autoscaler(boost=CpuBoost(factor=2, duration=minutes(2)), policies=(policy,))

    assert next_boost_end(pod, autoscaler, NOW) == NOW + minutes(1)
    assert next_boost_end(pod, autoscaler, NOW + minutes(1)) == NOW + minutes(2)
    assert next_boost_end(pod, autoscaler, NOW + minutes(2)) is None
