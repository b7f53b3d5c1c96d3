"""How records are made: see `trimtab.core.records`, by which everybody else gets them."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, NoReturn, TypeVar

RecordT = TypeVar("RecordT")


def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Callable[[type[RecordT]], type[RecordT]]:
    """What makes of a class what `dataclasses.dataclass` would, called like this."""

    def make(cls: type[RecordT]) -> type[RecordT]:
        _require_like_bases(cls, frozen=frozen)
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        written = _Writing(made).compile(frozen=frozen, eq=eq)
        shared = {"__repr__": _show, **(_FROZEN if frozen else {})}
        copied = _FROZEN_SLOTS if frozen and slots else {}
        for name, method in {**written, **shared, **copied}.items():
            if not _has_own(cls, name):
                setattr(made, name, method)
        return made

    return make


def _require_like_bases(cls: type, *, frozen: bool) -> None:
    """Refuse a record that may change and is one that may not, or the other way round."""
    for base in cls.__mro__[1:]:
        if "__dataclass_fields__" in base.__dict__ and _is_frozen(base) is not frozen:
            kinds = ("a frozen", "a non-frozen") if frozen else ("a non-frozen", "a frozen")
            raise TypeError(f"{cls.__qualname__}: cannot be {kinds[0]} record of {kinds[1]} one")


def _is_frozen(record: type) -> bool:
    """Whether we, or the library, made a frozen record of it."""
    by_library: bool = record.__dict__["__dataclass_params__"].frozen
    setting: object = record.__setattr__
    return by_library or setting is _refuse_to_assign


def _has_own(cls: type, name: str) -> bool:
    """Whether the author of a class wrote a method."""
    if name not in cls.__dict__:
        return False
    # Who writes how to compare is given no hash by the language; nobody wrote that.
    is_by_language = cls.__dict__[name] is None and "__eq__" in cls.__dict__
    return not (name == "__hash__" and is_by_language)


class _Writing:
    """The functions of a record that have to be written for it, and compiled at once."""

    def __init__(self, made: type) -> None:
        self._made = made
        self._fields = _list_fields(made)
        self._known: dict[str, object] = {
            "__name__": made.__module__,
            "_missing": MISSING,
            "_set": object.__setattr__,
        }

    def compile(self, *, frozen: bool, eq: bool) -> dict[str, object]:
        """By name what can be called, and `None` for a hash where there is none."""
        lines = [
            *self._write_init(frozen=frozen),
            *(self._write_comparison(frozen=frozen) if eq else ()),
        ]
        compiled: dict[str, object] = {}
        exec("\n".join(lines), self._known, compiled)  # noqa: S102 - as `dataclasses` does it
        for name, method in compiled.items():
            if isinstance(method, FunctionType):
                # So that errors say whose it is.
                method.__qualname__ = f"{self._made.__qualname__}.{name}"
        return compiled

    def _write_init(self, *, frozen: bool) -> Iterator[str]:
        parameters = [self._write_parameter(each) for each in self._fields if each.init]
        yield f"def __init__({', '.join(['self', *parameters])}):"
        yield "  pass"
        for field in self._fields:
            value = self._write_value(field)
            if value:
                assign = self._write_frozen_assignment if frozen else _write_assignment
                yield f"  {assign(field.name, value)}"
        if hasattr(self._made, "__post_init__"):
            yield "  self.__post_init__()"

    def _write_parameter(self, field: Field[Any]) -> str:
        assert not field.kw_only
        if field.default is not MISSING:
            return f"{field.name}={self._name('usual', field, field.default)}"
        return field.name if field.default_factory is MISSING else f"{field.name}=_missing"

    def _write_value(self, field: Field[Any]) -> str:
        """What a field is given: nothing if `__post_init__` has to."""
        if field.default_factory is not MISSING:
            made = f"{self._name('make', field, field.default_factory)}()"
            return f"{made} if {field.name} is _missing else {field.name}" if field.init else made
        if field.init:
            return field.name
        return "" if field.default is MISSING else self._name("usual", field, field.default)

    def _write_frozen_assignment(self, name: str, value: str) -> str:
        place = getattr(self._made, name, None)
        if not isinstance(place, MemberDescriptorType):
            return f"_set(self, {name!r}, {value})"
        # Straight into its slot, which takes half of the time.
        self._known[f"_set_{name}"] = place.__set__
        return f"_set_{name}(self, {value})"

    def _write_comparison(self, *, frozen: bool) -> Iterator[str]:
        names = [each.name for each in self._fields if each.compare]
        mine, others = ("".join(f"{who}.{name}, " for name in names) for who in ("self", "other"))
        yield "def __eq__(self, other):"
        yield "  if other.__class__ is self.__class__:"
        yield f"    return ({mine}) == ({others})"
        yield "  return NotImplemented"
        yield f"def __hash__(self): return hash(({mine}))" if frozen else "__hash__ = None"

    def _name(self, what: str, field: Field[Any], value: object) -> str:
        """The name by which something of a field is known to what is compiled."""
        name = f"_{what}_{field.name}"
        self._known[name] = value
        return name


def _write_assignment(name: str, value: str) -> str:
    return f"self.{name} = {value}"


def _list_fields(record: object) -> Sequence[Field[Any]]:
    assert dataclasses.is_dataclass(record)
    return dataclasses.fields(record)


@recursive_repr()
def _show(self: object) -> str:
    told = (each.name for each in _list_fields(self) if each.repr)
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in told)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_to_assign(_self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _tell_state(self: object) -> list[object]:
    return [getattr(self, each.name) for each in _list_fields(self)]


def _take_state(self: object, state: Sequence[object]) -> None:
    for field, value in zip(_list_fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: Final = {"__setattr__": _refuse_to_assign, "__delattr__": _refuse_to_delete}
_FROZEN_SLOTS: Final = {
    # By default a copy and a pickle would be given their values by assignments.
    "__getstate__": _tell_state,
    "__setstate__": _take_state,
}
