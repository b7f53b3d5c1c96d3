"""How records are made: see `trimtab.core.model.records`, by which everybody else gets them."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import lru_cache
from reprlib import recursive_repr
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, Final, NoReturn, TypeVar

RecordT = TypeVar("RecordT")


def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Callable[[type[RecordT]], type[RecordT]]:
    """What makes of a class what `dataclasses.dataclass` would, called like this."""

    def make(cls: type[RecordT]) -> type[RecordT]:
        _require_like_bases(cls, frozen=frozen)
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        written = _Writing(made).make(frozen=frozen, eq=eq)
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
    """The functions of a record that have to be written for it.

    What is written calls fields by their numbers, so that records of one shape are written alike,
    and compiled once. Each of them gets a copy with the names of its own fields.
    """

    def __init__(self, made: type) -> None:
        self._made = made
        self._fields = _list_fields(made)
        self._known: dict[str, object] = {
            "__name__": made.__module__,
            "_missing": MISSING,
            "_set": object.__setattr__,
        }

    def make(self, *, frozen: bool, eq: bool) -> dict[str, object]:
        """By name what can be called, and `None` for a hash where there is none."""
        made: dict[str, object] = {"__init__": self._make_init(frozen=frozen)}
        if eq:
            compared = [each.name for each in self._fields if each.compare]
            made["__eq__"] = self._finish(_write_comparison(len(compared)), compared)
            hashing = _write_hash(len(compared))
            made["__hash__"] = self._finish(hashing, compared) if frozen else None
        return made

    def _make_init(self, *, frozen: bool) -> FunctionType:
        lines = "\n".join(self._write_init(frozen=frozen))
        given = (each for each in self._fields if each.init)
        usual = (each.default for each in given if _is_optional(each))
        return self._finish(lines, [each.name for each in self._fields], tuple(usual))

    def _finish(
        self, source: str, names: Sequence[str], defaults: tuple[object, ...] = ()
    ) -> FunctionType:
        """A function that was written, with the names of these fields, for this record."""
        code = _compile(source)
        own = {_place(number): name for number, name in enumerate(names)}
        named = code.replace(
            co_varnames=tuple(own.get(each, each) for each in code.co_varnames),
            co_names=tuple(own.get(each, each) for each in code.co_names),
        )
        function = FunctionType(named, self._known, argdefs=defaults)
        # So that errors say whose it is.
        function.__qualname__ = f"{self._made.__qualname__}.{code.co_name}"
        return function

    def _write_init(self, *, frozen: bool) -> Iterator[str]:
        parameters = [
            f"{_place(number)}=_missing" if _is_optional(each) else _place(number)
            for number, each in enumerate(self._fields)
            if each.init
        ]
        yield f"def __init__({', '.join(['self', *parameters])}):"
        yield "  pass"
        for number, field in enumerate(self._fields):
            place = _place(number)
            value = self._write_value(field, place)
            if value and frozen:
                yield f"  {self._write_frozen_assignment(field.name, place, value)}"
            elif value:
                yield f"  self.{place} = {value}"
        if hasattr(self._made, "__post_init__"):
            yield "  self.__post_init__()"

    def _write_value(self, field: Field[Any], place: str) -> str:
        """What a field is given: nothing if `__post_init__` has to."""
        if field.default_factory is not MISSING:
            self._known[f"_make_{place}"] = field.default_factory
            made = f"_make_{place}()"
            return f"{made} if {place} is _missing else {place}" if field.init else made
        if field.init:
            return place
        self._known[f"_usual_{place}"] = field.default
        return "" if field.default is MISSING else f"_usual_{place}"

    def _write_frozen_assignment(self, name: str, place: str, value: str) -> str:
        slot = getattr(self._made, name, None)
        if not isinstance(slot, MemberDescriptorType):
            return f"_set(self, {name!r}, {value})"
        # Straight into its slot, which takes half of the time.
        self._known[f"_set_{place}"] = slot.__set__
        return f"_set_{place}(self, {value})"


@lru_cache(maxsize=512)
def _compile(source: str) -> CodeType:
    """The code of the one function that the source has."""
    compiled: dict[str, FunctionType] = {}
    exec(source, {"_missing": MISSING}, compiled)  # noqa: S102 - as `dataclasses` does it
    (function,) = compiled.values()
    return function.__code__


def _place(number: int) -> str:
    """What a field is called until it gets its name."""
    return f"field_{number}"


def _is_optional(field: Field[Any]) -> bool:
    assert not field.kw_only
    return field.default is not MISSING or field.default_factory is not MISSING


def _write_comparison(count: int) -> str:
    mine, others = (_write_fields(who, count) for who in ("self", "other"))
    return f"""\
def __eq__(self, other):
  if other.__class__ is self.__class__:
    return {mine} == {others}
  return NotImplemented
"""


def _write_hash(count: int) -> str:
    return f"def __hash__(self): return hash({_write_fields('self', count)})"


def _write_fields(who: str, count: int) -> str:
    """All fields of somebody, as a tuple."""
    return f"({''.join(f'{who}.{_place(number)}, ' for number in range(count))})"


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
