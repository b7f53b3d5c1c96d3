"""Metrics of startup boosts, from what an updater tells of its plans and acts."""

import pytest
from msgspec import structs
from prometheus_client import REGISTRY
from support.makers.plans import boosted, boosting
from support.makers.records import BOOST_TOLD, MIB, NOW, a_container, amounts, minutes

from trimtab.core.changes.outcomes import EndOfBoost, Hold, Outcome, Unboost
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.pods import Allocation, Pod
from trimtab.core.sizing.startup_boost import annotation_name, format_original
from trimtab.updater.actions import ActResult
from trimtab.updater.boost_metrics import BoostMeter
from trimtab.updater.queue import Action
from trimtab.updater.reports import Acted, PlanMade

AUTOSCALER = boosting()
LATER = NOW + minutes(2)


def read(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"vpa_updater_{name}", labels) or 0.0


class Watched:
    """A meter, and what has grown since: metrics outlive tests."""

    def __init__(self) -> None:
        self.meter = BoostMeter()
        self._before = self._all()

    def plan(self, *outcomes: Outcome, is_all: bool = True) -> None:
        self.meter.note(PlanMade(NOW, outcomes, {}, is_all=is_all))

    def act(self, act: Unboost, result: ActResult) -> None:
        self.meter.note(Acted(LATER, Action(act, AUTOSCALER, None), result))

    def grown(self) -> dict[str, float]:
        now = self._all()
        found = {name: now[name] - self._before[name] for name in now}
        return {name: number for name, number in found.items() if number}

    def _all(self) -> dict[str, float]:
        causes = [*(cause.value for cause in EndOfBoost), "PodGone"]
        return {
            "started": read("boosts_started_total"),
            "seconds": read("boost_duration_seconds_sum"),
            "failed": read("failed_boost_ends_total"),
            **{cause: read("boosts_ended_total", cause=cause) for cause in causes},
        }


def holding(pod: Pod, reason: HoldReason = HoldReason.BOOST_ACTIVE) -> Hold:
    return Hold(pod, AUTOSCALER.identity, reason)


def two_boosts() -> Pod:
    names = ("app", "side")
    return structs.replace(
        boosted(age=minutes(1)),
        containers=tuple(a_container(name, requests=amounts(400, MIB)) for name in names),
        annotations=BOOST_TOLD
        | {annotation_name(name): format_original(Allocation(amounts(100))) for name in names},
    )


def test_boosts_are_counted_when_first_seen_and_shown_while_they_last() -> None:
    watched = Watched()
    watched.plan(holding(two_boosts()))
    watched.plan(holding(two_boosts()), is_all=False)

    assert watched.grown() == {"started": 2}
    assert read("boosted_containers") == 2


def test_the_end_of_one_of_two_boosts_counts_once_with_its_cause_and_its_seconds() -> None:
    watched = Watched()
    pod = two_boosts()
    watched.plan(holding(pod))
    end = Unboost(pod, AUTOSCALER.identity, ("app",), {}, EndOfBoost.HARD_LIMIT)
    watched.act(end, ActResult.DONE)
    # The view does not show it yet.
    watched.plan(holding(pod, HoldReason.RESIZE_IN_PROGRESS))

    assert watched.grown() == {"started": 2, "BoostTooLong": 1, "seconds": 180}
    assert read("boosted_containers") == 1


def test_boosts_of_pods_that_are_gone_have_ended() -> None:
    watched = Watched()
    watched.plan(holding(two_boosts()))
    watched.plan(is_all=False)
    kept = read("boosted_containers")
    watched.plan()

    assert kept == 2
    assert watched.grown()["PodGone"] == 2
    assert read("boosted_containers") == 0


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        pytest.param(ActResult.REFUSED, 1, id="refused"),
        pytest.param(ActResult.UNKNOWN, 1, id="no answer"),
        pytest.param(ActResult.OUTDATED, 0, id="the pod has changed since"),
        pytest.param(ActResult.WITHDRAWN, 0, id="never tried"),
    ],
)
def test_an_end_that_fails_is_counted_and_the_boost_goes_on(result: ActResult, failed: int) -> None:
    watched = Watched()
    watched.plan(holding(boosted()))
    watched.act(Unboost(boosted(), AUTOSCALER.identity, ("app",), {}), result)

    assert watched.grown().get("failed", 0) == failed
    assert read("boosted_containers") == 1
