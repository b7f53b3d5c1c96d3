import json

import msgspec

from trimtab.api.wire.codec import Written, encode


class Sample(Written, frozen=True, kw_only=True):
    always_there: str | None
    maybe_there: str = ""
    some_map: dict[str, int] = msgspec.field(default_factory=dict)


def test_defaults_are_left_out_and_names_are_in_camel_case() -> None:
    assert json.loads(encode(Sample(always_there=None))) == {"alwaysThere": None}
    assert json.loads(encode(Sample(always_there="a", maybe_there="b", some_map={"c": 1}))) == {
        "alwaysThere": "a",
        "maybeThere": "b",
        "someMap": {"c": 1},
    }


def test_records_may_stand_in_lists_and_maps() -> None:
    assert json.loads(encode([{"value": Sample(always_there="a")}])) == [
        {"value": {"alwaysThere": "a"}}
    ]
