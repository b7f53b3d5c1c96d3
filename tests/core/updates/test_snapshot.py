from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.makers.records import NOW, minutes

from trimtab.core.updates.snapshot import MAX_DELAY, Retry


def test_what_never_failed_is_due() -> None:
    assert Retry().is_due(NOW)


def test_a_failure_delays_the_next_attempt_until_its_moment() -> None:
    failed = Retry().after_failure(NOW, minutes(1))

    assert failed == Retry(1, NOW + minutes(1))
    assert not failed.is_due(NOW + minutes(0.9))
    assert failed.is_due(NOW + minutes(1))


def test_d9_each_failure_doubles_the_delay() -> None:
    third = Retry(failures=2).after_failure(NOW, minutes(1))

    assert third == Retry(3, NOW + minutes(4))


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_no_delay_is_longer_than_the_longest(failures: int, seconds: int) -> None:
    retry = Retry(failures).after_failure(NOW, timedelta(seconds=seconds))

    assert retry.failures == failures + 1
    assert retry.not_before is not None
    assert NOW < retry.not_before <= NOW + MAX_DELAY
