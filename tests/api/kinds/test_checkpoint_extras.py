import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW

from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT, decode_supplement, encode_supplement
from trimtab.core.histogram.buckets import MEMORY_BUCKETS
from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.usage.checkpoint_extras import SavedContainer, Supplement
from trimtab.core.usage.containers import ContainerMemory
from trimtab.core.usage.samples import MOST_BYTES
from trimtab.core.usage.saved_targets import SavedLevel, SavedTarget, SavedTargets

seconds = st.floats(0, 2e9)
amounts = st.floats(0, 1e14)
memories = st.builds(
    ContainerMemory,
    seconds | st.just(float("-inf")),
    seconds | st.just(float("-inf")),
    st.none() | seconds,
    amounts,
    amounts,
    st.booleans(),
)
kills = st.none() | st.integers(0, 10**6).map(lambda minute: NOW + timedelta(minutes=minute))
supplements = st.builds(
    Supplement,
    st.lists(st.builds(OomLevel, st.integers(0, 10**14), seconds)).map(tuple),
    st.dictionaries(st.text(max_size=5), st.builds(SavedContainer, memories, kills), max_size=3),
    st.booleans(),
)


any_amounts = st.floats(0, 2.0**63)
held = st.builds(SavedTarget, any_amounts, st.none() | seconds)
levels = st.builds(SavedLevel, st.integers(0, MEMORY_BUCKETS.count - 1), seconds, any_amounts)
targets = st.builds(
    SavedTargets,
    seconds,
    seconds,
    st.none() | held,
    st.none() | held,
    any_amounts,
    kill_limit=any_amounts,
    levels=st.lists(levels, max_size=3).map(tuple),
)


@given(targets, st.integers(0, 2**63), st.floats(0, MOST_BYTES))
def test_no_amount_makes_a_supplement_unreadable(
    saved: SavedTargets, needed: int, peak: float
) -> None:
    container = SavedContainer(ContainerMemory(1.0, 1.0, 2.0, peak, peak))
    whole = Supplement((OomLevel(needed, 1.0),), {"web-0": container}, targets=saved)
    found = decode_supplement({SUPPLEMENT: encode_supplement(whole, NOW)}, NOW)

    assert found is not None
    assert found.containers == whole.containers
    assert found.targets is not None
    assert len(found.targets.levels) == len(saved.levels)


@given(supplements)
def test_a_supplement_survives_the_way_over_the_wire(supplement: Supplement) -> None:
    text = encode_supplement(supplement, NOW)

    assert decode_supplement({SUPPLEMENT: text}, NOW) == supplement


def test_beside_a_status_that_others_wrote_only_what_is_still_true_is_believed() -> None:
    remembered = SavedContainer(ContainerMemory(1.0, 1.0, 2.0, 5.0))
    whole = Supplement((OomLevel(5, 1.0),), {"web-0": remembered}, is_relearning=True)
    annotations = {SUPPLEMENT: encode_supplement(whole, NOW)}
    rest = Supplement(whole.oom_levels, is_relearning=True)

    assert decode_supplement(annotations, NOW + timedelta(milliseconds=400)) == whole
    assert decode_supplement(annotations, NOW + timedelta(seconds=1)) == rest
    assert decode_supplement(annotations, None) == rest


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("not JSON", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param("{}", id="no time"),
        pytest.param('{"at":"x","ooms":[[-1,1]]}', id="a negative need"),
        pytest.param('{"at":"x","ooms":[[1,1e300]]}', id="a time outside the calendar"),
        pytest.param('{"at":"x","containers":{"web-0":[1,1]}}', id="half a container"),
        pytest.param('{"at":"x","ooms":[[1,NaN]]}', id="not a number"),
    ],
)
def test_what_is_not_ours_is_nothing(text: str) -> None:
    assert decode_supplement({SUPPLEMENT: text}, NOW) is None
    assert decode_supplement({}, NOW) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("null", id="nothing"),
        pytest.param("[]", id="no object"),
        pytest.param('{"now":1}', id="half a state"),
        pytest.param('{"first":1,"now":1e12}', id="a time outside the calendar"),
        pytest.param('{"first":1,"now":1,"memory":[-5]}', id="a negative target"),
        pytest.param('{"first":1,"now":1,"memory":[null]}', id="no number"),
        pytest.param('{"first":1,"now":1,"levels":[[999,1,1,0]]}', id="a level that cannot be"),
        pytest.param('{"first":1,"now":1,"histogram":[1,1e300,0,[1]]}', id="too much weight"),
    ],
)
def test_broken_held_targets_spoil_nothing_else(text: str) -> None:
    remembered = SavedContainer(ContainerMemory(1.0, 1.0, 2.0, 5.0))
    rest = Supplement((OomLevel(5, 1.0),), {"web-0": remembered}, is_relearning=True)
    fields = json.loads(encode_supplement(rest, NOW)) | {"targets": json.loads(text)}

    assert decode_supplement({SUPPLEMENT: json.dumps(fields)}, NOW) == rest


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_f28_no_annotation_can_stop_us(content: object) -> None:
    decode_supplement({SUPPLEMENT: json.dumps({"at": "x", "ooms": content})}, NOW)
    decode_supplement({SUPPLEMENT: json.dumps({"at": "x", "containers": content})}, NOW)
    decode_supplement({SUPPLEMENT: json.dumps(content)}, NOW)


def test_a_price_factor_of_an_earlier_version_is_read_over() -> None:
    text = '{"at": "2026-01-01T00:00:00Z", "targets": {"first": 1.0, "now": 2.0, "factor": 4.0}}'
    found = decode_supplement({SUPPLEMENT: text}, NOW)
    assert found is not None
    assert found.targets == SavedTargets(first=1.0, now=2.0)
