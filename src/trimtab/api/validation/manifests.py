"""Validation of autoscaler manifests without a cluster, as an API server with our webhook does it.

It checks the schema of the CRD, unknown fields and the webhook's rules, one object after another.
Each object is checked as if those before it had been stored already.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from trimtab.api.crds import definitions, schema_check
from trimtab.api.kinds import autoscaler_wire
from trimtab.api.validation.autoscaler import Verdict, decode_flaw, validate
from trimtab.api.wire import field_errors
from trimtab.api.wire.codec import JSON, DecodeError
from trimtab.api.wire.field_errors import FieldError
from trimtab.core.model.feature_gates import FeatureGates

KIND: Final = "VerticalPodAutoscaler"
_KINDS: Final = (KIND, f"{KIND}Checkpoint")
_API_VERSION: Final = f"{definitions.GROUP}/v1"
_NOTHING: Final = Verdict((), (), ())
_MAX_VIOLATIONS: Final = 32
"""Maximum number of listed errors: a hostile object may contain thousands."""


@dataclass(frozen=True, slots=True)
class ManifestVerdict:
    """Name, errors and warnings of one manifest."""

    name: str
    errors: tuple[FieldError, ...]
    warnings: tuple[str, ...]


def autoscaler_manifests(document: JSON) -> Iterator[dict[str, JSON]]:
    """Yield the autoscalers in a document: a single one, or those in a list of objects."""
    if not isinstance(document, dict):
        return
    kind, items = document.get("kind"), document.get("items")
    if kind == KIND:
        yield document
    elif isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for item in items:
            yield from autoscaler_manifests(item)


def foreign_kinds(document: JSON) -> Iterator[str]:
    """Yield unknown kinds of objects in the autoscalers' API group."""
    if not isinstance(document, dict):
        return
    kind, items = document.get("kind"), document.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        for item in items:
            yield from foreign_kinds(item)
    elif str(document.get("apiVersion")).startswith(f"{definitions.GROUP}/") and kind not in _KINDS:
        yield kind if isinstance(kind, str) else ""


def judge(
    manifests: Sequence[dict[str, JSON]],
    *,
    gates: FeatureGates,
    allow_overlapping: bool = False,
) -> list[ManifestVerdict]:
    """Return the verdicts on the manifests, as if they were created in this order."""
    stored: list[autoscaler_wire.VerticalPodAutoscaler] = []
    judgements = []
    for manifest in manifests:
        refusals = [*_version_errors(manifest), *_schema_errors(manifest)]
        verdict = _NOTHING
        try:
            decoded = autoscaler_wire.decode_wire(json.dumps(manifest).encode())
        except DecodeError as error:
            refusals = refusals or [decode_flaw(error)]
        else:
            verdict = validate(
                decoded, siblings=stored, gates=gates, allow_overlapping=allow_overlapping
            )
            stored.append(decoded)
        judgements.append(
            ManifestVerdict(
                _name(manifest),
                _merge(verdict.errors, refusals),
                (*_unknown_field_warnings(manifest), *verdict.warnings),
            )
        )
    return judgements


def explain_unreadable(data: bytes, error: DecodeError) -> tuple[FieldError, ...]:
    """Return the errors of an autoscaler that cannot be decoded, as `judge` lists them."""
    try:
        manifest: JSON = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return (decode_flaw(error),)
    found = schema_check.violations(_schema(), manifest)
    return tuple(islice(found, _MAX_VIOLATIONS)) or (decode_flaw(error),)


def _schema() -> definitions.Schema:
    return definitions.schema(definitions.AUTOSCALER)


def _version_errors(manifest: dict[str, JSON]) -> Iterator[FieldError]:
    version = manifest.get("apiVersion")
    if isinstance(version, str) and version != _API_VERSION:
        yield field_errors.not_supported("apiVersion", version, [_API_VERSION])


def _schema_errors(manifest: dict[str, JSON]) -> Iterator[FieldError]:
    # Optional in the schema: an API server takes both from the request's path.
    for name in ("apiVersion", "metadata"):
        if name not in manifest:
            yield field_errors.required(name)
    yield from schema_check.violations(_schema(), manifest)


def _unknown_field_warnings(manifest: dict[str, JSON]) -> Iterator[str]:
    for path in schema_check.unknown_fields(_schema(), manifest):
        yield f"unknown field {field_errors.quote(path)} is dropped by the API server"


def _merge(errors: Sequence[FieldError], refusals: Sequence[FieldError]) -> tuple[FieldError, ...]:
    """Return the webhook's errors, and schema errors about fields without a webhook error."""
    named = {error.path for error in errors}
    return (*errors, *(refusal for refusal in refusals if refusal.path not in named))


def _name(manifest: dict[str, JSON]) -> str:
    metadata = manifest.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    return "/".join(str(fields[key]) for key in ("namespace", "name") if fields.get(key))
