"""A startup boost must say one thing: one type with its member, one time."""

from typing import Any

import pytest
from support.makers.wire_autoscalers import judged, told, with_boost, with_policy, written

CPU = "spec.startupBoost.cpu"
OWN_CPU = "spec.resourcePolicy.containerPolicies[0].startupBoost.cpu"

BOOSTS = [
    pytest.param({"type": "Factor", "factor": 1}, [], id="a factor of one"),
    pytest.param({"type": "Quantity", "quantity": "1500m"}, [], id="a quantity"),
    pytest.param({"type": "Quantity", "quantity": 2}, [], id="a quantity written as a number"),
    pytest.param(
        {"type": "Factor", "factor": 2, "quantity": None}, [], id="a null is as good as absent"
    ),
    pytest.param(
        {"factor": 2},
        [".type: Required value: must be either Factor or Quantity"],
        id="no type",
    ),
    pytest.param(
        {"type": "", "factor": 2},
        [".type: Required value: must be either Factor or Quantity"],
        id="an empty type",
    ),
    pytest.param(
        {"type": "Double", "factor": 2},
        ['.type: Unsupported value: "Double": supported values: "Factor", "Quantity"'],
        id="an unknown type",
    ),
    pytest.param(
        {"type": "Factor"},
        [".factor: Required value: required when type is Factor"],
        id="type Factor without factor",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": None},
        [".quantity: Required value: required when type is Quantity"],
        id="type Quantity without quantity",
    ),
    pytest.param(
        {"type": "Factor", "factor": 0},
        [".factor: Invalid value: 0: must be >= 1 for type Factor"],
        id="a factor below one",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": "500u"},
        ['.quantity: Invalid value: "500u": must be a whole number of milli CPUs'],
        id="a quantity that is too fine",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": "-500m"},
        ['.quantity: Invalid value: "-500m": must be greater than or equal to 0'],
        id="a negative quantity",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": "500Mi"},
        [
            (
                '.quantity: Invalid value: "500Mi": is an amount of memory; CPU is counted in cores'
                " or millicores, such as 2 or 500m"
            )
        ],
        id="an amount of memory",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": "500M"},
        [
            (
                '.quantity: Invalid value: "500M": is an amount of memory; CPU is counted in cores'
                " or millicores, such as 2 or 500m"
            )
        ],
        id="more cores than there are",
    ),
    pytest.param({"type": "Quantity", "quantity": "10k"}, [], id="as many cores as there may be"),
    pytest.param({"type": "Quantity", "quantity": "0"}, [], id="a quantity of zero"),
    pytest.param(
        {"type": "Quantity", "quantity": "a lot"},
        [
            (
                '.quantity: Invalid value: "a lot": quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            )
        ],
        id="a quantity that is none",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "quantity": "1"},
        [".quantity: Forbidden: not allowed when type is Factor"],
        id="a quantity beside the factor",
    ),
    pytest.param(
        {"type": "Quantity", "quantity": "1", "factor": 2},
        [".factor: Forbidden: not allowed when type is Quantity"],
        id="a factor beside the quantity",
    ),
    pytest.param(
        {"type": "Factor", "quantity": "1"},
        [
            ".factor: Required value: required when type is Factor",
            ".quantity: Forbidden: not allowed when type is Factor",
        ],
        id="the wrong member instead of the right one",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "duration": "1m30s"}, [], id="a time as a duration"
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "durationSeconds": 90}, [], id="a time in seconds"
    ),
    pytest.param({"type": "Factor", "factor": 2, "durationSeconds": 0}, [], id="no time at all"),
    pytest.param(
        {"type": "Factor", "factor": 2, "duration": "1m30s", "durationSeconds": 90},
        [],
        id="the same time twice",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "duration": "10.5s", "durationSeconds": 10},
        ['.duration: Invalid value: "10.5s": must equal durationSeconds (10) when both are given'],
        id="two times that differ by less than a second",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "durationSeconds": -1},
        [".durationSeconds: Invalid value: -1: must be greater than or equal to 0"],
        id="a negative number of seconds",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "duration": "-10s"},
        ['.duration: Invalid value: "-10s": must not be negative'],
        id="a negative duration",
    ),
    pytest.param(
        {"type": "Factor", "factor": 2, "duration": "10 minutes"},
        ['.duration: Invalid value: "10 minutes": must be a duration such as 1h30m or 10s'],
        id="text that is no duration",
    ),
    pytest.param(
        {"duration": "soon", "durationSeconds": -1},
        [
            ".type: Required value: must be either Factor or Quantity",
            ".durationSeconds: Invalid value: -1: must be greater than or equal to 0",
            '.duration: Invalid value: "soon": must be a duration such as 1h30m or 10s',
        ],
        id="type and times are judged apart",
    ),
]


@pytest.mark.parametrize(("boost", "errors"), BOOSTS)
def test_a_general_boost_must_not_contradict_itself(
    boost: dict[str, Any], errors: list[str]
) -> None:
    assert told(judged(with_boost(**boost))) == [f"{CPU}{error}" for error in errors]


@pytest.mark.parametrize(
    ("time", "path"),
    [
        pytest.param({"duration": "30m"}, None, id="as long as may be"),
        pytest.param({"duration": "2h"}, "duration", id="longer"),
        pytest.param({"durationSeconds": 1801}, "durationSeconds", id="longer by a second"),
        pytest.param({"duration": "soon"}, None, id="no time at all"),
    ],
)
def test_a_boost_that_ends_before_its_duration_does_is_a_warning(
    time: dict[str, Any], path: str | None
) -> None:
    boost = {"type": "Factor", "factor": 2, **time}
    general = judged(with_boost(**boost)).warnings
    own = judged(with_policy(startupBoost={"cpu": boost})).warnings

    assert [each.split(":")[0] for each in general] == ([f"{CPU}.{path}"] if path else [])
    assert [each.split(":")[0] for each in own] == ([f"{OWN_CPU}.{path}"] if path else [])
    assert all("--max-boost-duration, 30m by default" in each for each in (*general, *own))


@pytest.mark.parametrize(("boost", "errors"), BOOSTS)
def test_the_boost_of_a_container_is_judged_alike(boost: dict[str, Any], errors: list[str]) -> None:
    verdict = judged(with_policy(startupBoost={"cpu": boost}))

    assert told(verdict) == [f"{OWN_CPU}{error}" for error in errors]


@pytest.mark.parametrize(
    "boost", [pytest.param({}, id="no cpu"), pytest.param({"cpu": None}, id="a null cpu")]
)
def test_a_boost_of_nothing_is_accepted(boost: dict[str, Any]) -> None:
    assert judged({"startupBoost": boost}).allowed


ODD = {"type": "Factor", "factor": 2, "quantity": "1", "durationSeconds": -1}


def test_a_contradiction_that_an_update_leaves_as_it_was_passes() -> None:
    after = {**with_boost(**ODD), "recommenders": [{"name": "special"}]}

    assert judged(after, old=written(**with_boost(**ODD))).allowed


def test_a_negative_quantity_that_an_update_leaves_as_it_was_passes() -> None:
    negative = with_boost(type="Quantity", quantity="-1")

    assert judged(negative, old=written(**negative)).allowed


def test_a_contradiction_in_a_boost_that_an_update_changes_is_refused() -> None:
    verdict = judged(with_boost(**{**ODD, "factor": 3}), old=written(**with_boost(**ODD)))

    assert [error.path for error in verdict.errors] == [
        f"{CPU}.quantity",
        f"{CPU}.durationSeconds",
    ]


def test_a_container_keeps_its_own_contradiction_wherever_its_policy_stands() -> None:
    odd = {"containerName": "app", "startupBoost": {"cpu": ODD}}
    other = {"containerName": "side"}
    old = written(resourcePolicy={"containerPolicies": [odd, other]})

    assert judged({"resourcePolicy": {"containerPolicies": [other, odd]}}, old=old).allowed


def test_a_container_does_not_inherit_the_contradiction_of_another() -> None:
    old = written(**with_policy(containerName="side", startupBoost={"cpu": ODD}))

    assert not judged(with_policy(startupBoost={"cpu": ODD}), old=old).allowed


def test_what_the_original_refuses_is_refused_even_if_unchanged() -> None:
    empty = with_boost(type="Factor")

    verdict = judged({**empty, "recommenders": [{"name": "new"}]}, old=written(**empty))

    assert [error.path for error in verdict.errors] == [f"{CPU}.factor"]
