"""Feature gates, in the syntax of the original's `--feature-gates` flag.

All gates are on: here these features are finished (decision D1). The names stay so that operators
can switch a feature off, and so that command lines written for the original keep working.
"""

from dataclasses import dataclass, fields, replace
from typing import Final

_BULK: Final = ("AllAlpha", "AllBeta")
_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class GateError(ValueError):
    """A `--feature-gates` value that is not a list of Name=bool."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Which optional features are on."""

    cpu_startup_boost: bool = True
    in_place: bool = True
    per_vpa_config: bool = True
    pod_selector: bool = True
    upscale_only: bool = True


_FIELDS: Final = {
    "CPUStartupBoost": "cpu_startup_boost",
    "InPlace": "in_place",
    "PerVPAConfig": "per_vpa_config",
    "PodSelector": "pod_selector",
    "UpscaleOnly": "upscale_only",
}


def parse(text: str) -> tuple[FeatureGates, list[str]]:
    """The gates that `Name=bool,…` describes, and a warning for each name that is not known.

    A gate that is named wins over AllAlpha and AllBeta, wherever they stand.
    """
    switches = dict(_parse_entry(part.strip()) for part in text.split(",") if part.strip())
    gates = FeatureGates()
    for bulk in _BULK:
        if bulk in switches:
            gates = replace(gates, **{field.name: switches[bulk] for field in fields(gates)})
    named = {_FIELDS[name]: switch for name, switch in switches.items() if name in _FIELDS}
    unknown = [name for name in switches if name not in _FIELDS and name not in _BULK]
    return replace(gates, **named), [
        f"feature gate {name} is unknown or retired and is ignored" for name in unknown
    ]


def _parse_entry(entry: str) -> tuple[str, bool]:
    name, _, value = entry.partition("=")
    if value.strip() not in _TRUTHS:
        raise GateError(f"feature gate {entry!r} is not of the form Name=true or Name=false")
    return name.strip(), _TRUTHS[value.strip()]
