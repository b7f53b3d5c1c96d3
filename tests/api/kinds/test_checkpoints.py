import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW
from support.makers.wire_examples import CHECKPOINT, Json, encoded

from trimtab.api.kinds.checkpoints import (
    FINGERPRINT,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    encode_checkpoint_patch,
)
from trimtab.api.wire.codec import DecodeError
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint

EMPTY = Checkpoint("default", "web", "app", AggregateCheckpoint())

SECONDS = st.none() | st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)
HISTOGRAMS = st.builds(
    HistogramCheckpoint,
    SECONDS,
    st.dictionaries(st.integers(0, 175), st.integers(1, 10_000)),
    st.floats(0, allow_nan=False, allow_infinity=False),
)
AGGREGATES = st.builds(
    AggregateCheckpoint,
    HISTOGRAMS,
    HISTOGRAMS,
    SECONDS,
    SECONDS,
    st.integers(0, 2**40),
    SECONDS,
    st.sampled_from(["v3", "v2"]),
)


def test_what_the_original_wrote_is_read() -> None:
    assert decode_checkpoint(encoded(CHECKPOINT)) == Checkpoint(
        namespace="default",
        autoscaler_name="web",
        container_name="app",
        name="web-app",
        aggregate=AggregateCheckpoint(
            cpu_histogram=HistogramCheckpoint(
                datetime(2026, 8, 1, tzinfo=UTC), {8: 10000, 25: 77}, 0.07278265914210938
            ),
            first_sample_start=datetime(2026, 8, 1, tzinfo=UTC),
            last_sample_start=datetime(2026, 8, 1, 12, tzinfo=UTC),
            total_samples_count=720,
            last_update_time=datetime(2026, 8, 2, tzinfo=UTC),
        ),
    )


def test_what_is_written_is_what_the_original_would_write() -> None:
    assert json.loads(encode_checkpoint(decode_checkpoint(encoded(CHECKPOINT)))) == CHECKPOINT


def test_an_empty_aggregate_has_null_times_and_no_weights() -> None:
    assert json.loads(encode_checkpoint(EMPTY))["status"] == {
        "lastUpdateTime": None,
        "version": "v3",
        "cpuHistogram": {"referenceTimestamp": None},
        "memoryHistogram": {"referenceTimestamp": None},
        "firstSampleStart": None,
        "lastSampleStart": None,
    }


def test_a_checkpoint_is_named_after_autoscaler_and_container() -> None:
    assert json.loads(encode_checkpoint(EMPTY))["metadata"] == {
        "name": "web-app",
        "namespace": "default",
    }


@given(AGGREGATES)
def test_a_written_aggregate_is_read_back_unchanged(aggregate: AggregateCheckpoint) -> None:
    written = encode_checkpoint(replace(EMPTY, aggregate=aggregate))

    assert decode_checkpoint(written).aggregate == aggregate


def test_histograms_of_the_original_survive_a_round_trip(request: pytest.FixtureRequest) -> None:
    golden = request.config.getoption("--golden-dir") / "histogram.json"
    cases = json.loads(golden.read_bytes())["cases"]
    for case in cases:
        histogram = case["expected"]["checkpoint"]
        source = {"status": {"version": "v3", "cpuHistogram": histogram}}
        written = json.loads(encode_checkpoint(decode_checkpoint(encoded(source))))

        # The original leaves out what is empty; the recorded answers spell it out.
        empty = {"bucketWeights": {}, "totalWeight": 0}
        assert {**empty, **written["status"]["cpuHistogram"]} == histogram, case["name"]


def test_the_zero_time_of_the_original_is_no_time() -> None:
    source = {"status": {"firstSampleStart": "0001-01-01T00:00:00Z"}}

    assert decode_checkpoint(encoded(source)).aggregate.first_sample_start is None


def test_times_are_written_to_the_second() -> None:
    aggregate = AggregateCheckpoint(last_update_time=NOW.replace(microsecond=999_999))
    status = json.loads(encode_checkpoint(replace(EMPTY, aggregate=aggregate)))["status"]

    assert status["lastUpdateTime"] == "2026-08-22T12:00:00Z"


def test_f28_an_object_without_a_status_has_no_version_that_could_be_loaded() -> None:
    assert decode_checkpoint(b"{}").aggregate == AggregateCheckpoint(version="")


@pytest.mark.parametrize(
    ("status", "path"),
    [
        pytest.param({"version": 3}, "status.version", id="a version that is a number"),
        pytest.param(
            {"cpuHistogram": {"bucketWeights": {"first": 1}}},
            "status.cpuHistogram.bucketWeights",
            id="a bucket that is no number",
        ),
        pytest.param(
            {"memoryHistogram": {"bucketWeights": {"1": 1.5}}},
            "status.memoryHistogram.bucketWeights[...]",
            id="a broken weight",
        ),
        pytest.param(
            {"memoryHistogram": {"referenceTimestamp": "today"}},
            "status.memoryHistogram.referenceTimestamp",
            id="a reference that is no time",
        ),
        pytest.param({"lastSampleStart": ""}, "status.lastSampleStart", id="an empty time"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_names_the_field(status: Json, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_checkpoint(encoded({"status": status}))

    assert caught.value.path == path


@pytest.mark.parametrize(
    ("ours", "stored", "annotations"),
    [
        pytest.param({}, {}, None, id="no selector before or now"),
        pytest.param({FINGERPRINT: "a"}, {FINGERPRINT: "a"}, None, id="the same selector"),
        pytest.param(
            {FINGERPRINT: "b"},
            {FINGERPRINT: "a", "note": "kept"},
            {FINGERPRINT: "b", "note": "kept"},
            id="another selector",
        ),
        pytest.param({FINGERPRINT: "a"}, {}, {FINGERPRINT: "a"}, id="a first selector"),
        pytest.param(
            {}, {FINGERPRINT: "a", "note": "kept"}, {"note": "kept"}, id="no selector any more"
        ),
    ],
)
def test_a_patch_touches_the_fingerprint_only_where_it_differs(
    ours: Mapping[str, str], stored: Mapping[str, str], annotations: Json
) -> None:
    patch = encode_checkpoint_patch(replace(EMPTY, annotations=ours), stored=stored)
    status, *others = json.loads(patch)

    assert (status["op"], status["path"]) == ("add", "/status")
    assert status["value"]["version"] == "v3"
    expected = {"op": "add", "path": "/metadata/annotations", "value": annotations}
    assert others == ([] if annotations is None else [expected])


def test_the_fingerprint_is_an_annotation_of_the_object() -> None:
    checkpoint = replace(EMPTY, annotations={FINGERPRINT: "abc"})

    assert decode_checkpoint(encode_checkpoint(checkpoint)).fingerprint == "abc"
    assert EMPTY.fingerprint is None
