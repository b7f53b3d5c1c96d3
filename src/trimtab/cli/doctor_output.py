"""A diagnosis as people and programs read it."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.cli.columns import disarm
from trimtab.core.diagnosis import Diagnosis, Finding, Severity
from trimtab.core.diagnosis_checks import Check

_MARGIN: Final = max(len(severity) for severity in Severity) + 2
_REMEDY: Final = "-> "


def to_table(diagnoses: Sequence[Diagnosis], width: int) -> str:
    """One paragraph per finding, no line longer than the width if words allow it."""
    names = max((len(one.check) for one in diagnoses), default=0) + 2
    lines = [disarm(line) for one in diagnoses for line in _lines(one, names, width)]
    return "\n".join([*lines, _summary(diagnoses)]) + "\n"


def _lines(diagnosis: Diagnosis, names: int, width: int) -> Iterator[str]:
    name = diagnosis.check
    for finding in diagnosis.findings:
        lead = f"{finding.severity:<{_MARGIN}}{name:<{names}}"
        # The same name need not be read twice.
        name = ""
        yield from _wrap(lead, _sentence(finding), width)
        if finding.remedy:
            yield from _wrap(" " * len(lead) + _REMEDY, finding.remedy, width)


def _sentence(finding: Finding) -> str:
    return f"{finding.subject}: {finding.text}" if finding.subject else finding.text


def _wrap(lead: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        # Names and commands are copied, so they are never cut.
        break_long_words=False,
        break_on_hyphens=False,
    )


def _summary(diagnoses: Sequence[Diagnosis]) -> str:
    counts = count_severities(diagnoses)
    told = ", ".join(f"{number} {severity}" for severity, number in counts.items())
    return f"{len(diagnoses)} {'check' if len(diagnoses) == 1 else 'checks'}: {told}"


def count_severities(diagnoses: Sequence[Diagnosis]) -> dict[str, int]:
    """How many checks came to which end, the worst first."""
    counts = Counter(one.severity for one in diagnoses)
    return {severity.value: counts[severity] for severity in reversed(Severity) if counts[severity]}


def to_json(diagnoses: Sequence[Diagnosis]) -> str:
    """Everything, for programs."""
    document = {
        "summary": count_severities(diagnoses),
        "checks": [
            {
                "name": one.check,
                "severity": one.severity.value,
                "findings": [
                    {
                        "severity": finding.severity.value,
                        "subject": finding.subject,
                        "text": finding.text,
                        "remedy": finding.remedy,
                    }
                    for finding in one.findings
                ],
            }
            for one in diagnoses
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def tell_checks(checks: Sequence[Check], width: int) -> str:
    """The names of all checks, and what each asks."""
    names = max(len(check.name) for check in checks) + 2
    lines = [line for one in checks for line in _wrap(f"{one.name:<{names}}", one.asks, width)]
    return "\n".join(lines) + "\n"
