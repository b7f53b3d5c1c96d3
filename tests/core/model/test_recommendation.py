from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import MIB, a_recommendation, amounts

from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.recommendation import (
    Caps,
    PublishedRecommendation,
    RecommendationSettings,
    ResourceSettings,
    caps_for,
    humanize,
    wants_integer_cpu,
)
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource, Resources
from trimtab.core.model.validation import SettingsError
from trimtab.core.recommendation import estimators


@pytest.mark.parametrize(
    ("policy", "global_max", "lower", "target", "upper"),
    [
        pytest.param(None, {}, 250, 500, 2000, id="no policy and no maximum"),
        pytest.param(None, amounts(400), 250, 400, 400, id="the global maximum alone"),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(1000)), {}, 1000, 1000, 2000, id="a minimum"
        ),
        pytest.param(
            ContainerPolicy("app", max_allowed=amounts(450)),
            amounts(400),
            250,
            450,
            450,
            id="the policy's maximum hides the global one",
        ),
        pytest.param(
            ContainerPolicy("app", max_allowed=amounts(memory=1)),
            amounts(400),
            250,
            400,
            400,
            id="a maximum for another resource hides nothing",
        ),
        pytest.param(
            ContainerPolicy("app", max_allowed=amounts(0)),
            amounts(400),
            250,
            500,
            2000,
            id="a maximum of zero is none and hides the global one",
        ),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(0)),
            {},
            250,
            500,
            2000,
            id="a minimum of zero",
        ),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(1000)),
            amounts(400),
            400,
            400,
            400,
            id="the maximum wins over a larger minimum",
        ),
        pytest.param(
            ContainerPolicy("app", min_allowed=amounts(-5), max_allowed=amounts(-5)),
            amounts(400),
            250,
            500,
            2000,
            id="caps below zero are none",
        ),
    ],
)
def test_policies_cap_what_is_recommended(
    policy: ContainerPolicy | None, global_max: Resources, lower: int, target: int, upper: int
) -> None:
    caps = caps_for(policy, global_max)
    capped = estimators.cap(np.array([250, 500, 2000]), caps.least[0], caps.most[0])

    assert capped.tolist() == [lower, target, upper]


maps = st.dictionaries(st.sampled_from(list(Resource)), st.integers(-5, 10**12))


@given(maps, maps, maps, maps)
def test_capped_amounts_lie_inside_the_caps_and_stay_there(
    wanted: Resources, least: Resources, most: Resources, global_max: Resources
) -> None:
    caps = caps_for(ContainerPolicy("app", min_allowed=least, max_allowed=most), global_max)
    amounts_wanted = np.array([max(wanted.get(resource, 0), 0) for resource in BOTH])
    capped = estimators.cap(amounts_wanted, caps.least, caps.most)

    assert np.array_equal(estimators.cap(capped, caps.least, caps.most), capped)
    for resource, amount in zip(BOTH, capped.tolist(), strict=True):
        highest = most.get(resource, global_max.get(resource, 0))
        assert amount >= 0
        assert amount <= highest or highest <= 0
        assert amount >= least.get(resource, 0) or amount == highest


def test_a_cap_beyond_all_amounts_is_cut() -> None:
    caps = caps_for(ContainerPolicy("app", min_allowed=amounts(2**70)), amounts(memory=2**70))

    assert caps == Caps((MAX_AMOUNT, 0), (MAX_AMOUNT, MAX_AMOUNT))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, False, id="nothing said"),
        pytest.param(
            {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}, True, id="asked for"
        ),
        pytest.param(
            {"vpa-post-processor.kubernetes.io/app_integerCPU": "True"},
            False,
            id="only true is true",
        ),
        pytest.param(
            {"vpa-post-processor.kubernetes.io/*_integerCPU": "true"}, False, id="no wildcard"
        ),
        pytest.param(
            {"vpa-post-processor.kubernetes.io/other_integerCPU": "true"}, False, id="for another"
        ),
    ],
)
def test_whole_cores_are_asked_for_by_annotation(
    annotations: dict[str, str], *, expected: bool
) -> None:
    assert wants_integer_cpu(annotations, "app") is expected


@pytest.mark.parametrize(
    ("given_bytes", "expected"),
    [
        pytest.param(0, 0, id="nothing"),
        pytest.param(1023, 1023, id="less than a kibibyte is left alone"),
        pytest.param(1024, 1024, id="a kibibyte"),
        pytest.param(1152, 1147, id="of two equally near the even hundredth"),
        pytest.param(262144000, 262144000, id="whole mebibytes"),
        pytest.param(2**50, 2**50, id="tebibytes are the largest unit"),
        pytest.param(1168723596, 1170378589, id="1.09Gi is a fraction of a byte less than this"),
        pytest.param(1_000_000, 999998, id="976.56Ki is less than before"),
        pytest.param(10**14, 100000582546228, id="90.95Ti is a fraction of a byte less than this"),
    ],
)
def test_memory_for_humans_has_two_decimals_of_its_unit(given_bytes: int, expected: int) -> None:
    assert humanize(given_bytes) == expected


def test_a_recommendation_says_why_it_is_empty() -> None:
    assert PublishedRecommendation(without_samples=("app",)).lacks_samples
    assert not PublishedRecommendation().lacks_samples
    assert not PublishedRecommendation((a_recommendation(target={}),), ("side",)).lacks_samples


def test_settings_default_to_the_flags_of_the_original() -> None:
    settings = RecommendationSettings()

    assert settings.of(Resource.CPU) == ResourceSettings(pod_floor=25)
    assert settings.of(Resource.MEMORY) == ResourceSettings(pod_floor=250 * MIB)
    assert settings.cpu.percentiles == (0.9, 0.5, 0.95)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize("field", ["target_percentile", "lower_percentile", "upper_percentile"])
@pytest.mark.parametrize("value", [90, -0.1, NAN, INFINITE])
def test_a_percentile_is_a_part_of_one(field: str, value: float) -> None:
    given_fields: dict[str, Any] = {field: value}

    with pytest.raises(SettingsError, match=f"^{field}: "):
        ResourceSettings(25, **given_fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("pod_floor", -1, id="a negative floor"),
        pytest.param("pod_floor", NAN, id="a floor that is not a number"),
        pytest.param("confidence_interval", timedelta(0), id="confidence at once"),
        pytest.param("confidence_interval", timedelta.max, id="confidence never"),
        pytest.param("rounding", 2**63, id="a multiple that no amount reaches"),
        pytest.param("rounding", NAN, id="a multiple that is not a number"),
    ],
)
def test_nonsense_about_a_resource_is_refused_by_name(field: str, value: object) -> None:
    given_fields: dict[str, Any] = {"pod_floor": 25, field: value}

    with pytest.raises(SettingsError, match=f"^{field}: "):
        ResourceSettings(**given_fields)


@pytest.mark.parametrize(
    "margin", [pytest.param(-0.1, id="negative"), NAN, pytest.param(INFINITE, id="endless")]
)
def test_a_margin_that_makes_no_sense_is_refused(margin: float) -> None:
    with pytest.raises(SettingsError, match=r"^margin_fraction: "):
        RecommendationSettings(margin_fraction=margin)


def test_a_negative_global_maximum_is_refused_by_resource() -> None:
    with pytest.raises(SettingsError, match=r"^max_allowed\.memory: -1 "):
        RecommendationSettings(max_allowed=amounts(5, -1))


def test_settings_at_the_edges_of_sense_are_accepted() -> None:
    edge = ResourceSettings(
        0, target_percentile=1, lower_percentile=0, upper_percentile=1, rounding=-1
    )
    settings = RecommendationSettings(cpu=edge, margin_fraction=0, max_allowed=amounts(0))

    assert settings.cpu.percentiles == (1, 0, 1)
