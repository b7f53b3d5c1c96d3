from datetime import timedelta

import pytest

from trimtab.core.model.validation import (
    LONGEST,
    SettingsError,
    require_at_least,
    require_fraction,
    require_interval,
)

NAN = float("nan")
INFINITE = float("inf")


def test_an_error_names_the_field_and_the_value_and_the_problem() -> None:
    error = SettingsError("cpu.margin", -1, "is negative")

    assert isinstance(error, ValueError)
    assert str(error) == "cpu.margin: -1 is negative"
    assert (error.field, error.value, error.problem) == ("cpu.margin", -1, "is negative")


@pytest.mark.parametrize("value", [0, 0.5, 1])
def test_a_part_of_a_whole_is_a_fraction(value: float) -> None:
    require_fraction("share", value)


@pytest.mark.parametrize("value", [-0.01, 1.01, 90, NAN, INFINITE, -INFINITE])
def test_what_is_no_part_of_a_whole_is_refused(value: float) -> None:
    with pytest.raises(SettingsError, match=r"^share: .* is not from 0 to 1$"):
        require_fraction("share", value)


@pytest.mark.parametrize("value", [1, 1.5, 1e300])
def test_a_number_from_the_least_on_is_accepted(value: float) -> None:
    require_at_least("ratio", value, 1)


@pytest.mark.parametrize("value", [0.99, -5, NAN, INFINITE, -INFINITE])
def test_a_number_that_is_too_small_or_endless_is_refused(value: float) -> None:
    with pytest.raises(SettingsError, match=r"^ratio: .* is not a number from 1 on$"):
        require_at_least("ratio", value, 1)


@pytest.mark.parametrize("value", [timedelta(microseconds=1), timedelta(days=8), LONGEST])
def test_a_length_of_time_is_an_interval(value: timedelta) -> None:
    require_interval("half_life", value)


@pytest.mark.parametrize(
    "value", [timedelta(0), timedelta(seconds=-1), timedelta.max, timedelta.min]
)
def test_what_is_no_length_of_time_is_refused(value: timedelta) -> None:
    with pytest.raises(SettingsError, match=r"^half_life: .* up to 36500 days$"):
        require_interval("half_life", value)
