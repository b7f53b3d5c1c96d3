"""The verdict on an autoscaler: every error at once, warnings, the default."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.wire_autoscalers import (
    a_manifest,
    judged,
    told,
    with_policy,
    with_requirements,
    written,
)

from trimtab.api.kinds.autoscaler_wire import VerticalPodAutoscaler, decode_wire
from trimtab.api.validation.autoscaler import validate
from trimtab.api.wire.codec import DecodeError
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.json_patch import Add

POLICY = "spec.resourcePolicy.containerPolicies[0]"
NEGATIVE = "must be greater than or equal to 0"
REQUIREMENTS = "spec.updatePolicy.evictionRequirements"


def test_an_object_without_update_policy_gets_the_default_one() -> None:
    verdict = judged({})

    assert verdict.allowed
    assert verdict.patch == (Add("/spec/updatePolicy", {"updateMode": "Recreate"}),)


def test_a_null_update_policy_gets_the_default_one() -> None:
    assert judged({"updatePolicy": None}).patch


def test_an_object_without_spec_is_refused_instead_of_patched() -> None:
    verdict = validate(VerticalPodAutoscaler())

    assert list(map(str, verdict.errors)) == [
        "spec: Required value: must say in targetRef which workload to scale"
    ]
    assert verdict.patch == ()


def test_an_update_policy_that_is_there_is_left_alone() -> None:
    assert judged({"updatePolicy": {"updateMode": "Off"}}).patch == ()


def test_a_refused_object_gets_no_default() -> None:
    verdict = judged({"recommenders": [{"name": "a"}, {"name": "b"}]})

    assert told(verdict) == ["spec.recommenders: Too many: 2: must have at most 1 item"]
    assert verdict.patch == ()
    assert not verdict.allowed


def test_an_update_without_update_policy_gets_the_default_too() -> None:
    assert judged({}, old=written(updatePolicy={"updateMode": "Off"})).patch


def test_all_mistakes_are_reported_at_once() -> None:
    verdict = judged(
        {
            "updatePolicy": {"updateMode": "x", "minReplicas": 0, "evictAfterOOMSeconds": 0},
            "recommenders": [{"name": "a"}, {"name": "b"}],
            "startupBoost": {"cpu": {"type": "Factor", "factor": 0}},
            "selector": {"matchLabels": {"-": "x"}},
            "resourcePolicy": {
                "containerPolicies": [
                    {"mode": "x", "minAllowed": {"cpu": "1u"}},
                    {"containerName": "b", "controlledResources": ["gpu"]},
                ]
            },
        }
    )

    assert [error.path for error in verdict.errors] == [
        "spec.updatePolicy.updateMode",
        "spec.updatePolicy.minReplicas",
        "spec.updatePolicy.evictAfterOOMSeconds",
        f"{POLICY}.containerName",
        f"{POLICY}.mode",
        f"{POLICY}.minAllowed[cpu]",
        "spec.resourcePolicy.containerPolicies[1].controlledResources[0]",
        "spec.startupBoost.cpu.factor",
        "spec.recommenders",
        "spec.selector.matchLabels",
    ]


@pytest.mark.parametrize(
    "mode", ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "UpscaleOnly"]
)
def test_every_mode_is_accepted_by_default_and_without_a_word(mode: str) -> None:
    verdict = judged({"updatePolicy": {"updateMode": mode}})

    assert verdict.allowed
    assert verdict.warnings == ()


def test_an_update_policy_must_have_a_mode() -> None:
    assert told(judged({"updatePolicy": {"updateMode": None}})) == [
        (
            "spec.updatePolicy.updateMode: Required value: "
            "updateMode is required if UpdatePolicy is used"
        )
    ]


def test_the_offered_modes_include_upscale_only_when_its_gate_is_on() -> None:
    assert told(judged({"updatePolicy": {"updateMode": "Sometimes"}})) == [
        (
            'spec.updatePolicy.updateMode: Unsupported value: "Sometimes": supported values: '
            '"InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate", "UpscaleOnly"'
        )
    ]


def test_the_offered_modes_lack_upscale_only_when_its_gate_is_off() -> None:
    gates = FeatureGates(upscale_only=False)

    verdict = judged({"updatePolicy": {"updateMode": "Sometimes"}}, gates=gates)

    assert "UpscaleOnly" not in told(verdict)[0]


def test_auto_is_accepted_with_a_warning_that_offers_the_others() -> None:
    verdict = judged({"updatePolicy": {"updateMode": "Auto"}})

    assert verdict.allowed
    assert " ".join(verdict.warnings) == (
        'spec.updatePolicy: "Auto" mode is deprecated and will be removed in a future API version.'
        " Use explicit update modes like: [InPlace InPlaceOrRecreate Initial Off Recreate"
        " UpscaleOnly]. See https://github.com/kubernetes/autoscaler/issues/8424 for more details."
    )


def test_a_refused_object_is_warned_about_too() -> None:
    verdict = judged({"updatePolicy": {"updateMode": "Auto", "minReplicas": -1}})

    assert len(verdict.errors) == len(verdict.warnings) == 1


@pytest.mark.parametrize(
    ("requirements", "errors"),
    [
        pytest.param([], [], id="no requirement at all"),
        pytest.param([["cpu"]], [], id="one resource"),
        pytest.param([["cpu", "memory"]], [], id="both resources in one"),
        pytest.param([["cpu"], ["memory"]], [], id="one requirement per resource"),
        pytest.param([["cpu", "cpu"]], [], id="a resource twice in one requirement says no more"),
        pytest.param(
            [["cpu"], ["cpu"]],
            [
                (
                    f'{REQUIREMENTS}[1].resources[0]: Duplicate value: "cpu": '
                    "evictionRequirements[0] already has a requirement for this resource"
                )
            ],
            id="two requirements for a resource",
        ),
        pytest.param(
            [["cpu", "memory"], ["memory"]],
            [
                (
                    f'{REQUIREMENTS}[1].resources[0]: Duplicate value: "memory": '
                    "evictionRequirements[0] already has a requirement for this resource"
                )
            ],
            id="both resources beside one of them",
        ),
        pytest.param(
            [["memory"], ["cpu"], ["cpu", "memory"]],
            [
                (
                    f'{REQUIREMENTS}[2].resources[0]: Duplicate value: "cpu": '
                    "evictionRequirements[1] already has a requirement for this resource"
                ),
                (
                    f'{REQUIREMENTS}[2].resources[1]: Duplicate value: "memory": '
                    "evictionRequirements[0] already has a requirement for this resource"
                ),
            ],
            id="each overlap names what it overlaps with",
        ),
        pytest.param(
            [[]],
            [f"{REQUIREMENTS}[0].resources: Required value: must name cpu, memory or both"],
            id="an empty list of resources",
        ),
        pytest.param(
            [None],
            [f"{REQUIREMENTS}[0].resources: Required value: must name cpu, memory or both"],
            id="no list of resources",
        ),
        pytest.param(
            [["cpu", "example.com/gpu"]],
            [
                (
                    f'{REQUIREMENTS}[0].resources[1]: Unsupported value: "example.com/gpu": '
                    'supported values: "cpu", "memory"'
                )
            ],
            id="an unknown resource",
        ),
        pytest.param(
            [["gpu"], ["gpu"]],
            [
                f'{REQUIREMENTS}[{index}].resources[0]: Unsupported value: "gpu": '
                'supported values: "cpu", "memory"'
                for index in (0, 1)
            ],
            id="an unknown resource twice is not also a duplicate",
        ),
    ],
)
def test_eviction_requirements_must_not_overlap(requirements: list[Any], errors: list[str]) -> None:
    assert told(judged(with_requirements(*requirements))) == errors


def test_a_resource_that_a_requirement_names_twice_is_a_warning() -> None:
    verdict = judged(with_requirements(["memory"], ["cpu", "cpu"]))

    assert verdict.warnings == (
        f"{REQUIREMENTS}[1].resources: cpu is named more than once, which says no more than once",
    )


def upscale_only(*directions: str) -> dict[str, Any]:
    """An update policy with a requirement per resource, each in a direction."""
    requirements = [
        {"resources": [name], "changeRequirement": direction}
        for name, direction in zip(("cpu", "memory"), directions, strict=False)
    ]
    return {"updatePolicy": {"updateMode": "UpscaleOnly", "evictionRequirements": requirements}}


@pytest.mark.parametrize(
    ("directions", "flawed"),
    [
        pytest.param(["TargetHigherThanRequests"], [], id="one that growth meets"),
        pytest.param(["TargetLowerThanRequests"], [0], id="one that nothing meets"),
        pytest.param(
            ["TargetHigherThanRequests", "TargetLowerThanRequests"],
            [1],
            id="one that nothing meets beside another",
        ),
    ],
)
def test_under_upscale_only_no_requirement_may_ask_for_a_lower_target(
    directions: list[str], flawed: list[int]
) -> None:
    spec = upscale_only(*directions)

    assert told(judged(spec)) == [
        f"{REQUIREMENTS}[{index}].changeRequirement: Forbidden: TargetLowerThanRequests is never"
        " met under UpscaleOnly, which only raises requests: no pod would be updated"
        for index in flawed
    ]
    assert judged(spec, old=written(**spec)).allowed


def test_the_direction_of_a_requirement_is_left_to_the_schema() -> None:
    requirement = {"resources": ["cpu"], "changeRequirement": "Sideways"}
    policy = {"updateMode": "Recreate", "evictionRequirements": [requirement]}

    assert judged({"updatePolicy": policy}).allowed


def test_requirements_that_an_update_leaves_as_they_were_pass() -> None:
    overlapping = with_requirements(["cpu"], ["cpu"])
    after = {"updatePolicy": {**overlapping["updatePolicy"], "minReplicas": 3}}

    assert told(judged(after, old=written(**overlapping))) == []


def test_requirements_that_an_update_changes_are_judged() -> None:
    overlapping = with_requirements(["cpu"], ["cpu"])
    after = with_requirements(["cpu"], ["cpu"], ["memory"])

    verdict = judged(after, old=written(**overlapping))

    assert [error.path for error in verdict.errors] == [f"{REQUIREMENTS}[1].resources[0]"]


def test_an_update_may_mend_its_requirements() -> None:
    old = written(**with_requirements(["cpu"], ["cpu"]))

    assert judged(with_requirements(["cpu"]), old=old).allowed
    assert judged({"updatePolicy": {"updateMode": "Recreate"}}, old=old).allowed


@pytest.mark.parametrize(
    ("policy", "errors"),
    [
        pytest.param({}, [], id="a policy with a name only"),
        pytest.param({"containerName": "*"}, [], id="a policy for all other containers"),
        pytest.param(
            {"containerName": ""}, [f"{POLICY}.containerName: Required value"], id="an empty name"
        ),
        pytest.param(
            {"mode": ""},
            [f'{POLICY}.mode: Unsupported value: "": supported values: "Auto", "Off"'],
            id="an empty mode",
        ),
        pytest.param(
            {"mode": "Off", "controlledValues": "RequestsAndLimits"},
            [
                (
                    f"{POLICY}.controlledValues: Forbidden: "
                    "controlledValues shouldn't be specified if container scaling mode is off"
                )
            ],
            id="limits of a container that is not scaled",
        ),
        pytest.param(
            {"mode": "Off", "controlledValues": "RequestsOnly"}, [], id="requests only, not scaled"
        ),
        pytest.param({"controlledResources": []}, [], id="nothing is controlled"),
        pytest.param(
            {"minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1500m"}},
            [
                (
                    f'{POLICY}.maxAllowed[cpu]: Invalid value: "1500m": '
                    'max resource for cpu is lower than min of "2"'
                )
            ],
            id="a maximum below the minimum",
        ),
        pytest.param(
            {"minAllowed": {"gpu": "2"}, "maxAllowed": {"gpu": "1"}},
            [
                (
                    f'{POLICY}.maxAllowed[gpu]: Invalid value: "1": '
                    'max resource for gpu is lower than min of "2"'
                )
            ],
            id="a maximum below the minimum of any other resource",
        ),
        pytest.param(
            {"minAllowed": {"cpu": "1"}, "maxAllowed": {"cpu": 1, "memory": "1Gi"}},
            [],
            id="equal numbers however they are written",
        ),
        pytest.param(
            {"minAllowed": {"cpu": "0.5m", "memory": "0.5", "gpu": "0.5"}},
            [
                (
                    f'{POLICY}.minAllowed[cpu]: Invalid value: "500u": '
                    "must be a whole number of milli CPUs"
                ),
                (
                    f'{POLICY}.minAllowed[memory]: Invalid value: "500m": '
                    "must be a whole number of bytes"
                ),
            ],
            id="too fine for cpu and memory, not for others",
        ),
        pytest.param(
            {"minAllowed": {"cpu": "0", "memory": "-1"}, "maxAllowed": {"cpu": "-5m", "gpu": -1}},
            [
                (
                    f'{POLICY}.maxAllowed[cpu]: Invalid value: "-5m": '
                    'max resource for cpu is lower than min of "0"'
                ),
                f'{POLICY}.minAllowed[memory]: Invalid value: "-1": {NEGATIVE}',
                f'{POLICY}.maxAllowed[cpu]: Invalid value: "-5m": {NEGATIVE}',
            ],
            id="less than nothing of cpu and memory",
        ),
        pytest.param(
            {"minAllowed": {"cpu": "much"}, "maxAllowed": {"cpu": "1", "memory": True}},
            [
                (
                    f'{POLICY}.minAllowed[cpu]: Invalid value: "much": quantities must match the '
                    "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                ),
                (
                    f'{POLICY}.maxAllowed[memory]: Invalid value: "true": '
                    "must be a quantity: a string or a number"
                ),
            ],
            id="what is no quantity is an error of its own field",
        ),
        pytest.param(
            {"oomBumpUpRatio": "0.9991", "oomMinBumpUp": "0"}, [], id="a ratio is rounded up"
        ),
        pytest.param(
            {"oomBumpUpRatio": "0.9", "oomMinBumpUp": "-1.5"},
            [
                (
                    f"{POLICY}.oomBumpUpRatio: Invalid value: 0.9: "
                    "must be greater than or equal to 1.0"
                ),
                f"{POLICY}.oomMinBumpUp: Invalid value: -2: must be greater than or equal to 0",
            ],
            id="bump-ups that shrink",
        ),
        pytest.param(
            {"oomBumpUpRatio": "x", "oomMinBumpUp": []},
            [
                (
                    f'{POLICY}.oomBumpUpRatio: Invalid value: "x": quantities must match the '
                    "regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                ),
                (
                    f'{POLICY}.oomMinBumpUp: Invalid value: "[]": '
                    "must be a quantity: a string or a number"
                ),
            ],
            id="bump-ups that are no quantities",
        ),
        pytest.param(
            {"memoryAggregationIntervalSeconds": 0, "memoryAggregationIntervalCount": -1},
            [
                (
                    f"{POLICY}.memoryAggregationIntervalSeconds: Invalid value: 0: "
                    "must be greater than or equal to 1"
                ),
                (
                    f"{POLICY}.memoryAggregationIntervalCount: Invalid value: -1: "
                    "must be greater than or equal to 1"
                ),
            ],
            id="memory intervals that are none",
        ),
    ],
)
def test_a_container_policy_is_judged_field_by_field(
    policy: dict[str, Any], errors: list[str]
) -> None:
    assert told(judged(with_policy(**policy))) == errors


def test_an_unknown_controlled_resource_passes_if_the_stored_object_has_it_anywhere() -> None:
    old = written(**with_policy(containerName="other", controlledResources=["gpu"]))

    verdict = judged(with_policy(controlledResources=["cpu", "gpu", "disk"]), old=old)

    assert [error.path for error in verdict.errors] == [f"{POLICY}.controlledResources[2]"]
    assert " ".join(verdict.warnings) == (
        f'{POLICY}.controlledResources[1]: unsupported value "gpu" is allowed only because it is '
        'present in the existing VPA object; supported values: "cpu", "memory"'
    )


@pytest.mark.parametrize(
    ("names", "warnings"),
    [
        pytest.param(["app", "*"], [], id="each once"),
        pytest.param(
            ["app", "side", "app", "app"],
            [
                f"[{index}]: has no effect: containerPolicies[0] names"
                ' "app" too, and the first one counts'
                for index in (2, 3)
            ],
            id="the first one counts",
        ),
        pytest.param(
            ["*", "app", "*"],
            ['[0]: has no effect: containerPolicies[2] names "*" too, and the last one counts'],
            id="of those for all others the last one counts",
        ),
    ],
)
def test_a_policy_that_another_one_hides_is_a_warning(
    names: list[str], warnings: list[str]
) -> None:
    policies = [
        {"containerName": name, "maxAllowed": {"cpu": f"{n + 1}"}} for n, name in enumerate(names)
    ]
    verdict = judged(
        {"resourcePolicy": {"containerPolicies": policies}, "updatePolicy": {"updateMode": "Off"}}
    )

    assert verdict.allowed
    path = "spec.resourcePolicy.containerPolicies"
    assert list(verdict.warnings) == [f"{path}{warning}" for warning in warnings]


def test_one_recommender_of_any_name_is_accepted() -> None:
    assert judged({"recommenders": [{"name": "special"}]}).allowed


def test_a_missing_target_is_left_to_the_schema() -> None:
    assert validate(decode_wire(b'{"spec": {}}')).allowed


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param({"updatePolicy": {"minReplicas": "2"}}, "minReplicas", id="text for a number"),
        pytest.param(
            {"updatePolicy": {"minReplicas": 3_000_000_000}}, "minReplicas", id="beyond 32 bits"
        ),
        pytest.param({"updatePolicy": {"updateMode": False}}, "updateMode", id="a YAML off"),
        pytest.param({"selector": {"matchLabels": {"a": 1}}}, "matchLabels", id="a number label"),
    ],
)
def test_a_body_of_the_wrong_shape_is_a_typed_error_that_names_the_path(
    spec: dict[str, Any], path: str
) -> None:
    with pytest.raises(DecodeError, match=path):
        written(**spec)


def test_a_negative_bound_that_an_update_leaves_as_it_was_passes() -> None:
    old = written(**with_policy(maxAllowed={"cpu": "-5m"}, minAllowed={"memory": "-2"}))
    respelled = with_policy(maxAllowed={"cpu": "-0.005"}, minAllowed={"memory": -2}, mode="Auto")

    assert judged(respelled, old=old).allowed


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"maxAllowed": {"cpu": "-6m"}}, id="another amount"),
        pytest.param({"maxAllowed": {"memory": "-5m"}}, id="another resource"),
        pytest.param({"minAllowed": {"cpu": "-5m"}}, id="the other bound"),
        pytest.param({"containerName": "side", "maxAllowed": {"cpu": "-5m"}}, id="elsewhere"),
    ],
)
def test_a_negative_bound_that_is_new_to_an_update_is_refused(policy: dict[str, Any]) -> None:
    old = written(**with_policy(maxAllowed={"cpu": "-5m"}))

    assert NEGATIVE in " ".join(told(judged(with_policy(**policy), old=old)))


MISTAKEN: dict[str, Any] = {
    "updatePolicy": {"updateMode": "Recreate", "minReplicas": 0},
    **with_policy(minAllowed={"cpu": "2"}, maxAllowed={"cpu": "1"}),
}


def test_an_update_that_leaves_the_spec_as_it_is_passes_whatever_is_stored() -> None:
    verdict = judged(MISTAKEN, old=written(**MISTAKEN))

    assert verdict.allowed


def test_an_update_that_leaves_a_mistake_beside_a_change_is_refused() -> None:
    verdict = judged({**MISTAKEN, "recommenders": [{"name": "new"}]}, old=written(**MISTAKEN))

    assert len(verdict.errors) == 2


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False)
    | st.text(max_size=5) | st.sampled_from(["cpu", "1", "Off", "Factor", "10s", "-1u"]),
    lambda children: st.lists(children, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "targetRef", "kind", "name", "selector", "matchLabels", "matchExpressions", "key",
                "operator", "values", "updatePolicy", "updateMode", "minReplicas", "resources",
                "evictionRequirements", "evictAfterOOMSeconds", "resourcePolicy", "cpu", "type",
                "containerPolicies", "containerName", "minAllowed", "maxAllowed", "mode", "factor",
                "quantity", "duration", "durationSeconds", "startupBoost", "oomBumpUpRatio",
                "oomMinBumpUp", "controlledResources", "recommenders",
            ]
        ),
        children,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON_VALUES, JSON_VALUES)
def test_whatever_decodes_gets_a_verdict(new: Any, old: Any) -> None:
    try:
        after = decode_wire(json.dumps({"spec": new}).encode())
        before = decode_wire(json.dumps({"spec": old}).encode())
    except DecodeError:
        return
    verdict = validate(after, before, siblings=[before])

    assert verdict.allowed == (verdict.errors == ())
    assert all(str(error) for error in verdict.errors)


@given(
    mode=st.sampled_from(["Off", "Auto", "InPlace"]),
    replicas=st.integers(-2, 2),
    gate=st.booleans(),
)
def test_an_accepted_object_is_accepted_again_as_its_own_update(
    *, mode: str, replicas: int, gate: bool
) -> None:
    spec: dict[str, Any] = {"updatePolicy": {"updateMode": mode, "minReplicas": replicas}}
    gates = FeatureGates(in_place=gate)
    created = judged(spec, gates=gates)

    updated = judged(spec, old=written(**spec), gates=gates)

    assert updated.allowed or not created.allowed


def test_the_patch_encodes_to_what_the_api_server_reads() -> None:
    assert msgspec.json.decode(msgspec.json.encode(judged({}).patch)) == [
        {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
    ]


def test_a_manifest_with_everything_is_accepted() -> None:
    manifest = a_manifest(
        selector={"matchExpressions": [{"key": "role", "operator": "In", "values": ["a"]}]},
        updatePolicy={
            "updateMode": "InPlace",
            "minReplicas": 1,
            "evictAfterOOMSeconds": 30,
            "evictionRequirements": [
                {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}
            ],
        },
        startupBoost={"cpu": {"type": "Quantity", "quantity": "500m", "duration": "30s"}},
        recommenders=[{"name": "special"}],
        **with_policy(
            mode="Auto",
            minAllowed={"cpu": "10m"},
            maxAllowed={"cpu": 2, "memory": "1Gi"},
            controlledResources=["cpu"],
            controlledValues="RequestsOnly",
            oomBumpUpRatio="1.3",
            oomMinBumpUp="50Mi",
            memoryAggregationIntervalSeconds=3600,
            memoryAggregationIntervalCount=4,
            startupBoost={"cpu": {"type": "Factor", "factor": 3, "durationSeconds": 5}},
        ),
    )

    verdict = validate(decode_wire(json.dumps(manifest).encode()))

    assert (told(verdict), verdict.warnings, verdict.patch) == ([], (), ())
