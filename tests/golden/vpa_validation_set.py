"""The verdict of the webhook and of the CRD schema on an autoscaler."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from support.models.crd_rules import crd_violations

from trimtab.api.kinds.autoscaler_wire import decode_wire
from trimtab.api.validation.autoscaler import validate
from trimtab.api.wire import field_errors
from trimtab.core.model.feature_gates import FeatureGates

_LISTED = {"errors", "crdSchema"}
_GATES = {
    "CPUStartupBoost": "cpu_startup_boost",
    "InPlace": "in_place",
    "PerVPAConfig": "per_vpa_config",
}


def differences(case: dict[str, Any]) -> list[str]:
    """Where our verdict differs; of the schema's errors only the fields are compared."""
    theirs = case["expected"]
    ours = _verdict(case["input"])
    refused_fields = {error.path for error in crd_violations(case["input"]["object"])}
    return [
        *_unequal(ours, {name: theirs[name] for name in theirs if name not in _LISTED}),
        *_apart("errors", ours["errors"], theirs["errors"]),
        *_apart("crdSchema", refused_fields, _fields(theirs["crdSchema"]["errors"])),
    ]


def _apart(name: str, ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    mine, original = set(ours), set(theirs)
    return [
        *(f"{name}: {text!r} != absent" for text in sorted(mine - original)),
        *(f"{name}: absent != {text!r}" for text in sorted(original - mine)),
    ]


def _unequal(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {ours.get(name)!r} != {theirs.get(name)!r}"
        for name in sorted({*ours, *theirs} - _LISTED)
        if ours.get(name) != theirs.get(name)
    ]


def _verdict(case: dict[str, Any]) -> dict[str, Any]:
    old = case.get("oldObject")
    verdict = validate(
        decode_wire(json.dumps(case["object"]).encode()),
        decode_wire(json.dumps(old).encode()) if old else None,
        gates=_gates(case["featureGates"]),
    )
    answer: dict[str, Any] = {
        "allowed": verdict.allowed,
        "errors": sorted(map(str, verdict.errors)),
        "warnings": list(verdict.warnings),
        "patches": list(msgspec.to_builtins(verdict.patch)),
    }
    if len(verdict.errors) == 1:
        name = case["object"]["metadata"]["name"]
        answer["message"] = field_errors.refusal(name, verdict.errors)
    return answer


def _gates(switches: dict[str, bool]) -> FeatureGates:
    # The original has neither of our own two gates, and all of its gates start off.
    values = {field: switches.get(name, False) for name, field in _GATES.items()}
    return FeatureGates(**values, pod_selector=False, upscale_only=False)


def _fields(errors: list[str]) -> set[str]:
    # Some errors come a second time, without their field.
    return {error.partition(": ")[0] for error in errors} - {"<nil>"}
