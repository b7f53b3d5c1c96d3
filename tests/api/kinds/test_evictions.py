from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.wire_examples import EVICTION_EVENT, Json, encoded

from trimtab.api.kinds.evictions import MemoryEviction, decode_memory_evictions
from trimtab.api.wire.codec import DecodeError


def with_annotations(**annotations: str) -> bytes:
    return encoded({**EVICTION_EVENT, "metadata": {"annotations": annotations}})


def test_containers_are_named_for_memory_only() -> None:
    at = datetime(2026, 8, 1, tzinfo=UTC)

    assert decode_memory_evictions(encoded(EVICTION_EVENT)) == (
        MemoryEviction("default", "web-0", "app", 2**30, at),
        MemoryEviction("default", "web-0", "log", 7 * 1024, at),
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"reason": "Killing"}, id="another reason"),
        pytest.param({"involvedObject": {"kind": "Node"}}, id="another kind of object"),
        pytest.param({"involvedObject": None}, id="no object"),
        pytest.param({"metadata": None}, id="no annotations"),
    ],
)
def test_other_events_blame_nobody(change: Json) -> None:
    assert decode_memory_evictions(encoded({**EVICTION_EVENT, **change})) == ()


def test_f28_lists_of_different_lengths_blame_nobody() -> None:
    data = with_annotations(
        offending_containers="a,b", offending_containers_usage="1", starved_resource="memory,memory"
    )

    assert decode_memory_evictions(data) == ()


def test_a_usage_that_is_no_quantity_is_an_error_that_shows_it() -> None:
    data = with_annotations(
        offending_containers="a", offending_containers_usage="much", starved_resource="memory"
    )

    with pytest.raises(DecodeError, match=r"offending_containers_usage.*'much'"):
        decode_memory_evictions(data)


@given(
    st.dictionaries(
        st.sampled_from(["offending_containers", "offending_containers_usage", "starved_resource"]),
        st.text() | st.sampled_from(["memory", "app,side", "memory,memory", "1Gi,2Gi"]),
    )
)
def test_f28_no_event_can_crash_the_reading_of_evictions(annotations: dict[str, str]) -> None:
    with suppress(DecodeError):
        found = decode_memory_evictions(with_annotations(**annotations))

        assert all(isinstance(each, MemoryEviction) for each in found)
