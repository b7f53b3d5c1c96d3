"""The CustomResourceDefinitions: the single source of `deploy/crds.yaml`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trimtab.api.crds.autoscaler import autoscaler_schema, autoscaler_schema_v1beta2
from trimtab.api.crds.checkpoint import checkpoint_schema
from trimtab.api.crds.schema import JSON, Schema

GROUP: Final = "autoscaling.k8s.io"
_APPROVAL: Final = "https://github.com/kubernetes/kubernetes/pull/63797"

_RECOMMENDED: Final = ".status.recommendation.containerRecommendations[0].target"


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of `kubectl get`; one of priority 1 is shown with `-o wide` only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def encode(self) -> JSON:
        column: Schema = {"jsonPath": self.path, "name": self.name}
        priority: Schema = {"priority": self.priority} if self.priority else {}
        return {**column, **priority, "type": self.type}


_COLUMNS: Final = (
    _Column("Mode", ".spec.updatePolicy.updateMode"),
    _Column("CPU", f"{_RECOMMENDED}.cpu"),
    _Column("Mem", f"{_RECOMMENDED}.memory"),
    _Column("Provided", ".status.conditions[?(@.type=='RecommendationProvided')].status"),
    _Column("Age", ".metadata.creationTimestamp", type="date"),
    _Column("MinReplicas", ".spec.updatePolicy.minReplicas", type="integer", priority=1),
    _Column("OOMSeconds", ".spec.updatePolicy.evictAfterOOMSeconds", type="integer", priority=1),
    _Column("Selector", ".spec.selector", priority=1),
)


def definitions() -> list[Schema]:
    """Return both definitions, the checkpoint's first."""
    return [_checkpoint_definition(), _autoscaler_definition()]


def _autoscaler_definition() -> Schema:
    columns: list[JSON] = [column.encode() for column in _COLUMNS]
    current: Schema = {
        "additionalPrinterColumns": columns,
        **_version("v1", autoscaler_schema(), served=True),
        "subresources": {"status": {}},
    }
    former: Schema = {
        "deprecated": True,
        "deprecationWarning": f"{GROUP}/v1beta2 is deprecated and no longer served; use {GROUP}/v1",
        **_version("v1beta2", autoscaler_schema_v1beta2(), served=False),
        "subresources": {"status": {}},
    }
    return _definition("VerticalPodAutoscaler", "vpa", [current, former])


def _checkpoint_definition() -> Schema:
    # No status subresource: a recommender writes a checkpoint as a whole.
    versions = [
        _version("v1", checkpoint_schema(), served=True),
        _version("v1beta2", checkpoint_schema(), served=False),
    ]
    return _definition("VerticalPodAutoscalerCheckpoint", "vpacheckpoint", versions)


def _version(name: str, schema: Schema, *, served: bool) -> Schema:
    # The served version is also the stored one.
    return {
        "name": name,
        "schema": {"openAPIV3Schema": schema},
        "served": served,
        "storage": served,
    }


def _definition(kind: str, short_name: str, versions: Sequence[Schema]) -> Schema:
    singular = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "annotations": {"api-approved.kubernetes.io": _APPROVAL},
            "name": f"{singular}s.{GROUP}",
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": f"{singular}s",
                "shortNames": [short_name],
                "singular": singular,
            },
            "scope": "Namespaced",
            "versions": [*versions],
        },
    }
