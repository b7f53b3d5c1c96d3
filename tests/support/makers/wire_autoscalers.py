"""Makers of autoscalers as they are written: each takes what a test is about."""

import json
from typing import Any

from trimtab.api.kinds.autoscaler_wire import VerticalPodAutoscaler, decode_wire
from trimtab.api.validation.autoscaler import Verdict, validate

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def a_manifest(name: str = "web", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetRef": WEB, **spec},
    }


def written(name: str = "web", **spec: Any) -> VerticalPodAutoscaler:
    return decode_wire(json.dumps(a_manifest(name, **spec)).encode())


def with_policy(**policy: Any) -> dict[str, Any]:
    """The part of a spec with one container policy."""
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "app", **policy}]}}


def with_boost(**cpu: Any) -> dict[str, Any]:
    """The part of a spec with a startup boost."""
    return {"startupBoost": {"cpu": cpu}}


def with_requirements(*requirements: Any) -> dict[str, Any]:
    """The part of a spec with eviction requirements, each given as a list of resources."""
    listed = [
        {"resources": resources, "changeRequirement": "TargetHigherThanRequests"}
        for resources in requirements
    ]
    return {"updatePolicy": {"updateMode": "Recreate", "evictionRequirements": listed}}


def judged(spec: dict[str, Any], **context: Any) -> Verdict:
    """The verdict on creating an autoscaler with this spec."""
    return validate(written(**spec), **context)


def told(verdict: Verdict) -> list[str]:
    """The errors of a verdict as people read them."""
    return [str(error) for error in verdict.errors]
