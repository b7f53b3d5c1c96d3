"""Admission: the patch for a new pod, and the pod that it leads to."""

import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
import msgspec

from trimtab.api.kinds.autoscalers import decode_autoscaler
from trimtab.api.kinds.limits import decode_limit_range
from trimtab.api.kinds.pods import decode_pod
from trimtab.core.model import quantities
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.pods import BOOST_PREFIX
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.admission_patch import admission_patch
from trimtab.core.sizing.startup_boost import BoostError


def differences(case: dict[str, Any]) -> list[str]:
    given, theirs = case["input"], case["expected"]
    try:
        patch = our_patch(given)
    except BoostError as error:
        return [] if "error" in theirs else [f"error: {error} != None"]
    if "error" in theirs:
        return [f"error: None != {theirs['error']}"]
    pod = jsonpatch.JsonPatch.from_string(json.dumps(patch)).apply(given["pod"])
    return [
        *patch_differences(patch, theirs["patches"]),
        *container_differences(pod, theirs["containers"]),
        *map_differences(
            "annotations", read_annotations(pod), read_annotations({"metadata": theirs})
        ),
    ]


def our_patch(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Our patch for the input of a case, as it goes over the wire."""
    boost = given.get("maxAllowedCPUBoost")
    patch = admission_patch(
        decode_pod(json.dumps(given["pod"]).encode()),
        decode_autoscaler(json.dumps(given["vpa"]).encode()),
        gates=FeatureGates(
            cpu_startup_boost=given["featureGates"].get("CPUStartupBoost", False),
            in_place=False,
            per_vpa_config=False,
            pod_selector=False,
            upscale_only=False,
        ),
        limit_ranges=[
            item
            for one in given["limitRanges"]
            for item in decode_limit_range(json.dumps(one).encode())
        ],
        max_boost_millicores=quantities.parse_amount(Resource.CPU, boost) if boost else None,
    )
    wire: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(patch))
    return wire


def patch_differences(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    """Differences by path, and then in the order of the paths that both have."""
    our_values = {entry["path"]: read_value(entry) for entry in ours}
    their_values = {entry["path"]: read_value(entry) for entry in theirs}
    yield from map_differences("patches", our_values, their_values)
    our_order = [entry["path"] for entry in ours if entry["path"] in their_values]
    their_order = [entry["path"] for entry in theirs if entry["path"] in our_values]
    if our_order != their_order:
        yield f"patches: order {our_order} != {their_order}"


def container_differences(pod: dict[str, Any], theirs: list[dict[str, Any]]) -> Iterator[str]:
    ours = pod["spec"]["containers"]
    for our, their in zip(ours, theirs, strict=True):
        for name in ("requests", "limits"):
            yield from map_differences(
                f"containers.{their['name']}.{name}",
                read_amounts(our, name),
                read_amounts(their, name),
            )


def read_value(entry: dict[str, Any]) -> Any:
    """The operation and its value: amounts as numbers, whether alone or in an annotation."""
    path: str = entry["path"]
    value: Any = entry.get("value")
    if path.startswith("/spec/") and isinstance(value, str):
        value = quantities.parse(value)
    elif path.startswith(f"/metadata/annotations/{BOOST_PREFIX.replace('/', '~1')}"):
        value = read_original(value)
    return entry["op"], value


def read_annotations(pod: dict[str, Any]) -> dict[str, Any]:
    return {
        name: read_original(value) if name.startswith(BOOST_PREFIX) else value
        for name, value in pod["metadata"]["annotations"].items()
    }


def read_original(value: str) -> Any:
    return {
        name: {kind: quantities.parse(text) for kind, text in amounts.items()}
        for name, amounts in json.loads(value).items()
    }


def read_amounts(container: dict[str, Any], name: str) -> dict[str, Any]:
    amounts = container.get("resources", {}).get(name, {})
    return {kind: quantities.parse(text) for kind, text in amounts.items()}


def map_differences(where: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            yield f"{where}.{key}: {ours.get(key)} != {theirs.get(key)}"
