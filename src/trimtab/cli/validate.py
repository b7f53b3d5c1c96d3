"""`trimtab validate`: manifests checked as the API server and the webhook would, offline."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from trimtab.api.crd_schema import JSON
from trimtab.api.field_errors import quote
from trimtab.api.manifests import Judgement, autoscaler_manifests, judge
from trimtab.cli.usage import UsageError
from trimtab.core import gates


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: what looks like a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in listed if not tag.endswith(":timestamp")]
    for first, listed in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def validate_files(
    *files: str,
    feature_gates: str = "",
    allow_overlapping_autoscalers: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Whether all manifests would be stored: 0 if so, else 1, with the reasons printed.

    Args:
        files: YAML or JSON files. Objects of other kinds are skipped.
        feature_gates: What the admission controller is started with, as Name=bool,...
        allow_overlapping_autoscalers: Warn about autoscalers that may select the same pods instead
            of refusing them.
    """
    if not files:
        raise UsageError("validate needs at least one file")
    switched, notes = _parse_gates(feature_gates)
    sys.stderr.writelines(f"trimtab: {note}\n" for note in notes)
    found = [(name, manifest) for name in files for manifest in _read(name)]
    judgements = judge(
        [manifest for _, manifest in found],
        gates=switched,
        allow_overlapping=allow_overlapping_autoscalers,
    )
    for (name, _), judgement in zip(found, judgements, strict=True):
        sys.stdout.writelines(_lines(name, judgement))
    sys.stdout.write(_summary(judgements))
    return int(any(judgement.errors for judgement in judgements))


def _parse_gates(text: str) -> tuple[gates.FeatureGates, list[str]]:
    try:
        return gates.parse(text)
    except gates.GateError as error:
        raise UsageError(f"--feature-gates: {error}") from error


def _read(name: str) -> list[dict[str, JSON]]:
    try:
        text = Path(name).read_text(encoding="utf-8")
        documents = [_plain(document) for document in yaml.load_all(text, _Loader)]
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        flaw = str(error).replace(' in "<unicode string>",', "")
        raise UsageError(f"{name} is not valid YAML or JSON: {flaw}") from error
    if not all(isinstance(document, dict | None) for document in documents):
        raise UsageError(f"{name} holds something that is not a Kubernetes object")
    return [manifest for document in documents for manifest in autoscaler_manifests(document)]


def _plain(document: object) -> JSON:
    # There and back: what JSON cannot hold (sets, not-a-number) is an error, keys become text.
    plain: JSON = json.loads(json.dumps(document, allow_nan=False))
    return plain


def _lines(file: str, judgement: Judgement) -> Iterator[str]:
    who = f"{file}: VerticalPodAutoscaler {quote(judgement.name)}"
    yield from (f"{who}: error: {error}\n" for error in judgement.errors)
    yield from (f"{who}: warning: {warning}\n" for warning in judgement.warnings)


def _summary(judgements: Sequence[Judgement]) -> str:
    errors = sum(len(judgement.errors) for judgement in judgements)
    warnings = sum(len(judgement.warnings) for judgement in judgements)
    counts = (
        _count(len(judgements), "autoscaler"),
        _count(errors, "error"),
        _count(warnings, "warning"),
    )
    return f"{', '.join(counts)}\n"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
