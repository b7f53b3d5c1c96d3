import json

import pytest
from support.makers.wire_examples import AUTOSCALER, Json, encoded

from trimtab.api.kinds import autoscaler_wire as wire
from trimtab.api.kinds.autoscaler_wire import decode_wire
from trimtab.api.kinds.autoscalers import convert_autoscaler, decode_autoscaler
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.quantities import is_given, quantity_text


def spec_of(**spec: Json) -> wire.Spec:
    found = decode_wire(encoded({"spec": spec})).spec
    assert found is not None
    return found


def policy_of(**policy: Json) -> wire.ContainerPolicy:
    found = spec_of(resourcePolicy={"containerPolicies": [policy]}).resource_policy
    assert found is not None
    assert found.container_policies is not None
    return found.container_policies[0]


def test_choices_are_kept_as_they_were_written() -> None:
    update_policy = spec_of(updatePolicy={"updateMode": "Yolo"}).update_policy

    assert update_policy is not None
    assert update_policy.update_mode == "Yolo"
    assert policy_of(mode="?", controlledValues="!").mode == "?"
    assert policy_of(controlledResources=["gpu"]).controlled_resources == ("gpu",)


def test_quantities_are_kept_as_they_were_written() -> None:
    bounds = policy_of(minAllowed={"cpu": 0.10, "gpu": "lots", "memory": "1.50Gi"}).min_allowed

    assert bounds is not None
    assert {name: quantity_text(raw, name) for name, raw in bounds.items()} == {
        "cpu": "0.1",
        "gpu": "lots",
        "memory": "1.50Gi",
    }


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param({}, False, id="absent"),
        pytest.param({"oomBumpUpRatio": None}, False, id="null"),
        pytest.param({"oomBumpUpRatio": "bad"}, True, id="there, whatever it is"),
    ],
)
def test_an_absent_quantity_can_be_told_from_a_bad_one(policy: Json, *, expected: bool) -> None:
    assert is_given(policy_of(**policy).oom_bump_up_ratio) is expected


def test_what_is_absent_is_none_all_the_way_down() -> None:
    assert decode_wire(b"{}") == wire.VerticalPodAutoscaler()
    assert spec_of() == wire.Spec()
    assert spec_of(startupBoost={}).startup_boost == wire.StartupBoost()
    assert policy_of() == wire.ContainerPolicy()


def test_both_fields_for_the_time_of_a_boost_are_kept() -> None:
    boost = spec_of(startupBoost={"cpu": {"duration": "soon", "durationSeconds": 5}}).startup_boost

    assert boost is not None
    assert boost.cpu == wire.CpuBoost(duration="soon", duration_seconds=5)


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"updatePolicy": []}, "spec.updatePolicy", id="a list for a map"),
        pytest.param(
            {"updatePolicy": {"minReplicas": "2"}}, "spec.updatePolicy.minReplicas", id="text"
        ),
        pytest.param(
            {"updatePolicy": {"minReplicas": 2.5}}, "spec.updatePolicy.minReplicas", id="a fraction"
        ),
        pytest.param(
            {"resourcePolicy": {"containerPolicies": [{"minAllowed": {"cpu": "1"}, "mode": 1}]}},
            "spec.resourcePolicy.containerPolicies[0].mode",
            id="a number for a choice",
        ),
        pytest.param({"recommenders": ["x"]}, "spec.recommenders[0]", id="text for a map"),
    ],
)
def test_a_wrong_json_type_is_refused_with_its_place(spec: Json, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        spec_of(**spec)

    assert caught.value.path == path


def test_a_wire_record_converts_to_what_decoding_gives() -> None:
    data = encoded(AUTOSCALER)

    assert convert_autoscaler(decode_wire(data)) == decode_autoscaler(data)


def test_recorded_objects_of_the_original_all_decode(request: pytest.FixtureRequest) -> None:
    golden = request.config.getoption("--golden-dir")
    for name in ("admission", "capping", "eviction_limits", "priority"):
        cases = json.loads((golden / f"{name}.json").read_bytes())["cases"]
        for source in (case["input"]["vpa"] for case in cases if "vpa" in case["input"]):
            autoscaler = decode_autoscaler(encoded(source))

            assert autoscaler.name == source["metadata"]["name"]
            assert autoscaler.target is not None
