"""A gate that is off lets an object keep what it uses, and nothing begin to be used (F44)."""

from dataclasses import replace
from typing import Any

import pytest
from support.makers.wire_autoscalers import judged, told, with_boost, with_policy, written

from trimtab.core.model.feature_gates import FeatureGates

ALL_OFF = FeatureGates(
    cpu_startup_boost=False,
    in_place=False,
    per_vpa_config=False,
    pod_selector=False,
    upscale_only=False,
)
RECREATE = {"updateMode": "Recreate"}
GENERAL_BOOST = with_boost(type="Factor", factor=2)
OWN_BOOST = with_policy(startupBoost={"cpu": {"type": "Factor", "factor": 2}})
SELECTED = {"selector": {"matchLabels": {"role": "leader"}}}

USES = [
    pytest.param("CPUStartupBoost", "cpu_startup_boost", GENERAL_BOOST, id="a general boost"),
    pytest.param("CPUStartupBoost", "cpu_startup_boost", OWN_BOOST, id="a container's boost"),
    pytest.param(
        "CPUStartupBoost", "cpu_startup_boost", {"startupBoost": {}}, id="a boost without content"
    ),
    pytest.param("InPlace", "in_place", {"updatePolicy": {"updateMode": "InPlace"}}, id="InPlace"),
    pytest.param(
        "UpscaleOnly",
        "upscale_only",
        {"updatePolicy": {"updateMode": "UpscaleOnly"}},
        id="UpscaleOnly",
    ),
    pytest.param("PodSelector", "pod_selector", SELECTED, id="a selector"),
    pytest.param("PodSelector", "pod_selector", {"selector": {}}, id="an empty selector"),
    pytest.param(
        "PerVPAConfig",
        "per_vpa_config",
        {"updatePolicy": {**RECREATE, "evictAfterOOMSeconds": 60}},
        id="a threshold for quick ooms",
    ),
    pytest.param(
        "PerVPAConfig", "per_vpa_config", with_policy(oomBumpUpRatio="1.5"), id="a bump-up ratio"
    ),
    pytest.param(
        "PerVPAConfig", "per_vpa_config", with_policy(oomMinBumpUp="1Mi"), id="a least bump-up"
    ),
    pytest.param(
        "PerVPAConfig",
        "per_vpa_config",
        with_policy(memoryAggregationIntervalSeconds=60),
        id="a memory interval",
    ),
    pytest.param(
        "PerVPAConfig",
        "per_vpa_config",
        with_policy(memoryAggregationIntervalCount=4),
        id="a number of memory intervals",
    ),
]


@pytest.mark.parametrize(("gate", "field", "use"), USES)
def test_new_use_of_a_feature_is_refused_while_its_gate_is_off(
    gate: str, field: str, use: dict[str, Any]
) -> None:
    verdict = judged(use, gates=replace(FeatureGates(), **{field: False}))

    assert [error.type for error in verdict.errors] == ["FieldValueForbidden"]
    assert gate in told(verdict)[0]
    assert verdict.patch == ()


@pytest.mark.parametrize(("gate", "field", "use"), USES)
def test_the_gate_alone_decides_on_new_use(gate: str, field: str, use: dict[str, Any]) -> None:
    verdict = judged(use, gates=replace(ALL_OFF, **{field: True}))

    assert told(verdict) == [], gate


@pytest.mark.parametrize(("gate", "field", "use"), USES)
def test_f44_an_update_cannot_begin_to_use_a_feature_whose_gate_is_off(
    gate: str, field: str, use: dict[str, Any]
) -> None:
    gates = replace(FeatureGates(), **{field: False})

    verdict = judged(use, old=written(updatePolicy=RECREATE), gates=gates)

    assert [error.type for error in verdict.errors] == ["FieldValueForbidden"]
    assert gate in told(verdict)[0]


@pytest.mark.parametrize(
    ("gate", "field", "use"), [use for use in USES if use.values[2] != {"startupBoost": {}}]
)
def test_an_update_may_keep_a_feature_that_was_used_before(
    gate: str, field: str, use: dict[str, Any]
) -> None:
    verdict = judged(use, old=written(**use), gates=ALL_OFF)

    assert told(verdict) == [], (gate, field)


def test_a_boost_without_content_in_the_stored_object_opens_no_gate() -> None:
    verdict = judged(GENERAL_BOOST, old=written(startupBoost={}), gates=ALL_OFF)

    assert [error.path for error in verdict.errors] == ["spec.startupBoost"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(GENERAL_BOOST, OWN_BOOST, id="from a general boost to a container's"),
        pytest.param(OWN_BOOST, GENERAL_BOOST, id="from a container's boost to a general one"),
        pytest.param(
            with_policy(oomMinBumpUp="1Mi"),
            {"updatePolicy": {**RECREATE, "evictAfterOOMSeconds": 60}},
            id="from one setting of its own to another",
        ),
        pytest.param(
            SELECTED, {"selector": {"matchLabels": {"role": "follower"}}}, id="to another selector"
        ),
    ],
)
def test_within_its_feature_a_ratcheted_object_may_change(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    verdict = judged(after, old=written(**before), gates=ALL_OFF)

    assert told(verdict) == []


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        pytest.param(
            {"updatePolicy": {"updateMode": "InPlace"}},
            {"updatePolicy": {"updateMode": "UpscaleOnly"}},
            "spec.updatePolicy.updateMode",
            id="InPlace does not open UpscaleOnly",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}},
            {"updatePolicy": {"updateMode": "InPlace"}},
            "spec.updatePolicy.updateMode",
            id="InPlaceOrRecreate does not open InPlace",
        ),
        pytest.param(GENERAL_BOOST, SELECTED, "spec.selector", id="a boost opens no selector"),
        pytest.param(
            SELECTED, GENERAL_BOOST, "spec.startupBoost", id="a selector opens no startup boost"
        ),
    ],
)
def test_f44_one_used_feature_opens_no_other_gate(
    before: dict[str, Any], after: dict[str, Any], path: str
) -> None:
    verdict = judged(after, old=written(**before), gates=ALL_OFF)

    assert [error.path for error in verdict.errors] == [path]


def test_what_a_ratchet_lets_through_is_still_checked_for_its_values() -> None:
    after = with_policy(oomMinBumpUp="-1")

    verdict = judged(after, old=written(**with_policy(oomMinBumpUp="1Mi")), gates=ALL_OFF)

    assert told(verdict) == [
        (
            "spec.resourcePolicy.containerPolicies[0].oomMinBumpUp: "
            "Invalid value: -1: must be greater than or equal to 0"
        )
    ]


def test_a_null_quantity_in_the_stored_object_is_no_use_of_it() -> None:
    before = written(**with_policy(oomBumpUpRatio=None, oomMinBumpUp=None))

    verdict = judged(with_policy(oomMinBumpUp="1Mi"), old=before, gates=ALL_OFF)

    assert [error.type for error in verdict.errors] == ["FieldValueForbidden"]
