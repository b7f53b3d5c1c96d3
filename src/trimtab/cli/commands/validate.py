"""`trimtab validate`: manifests checked as the API server and the webhook would, offline."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from cyclopts import Parameter

from trimtab.api.validation import manifests
from trimtab.api.validation.manifests import KIND, ManifestVerdict
from trimtab.api.wire import field_errors
from trimtab.cli.errors import UsageError
from trimtab.cli.output.files import (
    InputFile,
    list_autoscalers,
    read_documents,
    refuse_flags,
    show_name,
)
from trimtab.core.model import feature_gates as gates

_FLAGS: Final = ("--feature-gates", "--allow-overlapping-autoscalers")


def validate_files(
    *files: InputFile,
    feature_gates: str = "",
    allow_overlapping_autoscalers: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Check manifests, and print what is wrong: 0 if all would be stored, else 1.

    Args:
        files: YAML or JSON files; - is the standard input. Objects of other kinds are skipped.
        feature_gates: What the admission controller is started with, as Name=bool,...
        allow_overlapping_autoscalers: Warn about autoscalers that may select the same pods instead
            of refusing them.
    """
    if not files:
        raise UsageError("validate needs at least one file, or - for the standard input")
    refuse_flags(files, _FLAGS)
    switched, notes = _parse_gates(feature_gates)
    sys.stderr.writelines(f"trimtab: {note}\n" for note in notes)
    read = [(show_name(name), read_documents(name)) for name in files]
    found = [(name, manifest) for name, held in read for manifest in list_autoscalers(held)]
    judgements = manifests.judge(
        [manifest for _, manifest in found],
        gates=switched,
        allow_overlapping=allow_overlapping_autoscalers,
    )
    for (name, _), judgement in zip(found, judgements, strict=True):
        sys.stdout.writelines(_lines(name, judgement))
    others = [
        f"{name}: error: {field_errors.not_supported('kind', kind, [KIND])}\n"
        for name, held in read
        for document in held
        for kind in manifests.foreign_kinds(document)
    ]
    if not found and not others:
        others = [f"{name}: error: there is no {KIND} in it\n" for name, _ in read]
    sys.stdout.writelines(others)
    sys.stdout.write(_summary(judgements, len(others)))
    return int(bool(others) or any(judgement.errors for judgement in judgements))


def _parse_gates(text: str) -> tuple[gates.FeatureGates, list[str]]:
    try:
        return gates.parse(text)
    except gates.GateError as error:
        raise UsageError(f"--feature-gates: {error}") from error


def _lines(file: str, judgement: ManifestVerdict) -> Iterator[str]:
    who = f"{file}: VerticalPodAutoscaler {field_errors.quote(judgement.name)}"
    yield from (f"{who}: error: {error}\n" for error in judgement.errors)
    yield from (f"{who}: warning: {warning}\n" for warning in judgement.warnings)


def _summary(judgements: Sequence[ManifestVerdict], others: int) -> str:
    errors = others + sum(len(judgement.errors) for judgement in judgements)
    warnings = sum(len(judgement.warnings) for judgement in judgements)
    counts = (
        _count(len(judgements), "autoscaler"),
        _count(errors, "error"),
        _count(warnings, "warning"),
    )
    return f"{', '.join(counts)}\n"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
