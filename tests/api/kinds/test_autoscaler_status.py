import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, NOW, a_recommendation, amounts
from support.makers.wire_examples import encoded

from trimtab.api.kinds.autoscalers import decode_autoscaler, encode_status_patch
from trimtab.core.model.autoscalers import Condition, ContainerRecommendation
from trimtab.core.model.resources import MAX_AMOUNT, Resource

AMOUNTS = st.dictionaries(st.sampled_from(Resource), st.integers(0, MAX_AMOUNT))
BOUNDS = AMOUNTS.map(lambda found: found or None)
RECOMMENDATIONS = st.builds(
    ContainerRecommendation, st.text(max_size=5), AMOUNTS, BOUNDS, BOUNDS, BOUNDS
)
SECONDS = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))
CONDITIONS = st.builds(
    Condition, st.text(max_size=5), st.text(max_size=5), st.text(), st.text(), st.none() | SECONDS
)


def status_of(data: bytes) -> Any:
    (operation,) = json.loads(data)
    assert (operation["op"], operation["path"]) == ("add", "/status")
    return operation["value"]


def test_the_whole_status_is_replaced_with_canonical_quantities() -> None:
    provided = Condition("RecommendationProvided", "True", last_transition_time=NOW)
    recommendation = a_recommendation(
        target=amounts(1500, 250 * MIB), lower=amounts(25), upper=amounts(memory=1001)
    )

    assert status_of(encode_status_patch([recommendation], [provided], observed_generation=4)) == {
        "recommendation": {
            "containerRecommendations": [
                {
                    "containerName": "app",
                    "target": {"cpu": "1500m", "memory": "250Mi"},
                    "lowerBound": {"cpu": "25m"},
                    "upperBound": {"memory": "1001"},
                    "uncappedTarget": {"cpu": "1500m", "memory": "250Mi"},
                }
            ]
        },
        "conditions": [
            {
                "type": "RecommendationProvided",
                "status": "True",
                "lastTransitionTime": "2026-08-22T12:00:00Z",
            }
        ],
        "observedGeneration": 4,
    }


@pytest.mark.parametrize(
    ("recommendation", "status"),
    [
        pytest.param([], {"recommendation": {}}, id="none for any container is an empty object"),
        pytest.param(None, {}, id="no recommendation is left out"),
    ],
)
def test_a_recommendation_without_containers_is_not_the_same_as_none(
    recommendation: list[ContainerRecommendation] | None, status: object
) -> None:
    assert status_of(encode_status_patch(recommendation, [])) == status


def test_a_target_is_always_written_and_empty_bounds_never() -> None:
    status = status_of(encode_status_patch([ContainerRecommendation("app", {}, {}, {})], []))

    assert status["recommendation"]["containerRecommendations"] == [
        {"containerName": "app", "target": {}}
    ]


def test_a_condition_keeps_its_reason_and_message() -> None:
    condition = Condition("NoPodsMatched", "True", "NoPodsMatched", "No pods match")

    assert status_of(encode_status_patch(None, [condition]))["conditions"] == [
        {
            "type": "NoPodsMatched",
            "status": "True",
            "reason": "NoPodsMatched",
            "message": "No pods match",
        }
    ]


@given(st.none() | st.lists(RECOMMENDATIONS, max_size=3), st.lists(CONDITIONS, max_size=3))
def test_a_written_status_is_read_back_unchanged(
    recommendation: list[ContainerRecommendation] | None, conditions: list[Condition]
) -> None:
    status = status_of(encode_status_patch(recommendation, conditions))
    autoscaler = decode_autoscaler(encoded({"status": status}))

    assert autoscaler.recommendation == (None if recommendation is None else tuple(recommendation))
    assert autoscaler.conditions == tuple(conditions)


def test_fractions_of_a_second_are_not_written() -> None:
    moment = datetime(2026, 8, 22, 12, 0, 0, 999_999, tzinfo=UTC)
    status = status_of(encode_status_patch(None, [Condition("T", "True", "", "", moment)]))

    assert status["conditions"][0]["lastTransitionTime"] == "2026-08-22T12:00:00Z"
