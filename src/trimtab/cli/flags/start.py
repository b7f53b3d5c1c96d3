"""The start of a component: what its command line means, and what is told of it."""

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
    """The flag of a field."""
    return f"--{field.replace('_', '-')}"


def list_flags(*records: object) -> dict[str, object]:
    """All flags in records of flags, in records in them too, by field, with their values."""
    found: dict[str, object] = {}
    for record in records:
        assert is_dataclass(record)
        for field in fields(record):
            value = getattr(record, field.name)
            found |= list_flags(value) if is_dataclass(value) else {field.name: value}
    return found


def list_changed(*records: object) -> dict[str, object]:
    """The flags that are not as by default, by field."""
    usual = list_flags(*(type(record)() for record in records))
    return {name: value for name, value in list_flags(*records).items() if value != usual[name]}


def parse_gates(text: str) -> tuple[feature_gates.FeatureGates, list[str]]:
    """The gates that the flag describes, and warnings; a UsageError if it cannot be read."""
    try:
        return feature_gates.parse(text)
    except feature_gates.GateError as error:
        raise UsageError(f"--feature-gates: {error}") from error


def list_unknown(unused: Sequence[str], known: Iterable[str], *, is_strict: bool) -> list[str]:
    """Warnings of unknown flags (F46), of what the parser has left over from a command line.

    A UsageError where flags are to be known, and for what is no flag at all: a stray word, or a
    long name with one dash, which the original refuses as well.
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
    """Warnings of variables that look like those of flags and belong to none.

    A UsageError where flags are to be known. Those that Kubernetes sets for Services are no flags:
    a warning if one has taken the name of a flag's.
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
            raise UsageError(f"variable {variable} is that of no flag{hint}")
        warnings.append(f"variable {variable} is that of no flag and is ignored{hint}")
    return warnings


def make_settings(make: Callable[[], SettingsT], changed: Mapping[str, object]) -> SettingsT:
    """What is made; a UsageError that names the flag if a setting makes no sense."""
    try:
        return make()
    except SettingsError as error:
        value = error.value
        flags = [flag_name(name) for name, given in changed.items() if given == value]
        where = " or ".join(flags) or error.field
        raise UsageError(f"{where}: {_show(where, value)!r} {error.problem}") from error


def tell_of_start(
    component: str, common: CommonFlags, own: object, warnings: Iterable[str]
) -> None:
    """Log what starts, how it differs from the usual, and what of that has no effect."""
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
    """Records, and all records in them."""
    for record in records:
        assert is_dataclass(record)
        yield record
        values = (getattr(record, field.name) for field in fields(record))
        yield from _list_records(*(value for value in values if is_dataclass(value)))


def _show(name: str, value: object) -> object:
    if name in _SECRETS:
        return "(hidden)"
    return format_span(value) if isinstance(value, timedelta) else value
