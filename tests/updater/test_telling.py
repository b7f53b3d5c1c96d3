"""Which conditions are told anew: what changed, and nothing twice."""

from dataclasses import replace

import pytest
from support.makers.records import NOW, a_pod, an_autoscaler, minutes

from trimtab.core.changes.outcomes import Hold
from trimtab.core.model.autoscalers import Autoscaler
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.updater.events import Conditions

WEB = an_autoscaler()


def held(*reasons: HoldReason) -> list[Hold]:
    return [
        Hold(a_pod(name=f"web-{number}"), WEB.identity, reason)
        for number, reason in enumerate(reasons)
    ]


SURGING = held(HoldReason.SURGE, HoldReason.SURGE)


def told(conditions: Conditions, autoscaler: Autoscaler, holds: list[Hold]) -> Autoscaler:
    """The autoscaler with the conditions that it is found to need."""
    renewed = conditions.renew([autoscaler], holds, {}, {}, NOW)
    return replace(autoscaler, conditions=renewed[0][1]) if renewed else autoscaler


def test_what_an_autoscaler_says_already_is_not_told_again() -> None:
    conditions = Conditions(max_misses=3)
    says = told(conditions, WEB, SURGING)
    again = [conditions.renew([says], SURGING, {}, {}, NOW + minutes(n)) for n in (1, 2)]

    assert says.conditions
    assert again == [[], []]


@pytest.mark.parametrize(
    ("holds", "reasons"),
    [
        pytest.param(held(HoldReason.COOL_DOWN), ["CoolDown"], id="pods are held for another"),
        pytest.param(SURGING[:1], ["Surge"], id="fewer pods are held"),
        pytest.param([], [], id="no pod is held any more"),
    ],
)
def test_what_changes_after_a_quiet_time_is_told(holds: list[Hold], reasons: list[str]) -> None:
    conditions = Conditions(max_misses=3)
    says = told(conditions, WEB, SURGING)
    conditions.renew([says], SURGING, {}, {}, NOW + minutes(1))
    (_, wanted), *_ = conditions.renew([says], holds, {}, {}, NOW + minutes(2))

    assert [condition.reason for condition in wanted] == reasons


def test_a_condition_that_somebody_takes_away_is_told_again() -> None:
    conditions = Conditions(max_misses=3)
    says = told(conditions, WEB, SURGING)
    conditions.renew([says], SURGING, {}, {}, NOW + minutes(1))

    assert conditions.renew([WEB], SURGING, {}, {}, NOW) == [(WEB, says.conditions)]
