"""What the fake node does: kwok's own stages and usage, and ours that play the kubelet in a resize.

kwok starts pods and ends them. Where the resources of a container's spec and status differ, our
stages do what the annotation `trimtab.dev/resize` of the pod asks for: nothing said, and the resize
succeeds; else it stays as one of `OUTCOMES` until the annotation is gone or the spec is set back.

A pod with the annotation `trimtab.dev/readiness: never` runs and never becomes ready. kwok ends the
pods of Jobs as soon as they run; one with `trimtab.dev/completion: never` runs on.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from rig import building, programs
from rig.fake_node import Json

ANNOTATION: Final = "trimtab.dev/resize"
READINESS: Final = "trimtab.dev/readiness"
COMPLETION: Final = "trimtab.dev/completion"
NEVER: Final = "never"
_KWOK: Final = "sigs.k8s.io/kwok"
_READY: Final = "pod-ready"
_COMPLETE: Final = "pod-complete"
# Usage is what the annotations kwok.x-k8s.io/usage-cpu and usage-memory of a pod say.
_OF_KWOK: Final = ("kustomize/stage/fast", "kustomize/metrics/usage")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a resize can stand that has not succeeded: a condition of the pod."""

    annotation: str
    condition: str
    reason: str
    message: str
    is_allocated: bool = False
    """Whether the node has set the new amounts aside."""


OUTCOMES: Final = (
    Outcome("deferred", "PodResizePending", "Deferred", "the node is full for now"),
    Outcome("infeasible", "PodResizePending", "Infeasible", "the node is smaller than that"),
    Outcome("in-progress", "PodResizeInProgress", "", "", is_allocated=True),
    Outcome("error", "PodResizeInProgress", "Error", "usage is over the limit", is_allocated=True),
)
_CONDITIONS: Final = tuple(dict.fromkeys(outcome.condition for outcome in OUTCOMES))


def write(path: Path) -> None:
    """Write the configuration that kwok starts with."""
    theirs = [
        each
        for name in _OF_KWOK
        for text in _documents_of_kwok(name)
        for each in _chosen_by_annotations(text)
    ]
    ours = [json.dumps(stage, indent=2) for stage in resize_stages()]
    path.write_text("\n---\n".join([*theirs, *ours]), encoding="utf-8")


def unready_start(ready: Json) -> Json:
    """Return kwok's stage `pod-ready` as one that leaves the pod running and not ready."""
    template: str = ready["spec"]["next"]["statusTemplate"]
    # The second `ready: true` is that of init containers, which have ended well.
    template = template.replace("ready: true", "ready: false", 1)
    template = re.sub(
        r'status: "True"(\s+type: (?:Containers)?Ready\n)', r'status: "False"\1', template
    )
    started = _only_for(ready, READINESS, "In")
    started["metadata"]["name"] = "pod-start-unready"
    started["spec"]["next"] = {"statusTemplate": template}
    return started


def _chosen_by_annotations(text: str) -> Iterator[str]:
    """Yield a document of kwok; its stages `pod-ready` and `pod-complete` heed our annotations."""
    if f"name: {_COMPLETE}\n" in text:
        yield json.dumps(_only_for(yaml.safe_load(text), COMPLETION, "NotIn"), indent=2)
        return
    if f"name: {_READY}\n" not in text:
        yield text
        return
    stage = yaml.safe_load(text)
    yield json.dumps(_only_for(stage, READINESS, "NotIn"), indent=2)
    yield json.dumps(unready_start(stage), indent=2)


def _only_for(stage: Json, annotation: str, operator: str) -> Json:
    """Return a copy of a stage for pods whose annotation is, or is not, `never`."""
    copied: Json = json.loads(json.dumps(stage))
    key = f'.metadata.annotations["{annotation}"]'
    when = {"key": key, "operator": operator, "values": [NEVER]}
    copied["spec"]["selector"]["matchExpressions"].append(when)
    return copied


def resize_stages() -> list[dict[str, object]]:
    """Our stages; at most one of them matches a pod."""
    ways = json.dumps([outcome.annotation for outcome in OUTCOMES])
    chosen = f'(.metadata.annotations["{ANNOTATION}"] // "")'
    is_held = f"({chosen} as $way | {ways} | index($way) != null)"
    return [
        # A pod that has just started: the API server resizes only what reports its resources.
        _stage("pod-report-resources", _IS_SILENT, _template()),
        _stage(
            "pod-resize",
            f"({_IS_SILENT} | not) and (({_DIFFERS} and ({is_held} | not))"
            f" or (({_DIFFERS} | not) and {_HAS_CONDITION}))",
            _template(),
        ),
        *(
            _stage(
                f"pod-resize-{outcome.annotation}",
                f'({_IS_SILENT} | not) and {_DIFFERS} and {chosen} == "{outcome.annotation}"'
                f" and ({_has_reported(outcome)} | not)",
                _template(outcome),
            )
            for outcome in OUTCOMES
        ),
    ]


# jq over a pod. Amounts are compared as text: both are spelt by the API server.
_IS_SILENT: Final = "any(.status.containerStatuses[]?; .resources == null)"
_DIFFERS: Final = (
    "(([.spec.containers[] | {key: .name, value: (.resources // {})}] | from_entries) != "
    "([.status.containerStatuses[]? | {key: .name, value: (.resources // {})}] | from_entries))"
)
_HAS_CONDITION: Final = (
    f"any(.status.conditions[]?; .type as $type | {json.dumps(_CONDITIONS)} | index($type) != null)"
)


def _has_reported(outcome: Outcome) -> str:
    return (
        ".metadata.generation as $generation | any(.status.conditions[]?; "
        f'.type == "{outcome.condition}" and (.reason // "") == "{outcome.reason}"'
        " and (.observedGeneration // $generation) == $generation)"
    )


def _stage(name: str, condition: str, template: str) -> dict[str, object]:
    when = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": condition, "operator": "In", "values": ["true"]},
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": when},
            "next": {"statusTemplate": template},
        },
    }


def _template(outcome: Outcome | None = None) -> str:
    """The new status: a condition that stands, or without one, the resize as done."""
    conditions = _conditions_template(outcome)
    if outcome and not outcome.is_allocated:
        return conditions
    fields = ["allocatedResources"] if outcome else ["allocatedResources", "resources"]
    return f"{conditions}\n{_statuses_template(fields)}"


def _conditions_template(outcome: Outcome | None) -> str:
    kept = outcome.condition if outcome else None
    lines = ["conditions:"]
    for each in _CONDITIONS:
        if each != kept:
            lines += [f"- type: {each}", "  $patch: delete"]
    if outcome:
        lines += [
            f"- type: {outcome.condition}",
            '  status: "True"',
            f"  reason: {json.dumps(outcome.reason)}",
            f"  message: {json.dumps(outcome.message)}",
            "  observedGeneration: {{ .metadata.generation }}",
            "  lastTransitionTime: {{ Now | Quote }}",
        ]
    return "\n".join(lines)


def _statuses_template(fields: list[str]) -> str:
    """The statuses of all containers, each with these fields as its spec says."""
    values = {
        "resources": "(or $container.resources dict)",
        "allocatedResources": "(or (or $container.resources dict).requests dict)",
    }
    sets = [f'{{{{ $_ := set $status "{field}" {values[field]} }}}}' for field in fields]
    return "\n".join(
        [
            "{{ $pod := . }}",
            "containerStatuses:",
            "{{ range $status := .status.containerStatuses }}",
            "{{ range $container := $pod.spec.containers }}",
            "{{ if eq $container.name $status.name }}",
            *sets,
            "{{ end }}{{ end }}",
            "- {{ $status | toJson }}",
            "{{ end }}",
        ]
    )


def _documents_of_kwok(folder: str) -> Iterator[str]:
    kwok = building.module_directory(programs.recipe("kwok"), _KWOK)
    yield from _rendered(kwok / folder)


def _rendered(path: Path) -> Iterator[str]:
    """The documents of a kustomization that only lists resources, as all of kwok's do."""
    if path.is_file():
        yield path.read_text(encoding="utf-8")
        return
    listed = yaml.safe_load((path / "kustomization.yaml").read_text(encoding="utf-8"))
    for name in listed["resources"]:
        yield from _rendered(path / name)
