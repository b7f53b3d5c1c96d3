"""Records: whatever they are asked, they answer as those of `dataclasses` do."""

import copy
import dataclasses
import inspect
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, TypeAlias

import pytest

from trimtab.core.model import record_making
from trimtab.core.model.records import dataclass

Maker: TypeAlias = Callable[..., Any]
MAKERS = [
    pytest.param(dataclasses.dataclass, id="as the library makes them"),
    pytest.param(record_making.dataclass, id="as we do"),
]


@dataclass(frozen=True, slots=True)
class Name:
    """A record at the top of a module, where pickles look for it."""

    space: str
    name: str = "web"


@dataclass(frozen=True, slots=True)
class LongName(Name):
    """One with fields of another."""

    tail: list[str] = field(default_factory=list)


def make_frozen(maker: Maker) -> Any:
    @maker(frozen=True, slots=True)
    class Frozen:
        """All kinds of fields."""

        first: int
        second: str = "two"
        third: dict[str, int] = field(default_factory=dict)
        hidden: str = field(default="", repr=False)
        aside: int = field(default=0, compare=False)
        made: str = field(init=False)
        fixed: int = field(default=7, init=False)
        counted: Counter[str] = field(default_factory=Counter, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.second * 2)

    return Frozen


def make_mutable(maker: Maker) -> Any:
    @maker(slots=True)
    class Mutable:
        """What may change."""

        first: int
        second: list[int] = field(default_factory=list)

    return Mutable


@pytest.mark.parametrize("maker", MAKERS)
def test_fields_have_what_they_are_given_or_their_defaults(maker: Maker) -> None:
    frozen = make_frozen(maker)

    plain, full = frozen(1), frozen(1, "zwei", third={"x": 1}, hidden="h", aside=3)

    assert (plain.first, plain.second, plain.third) == (1, "two", {})
    assert (plain.made, plain.fixed, plain.counted) == ("twotwo", 7, Counter())
    assert (full.second, full.third, full.made) == ("zwei", {"x": 1}, "zweizwei")
    assert plain.third is not frozen(1).third


@pytest.mark.parametrize("maker", MAKERS)
def test_methods_say_whose_they_are(maker: Maker) -> None:
    frozen = make_frozen(maker)

    for method in (frozen.__init__, frozen.__eq__, frozen.__hash__):
        assert method.__qualname__ == f"{frozen.__qualname__}.{method.__name__}"
        assert method.__module__ == __name__


@pytest.mark.parametrize("maker", MAKERS)
def test_the_signature_tells_what_can_be_given(maker: Maker) -> None:
    parameters = inspect.signature(make_frozen(maker)).parameters

    assert list(parameters) == ["first", "second", "third", "hidden", "aside"]
    assert parameters["first"].default is inspect.Parameter.empty
    assert parameters["second"].default == "two"


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("given", [(), (1, 2, 3, 4, 5, 6)], ids=["too little", "too much"])
def test_a_wrong_number_of_values_is_refused(maker: Maker, given: tuple[int, ...]) -> None:
    with pytest.raises(TypeError, match=r"Frozen\.__init__\(\)"):
        make_frozen(maker)(*given)


def make_key(maker: Maker) -> Any:
    @maker(frozen=True, slots=True)
    class Key:
        """What can be looked up by."""

        first: int
        second: str = "two"
        aside: int = field(default=0, compare=False)

    return Key


def make_thing(maker: Maker) -> Any:
    @maker(slots=True, eq=False)
    class Thing:
        """What is only itself."""

        size: int

    return Thing


def make_quiet(maker: Maker) -> Any:
    @maker(frozen=True, slots=True)
    class Quiet:
        """What has methods of its own."""

        size: int

        def __repr__(self) -> str:
            return "quiet"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Quiet)

        def __hash__(self) -> int:
            return 1

    return Quiet


def make_loose(maker: Maker) -> Any:
    @maker(frozen=True)
    class Loose:
        """What has no slots."""

        size: int
        name: str = "x"

    return Loose


@pytest.mark.parametrize("maker", MAKERS)
def test_records_are_equal_and_hash_alike_by_the_fields_that_are_compared(maker: Maker) -> None:
    mutable, key = make_mutable(maker), make_key(maker)

    assert key(1) == key(1, aside=3)
    assert hash(key(1)) == hash(key(1, aside=3))
    assert key(1) != key(1, "zwei")
    assert key(1) != (1, "two")
    assert mutable(1) == mutable(1)
    assert mutable.__hash__ is None


@pytest.mark.parametrize("maker", MAKERS)
def test_records_without_equality_are_equal_only_to_themselves(maker: Maker) -> None:
    kind = make_thing(maker)

    thing = kind(1)

    assert thing != kind(1)
    assert {thing: 1}[thing] == 1


@pytest.mark.parametrize("maker", MAKERS)
def test_a_frozen_record_cannot_be_changed(maker: Maker) -> None:
    record = make_frozen(maker)(1)

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'first'"):
        record.first = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'first'"):
        del record.first
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        record.other = 2


@pytest.mark.parametrize("maker", MAKERS)
def test_a_record_that_is_not_frozen_can_be_changed(maker: Maker) -> None:
    record = make_mutable(maker)(1)

    record.first = 2

    assert record.first == 2
    assert not hasattr(record, "__dict__")


@pytest.mark.parametrize("maker", MAKERS)
def test_a_record_shows_its_fields(maker: Maker) -> None:
    record = make_frozen(maker)(1, hidden="h")

    assert repr(record).endswith(
        ".Frozen(first=1, second='two', third={}, aside=0, made='twotwo', fixed=7,"
        " counted=Counter())"
    )


@pytest.mark.parametrize("maker", MAKERS)
def test_a_record_that_holds_itself_can_be_shown(maker: Maker) -> None:
    record = make_mutable(maker)(1)
    record.second.append(record)

    assert repr(record).endswith(".Mutable(first=1, second=[...])")


@pytest.mark.parametrize("maker", MAKERS)
def test_the_library_can_take_records_apart_and_replace_fields(maker: Maker) -> None:
    record = make_mutable(maker)(1, [2])

    assert dataclasses.asdict(record) == {"first": 1, "second": [2]}
    assert [each.name for each in dataclasses.fields(record)] == ["first", "second"]
    assert dataclasses.replace(record, first=3) == type(record)(3, [2])


@pytest.mark.parametrize("maker", MAKERS)
def test_methods_that_a_class_has_itself_are_kept(maker: Maker) -> None:
    quiet = make_quiet(maker)

    assert repr(quiet(1)) == "quiet"
    assert quiet(1) == quiet(2)
    assert hash(quiet(1)) == 1


@pytest.mark.parametrize("maker", MAKERS)
def test_patterns_match_by_position(maker: Maker) -> None:
    assert make_mutable(maker).__match_args__ == ("first", "second")


@pytest.mark.parametrize("maker", MAKERS)
def test_a_frozen_record_without_slots_can_be_made(maker: Maker) -> None:
    loose = make_loose(maker)(1)

    assert (loose.size, loose.name) == (1, "x")
    with pytest.raises(FrozenInstanceError):
        loose.size = 2


@pytest.mark.parametrize("maker", MAKERS)
def test_a_frozen_record_that_compares_by_itself_has_the_usual_hash(maker: Maker) -> None:
    class Loud:  # noqa: PLW1641 - that is the question
        """What compares in its own way."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loud) and self.name.lower() == other.name.lower()

    made = maker(frozen=True)(Loud)

    assert hash(made("a")) == hash(("a",))


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_records_that_may_change_and_others_do_not_mix(maker: Maker, *, is_frozen: bool) -> None:
    @maker(frozen=is_frozen)
    class Base:
        """One kind."""

        first: int

    class Child(Base):
        """The other."""

        second: int = 0

    with pytest.raises(TypeError, match="frozen"):
        maker(frozen=not is_frozen)(Child)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_copy_of_a_frozen_record_without_slots_has_all_that_it_had(maker: Maker) -> None:
    loose = make_loose(maker)(1)
    object.__setattr__(loose, "found_out", 7)

    assert copy.copy(loose).found_out == 7


def make_alike(maker: Maker) -> Any:
    @maker(frozen=True, slots=True)
    class One:
        """With a field that is called like a function."""

        hash: int
        self_: str = "one"

    @maker(frozen=True, slots=True)
    class Two:
        """Of the same shape."""

        left: int
        right: str = "two"

    return One, Two


@pytest.mark.parametrize("maker", MAKERS)
def test_records_of_one_shape_keep_their_names_apart(maker: Maker) -> None:
    one, two = make_alike(maker)

    assert (one(1).hash, one(1).self_, two(2).left, two(2).right) == (1, "one", 2, "two")
    assert (hash(one(1)), hash(two(1))) == (hash((1, "one")), hash((1, "two")))
    with pytest.raises(TypeError, match=r"One\.__init__\(\).*'hash'"):
        one()
    with pytest.raises(TypeError, match=r"Two\.__init__\(\).*'left'"):
        two()


def test_records_are_made_by_us() -> None:
    assert dataclass is record_making.dataclass


def pickle_and_back(record: object) -> object:
    return pickle.loads(pickle.dumps(record))  # noqa: S301 - our own


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle_and_back])
def test_records_can_be_copied_and_pickled(make: Callable[[Any], Any]) -> None:
    name = LongName("shop", tail=["a"])

    made = make(name)

    assert made == name
    assert made is not name
    assert (made.space, made.name, made.tail) == ("shop", "web", ["a"])


def test_a_record_has_the_fields_of_the_one_that_it_extends() -> None:
    assert LongName("shop", "api", ["b"]) == LongName("shop", "api", ["b"])
    assert LongName("shop") != Name("shop")
    assert repr(LongName("shop")) == "LongName(space='shop', name='web', tail=[])"
