"""Starts: CPU of a start and of a boost is no need, unless a container never becomes ready."""

from datetime import datetime, timedelta

import pytest
from support.makers.records import NOW, a_container, a_pod, minutes

from trimtab.core.model.estimation import CostSettings
from trimtab.core.model.pods import Pod, Termination
from trimtab.core.recommendation.cost import starts

BOOSTED = {
    "vpaCpuStartupBoost/app": '{"requests":{"cpu":"300m"}}',
    "vpaUpdates": "Pod resources updated by web: container 0: cpu request",
}


def started(**fields: object) -> Pod:
    return a_pod(a_container(), **({"started_at": NOW} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pod", "end"),
    [
        pytest.param(started(), minutes(30), id="not ready: until it may be too slow to be ready"),
        pytest.param(
            started(ready_since=NOW + minutes(5)), minutes(7), id="ready: two minutes more"
        ),
        pytest.param(
            started(ready_since=NOW + minutes(300)),
            minutes(30),
            id="ready again after hours: the start was long ago",
        ),
        pytest.param(
            a_pod(
                a_container(last_termination=Termination("Error", finished_at=NOW + minutes(100))),
                started_at=NOW,
                ready_since=NOW + minutes(103),
            ),
            minutes(105),
            id="a container that was restarted starts again",
        ),
    ],
)
def test_a_start_ends(pod: Pod, end: timedelta) -> None:
    expected: datetime = NOW + end
    assert starts.start_ends(pod, CostSettings()) == {"app": expected.timestamp()}


def test_a_boost_is_a_start_for_as_long_as_it_lasts() -> None:
    pod = started(ready_since=NOW + minutes(1), annotations=BOOSTED)
    assert starts.start_ends(pod, CostSettings()) == {"app": float("inf")}


def test_a_pod_whose_start_is_unknown_counts_at_once() -> None:
    assert starts.start_ends(a_pod(a_container(), started_at=None), CostSettings()) == {
        "app": float("-inf")
    }
