import pytest
from support.makers.wire_examples import POD, Json, encoded

from trimtab.api.kinds.pods import decode_pod
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import decode_list


def a_pod_named(name: str, **spec: Json) -> Json:
    return {**POD, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def test_a_page_tells_its_version_and_how_to_go_on() -> None:
    page = decode_list(
        encoded({"metadata": {"resourceVersion": "42", "continue": "next"}, "items": [POD]}),
        decode_pod,
    )

    assert (page.resource_version, page.continue_token) == ("42", "next")
    assert page.items == (decode_pod(encoded(POD)),)
    assert page.unreadable == ()


def test_a_last_page_without_items_is_empty() -> None:
    page = decode_list(encoded({"metadata": {"resourceVersion": "42"}, "items": None}), decode_pod)

    assert page.items == ()
    assert page.continue_token == ""


def test_f28_one_bad_object_does_not_hide_the_others() -> None:
    bad = a_pod_named("bad", containers=[{"resources": {"requests": {"cpu": "lots"}}}])
    data = encoded({"items": [a_pod_named("a"), bad, a_pod_named("b")]})

    page = decode_list(data, decode_pod)

    assert [pod.name for pod in page.items] == ["a", "b"]
    (unreadable,) = page.unreadable
    assert (unreadable.namespace, unreadable.name) == ("default", "bad")
    assert unreadable.error.path == "spec.containers[0].resources.requests[cpu]"


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(7, "items[0]", id="not an object"),
        pytest.param({"metadata": 7}, "items[0].metadata", id="no readable metadata"),
    ],
)
def test_f28_an_object_without_a_readable_name_is_still_told_by_its_place(
    item: Json, path: str
) -> None:
    (unreadable,) = decode_list(encoded({"items": [item]}), decode_pod).unreadable

    assert unreadable.name == ""
    assert unreadable.error.path == path


def test_a_list_that_is_none_is_an_error() -> None:
    with pytest.raises(DecodeError, match="items"):
        decode_list(b'{"items": 3}', decode_pod)
