"""Feature gates, in the syntax of the original's `--feature-gates` flag.

All gates are on: here these features are finished. The names stay so that operators can switch a
feature off, and so that command lines written for the original keep working.
"""

from dataclasses import dataclass
from typing import Final

_ALL: Final = "AllAlpha"
_NONE: Final = "AllBeta"
"""To the original every gate here is alpha, so its switch for the beta ones moves none of them."""

_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class GateError(ValueError):
    """A `--feature-gates` value that is not a list of Name=bool."""


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The switches of the optional features; True means on."""

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
    """Return the gates that `Name=bool,…` describes, and a warning for each unknown name.

    A gate that is named wins over AllAlpha, wherever they stand; of two equal names the last wins.
    """
    switches = dict(_parse_entry(part.strip()) for part in text.split(",") if part.strip())
    named = {_FIELDS[name]: switch for name, switch in switches.items() if name in _FIELDS}
    bulk = dict.fromkeys(_FIELDS.values(), switches[_ALL]) if _ALL in switches else {}
    warnings = [
        f"feature gate {name} is unknown or retired and is ignored"
        for name in switches
        if name not in {*_FIELDS, _ALL, _NONE}
    ]
    return FeatureGates(**{**bulk, **named}), warnings


def _parse_entry(entry: str) -> tuple[str, bool]:
    name, _, value = (part.strip() for part in entry.partition("="))
    if not name or value not in _TRUTHS:
        raise GateError(f"feature gate {entry!r} is not of the form Name=true or Name=false")
    return name, _TRUTHS[value]
