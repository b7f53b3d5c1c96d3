"""Decisions about callers of metrics and pages."""

from datetime import timedelta

import pytest

from trimtab.core.webhook.page_access import (
    Access,
    CacheSettings,
    Caller,
    Decision,
    DecisionCache,
    Token,
    decide,
    find_token,
)

GRANTED = Decision(Access.GRANTED, "prometheus")
UNKNOWN = Decision(Access.UNKNOWN)
FORBIDDEN = Decision(Access.FORBIDDEN, "mallory")
UNDECIDED = Decision(Access.UNDECIDED, "no answer")
START = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        pytest.param({}, None, id="no header"),
        pytest.param({"authorization": "Bearer abc"}, Token("abc"), id="a bearer token"),
        pytest.param({"authorization": "bearer  abc "}, Token("abc"), id="schemes have no case"),
        pytest.param({"authorization": "Basic abc"}, None, id="a password is no token"),
        pytest.param({"authorization": "Bearer"}, None, id="an empty bearer token"),
        pytest.param({"trimtab-token": "abc"}, Token("abc", is_for_pages=True), id="for pages"),
        pytest.param({"trimtab-token": ""}, None, id="an empty token for pages"),
        pytest.param(
            {"authorization": "Bearer abc", "trimtab-token": "def"}, Token("abc"), id="both"
        ),
    ],
)
def test_tokens_are_found_in_two_headers(headers: dict[str, str], token: Token | None) -> None:
    assert find_token(headers) == token


@pytest.mark.parametrize(
    ("caller", "is_allowed", "access"),
    [
        pytest.param(None, None, Access.UNKNOWN, id="a token that is not accepted"),
        pytest.param(None, True, Access.UNKNOWN, id="an unknown caller has no rights"),
        pytest.param(Caller("a"), True, Access.GRANTED, id="a right"),
        pytest.param(Caller("a"), False, Access.FORBIDDEN, id="no right"),
        pytest.param(Caller("a"), None, Access.FORBIDDEN, id="silence is no right"),
    ],
)
def test_only_a_known_caller_with_the_right_may_read(
    caller: Caller | None, *, is_allowed: bool | None, access: Access
) -> None:
    assert decide(caller, is_allowed=is_allowed).access is access


def test_of_a_callers_name_only_a_part_is_kept() -> None:
    assert len(decide(Caller("a" * 100_000), is_allowed=False).detail) == 128


@pytest.mark.parametrize("decision", [UNKNOWN, FORBIDDEN, UNDECIDED], ids=lambda one: one.access)
def test_every_refusal_is_a_sentence_that_names_the_page(decision: Decision) -> None:
    told = decision.explain("/plan")

    assert "/plan" in told
    assert decision.detail in told


def test_a_token_is_never_shown_or_kept() -> None:
    token = Token("secret-token")

    assert "secret-token" not in repr(token)
    assert b"secret-token" not in token.digest("/plan")
    assert len(token.digest("/plan" * 1000)) == 32


def test_decisions_differ_by_token_page_and_kind_of_token() -> None:
    digests = {
        Token("a").digest("/plan"),
        Token("b").digest("/plan"),
        Token("a").digest("/metrics"),
        Token("a", is_for_pages=True).digest("/plan"),
    }

    assert len(digests) == 4


@pytest.mark.parametrize(
    ("decision", "seconds"),
    [
        pytest.param(GRANTED, 60, id="a granted one holds for a minute"),
        pytest.param(UNKNOWN, 10, id="a new token is accepted soon"),
        pytest.param(FORBIDDEN, 10, id="a new right counts soon"),
        pytest.param(UNDECIDED, 0, id="an outage is not kept"),
    ],
)
def test_a_decision_holds_for_its_time(decision: Decision, seconds: int) -> None:
    cache = DecisionCache()
    cache.keep(b"1", decision, START)
    end = START + seconds * SECOND

    assert cache.find(b"1", end) is None
    if seconds:
        assert cache.find(b"1", end - SECOND) == decision


def test_a_newer_decision_replaces_an_older_one() -> None:
    cache = DecisionCache()
    cache.keep(b"1", GRANTED, START)
    cache.keep(b"1", FORBIDDEN, START + SECOND)

    assert cache.find(b"1", START + SECOND) == FORBIDDEN
    assert len(cache) == 1


def test_a_thousand_bad_tokens_push_out_no_good_one_and_are_bounded() -> None:
    cache = DecisionCache(CacheSettings(entries=16))
    cache.keep(b"good", GRANTED, START)
    for number in range(1000):
        cache.keep(number.to_bytes(2), UNKNOWN, START)

    assert cache.find(b"good", START) == GRANTED
    assert len(cache) == 17
