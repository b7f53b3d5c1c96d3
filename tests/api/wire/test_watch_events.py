import pytest
from support.makers.wire_examples import POD, Json, encoded

from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.status_errors import Status
from trimtab.api.wire.watch_events import (
    Applied,
    Bookmark,
    ObjectName,
    Removed,
    Spoiled,
    StoredObject,
    WatchRefused,
    decode_entry,
    decode_event,
)

WEB = ObjectName("default", "web")


def an_event(kind: str | None, what: Json) -> bytes:
    return encoded({"type": kind, "object": what})


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_an_object_that_is_there_comes_under_its_name_and_version(kind: str) -> None:
    event = decode_event(an_event(kind, POD), decode_pod)

    assert event == Applied(StoredObject(WEB, decode_pod(encoded(POD))), "7")


def test_an_object_that_is_gone_leaves_its_name_and_the_version_of_its_deletion() -> None:
    assert decode_event(an_event("DELETED", POD), decode_pod) == Removed(WEB, "7")


def test_f28_an_object_that_is_gone_need_not_be_readable() -> None:
    gone = {"metadata": POD["metadata"], "spec": 7}

    assert decode_event(an_event("DELETED", gone), decode_pod) == Removed(WEB, "7")


def test_f28_an_object_that_cannot_be_read_is_told_with_the_reason() -> None:
    bad = {"metadata": POD["metadata"], "spec": {"containers": 7}}

    event = decode_event(an_event("MODIFIED", bad), decode_pod)

    assert isinstance(event, Spoiled)
    assert event.version == "7"
    assert (event.unreadable.namespace, event.unreadable.name) == WEB
    assert event.unreadable.error.path == "spec.containers"


def test_an_object_of_the_whole_cluster_has_no_namespace() -> None:
    entry = decode_entry(encoded({"metadata": {"name": "n"}}), lambda _: 1)

    assert entry == StoredObject(ObjectName("", "n"), 1)


@pytest.mark.parametrize(
    ("what", "version"),
    [
        pytest.param({"metadata": {"resourceVersion": "12"}}, "12", id="as servers send it"),
        pytest.param({"metadata": {}}, "", id="without a version"),
        pytest.param({}, "", id="without metadata"),
    ],
)
def test_a_bookmark_tells_how_far_the_watch_has_come(what: Json, version: str) -> None:
    assert decode_event(an_event("BOOKMARK", what), decode_pod) == Bookmark(version)


@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        pytest.param(
            {"code": 410, "reason": "Expired", "message": "too old"},
            Status(410, "Expired", "too old"),
            id="a forgotten version",
        ),
        pytest.param({"reason": "Gone"}, Status(410, "Gone"), id="one without a code"),
        pytest.param({"code": 500, "message": "no"}, Status(500, "", "no"), id="any other reason"),
    ],
)
def test_a_server_that_cannot_go_on_says_why(status: Json, refusal: Status) -> None:
    assert decode_event(an_event("ERROR", status), decode_pod) == WatchRefused(refusal)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        pytest.param(b"{", "", id="a line that was cut"),
        pytest.param(an_event("RENAMED", POD), "type", id="an unknown type"),
        pytest.param(an_event(None, POD), "type", id="no type"),
        pytest.param(an_event("ADDED", {"metadata": {}}), "metadata.name", id="no name"),
        pytest.param(an_event("DELETED", None), "", id="no object"),
        pytest.param(encoded({"type": "ADDED"}), "", id="not even a field for one"),
    ],
)
def test_an_event_that_does_not_say_what_it_is_about_is_an_error(data: bytes, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_event(data, decode_pod)

    assert caught.value.path == path
