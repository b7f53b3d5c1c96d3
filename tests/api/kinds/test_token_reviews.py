"""Tokens as the API server reviews and gives them."""

import json

import pytest

from trimtab.api.kinds.access_reviews import (
    decode_token_request,
    decode_token_review,
    encode_page_question,
    encode_token_request,
    encode_token_review,
)
from trimtab.api.wire.codec import DecodeError
from trimtab.core.webhook.page_access import Caller

USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "7",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
}
CALLER = Caller(
    "system:serviceaccount:monitoring:prometheus",
    "7",
    ("system:serviceaccounts", "system:authenticated"),
    {"authentication.kubernetes.io/pod-name": ("prometheus-0",)},
)


def answered(**status: object) -> bytes:
    return json.dumps({"kind": "TokenReview", "status": status}).encode()


@pytest.mark.parametrize(
    ("data", "audiences", "caller"),
    [
        pytest.param(answered(authenticated=True, user=USER), [], CALLER, id="known"),
        pytest.param(answered(authenticated=False, error="expired"), [], None, id="refused"),
        pytest.param(answered(user=USER), [], None, id="silence is a refusal"),
        pytest.param(answered(authenticated=True), [], None, id="known by no name"),
        pytest.param(b"{}", [], None, id="no status"),
        pytest.param(
            answered(authenticated=True, user=USER, audiences=["trimtab"]),
            ["trimtab"],
            CALLER,
            id="for our audience",
        ),
        pytest.param(
            answered(authenticated=True, user=USER, audiences=["vault"]),
            ["trimtab"],
            None,
            id="for another audience",
        ),
        pytest.param(
            answered(authenticated=True, user=USER),
            ["trimtab"],
            None,
            id="by a server that knows no audiences",
        ),
    ],
)
def test_only_a_token_that_is_accepted_has_an_owner(
    data: bytes, audiences: list[str], caller: Caller | None
) -> None:
    assert decode_token_review(data, audiences) == caller


def test_a_review_names_audiences_only_where_they_matter() -> None:
    plain = json.loads(encode_token_review("abc"))
    narrow = json.loads(encode_token_review("abc", ["trimtab"]))

    assert plain["spec"] == {"token": "abc"}
    assert narrow["spec"] == {"token": "abc", "audiences": ["trimtab"]}


def test_the_question_about_a_page_carries_all_that_is_known_of_the_caller() -> None:
    asked = json.loads(encode_page_question(CALLER, "/metrics"))

    assert asked["kind"] == "SubjectAccessReview"
    assert asked["spec"] == {
        "user": USER["username"],
        "uid": USER["uid"],
        "groups": USER["groups"],
        "extra": USER["extra"],
        "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
    }


def test_a_requested_token_is_for_one_audience() -> None:
    asked = json.loads(encode_token_request("trimtab", 600))

    assert asked["spec"] == {"audiences": ["trimtab"], "expirationSeconds": 600}
    assert decode_token_request(b'{"status": {"token": "abc"}}') == "abc"
    with pytest.raises(DecodeError):
        decode_token_request(b'{"status": {}}')
