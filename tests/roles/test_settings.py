"""Settings of the role keeper that make no sense are refused where they are made."""

from datetime import timedelta

import pytest

from trimtab.core.model.validation import SettingsError
from trimtab.core.roles import Role
from trimtab.roles.settings import RolesSettings


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("interval", timedelta(), id="no time between ticks"),
        pytest.param("hand_over_interval", timedelta(), id="no time between hand-overs"),
        pytest.param("hand_over_burst", 0, id="never a hand-over"),
        pytest.param("concurrency", 0, id="nothing at a time"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(field: str, value: object) -> None:
    with pytest.raises(SettingsError) as refused:
        RolesSettings(**{field: value})  # type: ignore[arg-type]

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("role", "field"),
    [
        pytest.param(Role(label="no label"), "role_label", id="a label with a space"),
        pytest.param(Role(label=""), "role_label", id="no label at all"),
        pytest.param(Role(value="-leader"), "role_name", id="a value that begins with a dash"),
        pytest.param(Role(value=""), "role_name", id="a value that says nothing"),
    ],
)
def test_a_label_that_the_server_would_refuse_is_refused_at_once(role: Role, field: str) -> None:
    with pytest.raises(SettingsError) as refused:
        RolesSettings(role=role)

    assert refused.value.field == field


def test_one_namespace_and_others_to_leave_alone_exclude_each_other() -> None:
    with pytest.raises(SettingsError):
        RolesSettings(namespace="a", ignored_namespaces=frozenset({"b"}))


def test_the_role_is_given_as_often_as_the_interval_says() -> None:
    pace = RolesSettings(hand_over_interval=timedelta(seconds=20), hand_over_burst=5).pace

    assert (pace.per_second, pace.burst, pace.slow_start) == (0.05, 5, timedelta())
