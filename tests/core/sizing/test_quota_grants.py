"""Grants of a quota: what counts until the quota itself shows it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quota_grants import (
    LIFETIME_SECONDS,
    MAX_GRANTS,
    NOTHING_GRANTED,
    Granted,
    add_grant,
    settle,
    without_granted,
)
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side

CPU, LIMIT = QuotaClaim(Side.REQUESTS, Resource.CPU), QuotaClaim(Side.LIMITS, Resource.CPU)


def granted(*amounts: int, left: int = 3000) -> Granted:
    found = settle(NOTHING_GRANTED, {CPU: left}, 0.0)
    for amount in amounts:
        found = add_grant(found, {CPU: amount}, 0.0)
    return found


@pytest.mark.parametrize(
    ("left", "now", "room"),
    [
        pytest.param(3000, 1.0, 500, id="nothing has moved"),
        pytest.param(2000, 1.0, 500, id="the first pod was counted"),
        pytest.param(500, 1.0, 500, id="both were counted"),
        pytest.param(2700, 1.0, 200, id="something else was counted"),
        pytest.param(3500, 1.0, 1000, id="something was given back"),
        pytest.param(3000, LIFETIME_SECONDS + 1, 3000, id="nobody counted them for too long"),
    ],
)
def test_a_grant_counts_until_the_quota_shows_it(left: int, now: float, room: int) -> None:
    quota = Quota("default", "team", {CPU: left})
    settled = settle(granted(1000, 1500), quota.left, now)

    assert without_granted(quota, settled).left == {CPU: room}


def test_a_grant_of_what_the_quota_no_longer_counts_is_forgotten() -> None:
    assert settle(granted(1000), {LIMIT: 5}, 1.0).grants == ()


def test_a_quota_of_which_nothing_was_granted_is_the_same_quota() -> None:
    quota = Quota("default", "team", {CPU: 5})

    assert without_granted(quota, NOTHING_GRANTED) is quota


@given(st.lists(st.integers(1, 5000), max_size=2 * MAX_GRANTS))
def test_many_grants_are_kept_in_few_records_without_losing_any(amounts: list[int]) -> None:
    found = granted(*amounts)
    quota = Quota("default", "team", {CPU: 10**9})

    assert len(found.grants) <= MAX_GRANTS
    assert without_granted(quota, found).left == {CPU: 10**9 - sum(amounts)}
    assert all(one.at <= other.at for one, other in pairwise(found.grants))
