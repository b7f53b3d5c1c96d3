from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, NOW, a_recommendation, amounts, an_autoscaler, minutes

from trimtab.core.model.autoscalers import AutoscalerName, Condition, ContainerRecommendation
from trimtab.core.model.resources import Resource
from trimtab.core.model.validation import SettingsError
from trimtab.core.recommendation.status_changes import (
    PublishingSettings,
    StatusChange,
    StatusText,
    due_small_changes,
    far_moves,
    find_change,
    list_due,
    passes_request,
    passing_moves,
    relative_move,
    stored_status,
)

SAID = a_recommendation(
    target=amounts(100, 500 * MIB), lower=amounts(50, 400 * MIB), upper=amounts(1000, 900 * MIB)
)
PROVIDED = Condition("RecommendationProvided", "True", last_transition_time=NOW)
STORED = StatusText((SAID,), (PROVIDED,), 3)


def bounds(lower: int, upper: int) -> ContainerRecommendation:
    return replace(
        SAID, lower_bound=amounts(lower, 400 * MIB), upper_bound=amounts(upper, 900 * MIB)
    )


@pytest.mark.parametrize(
    ("wanted", "change"),
    [
        pytest.param(STORED, StatusChange.NONE, id="nothing changed"),
        pytest.param(
            replace(STORED, conditions=(replace(PROVIDED, last_transition_time=None),)),
            StatusChange.NONE,
            id="a condition has another time",
        ),
        pytest.param(
            replace(STORED, recommendation=(replace(SAID, target=amounts(101, 500 * MIB)),)),
            StatusChange.TARGET,
            id="a target moved by a millicore",
        ),
        pytest.param(
            replace(STORED, recommendation=(replace(SAID, target=amounts(100)),)),
            StatusChange.TARGET,
            id="a resource is no longer recommended",
        ),
        pytest.param(
            replace(STORED, recommendation=()), StatusChange.TARGET, id="a container left"
        ),
        pytest.param(
            replace(STORED, recommendation=(SAID, replace(SAID, container_name="side"))),
            StatusChange.TARGET,
            id="a container joined",
        ),
        pytest.param(
            replace(STORED, conditions=(replace(PROVIDED, status="False"),)),
            StatusChange.CONDITION,
            id="a condition has another status",
        ),
        pytest.param(
            replace(STORED, conditions=(replace(PROVIDED, message="why"),)),
            StatusChange.CONDITION,
            id="a condition says something else",
        ),
        pytest.param(replace(STORED, conditions=()), StatusChange.CONDITION, id="a condition left"),
        pytest.param(replace(STORED, generation=4), StatusChange.SPEC, id="the spec changed"),
        pytest.param(
            replace(STORED, generation=None), StatusChange.NONE, id="there is no generation"
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(51, 1000),)),
            StatusChange.SMALL,
            id="2 % are not much",
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(50, 1021),)), StatusChange.MOVED, id="2.1 % up"
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(50, 979),)), StatusChange.MOVED, id="2.1 % down"
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(50, 1500),)), StatusChange.MOVED, id="half up"
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(50, 1501),)),
            StatusChange.BOUND,
            id="more than half",
        ),
        pytest.param(
            replace(STORED, recommendation=(bounds(49, 1000),)),
            StatusChange.SMALL,
            id="a single millicore is not much, whatever part it is",
        ),
        pytest.param(
            replace(STORED, recommendation=(replace(SAID, lower_bound=None),)),
            StatusChange.BOUND,
            id="a bound left",
        ),
        pytest.param(
            replace(STORED, recommendation=(replace(SAID, uncapped_target=amounts(900, 0)),)),
            StatusChange.BOUND,
            id="only the uncapped target moved",
        ),
    ],
)
def test_the_weightiest_difference_is_found(wanted: StatusText, change: StatusChange) -> None:
    assert find_change(STORED, wanted, PublishingSettings()) is change


@pytest.mark.parametrize(
    ("change", "waited", "due"),
    [
        pytest.param(StatusChange.NONE, timedelta(days=1), False, id="nothing is never written"),
        pytest.param(StatusChange.SMALL, minutes(9), False, id="a small move waits"),
        pytest.param(StatusChange.SMALL, minutes(10), True, id="a small move waits ten minutes"),
        pytest.param(StatusChange.MOVED, minutes(9), False, id="a move past no request waits"),
        pytest.param(StatusChange.MOVED, minutes(10), True, id="it waits ten minutes"),
        pytest.param(StatusChange.BOUND, minutes(0), True, id="a bound that moved far"),
        pytest.param(StatusChange.CONDITION, minutes(0), True, id="a condition"),
        pytest.param(StatusChange.SPEC, minutes(0), True, id="another spec"),
        pytest.param(StatusChange.TARGET, minutes(0), True, id="a target"),
    ],
)
def test_f34_only_what_matters_is_written_at_once(
    change: StatusChange, waited: timedelta, *, due: bool
) -> None:
    web = AutoscalerName("default", "web")

    assert (web in list_due({web: (change, NOW - waited)}, NOW, minutes(10), share=1)) is due


def test_what_matters_takes_no_share_of_the_small_moves() -> None:
    names = [AutoscalerName("default", name) for name in "abc"]
    kinds = (StatusChange.TARGET, StatusChange.SMALL, StatusChange.SMALL)
    changes = {name: (kind, NOW - minutes(20)) for name, kind in zip(names, kinds, strict=True)}

    assert list_due(changes, NOW, minutes(10), share=1) == set(names[:2])


@given(st.integers(0, 10**14), st.integers(0, 10**14), st.sampled_from([0.0, 0.02, 0.5]))
def test_arrays_and_single_amounts_agree_on_what_is_far(
    before: int, after: int, fraction: float
) -> None:
    (far,) = far_moves(np.array([before]), np.array([after]), fraction).tolist()

    assert far == (relative_move(before, after) > max(fraction, 1e-6))


@pytest.mark.parametrize(
    ("least", "most", "passes"),
    [
        pytest.param(60, 60, True, id="a request in between"),
        pytest.param(50, 50, True, id="a request that is the former bound"),
        pytest.param(70, 70, True, id="a request that is the new bound"),
        pytest.param(49, 49, False, id="a request that was below already"),
        pytest.param(71, 71, False, id="a request that is still above"),
        pytest.param(20, 90, True, id="requests on both sides"),
        pytest.param(np.nan, np.nan, False, id="no request"),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["up", "down"])
def test_a_bound_that_moved_past_a_request_is_found(
    least: float, most: float, *, passes: bool, is_reversed: bool
) -> None:
    moved = replace(STORED, recommendation=(bounds(70, 1000),))
    stored, wanted = (moved, STORED) if is_reversed else (STORED, moved)
    spans = {SAID.container_name: {Resource.CPU: (least, most)}}

    assert passes_request(stored, wanted, spans) is passes


amount = st.integers(0, 2000)


@given(amount, amount, amount, amount)
def test_arrays_and_records_agree_on_what_passes_a_request(
    before: int, after: int, one: int, other: int
) -> None:
    least, most = sorted((one, other))
    spans = {SAID.container_name: {Resource.CPU: (float(least), float(most))}}
    stored, wanted = (replace(STORED, recommendation=(bounds(n, 1000),)) for n in (before, after))
    found = passing_moves(np.array([before]), np.array([after]), np.array([[least, most]]))

    assert found.tolist() == [[passes_request(stored, wanted, spans)]]


def test_what_an_autoscaler_says_is_read_from_its_object() -> None:
    autoscaler = an_autoscaler(SAID, conditions=(PROVIDED,), observed_generation=3)

    assert find_change(stored_status(autoscaler), STORED, PublishingSettings()) is StatusChange.NONE
    assert stored_status(an_autoscaler()).recommendation == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"bound_move_fraction": -0.1},
        {"far_move_fraction": -0.1},
        {"drift_fraction": -0.1},
        {"patience": timedelta()},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        PublishingSettings(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("share", "told"),
    [
        pytest.param(1, ["oldest"], id="the longest first"),
        pytest.param(2, ["oldest", "alike"], id="by name where they wait as long"),
        pytest.param(9, ["oldest", "alike", "ripe"], id="nobody before its time"),
    ],
)
def test_small_moves_are_told_in_turn(share: int, told: list[str]) -> None:
    ages = {"ripe": 10, "young": 9, "oldest": 12, "alike": 10}
    waiting = {AutoscalerName("default", name): NOW - minutes(age) for name, age in ages.items()}

    ripe = due_small_changes(waiting, NOW, minutes(10), share)

    assert [each.name for each in ripe] == told
