"""Reviews of our own access on the wire."""

import json

import pytest

from trimtab.api.access_reviews import decode_access_review, encode_access_review


def test_a_question_names_only_what_it_is_about() -> None:
    asked = json.loads(encode_access_review("list", "nodes"))
    narrow = json.loads(encode_access_review("get", "leases", group="g", namespace="n"))

    assert asked["kind"] == "SelfSubjectAccessReview"
    assert asked["spec"] == {"resourceAttributes": {"verb": "list", "resource": "nodes"}}
    assert narrow["spec"]["resourceAttributes"] == {
        "verb": "get",
        "group": "g",
        "resource": "leases",
        "namespace": "n",
    }


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        pytest.param({"status": {"allowed": True}}, True, id="we may"),
        pytest.param({"status": {"allowed": False, "reason": "no"}}, False, id="we may not"),
        pytest.param({"status": {}}, None, id="no word of it"),
        pytest.param({}, None, id="no answer at all"),
    ],
)
def test_an_answer_says_whether_we_may(answer: object, *, may: bool | None) -> None:
    assert decode_access_review(json.dumps(answer).encode()) is may
