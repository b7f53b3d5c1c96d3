"""Manifests judged one after another, as if they were created in that order."""

from typing import Any

import pytest
from support.makers.wire_autoscalers import a_manifest, with_boost

from trimtab.api.validation.manifests import ManifestVerdict, autoscaler_manifests, judge
from trimtab.core.model.feature_gates import FeatureGates


def judge_one(manifest: dict[str, Any], **context: Any) -> ManifestVerdict:
    (judgement,) = judge([manifest], **{"gates": FeatureGates(), **context})
    return judgement


def errors(judgement: ManifestVerdict) -> list[str]:
    return [str(error) for error in judgement.errors]


def test_a_good_manifest_gets_no_word() -> None:
    assert judge_one(a_manifest()) == ManifestVerdict("default/web", (), ())


@pytest.mark.parametrize(
    ("document", "count"),
    [
        pytest.param(a_manifest(), 1, id="an autoscaler"),
        pytest.param({"kind": "Deployment"}, 0, id="something else"),
        pytest.param({"kind": "List", "items": [a_manifest(), {}, a_manifest()]}, 2, id="a list"),
        pytest.param(
            {"kind": "VerticalPodAutoscalerList", "items": [a_manifest()]}, 1, id="a typed list"
        ),
        pytest.param({"kind": "List", "items": [{"kind": "List", "items": []}]}, 0, id="nested"),
        pytest.param({"kind": "List"}, 0, id="a list without items"),
        pytest.param({"kind": ["odd"]}, 0, id="a kind that is no text"),
        pytest.param(None, 0, id="nothing"),
        pytest.param("text", 0, id="text"),
    ],
)
def test_autoscalers_are_found_in_whatever_a_file_holds(document: Any, count: int) -> None:
    assert len(list(autoscaler_manifests(document))) == count


def test_schema_and_webhook_are_both_heard() -> None:
    manifest = a_manifest(
        targetRef={"kind": "Deployment"}, updatePolicy={"updateMode": "Off", "minReplicas": 0}
    )

    assert errors(judge_one(manifest)) == [
        "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
        "spec.targetRef.name: Required value",
    ]


def test_a_field_that_both_refuse_is_named_once_in_the_words_of_the_webhook() -> None:
    (error,) = judge_one(a_manifest(updatePolicy={"updateMode": "Never"})).errors

    assert "UpscaleOnly" in str(error)


def test_a_manifest_of_the_wrong_shape_is_judged_by_its_schema() -> None:
    judgement = judge_one(a_manifest(updatePolicy={"updateMode": False}))

    assert [error.path for error in judgement.errors] == ["spec.updatePolicy.updateMode"]


def test_a_manifest_that_fits_the_schema_but_cannot_be_decoded_is_refused() -> None:
    manifest = {**a_manifest(), "metadata": {"name": "web", "generation": "one"}}

    (error,) = judge_one(manifest).errors

    assert error.path == "metadata.generation"


def test_another_api_version_is_refused() -> None:
    manifest = {**a_manifest(), "apiVersion": "autoscaling.k8s.io/v1beta2"}

    assert errors(judge_one(manifest)) == [
        (
            'apiVersion: Unsupported value: "autoscaling.k8s.io/v1beta2": '
            'supported values: "autoscaling.k8s.io/v1"'
        )
    ]


def test_a_manifest_needs_an_api_version_and_metadata() -> None:
    manifest = a_manifest()
    del manifest["apiVersion"], manifest["metadata"]

    judgement = judge_one(manifest)

    assert errors(judgement) == ["apiVersion: Required value", "metadata: Required value"]
    assert judgement.name == ""


def test_a_misspelt_field_is_warned_about() -> None:
    judgement = judge_one(a_manifest(updatepolicy={}))

    assert judgement.errors == ()
    assert judgement.warnings == ('unknown field "spec.updatepolicy" is dropped by the API server',)


def test_later_manifests_meet_earlier_ones() -> None:
    judgements = judge([a_manifest("a"), a_manifest("b")], gates=FeatureGates())

    assert [len(judgement.errors) for judgement in judgements] == [0, 1]
    assert 'VerticalPodAutoscaler "a"' in errors(judgements[1])[0]


def test_overlapping_manifests_can_be_allowed() -> None:
    judgements = judge(
        [a_manifest("a"), a_manifest("b")], gates=FeatureGates(), allow_overlapping=True
    )

    assert [len(judgement.errors) for judgement in judgements] == [0, 0]
    assert [len(judgement.warnings) for judgement in judgements] == [0, 1]


def test_manifests_of_different_namespaces_do_not_meet() -> None:
    manifests = [a_manifest("a", namespace="one"), a_manifest("b", namespace="two")]

    assert all(not judgement.errors for judgement in judge(manifests, gates=FeatureGates()))


def test_gates_are_those_that_were_given() -> None:
    boosted = a_manifest(**with_boost(type="Factor", factor=2))

    assert judge_one(boosted).errors == ()
    assert judge_one(boosted, gates=FeatureGates(cpu_startup_boost=False)).errors


@pytest.mark.parametrize("metadata", [{}, {"name": "web"}, "web", None, []])
def test_any_metadata_gets_a_judgement(metadata: Any) -> None:
    judgement = judge_one({**a_manifest(), "metadata": metadata})

    assert judgement.name in {"", "web"}
