from datetime import UTC, datetime, timedelta

import pytest
from support.makers.records import MIB, amounts
from support.makers.wire_examples import AUTOSCALER, Json, encoded

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    Condition,
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    CpuBoost,
    EvictionRequirement,
    TargetReference,
    UpdateMode,
)
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector, equality


def with_spec(**spec: Json) -> Autoscaler:
    return decode_autoscaler(encoded({"metadata": {"name": "web"}, "spec": spec}))


def with_policy(**policy: Json) -> ContainerPolicy:
    resource_policy = {"containerPolicies": [{"containerName": "app", **policy}]}
    return with_spec(resourcePolicy=resource_policy).policies[0]


def with_boost(**cpu: Json) -> CpuBoost:
    boost = with_spec(startupBoost={"cpu": cpu}).boost
    assert boost is not None
    return boost


def test_every_field_of_the_api_reaches_the_record() -> None:
    assert decode_autoscaler(encoded(AUTOSCALER)) == Autoscaler(
        namespace="default",
        name="web",
        uid="u-1",
        resource_version="7",
        generation=3,
        created_at=datetime(2026, 8, 1, tzinfo=UTC),
        annotations={"note": "kept"},
        target=TargetReference("Deployment", "web", "apps/v1"),
        selector=Selector(
            (equality("role", "leader"), LabelRequirement("tier", Operator.IN, ("a", "b")))
        ),
        mode=UpdateMode.IN_PLACE_OR_RECREATE,
        min_replicas=1,
        requirements=(EvictionRequirement(BOTH, ChangeDirection.TARGET_HIGHER),),
        quick_oom_threshold=timedelta(seconds=90),
        policies=(
            ContainerPolicy(
                container_name="app",
                min_allowed=amounts(100, 64 * MIB),
                max_allowed=amounts(2000, 1024 * MIB),
                controlled_resources=(Resource.CPU,),
                controlled_values=ControlledValues.REQUESTS_ONLY,
                oom_bump_up_ratio=1.5,
                oom_min_bump_up_bytes=50 * MIB,
                memory_interval=timedelta(hours=1),
                memory_interval_count=4,
                boost=CpuBoost("Quantity", quantity_millicores=500),
            ),
        ),
        recommenders=("slow",),
        boost=CpuBoost("Factor", factor=2, duration=timedelta(seconds=10)),
        recommendation=(
            ContainerRecommendation(
                "app", amounts(250, 262144000), amounts(100), amounts(1000), amounts(300)
            ),
        ),
        conditions=(
            Condition("RecommendationProvided", "True", "r", "m", datetime(2026, 8, 2, tzinfo=UTC)),
        ),
    )


def test_an_empty_object_has_only_defaults() -> None:
    assert decode_autoscaler(b"{}") == Autoscaler(namespace="", name="")


@pytest.mark.parametrize(
    ("update_policy", "mode"),
    [
        pytest.param(None, UpdateMode.RECREATE, id="no update policy"),
        pytest.param({}, UpdateMode.RECREATE, id="no mode"),
        pytest.param({"updateMode": ""}, UpdateMode.RECREATE, id="an empty mode"),
        pytest.param({"updateMode": "Auto"}, UpdateMode.AUTO, id="Auto stays visible"),
        pytest.param({"updateMode": "UpscaleOnly"}, UpdateMode.UPSCALE_ONLY, id="our own mode"),
        pytest.param({"updateMode": "Yolo"}, UpdateMode.OFF, id="an unknown mode does nothing"),
        pytest.param({"updateMode": "recreate"}, UpdateMode.OFF, id="a mode in small letters"),
    ],
)
def test_a_missing_mode_recreates_and_an_unknown_one_is_off(
    update_policy: Json, mode: UpdateMode
) -> None:
    assert with_spec(updatePolicy=update_policy).mode is mode


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param("Recreate", "", id="a known mode"),
        pytest.param("", "", id="no mode"),
        pytest.param("Yolo", "Yolo", id="a mode of a later version"),
        pytest.param("Y" * 1000, "Y" * 50, id="a very long one"),
    ],
)
def test_an_unknown_mode_is_kept_for_those_who_ask_why_it_is_off(given: str, shown: str) -> None:
    assert with_spec(updatePolicy={"updateMode": given}).unknown_mode == shown


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(None, ContainerMode.AUTO, id="no mode"),
        pytest.param("Off", ContainerMode.OFF, id="off"),
        pytest.param("Sometimes", ContainerMode.AUTO, id="an unknown mode"),
    ],
)
def test_a_container_is_scaled_unless_its_mode_is_off(
    mode: str | None, expected: ContainerMode
) -> None:
    assert with_policy(mode=mode).mode is expected


@pytest.mark.parametrize(
    ("listed", "controlled"),
    [
        pytest.param(None, BOTH, id="no list means both"),
        pytest.param([], (), id="an empty list means none"),
        pytest.param(["memory"], (Resource.MEMORY,), id="one of them"),
        pytest.param(["ephemeral-storage", "cpu"], (Resource.CPU,), id="unknown ones are ignored"),
    ],
)
def test_controlled_resources_are_both_unless_listed(
    listed: list[str] | None, controlled: tuple[Resource, ...]
) -> None:
    assert with_policy(controlledResources=listed).controlled_resources == controlled


def test_limits_follow_requests_unless_the_policy_says_otherwise() -> None:
    assert with_policy().controlled_values is ControlledValues.REQUESTS_AND_LIMITS
    assert with_policy(controlledValues="?").controlled_values is (
        ControlledValues.REQUESTS_AND_LIMITS
    )


def test_bounds_that_are_absent_or_null_bound_nothing() -> None:
    policy = with_policy(minAllowed=None, oomBumpUpRatio=None, oomMinBumpUp=None)

    assert policy.min_allowed == policy.max_allowed == {}
    assert policy.oom_bump_up_ratio is None
    assert policy.oom_min_bump_up_bytes is None


def test_a_ratio_is_read_in_thousandths_rounded_up() -> None:
    assert with_policy(oomBumpUpRatio="1.2345").oom_bump_up_ratio == 1.235


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        pytest.param({}, EvictionRequirement((), None), id="nothing in it"),
        pytest.param(
            {"resources": ["gpu", "cpu"], "changeRequirement": "TargetLowerThanRequests"},
            EvictionRequirement((Resource.CPU,), ChangeDirection.TARGET_LOWER),
            id="an unknown resource",
        ),
        pytest.param(
            {"resources": ["memory"], "changeRequirement": "Sideways"},
            EvictionRequirement((Resource.MEMORY,), None),
            id="an unknown direction",
        ),
    ],
)
def test_what_is_unknown_in_a_requirement_is_left_out(
    requirement: Json, expected: EvictionRequirement
) -> None:
    autoscaler = with_spec(updatePolicy={"evictionRequirements": [requirement]})

    assert autoscaler.requirements == (expected,)


@pytest.mark.parametrize(
    ("cpu", "duration"),
    [
        pytest.param({}, None, id="no time"),
        pytest.param({"durationSeconds": 90}, timedelta(seconds=90), id="in seconds"),
        pytest.param({"duration": "1m30s"}, timedelta(seconds=90), id="as a duration"),
        pytest.param(
            {"duration": "1m30s", "durationSeconds": 90}, timedelta(seconds=90), id="both, equal"
        ),
        pytest.param(
            {"duration": "1h", "durationSeconds": 90},
            timedelta(seconds=90),
            id="both, and the original's own field counts",
        ),
        pytest.param({"durationSeconds": -5}, timedelta(seconds=-5), id="a negative time"),
    ],
)
def test_the_time_of_a_boost_stands_in_either_field(cpu: Json, duration: timedelta | None) -> None:
    assert with_boost(**cpu).duration == duration


def test_a_boost_without_a_type_multiplies() -> None:
    assert with_boost(factor=3) == CpuBoost("Factor", factor=3)


def test_a_boost_of_an_unknown_type_keeps_its_name_for_others_to_judge() -> None:
    assert with_boost(type="Rocket").type == "Rocket"


def test_a_startup_boost_without_cpu_is_none() -> None:
    assert with_spec(startupBoost={}).boost is None
    assert with_policy(startupBoost={"cpu": None}).boost is None


def test_a_recommendation_without_containers_is_empty_and_not_absent() -> None:
    data = encoded({"status": {"recommendation": {}}})

    assert decode_autoscaler(data).recommendation == ()
    assert decode_autoscaler(b'{"status": {}}').recommendation is None


def test_bounds_that_a_recommendation_lacks_are_none() -> None:
    status = {"recommendation": {"containerRecommendations": [{"containerName": "app"}]}}

    assert decode_autoscaler(encoded({"status": status})).recommendation == (
        ContainerRecommendation("app", {}),
    )


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [{}, {"maxAllowed": {"cpu": "1x"}}]}},
            "spec.resourcePolicy.containerPolicies[1].maxAllowed[cpu]",
            id="a bound",
        ),
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [{"oomBumpUpRatio": "big"}]}},
            "spec.resourcePolicy.containerPolicies[0].oomBumpUpRatio",
            id="a ratio",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"quantity": {}}}},
            "spec.startupBoost.cpu.quantity",
            id="a boost",
        ),
        pytest.param(
            {"startupBoost": {"cpu": {"duration": "soon"}}},
            "spec.startupBoost.cpu.duration",
            id="a duration",
        ),
        pytest.param(
            {"updatePolicy": {"evictAfterOOMSeconds": 2**31}},
            "spec.updatePolicy.evictAfterOOMSeconds",
            id="a number that is too large",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "spec.selector",
            id="a selector",
        ),
    ],
)
def test_an_autoscaler_that_cannot_be_read_names_the_field(spec: Json, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        with_spec(**spec)

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"observedGeneration": 4}, 4, id="a generation"),
        pytest.param({"observedGeneration": None}, None, id="null"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_a_status_says_which_generation_it_is_about(status: Json, expected: int | None) -> None:
    document = encoded({"metadata": {"name": "web", "generation": 5}, "status": status})

    assert decode_autoscaler(document).observed_generation == expected
