"""Full objects with parts replaced by anything that JSON can hold."""

import copy

from hypothesis import strategies as st
from support.makers.wire_examples import Json

Place = tuple[str | int, ...]

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            *("", "0", "-1", "1e3", "1e999999999", "9Ei", "1.5.2", "-0.0001n", "cpu", "memory"),
            *("Off", "Always", "True", "=", "a in (", "10s", "-1h", "99999999999h", "*"),
            *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z"),
        ]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Json, place: Place = ()) -> list[Place]:
    """The path of every value inside a value, itself included."""
    inner: Json = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [place] + [found for key, part in inner for found in places(part, (*place, key))]


def replaced(value: Json, place: Place, by: Json) -> Json:
    """The value with another one at the place."""
    if not place:
        return by
    changed = copy.copy(value)
    changed[place[0]] = replaced(value[place[0]], place[1:], by)
    return changed
