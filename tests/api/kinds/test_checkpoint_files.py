"""Checkpoints in files: nothing is lost on the way, and nothing broken comes back."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW
from support.makers.wire_examples import CHECKPOINT

from trimtab.api.kinds.checkpoint_files import (
    CheckpointFlaw,
    Manifest,
    list_documents,
    make_file,
    read_manifest,
    strip_checkpoint,
)

STORED: Any = CHECKPOINT
OF_A_CLUSTER = {"uid": "7", "resourceVersion": "9", "generation": 3, "managedFields": []}
TEXTS = st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)


def a_stored(**metadata: object) -> Any:
    return {**STORED, "metadata": {**STORED["metadata"], **metadata}}


def test_only_what_a_cluster_writes_itself_is_left_behind() -> None:
    labels = {"labels": {"team": "shop"}, "annotations": {"a": "b"}}

    assert strip_checkpoint(a_stored(**OF_A_CLUSTER, **labels)) == a_stored(**labels)


@given(st.dictionaries(TEXTS.filter(lambda key: key not in STORED), VALUES, max_size=3))
def test_fields_that_nobody_knows_come_back_as_they_were(more: dict[str, Any]) -> None:
    made: Any = make_file([{**STORED, **more}], server="s", at=NOW, version="1")
    (item,) = made["items"]
    found = read_manifest("here", item)

    assert isinstance(found, Manifest)
    assert found.document == {**STORED, **more}
    assert found.place == ("default", "web-app")


def test_a_file_says_where_and_when_it_was_written() -> None:
    made: Any = make_file([], server="https://there", at=NOW, version="1.2")

    assert made["metadata"]["annotations"] == {
        "trimtab.dev/exported-from": "https://there",
        "trimtab.dev/exported-at": "2026-08-22T12:00:00Z",
        "trimtab.dev/exported-by": "trimtab 1.2",
    }


def test_lists_in_lists_are_read_to_the_ground() -> None:
    inner: Any = {"kind": "VerticalPodAutoscalerCheckpointList", "items": [STORED, None]}
    found = list(list_documents({"kind": "List", "items": [inner, {"kind": "Pod"}]}))

    assert [where for where, _ in found] == [
        "items[0].items[0]",
        "items[0].items[1]",
        "items[1]",
    ]


@pytest.mark.parametrize("document", [None, 7, [], {"kind": "Pod"}, {}])
def test_what_is_no_checkpoint_is_nothing(document: Any) -> None:
    assert read_manifest("here", document) is None


def test_a_namespace_is_moved_only_if_it_is_named() -> None:
    moved = read_manifest("here", STORED, {"default": "other"})
    left = read_manifest("here", STORED, {"elsewhere": "other"})

    assert isinstance(moved, Manifest)
    assert isinstance(left, Manifest)
    assert (moved.place, left.place) == (("other", "web-app"), ("default", "web-app"))


def test_a_flaw_names_the_object_or_at_least_its_place() -> None:
    broken = copy.deepcopy(STORED)
    broken["status"]["version"] = "v1"
    nameless = {**broken, "metadata": {}}

    assert str(read_manifest("f: items[3]", broken)) == (
        "default/web-app: unsupported checkpoint version v1"
    )
    assert isinstance(read_manifest("f: items[3]", nameless), CheckpointFlaw)
    assert str(read_manifest("f: items[3]", nameless)).startswith("f: items[3]: ")
