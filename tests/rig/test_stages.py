"""Our stages for kwok: one for each way that a resize can go, and kwok's own beside them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rig import building, stages
from rig.building import Recipe


def template(stage: Any) -> str:
    text: str = stage["spec"]["next"]["statusTemplate"]
    return text


def named(name: str) -> Any:
    return next(each for each in stages.resize_stages() if each["metadata"] == {"name": name})


def write_kwok(directory: Path) -> None:
    """A kwok module with as little in it as may be: lists of lists of files."""
    files = {
        "kustomize/stage/fast/kustomization.yaml": "resources: [../pod, node.yaml]",
        "kustomize/stage/fast/node.yaml": "kind: Stage\nmetadata: {name: node}",
        "kustomize/stage/pod/kustomization.yaml": "resources: [ready.yaml]",
        "kustomize/stage/pod/ready.yaml": "kind: Stage\nmetadata: {name: ready}",
        "kustomize/metrics/usage/kustomization.yaml": "resources: [usage.yaml]",
        "kustomize/metrics/usage/usage.yaml": "kind: Metric\nmetadata: {name: usage}",
    }
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_the_configuration_has_kwoks_documents_and_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def directory_of(_recipe: Recipe, module: str) -> Path:
        return tmp_path / module

    write_kwok(tmp_path / "sigs.k8s.io/kwok")
    monkeypatch.setattr(building, "module_directory", directory_of)
    stages.write(tmp_path / "kwok.yaml")

    documents = yaml.safe_load_all((tmp_path / "kwok.yaml").read_text(encoding="utf-8"))
    names = [document["metadata"]["name"] for document in documents]
    assert names[:3] == ["ready", "node", "usage"]
    assert names[3:] == [
        "pod-report-resources",
        "pod-resize",
        "pod-resize-deferred",
        "pod-resize-infeasible",
        "pod-resize-in-progress",
        "pod-resize-error",
    ]


@pytest.mark.parametrize("outcome", stages.OUTCOMES, ids=lambda outcome: str(outcome.annotation))
def test_an_outcome_sets_its_condition_and_takes_the_other_away(outcome: stages.Outcome) -> None:
    conditions = yaml.safe_load(
        template(named(f"pod-resize-{outcome.annotation}"))
        .partition("{{ $pod")[0]
        .replace("{{ .metadata.generation }}", "7")
        .replace("{{ Now | Quote }}", "now")
    )["conditions"]

    gone, set_now = conditions
    assert gone["$patch"] == "delete"
    assert {gone["type"], set_now["type"]} == {"PodResizePending", "PodResizeInProgress"}
    assert set_now == {
        "type": outcome.condition,
        "status": "True",
        "reason": outcome.reason,
        "message": outcome.message,
        "observedGeneration": 7,
        "lastTransitionTime": "now",
    }


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param(
            "pod-report-resources", {"allocatedResources", "resources"}, id="at the start"
        ),
        pytest.param("pod-resize", {"allocatedResources", "resources"}, id="on success"),
        pytest.param("pod-resize-deferred", set(), id="nothing while it is deferred"),
        pytest.param("pod-resize-infeasible", set(), id="nothing when it is infeasible"),
        pytest.param("pod-resize-in-progress", {"allocatedResources"}, id="while in progress"),
        pytest.param("pod-resize-error", {"allocatedResources"}, id="after an error"),
    ],
)
def test_a_stage_copies_from_the_spec_what_the_kubelet_would(name: str, fields: set[str]) -> None:
    text = template(named(name))

    assert {each for each in ("allocatedResources", "resources") if f'"{each}"' in text} == fields


def test_every_stage_leaves_pods_alone_that_end_or_do_not_run() -> None:
    for stage in stages.resize_stages():
        spec: Any = stage["spec"]
        ending, phase, _ = spec["selector"]["matchExpressions"]

        assert ending == {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
        assert phase == {"key": ".status.phase", "operator": "In", "values": ["Running"]}


READY = """
kind: Stage
metadata:
  name: pod-ready
spec:
  selector:
    matchExpressions:
    - {key: '.status.phase', operator: 'In', values: ['Pending']}
  next:
    statusTemplate: |
      conditions:
      - status: "True"
        type: Initialized
      - status: "True"
        type: Ready
      - status: "True"
        type: ContainersReady
      containerStatuses:
      - ready: true
      initContainerStatuses:
      - ready: true
"""


def test_a_pod_that_never_becomes_ready_starts_like_others_but_for_its_readiness() -> None:
    ready = yaml.safe_load(READY)
    started = stages.unready_start(ready)

    status = yaml.safe_load(template(started))
    told = {each["type"]: each["status"] for each in status["conditions"]}
    assert told == {"Initialized": "True", "Ready": "False", "ContainersReady": "False"}
    assert status["containerStatuses"] == [{"ready": False}]
    assert status["initContainerStatuses"] == [{"ready": True}]
    assert ready == yaml.safe_load(READY)


def test_the_annotation_chooses_between_the_two_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def directory_of(_recipe: Recipe, module: str) -> Path:
        return tmp_path / module

    kwok = tmp_path / "sigs.k8s.io/kwok"
    write_kwok(kwok)
    (kwok / "kustomize/stage/pod/ready.yaml").write_text(READY, encoding="utf-8")
    monkeypatch.setattr(building, "module_directory", directory_of)
    stages.write(tmp_path / "kwok.yaml")

    documents = yaml.safe_load_all((tmp_path / "kwok.yaml").read_text(encoding="utf-8"))
    chosen = {
        document["metadata"]["name"]: document["spec"]["selector"]["matchExpressions"][-1]
        for document in documents
        if document["metadata"]["name"] in ("pod-ready", "pod-start-unready")
    }
    key = '.metadata.annotations["trimtab.dev/readiness"]'
    assert chosen == {
        "pod-ready": {"key": key, "operator": "NotIn", "values": ["never"]},
        "pod-start-unready": {"key": key, "operator": "In", "values": ["never"]},
    }


def test_an_annotation_keeps_pods_of_jobs_from_completing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def directory_of(_recipe: Recipe, module: str) -> Path:
        return tmp_path / module

    kwok = tmp_path / "sigs.k8s.io/kwok"
    write_kwok(kwok)
    complete = READY.replace("pod-ready", "pod-complete")
    (kwok / "kustomize/stage/pod/ready.yaml").write_text(complete, encoding="utf-8")
    monkeypatch.setattr(building, "module_directory", directory_of)
    stages.write(tmp_path / "kwok.yaml")

    first = next(yaml.safe_load_all((tmp_path / "kwok.yaml").read_text(encoding="utf-8")))
    assert first["metadata"]["name"] == "pod-complete"
    assert first["spec"]["selector"]["matchExpressions"][-1] == {
        "key": '.metadata.annotations["trimtab.dev/completion"]',
        "operator": "NotIn",
        "values": ["never"],
    }
