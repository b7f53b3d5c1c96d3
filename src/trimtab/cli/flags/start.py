"""The start of a component: checks of its command line, and the log of its flags."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Final, TypeVar

import structlog
from prometheus_client import Gauge

from trimtab import __version__
from trimtab.cli.errors import UsageError
from trimtab.cli.flags.common import CommonFlags, IdleFlags
from trimtab.cli.flags.environment import PREFIX, has_name_of_link, is_link
from trimtab.cli.flags.types import format_span
from trimtab.cli.flags.usage_errors import explain_unused, suggest
from trimtab.core.model import feature_gates
from trimtab.core.model.validation import SettingsError

_SECRETS: Final = frozenset({"password", "prometheus_bearer_token"})

BUILD: Final = Gauge(
    "trimtab_build_info", "What runs here; the value is always 1.", ["component", "version"]
)

SettingsT = TypeVar("SettingsT")

_OTHER_VARIABLES: Final = ("CACHE",)
"""Names of variables that belong to no flag; `TRIMTAB_CACHE` is that of the test rig."""
_OF_SERVICE: Final = (
    "Kubernetes has set it to the address of a Service; enableServiceLinks: false in the pod's spec"
    " keeps such variables out"
)

_logger: Final = structlog.stdlib.get_logger(__name__)


def flag_name(field: str) -> str:
    """Return the flag of a field."""
    return f"--{field.replace('_', '-')}"


def list_flags(*records: object) -> dict[str, object]:
    """Return the values of all flags by field, also of records within records."""
    found: dict[str, object] = {}
    for record in records:
        assert is_dataclass(record)
        for field in fields(record):
            value = getattr(record, field.name)
            found |= list_flags(value) if is_dataclass(value) else {field.name: value}
    return found


def list_changed(*records: object) -> dict[str, object]:
    """Return the flags that differ from their defaults, by field."""
    usual = list_flags(*(type(record)() for record in records))
    return {name: value for name, value in list_flags(*records).items() if value != usual[name]}


def parse_gates(text: str) -> tuple[feature_gates.FeatureGates, list[str]]:
    """Return the gates that the flag describes, and warnings; a UsageError if it is invalid."""
    try:
        return feature_gates.parse(text)
    except feature_gates.GateError as error:
        raise UsageError(f"--feature-gates: {error}") from error


def list_unknown(unused: Sequence[str], known: Iterable[str], *, is_strict: bool) -> list[str]:
    """Return warnings about unknown flags (F46) among the words that the parser did not use.

    Raise a UsageError if flags are strict. Raise it always for a word that is no flag, or a long
    name with one dash: the original refuses both as well.
    """
    names = [flag_name(field) for field in known]
    warnings: list[str] = []
    is_value_next = False
    for token in unused:
        if not token.startswith("-"):
            if not is_value_next:
                raise UsageError(explain_unused([token]))
            is_value_next = False
            continue
        name, equals, _ = token.partition("=")
        is_value_next = not equals
        hint = suggest(name, names)
        if is_strict or not name.startswith("--"):
            raise UsageError(f"flag {name} is unknown{hint}")
        warnings.append(f"flag {name} is unknown and is ignored{hint}")
    return warnings


def list_stray(
    environment: Mapping[str, str], known: Iterable[str], *, is_strict: bool
) -> list[str]:
    """Return warnings about variables with our prefix that belong to no flag.

    Raise a UsageError for them if flags are strict. Variables that Kubernetes sets for Services are
    ignored, with a warning if one has the name of a flag's variable.
    """
    names = [f"{PREFIX}{field.upper()}" for field in known]
    warnings: list[str] = []
    for variable in sorted(environment):
        field = variable.removeprefix(PREFIX)
        if field in {variable, "", *_OTHER_VARIABLES}:
            continue
        if variable in names:
            if is_link(variable, environment[variable]):
                flag = flag_name(field.lower())
                warnings.append(f"variable {variable} is not read as {flag}: {_OF_SERVICE}")
            continue
        if has_name_of_link(variable):
            continue
        hint = suggest(variable, names)
        if is_strict:
            raise UsageError(f"variable {variable} belongs to no flag{hint}")
        warnings.append(f"variable {variable} belongs to no flag and is ignored{hint}")
    return warnings


def make_settings(make: Callable[[], SettingsT], changed: Mapping[str, object]) -> SettingsT:
    """Return the result of `make`; turn a SettingsError into a UsageError that names the flag."""
    try:
        return make()
    except SettingsError as error:
        value = error.value
        flags = [flag_name(name) for name, given in changed.items() if given == value]
        where = " or ".join(flags) or error.field
        raise UsageError(f"{where}: {_show(where, value)!r} {error.problem}") from error


def log_start(component: str, common: CommonFlags, own: object, warnings: Iterable[str]) -> None:
    """Log the start of a component, its changed flags, and those without effect."""
    changed = list_changed(common, own)
    shown = {name: _show(name, value) for name, value in changed.items()}
    _logger.info("starting", component=component, version=__version__, flags=shown)
    idle = [
        flag_name(name)
        for record in _list_records(common, own)
        if isinstance(record, IdleFlags)
        for name in list_changed(record)
    ]
    if idle:
        _logger.warning("flags without effect here", flags=idle)
    for warning in warnings:
        _logger.warning("command line", problem=warning)


def _list_records(*records: object) -> Iterator[object]:
    """Yield records, and all records in them."""
    for record in records:
        assert is_dataclass(record)
        yield record
        values = (getattr(record, field.name) for field in fields(record))
        yield from _list_records(*(value for value in values if is_dataclass(value)))


def _show(name: str, value: object) -> object:
    if name in _SECRETS:
        return "(hidden)"
    return format_span(value) if isinstance(value, timedelta) else value
