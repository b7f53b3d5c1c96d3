"""The CustomResourceDefinitions, as an API server and `kubectl get` read them."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from support.makers.wire_autoscalers import WEB, a_manifest, with_boost, with_policy
from support.models.crd_rules import crd_violations

from trimtab.api.crds import definitions
from trimtab.api.kinds import autoscaler_wire
from trimtab.api.kinds.selectors import LabelSelector
from trimtab.core.model import autoscalers, size_bounds
from trimtab.core.model.autoscalers import UpdateMode

ROOT = Path(__file__).parent.parent.parent.parent
CHECKED_IN = ROOT / "deploy/crds.yaml"


def definition(kind: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in msgspec.to_builtins(definitions.definitions())
        if each["spec"]["names"]["kind"] == kind
    ]
    return dict(found)


def version(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in definition(kind)["spec"]["versions"] if each["name"] == name]
    return dict(found)


def schema(kind: str, name: str = "v1") -> dict[str, Any]:
    return dict(version(kind, name)["schema"]["openAPIV3Schema"])


def nodes(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with its path."""
    yield path, part
    for name, inner in part.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in part:
            yield from nodes(part[key], f"{path}[]")


def test_every_list_map_and_text_that_a_tenant_writes_is_bounded() -> None:
    spec = schema("VerticalPodAutoscaler")["properties"]["spec"]
    unbounded = [
        path
        for path, part in nodes(spec)
        if (part.get("type") == "array" and "maxItems" not in part)
        or ("additionalProperties" in part and "maxProperties" not in part)
        or (
            part.get("type") == "string"
            and not part.keys() & {"enum", "maxLength", "pattern"}
            and not path.endswith(".operator")
        )
    ]

    assert unbounded == []


def test_the_checked_in_file_is_current() -> None:
    assert CHECKED_IN.read_text(encoding="utf-8") == definitions.render(), "run `make crds`"


def test_the_file_holds_both_definitions_without_yaml_references() -> None:
    text = CHECKED_IN.read_text(encoding="utf-8")

    assert list(yaml.safe_load_all(text)) == definitions.definitions()
    assert not re.search(r"[&*]id\d+", text)


@pytest.mark.parametrize(
    ("kind", "names", "name"),
    [
        pytest.param(
            "VerticalPodAutoscaler",
            {
                "kind": "VerticalPodAutoscaler",
                "listKind": "VerticalPodAutoscalerList",
                "plural": "verticalpodautoscalers",
                "singular": "verticalpodautoscaler",
                "shortNames": ["vpa"],
            },
            "verticalpodautoscalers.autoscaling.k8s.io",
            id="autoscaler",
        ),
        pytest.param(
            "VerticalPodAutoscalerCheckpoint",
            {
                "kind": "VerticalPodAutoscalerCheckpoint",
                "listKind": "VerticalPodAutoscalerCheckpointList",
                "plural": "verticalpodautoscalercheckpoints",
                "singular": "verticalpodautoscalercheckpoint",
                "shortNames": ["vpacheckpoint"],
            },
            "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
            id="checkpoint",
        ),
    ],
)
def test_the_definitions_bear_the_names_that_people_use(
    kind: str, names: dict[str, Any], name: str
) -> None:
    found = definition(kind)

    assert found["spec"]["names"] == names
    assert found["spec"]["group"] == "autoscaling.k8s.io"
    assert found["spec"]["scope"] == "Namespaced"
    assert found["metadata"] == {
        "name": name,
        "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"
        },
    }


@pytest.mark.parametrize("kind", ["VerticalPodAutoscaler", "VerticalPodAutoscalerCheckpoint"])
def test_v1_is_served_and_stored_and_v1beta2_is_neither(kind: str) -> None:
    versions = definition(kind)["spec"]["versions"]

    assert [(each["name"], each["served"], each["storage"]) for each in versions] == [
        ("v1", True, True),
        ("v1beta2", False, False),
    ]


def test_the_old_version_of_the_autoscaler_is_deprecated_with_a_warning() -> None:
    old = version("VerticalPodAutoscaler", "v1beta2")

    assert old["deprecated"] is True
    assert "v1beta2" in old["deprecationWarning"]
    assert len(old["deprecationWarning"]) <= 256  # what an API server accepts


def test_only_the_autoscaler_has_a_status_subresource() -> None:
    assert version("VerticalPodAutoscaler", "v1")["subresources"] == {"status": {}}
    assert "subresources" not in version("VerticalPodAutoscalerCheckpoint", "v1")


def test_kubectl_prints_the_columns_in_their_order() -> None:
    columns = version("VerticalPodAutoscaler", "v1")["additionalPrinterColumns"]
    target = ".status.recommendation.containerRecommendations[0].target"
    provided = ".status.conditions[?(@.type=='RecommendationProvided')].status"

    assert [
        (each["name"], each["type"], each["jsonPath"], each.get("priority", 0)) for each in columns
    ] == [
        ("Mode", "string", ".spec.updatePolicy.updateMode", 0),
        ("CPU", "string", f"{target}.cpu", 0),
        ("Mem", "string", f"{target}.memory", 0),
        ("Provided", "string", provided, 0),
        ("Age", "date", ".metadata.creationTimestamp", 0),
        ("MinReplicas", "integer", ".spec.updatePolicy.minReplicas", 1),
        ("OOMSeconds", "integer", ".spec.updatePolicy.evictAfterOOMSeconds", 1),
        ("Selector", "string", ".spec.selector", 1),
    ]


SCHEMAS = [
    pytest.param(kind, name, id=f"{kind} {name}")
    for kind in ("VerticalPodAutoscaler", "VerticalPodAutoscalerCheckpoint")
    for name in ("v1", "v1beta2")
]


@pytest.mark.parametrize(("kind", "name"), SCHEMAS)
def test_every_part_of_a_schema_has_a_type_as_a_structural_schema_needs(
    kind: str, name: str
) -> None:
    untyped = [
        path
        for path, part in nodes(schema(kind, name))
        if "type" not in part and not part.get("x-kubernetes-int-or-string")
    ]

    assert untyped == []


@pytest.mark.parametrize(("kind", "name"), SCHEMAS)
def test_every_named_field_but_metadata_is_described_by_a_sentence(kind: str, name: str) -> None:
    silent = [
        path
        for path, part in nodes(schema(kind, name))
        if not path.endswith("]")
        and path != ".metadata"
        and not part.get("description", "").endswith((".", "..."))
    ]

    assert silent == []


@pytest.mark.parametrize(("kind", "name"), SCHEMAS)
def test_no_schema_has_defaults(kind: str, name: str) -> None:
    assert [path for path, part in nodes(schema(kind, name)) if "default" in part] == []


@pytest.mark.parametrize(("kind", "name"), SCHEMAS)
def test_whatever_is_required_is_also_defined(kind: str, name: str) -> None:
    missing = [
        f"{path}.{field}"
        for path, part in nodes(schema(kind, name))
        for field in part.get("required", [])
        if field not in part["properties"]
    ]

    assert missing == []


def fields_of(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


@pytest.mark.parametrize(
    ("path", "struct"),
    [
        pytest.param(".spec", autoscaler_wire.Spec, id="spec"),
        pytest.param(".spec.targetRef", autoscaler_wire.Target, id="target"),
        pytest.param(".spec.updatePolicy", autoscaler_wire.UpdatePolicy, id="update policy"),
        pytest.param(
            ".spec.updatePolicy.evictionRequirements[]",
            autoscaler_wire.Requirement,
            id="requirement",
        ),
        pytest.param(
            ".spec.resourcePolicy.containerPolicies[]", autoscaler_wire.ContainerPolicy, id="policy"
        ),
        pytest.param(".spec.startupBoost.cpu", autoscaler_wire.CpuBoost, id="boost"),
        pytest.param(".spec.recommenders[]", autoscaler_wire.Recommender, id="recommender"),
        pytest.param(".spec.selector", LabelSelector, id="selector"),
        pytest.param(".status", autoscaler_wire.Status, id="status"),
        pytest.param(
            ".status.recommendation.containerRecommendations[]",
            autoscaler_wire.ContainerRecommendation,
            id="recommendation",
        ),
    ],
)
def test_the_schema_has_exactly_the_fields_that_are_decoded(
    path: str, struct: type[msgspec.Struct]
) -> None:
    part = dict(nodes(schema("VerticalPodAutoscaler")))[path]

    assert set(part["properties"]) == fields_of(struct)


def test_the_schema_of_conditions_also_has_their_generation() -> None:
    part = dict(nodes(schema("VerticalPodAutoscaler")))[".status.conditions[]"]

    assert set(part["properties"]) == {
        *fields_of(autoscaler_wire.Condition),
        "observedGeneration",
    }


def test_the_old_version_knows_nothing_that_the_new_one_does_not() -> None:
    new, old = (
        {path for path, _ in nodes(schema("VerticalPodAutoscaler", name))}
        for name in ("v1", "v1beta2")
    )

    assert old < new


POLICY = ".spec.resourcePolicy.containerPolicies[]"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param(".spec.updatePolicy.updateMode", UpdateMode, id="update modes"),
        pytest.param(
            ".spec.updatePolicy.evictionRequirements[].changeRequirement",
            autoscalers.ChangeDirection,
            id="directions of a change",
        ),
        pytest.param(f"{POLICY}.mode", autoscalers.ContainerMode, id="container modes"),
        pytest.param(
            f"{POLICY}.controlledValues", autoscalers.ControlledValues, id="controlled values"
        ),
        pytest.param(f"{POLICY}.startupBoost.cpu.type", autoscalers.BoostType, id="policy boosts"),
        pytest.param(".spec.startupBoost.cpu.type", autoscalers.BoostType, id="boosts"),
    ],
)
def test_a_choice_has_the_words_of_the_model(path: str, words: type[StrEnum]) -> None:
    assert sorted(dict(nodes(schema("VerticalPodAutoscaler")))[path]["enum"]) == sorted(words)


EXPRESSION = ".spec.selector.matchExpressions[]"
BOUNDS = {
    ".spec.recommenders": size_bounds.MAX_RECOMMENDERS,
    ".spec.recommenders[].name": size_bounds.MAX_NAME_CHARACTERS,
    ".spec.resourcePolicy.containerPolicies": size_bounds.MAX_POLICIES,
    f"{POLICY}.containerName": size_bounds.MAX_NAME_CHARACTERS,
    f"{POLICY}.controlledResources": size_bounds.MAX_RESOURCES,
    f"{POLICY}.controlledResources[]": size_bounds.MAX_KEY_CHARACTERS,
    f"{POLICY}.maxAllowed": size_bounds.MAX_RESOURCES,
    f"{POLICY}.minAllowed": size_bounds.MAX_RESOURCES,
    ".spec.selector.matchExpressions": size_bounds.MAX_EXPRESSIONS,
    f"{EXPRESSION}.key": size_bounds.MAX_KEY_CHARACTERS,
    f"{EXPRESSION}.values": size_bounds.MAX_VALUES,
    f"{EXPRESSION}.values[]": size_bounds.MAX_VALUE_CHARACTERS,
    ".spec.selector.matchLabels": size_bounds.MAX_EXPRESSIONS,
    ".spec.selector.matchLabels[]": size_bounds.MAX_VALUE_CHARACTERS,
    ".spec.targetRef.apiVersion": size_bounds.MAX_KEY_CHARACTERS,
    ".spec.targetRef.kind": size_bounds.MAX_NAME_CHARACTERS,
    ".spec.targetRef.name": size_bounds.MAX_NAME_CHARACTERS,
    ".spec.updatePolicy.evictionRequirements": size_bounds.MAX_REQUIREMENTS,
    ".spec.updatePolicy.evictionRequirements[].resources": size_bounds.MAX_REQUIREMENTS,
    ".spec.updatePolicy.evictionRequirements[].resources[]": size_bounds.MAX_NAME_CHARACTERS,
}


def test_the_schema_has_the_bounds_of_the_model() -> None:
    found = {
        path: part[key]
        for path, part in nodes(schema("VerticalPodAutoscaler"))
        for key in ("maxItems", "maxProperties", "maxLength")
        if key in part
    }

    assert found == BOUNDS


def patterns(*names: str) -> set[str]:
    """The patterns of the fields of these names, in any version."""
    return {
        part["pattern"]
        for version in ("v1", "v1beta2")
        for path, part in nodes(schema("VerticalPodAutoscaler", version))
        if path.endswith(names) and "pattern" in part
    }


def quantities() -> list[dict[str, Any]]:
    return [
        part
        for version in ("v1", "v1beta2")
        for _, part in nodes(schema("VerticalPodAutoscaler", version))
        if part.get("x-kubernetes-int-or-string")
    ]


def test_every_quantity_is_checked_alike() -> None:
    kinds = [
        {key: part for key, part in each.items() if key != "description"} for each in quantities()
    ]

    assert kinds
    assert all(each == kinds[0] for each in kinds)


def test_every_boost_is_checked_alike() -> None:
    parts = dict(nodes(schema("VerticalPodAutoscaler")))

    assert parts[".spec.startupBoost.cpu"] == parts[f"{POLICY}.startupBoost.cpu"]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({}, [], id="the least that is valid"),
        pytest.param({"targetRef": {"name": "web"}}, ["spec.targetRef.kind"], id="no kind"),
        pytest.param(
            {"updatePolicy": {"updateMode": "UpscaleOnly"}}, [], id="the mode UpscaleOnly"
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": "Never"}},
            ["spec.updatePolicy.updateMode"],
            id="an unknown mode",
        ),
        pytest.param(
            with_policy(minAllowed={"cpu": "1 core"}),
            ["spec.resourcePolicy.containerPolicies[0].minAllowed.cpu"],
            id="a quantity that is none",
        ),
        pytest.param(
            with_policy(controlledValues="Limits"),
            ["spec.resourcePolicy.containerPolicies[0].controlledValues"],
            id="unknown controlled values",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a"}]}},
            ["spec.selector.matchExpressions[0].operator"],
            id="an expression without operator",
        ),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, [], id="a selector"),
        pytest.param(
            with_boost(type="Factor", factor=2, quantity="1"),
            ["spec.startupBoost.cpu"],
            id="a boost with two members",
        ),
        pytest.param(
            with_boost(type="Quantity", factor=2), ["spec.startupBoost.cpu"], id="the wrong member"
        ),
        pytest.param(
            with_boost(type="Factor", factor=2, duration="1m", durationSeconds=60),
            [],
            id="a boost with equal times",
        ),
        pytest.param(
            with_boost(type="Factor", factor=2, duration="1m", durationSeconds=61),
            ["spec.startupBoost.cpu"],
            id="a boost with different times",
        ),
        pytest.param(
            with_boost(type="Factor", factor=2, duration="2 days", durationSeconds=1),
            ["spec.startupBoost.cpu.duration"],
            id="a time in words",
        ),
        pytest.param(
            with_policy(startupBoost={"cpu": {"type": "Factor"}}),
            ["spec.resourcePolicy.containerPolicies[0].startupBoost.cpu"],
            id="the rules hold in container policies too",
        ),
    ],
)
def test_the_definition_refuses_what_breaks_its_schema_or_rules(
    spec: dict[str, Any], fields: list[str]
) -> None:
    found = crd_violations(a_manifest(**{"targetRef": WEB, **spec}))

    assert sorted({error.path for error in found}) == fields


@pytest.mark.parametrize(
    ("text", "good"),
    [
        pytest.param("1h30m", True, id="hours and minutes"),
        pytest.param("1.5s", True, id="a fraction"),
        pytest.param(".5s", True, id="a fraction without a leading digit"),
        pytest.param("0", True, id="nought"),
        pytest.param("+10s", True, id="a plus"),
        pytest.param("10µs", True, id="microseconds"),
        pytest.param("-10s", False, id="a minus"),
        pytest.param("10", False, id="no unit"),
        pytest.param("1d", False, id="days"),
        pytest.param("10s ", False, id="a space"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_the_pattern_of_durations_takes_what_go_would_take(text: str, *, good: bool) -> None:
    (pattern,) = patterns(".duration")

    assert bool(re.search(pattern, text)) == good


@pytest.mark.parametrize("text", ["1", "1.5", "100m", "1Gi", "-1", "1e3", "1E-3", ".5", "2."])
def test_the_pattern_of_quantities_takes_quantities(text: str) -> None:
    assert all(re.search(each["pattern"], text) for each in quantities())
