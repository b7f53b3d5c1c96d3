from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)

from trimtab.core.changes.change import (
    Change,
    Thresholds,
    age_of,
    is_quick_oom,
    measure_change,
    memory_relief,
    most_urgent_first,
    observed_containers,
    quick_oom_threshold,
    reason_to_wait,
)
from trimtab.core.model.autoscalers import ContainerMode, ContainerPolicy, ContainerRecommendation
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import (
    OBSERVED_CONTAINERS,
    Allocation,
    Container,
    ContainerKind,
    Pod,
    Termination,
)
from trimtab.core.model.resources import MAX_AMOUNT, Resources
from trimtab.core.model.validation import SettingsError

OUTSIDE = Change(scale_up=True, outside_bounds=True, relative_difference=1.0)
INSIDE = Change(scale_up=True, relative_difference=0.9)


def killed(
    *, ran: timedelta, ago: timedelta = minutes(1), reason: str = "OOMKilled"
) -> Termination:
    return Termination(reason, started_at=NOW - ago - ran, finished_at=NOW - ago)


@pytest.mark.parametrize(
    ("requests", "recommended", "expected"),
    [
        pytest.param(
            amounts(4000),
            a_recommendation(target=amounts(10_000)),
            Change(scale_up=True, relative_difference=1.5),
            id="cpu 4 to 10 without bounds is one and a half",
        ),
        pytest.param(
            amounts(1000, 1000 * MIB),
            a_recommendation(target=amounts(850, 1150 * MIB)),
            Change(scale_up=True, relative_difference=0.30),
            id="memory up and cpu down by 15 % each add up",
        ),
        pytest.param(
            amounts(1000, 1000 * MIB),
            a_recommendation(target=amounts(1000, 1200 * MIB)),
            Change(scale_up=True, relative_difference=0.20),
            id="memory up by 20 %",
        ),
        pytest.param(
            amounts(100),
            a_recommendation(target=amounts(150), lower=amounts(101), upper=amounts(200)),
            Change(scale_up=True, outside_bounds=True, relative_difference=0.5),
            id="below the lower bound",
        ),
        pytest.param(
            amounts(200),
            a_recommendation(target=amounts(100), lower=amounts(50), upper=amounts(199)),
            Change(outside_bounds=True, relative_difference=0.5),
            id="above the upper bound",
        ),
        pytest.param(
            amounts(100),
            a_recommendation(target=amounts(100), lower=amounts(100), upper=amounts(100)),
            Change(),
            id="on both bounds is inside",
        ),
        pytest.param(
            amounts(380),
            a_recommendation(target=amounts(380), lower=amounts(390), upper=amounts(400)),
            Change(),
            id="on a target that was scaled below its lower bound is inside",
        ),
        pytest.param(
            amounts(300),
            a_recommendation(target=amounts(300), lower=amounts(200), upper=amounts(280)),
            Change(),
            id="on a target that was scaled above its upper bound is inside",
        ),
        pytest.param(
            amounts(304),
            a_recommendation(target=amounts(380), lower=amounts(390), upper=amounts(400)),
            Change(scale_up=True, outside_bounds=True, relative_difference=0.25),
            id="below a target that was scaled below its lower bound",
        ),
        pytest.param(
            amounts(memory=MIB),
            a_recommendation(target=amounts(500)),
            Change(scale_up=True, outside_bounds=True, relative_difference=499.0),
            id="a missing cpu request counts as a millicore",
        ),
        pytest.param(
            None,
            a_recommendation(target=amounts(memory=1)),
            Change(scale_up=True, outside_bounds=True, relative_difference=999.0),
            id="a missing memory request counts as a thousandth of a byte",
        ),
        pytest.param(
            amounts(0, 0),
            a_recommendation(target=amounts(0, 0)),
            Change(relative_difference=2.0),
            id="a request of nothing counts as the smallest there is",
        ),
        pytest.param(
            amounts(100, MIB),
            a_recommendation("other", target=amounts(1)),
            Change(),
            id="a recommendation for another container",
        ),
        pytest.param(amounts(100), a_recommendation(target={}), Change(), id="an empty target"),
    ],
)
def test_the_change_of_one_container(
    requests: Resources | None, recommended: ContainerRecommendation, expected: Change
) -> None:
    change = measure_change(a_pod(a_container(requests=requests)), [recommended])

    assert (change.scale_up, change.outside_bounds) == (expected.scale_up, expected.outside_bounds)
    assert change.relative_difference == pytest.approx(expected.relative_difference)


@pytest.mark.parametrize(
    ("requests", "recommended", "expected"),
    [
        pytest.param(
            amounts(1000, 100),
            a_recommendation(
                target=amounts(100, 101), lower=amounts(50, 50), upper=amounts(200, 200)
            ),
            Change(scale_up=True, relative_difference=0.01),
            id="what shrinks does not count, and above its bounds is no reason",
        ),
        pytest.param(
            amounts(1000, 100),
            a_recommendation(target=amounts(100, 150), lower=amounts(50, 120)),
            Change(scale_up=True, outside_bounds=True, relative_difference=0.5),
            id="below its lower bound",
        ),
        pytest.param(
            amounts(1000, 100),
            a_recommendation(target=amounts(100, 100), lower=amounts(50, 50), upper=amounts(60)),
            Change(),
            id="nothing grows",
        ),
        pytest.param(
            amounts(1000),
            a_recommendation(target=amounts(100, 1)),
            Change(scale_up=True, outside_bounds=True, relative_difference=999.0),
            id="a missing request grows",
        ),
    ],
)
def test_of_growth_alone_only_what_grows_counts(
    requests: Resources, recommended: ContainerRecommendation, expected: Change
) -> None:
    pod = a_pod(a_container(requests=requests))
    change = measure_change(pod, [recommended], only_growth=True)

    assert (change.scale_up, change.outside_bounds) == (expected.scale_up, expected.outside_bounds)
    assert change.relative_difference == pytest.approx(expected.relative_difference)


def test_growth_of_one_container_shows_beside_a_large_or_shrinking_sibling() -> None:
    pod = a_pod(
        a_container("a", requests=amounts(100)),
        a_container("b", requests=amounts(300)),
        a_container("c", requests=amounts(9000)),
    )
    targets = {"a": 200, "b": 200, "c": 9000}
    recommendation = [a_recommendation(name, target=amounts(cpu)) for name, cpu in targets.items()]

    change = measure_change(pod, recommendation, only_growth=True)

    assert change == Change(scale_up=True, relative_difference=1.0)


@pytest.mark.parametrize(
    ("last", "memory", "expected"),
    [
        pytest.param(killed(ran=minutes(1)), 150, 0.5, id="it grows by half"),
        pytest.param(killed(ran=minutes(1)), 50, 0.0, id="it shrinks"),
        pytest.param(killed(ran=minutes(1)), None, 0.0, id="its memory is not controlled"),
        pytest.param(killed(ran=minutes(1), reason="Error"), 150, 0.0, id="it was not OOM-killed"),
        pytest.param(None, 150, 0.0, id="it never ended"),
    ],
)
def test_memory_relieves_a_container_that_was_oom_killed(
    last: Termination | None, memory: int | None, expected: float
) -> None:
    pod = a_pod(
        a_container(requests=amounts(100, 100), last_termination=last),
        a_container("other", requests=amounts(100, 100)),
    )
    wanted = {
        "app": Allocation(amounts(900, memory)),
        "other": Allocation(amounts(900, 900)),
        "gone": Allocation(amounts(1, 1)),
    }

    assert memory_relief(pod, wanted) == expected


def test_what_the_kubelet_reports_counts_before_the_spec() -> None:
    container = a_container(requests=amounts(100), status=Allocation(amounts(400)))

    change = measure_change(a_pod(container), [a_recommendation(target=amounts(500))])

    assert change.relative_difference == pytest.approx(0.25)


def test_containers_are_summed_before_they_are_compared() -> None:
    pod = a_pod(a_container("a", requests=amounts(100)), a_container("b", requests=amounts(300)))
    recommendation = [
        a_recommendation("a", target=amounts(200)),
        a_recommendation("b", target=amounts(200)),
    ]

    change = measure_change(pod, recommendation)

    assert change == Change(scale_up=True, relative_difference=0.0)


def test_a_sidecar_counts_as_a_container() -> None:
    sidecar = a_container("proxy", requests=amounts(100), kind=ContainerKind.SIDECAR)

    change = measure_change(a_pod(sidecar), [a_recommendation("proxy", target=amounts(200))])

    assert change == Change(scale_up=True, relative_difference=1.0)


def test_of_two_recommendations_for_a_container_the_first_counts() -> None:
    pod = a_pod(a_container(requests=amounts(100)))

    change = measure_change(
        pod, [a_recommendation(target=amounts(100)), a_recommendation(target=amounts(900))]
    )

    assert change == Change()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="missing"),
        pytest.param("", frozenset(), id="empty means that none was seen"),
        pytest.param("app", {"app"}, id="one"),
        pytest.param("app, side-1", {"app", "side-1"}, id="two"),
        pytest.param("app,side", None, id="a comma without its space"),
        pytest.param("app, ", None, id="an empty name"),
        pytest.param("App", None, id="an upper case letter"),
        pytest.param("-app", None, id="a hyphen at the edge"),
        pytest.param("a" * 63, {"a" * 63}, id="the longest name"),
        pytest.param("a" * 64, None, id="a name that is too long"),
        pytest.param("app\n", None, id="a line end"),
    ],
)
def test_the_observed_containers_are_read_strictly(
    value: str | None, expected: set[str] | None
) -> None:
    annotations = {} if value is None else {OBSERVED_CONTAINERS: value}

    assert observed_containers(annotations) == expected


@pytest.mark.parametrize(
    ("observed", "difference"),
    [
        pytest.param("app", 1.0, id="an injected sidecar is left out"),
        pytest.param("app, side", 2.0, id="both are counted"),
        pytest.param("app,side", 2.0, id="a malformed annotation is ignored"),
        pytest.param("", 0.0, id="none is counted"),
    ],
)
def test_only_observed_containers_count(observed: str, difference: float) -> None:
    pod = a_pod(
        a_container("app", requests=amounts(100)),
        a_container("side", requests=amounts(100)),
        annotations={OBSERVED_CONTAINERS: observed},
    )
    recommendation = [
        a_recommendation("app", target=amounts(200)),
        a_recommendation("side", target=amounts(400)),
    ]

    assert measure_change(pod, recommendation).relative_difference == difference


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(None, False, id="never terminated"),
        pytest.param(killed(ran=minutes(0.5)), True, id="killed after thirty seconds"),
        pytest.param(killed(ran=minutes(11)), False, id="it ran for eleven minutes"),
        pytest.param(killed(ran=minutes(10)), False, id="exactly the threshold is not quick"),
        pytest.param(killed(ran=minutes(1), ago=minutes(10)), False, id="long ago"),
        pytest.param(killed(ran=minutes(1), ago=minutes(9.9)), True, id="just recent enough"),
        pytest.param(
            killed(ran=minutes(1), reason="Error"), False, id="it ended for its own reason"
        ),
        pytest.param(Termination("OOMKilled"), False, id="when is not known"),
        pytest.param(Termination("OOMKilled", None, NOW), False, id="its start is not known"),
    ],
)
def test_a_quick_oom_is_a_recent_kill_soon_after_the_start(
    *, last: Termination | None, expected: bool
) -> None:
    pod = a_pod(a_container(last_termination=last))

    assert is_quick_oom(pod, an_autoscaler(), minutes(10), NOW) is expected


@pytest.mark.parametrize(
    ("annotations", "mode", "expected"),
    [
        pytest.param({}, ContainerMode.AUTO, True, id="a scaled container"),
        pytest.param({}, ContainerMode.OFF, False, id="a container that is not scaled"),
        pytest.param(
            {OBSERVED_CONTAINERS: "other"}, ContainerMode.AUTO, False, id="an injected container"
        ),
    ],
)
def test_a_quick_oom_of_a_container_that_is_not_ours_does_not_count(
    *, annotations: dict[str, str], mode: ContainerMode, expected: bool
) -> None:
    pod = a_pod(a_container(last_termination=killed(ran=minutes(1))), annotations=annotations)
    autoscaler = an_autoscaler(policies=(ContainerPolicy("*", mode=mode),))

    assert is_quick_oom(pod, autoscaler, minutes(10), NOW) is expected


@pytest.mark.parametrize(
    ("own", "per_autoscaler", "expected"),
    [
        pytest.param(minutes(1), True, minutes(1), id="its own"),
        pytest.param(minutes(1), False, minutes(10), id="its own, but the gate is off"),
        pytest.param(None, True, minutes(10), id="it has none"),
        pytest.param(minutes(0), True, minutes(0), id="none at all is a choice"),
    ],
)
def test_the_quick_oom_threshold_of_an_autoscaler(
    *, own: timedelta | None, per_autoscaler: bool, expected: timedelta
) -> None:
    autoscaler = an_autoscaler(quick_oom_threshold=own)

    assert quick_oom_threshold(autoscaler, minutes(10), per_autoscaler=per_autoscaler) == expected


@pytest.mark.parametrize(
    ("change", "age", "expected"),
    [
        pytest.param(INSIDE, hours(1), None, id="its age does not matter"),
        pytest.param(INSIDE, None, HoldReason.TOO_YOUNG, id="it has to have started"),
        pytest.param(
            Change(relative_difference=0.09), hours(1), HoldReason.CHANGE_TOO_SMALL, id="too small"
        ),
    ],
)
def test_a_pod_with_a_new_role_may_be_young(
    change: Change, age: timedelta | None, expected: HoldReason | None
) -> None:
    thresholds = Thresholds()
    found = reason_to_wait(
        change, quick_oom=False, age=age, thresholds=thresholds, has_new_role=True
    )

    assert found is expected


@pytest.mark.parametrize(
    ("change", "quick_oom", "age", "expected"),
    [
        pytest.param(OUTSIDE, False, minutes(1), None, id="outside its bounds at any age"),
        pytest.param(OUTSIDE, False, None, None, id="outside its bounds without a start time"),
        pytest.param(INSIDE, False, hours(1), HoldReason.TOO_YOUNG, id="inside and young"),
        pytest.param(INSIDE, False, None, HoldReason.TOO_YOUNG, id="inside, age unknown"),
        pytest.param(INSIDE, False, hours(12), None, id="inside and exactly twelve hours old"),
        pytest.param(
            INSIDE,
            False,
            hours(12) - timedelta(seconds=1),
            HoldReason.TOO_YOUNG,
            id="a second less",
        ),
        pytest.param(
            Change(relative_difference=0.1), False, hours(13), None, id="exactly a tenth is enough"
        ),
        pytest.param(
            Change(relative_difference=0.0999),
            False,
            hours(13),
            HoldReason.CHANGE_TOO_SMALL,
            id="less than a tenth is not",
        ),
        pytest.param(Change(), False, hours(13), HoldReason.INSIDE_BOUNDS, id="nothing to change"),
        pytest.param(
            Change(), True, hours(13), HoldReason.CHANGE_TOO_SMALL, id="quick oom, same target"
        ),
        pytest.param(
            Change(outside_bounds=True),
            True,
            minutes(1),
            HoldReason.CHANGE_TOO_SMALL,
            id="quick oom outside the bounds, but the sums are equal",
        ),
        pytest.param(
            Change(relative_difference=0.01), True, minutes(1), None, id="quick oom, other target"
        ),
    ],
)
def test_when_a_change_is_worth_acting_on(
    *, change: Change, quick_oom: bool, age: timedelta | None, expected: HoldReason | None
) -> None:
    assert reason_to_wait(change, quick_oom=quick_oom, age=age, thresholds=Thresholds()) is expected


@pytest.mark.parametrize(
    ("started_ago", "updated_ago", "expected"),
    [
        pytest.param(hours(13), None, hours(13), id="since its start"),
        pytest.param(hours(13), hours(2), hours(2), id="since it was resized"),
        pytest.param(hours(1), hours(2), hours(1), id="an update before its start is another's"),
        pytest.param(None, hours(2), None, id="it has not started"),
    ],
)
def test_f19_an_update_restarts_the_age(
    started_ago: timedelta | None, updated_ago: timedelta | None, expected: timedelta | None
) -> None:
    pod = a_pod(started_at=None if started_ago is None else NOW - started_ago)
    last_updated_at = None if updated_ago is None else NOW - updated_ago

    assert age_of(pod, last_updated_at, NOW) == expected


@dataclass(frozen=True)
class Wish:
    name: str
    change: Change


def test_those_that_grow_go_first_and_then_the_larger_change() -> None:
    wishes = [
        Wish("shrinks a lot", Change(scale_up=False, outside_bounds=True, relative_difference=9.0)),
        Wish("grows a little", Change(scale_up=True, relative_difference=0.2)),
        Wish("grows more", Change(scale_up=True, relative_difference=0.3)),
        Wish("grows a little too", Change(scale_up=True, relative_difference=0.2)),
    ]

    assert [wish.name for wish in most_urgent_first(wishes)] == [
        "grows more",
        "grows a little",
        "grows a little too",
        "shrinks a lot",
    ]


any_amounts = st.dictionaries(
    st.sampled_from(list(amounts(1, 1))), st.integers(-MAX_AMOUNT, MAX_AMOUNT)
)
any_maps = st.none() | any_amounts
any_containers = st.builds(
    Container,
    st.sampled_from("abc"),
    spec=st.builds(Allocation, any_maps, any_maps),
    status=st.none() | st.builds(Allocation, any_maps, any_maps),
)
any_recommendations = st.builds(
    ContainerRecommendation,
    st.sampled_from("abcd"),
    any_amounts,
    lower_bound=any_maps,
    upper_bound=any_maps,
)


@given(st.lists(any_containers, max_size=4), st.lists(any_recommendations, max_size=4))
def test_f28_no_pod_and_no_recommendation_upsets_the_measure(
    containers: list[Container], recommendation: list[ContainerRecommendation]
) -> None:
    pod = Pod("default", "web-0", containers=tuple(containers))

    change = measure_change(pod, recommendation)

    assert 0.0 <= change.relative_difference < float("inf")
    assert recommendation or change == Change()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("smallest_change", -0.1, id="less than no change"),
        pytest.param("smallest_change", float("nan"), id="no number"),
        pytest.param("smallest_change", float("inf"), id="nothing would ever be enough"),
        pytest.param("lifetime", hours(-1), id="a lifetime of less than no time"),
        pytest.param("quick_oom", minutes(-1), id="a kill before the start"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused_by_name(field: str, value: object) -> None:
    fields: dict[str, Any] = {field: value}

    with pytest.raises(SettingsError, match=rf"^{field}: "):
        Thresholds(**fields)
