"""The backtest of the original's policy, held against the original's own recommender.

A witness notes everything that the policy was shown while recorded usage was replayed, and what it
would have published at the end of each day. The original is shown the same, and asked the same.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from oracle import original
from trimtab.backtest.autoscaler_policy import AutoscalerPolicy, original_settings
from trimtab.backtest.contenders import BUILT_IN, TEMPLATE, starting_requests
from trimtab.backtest.demand import CPU, MEMORY, Demand, gather
from trimtab.backtest.fleet import Fleet, FleetSums
from trimtab.backtest.policies import Choice, PolicyReadings, PolicySituation
from trimtab.backtest.replay import Replay
from trimtab.backtest.scenarios import SCENARIOS, limits_of
from trimtab.core.histogram.buckets import Floats, Ints
from trimtab.core.model.quantities import parse_amount
from trimtab.core.model.resources import BOTH
from trimtab.simulation.load.traces import read_recordings

_TRACE: Final = Path(__file__).parent / "traces" / "google-2011-jobs.csv"
_DAY: Final = 288
_DAYS: Final = (1, 2, 4)


@dataclass
class _Witness:
    """The policy of the original for one workload, and all that it was shown."""

    policy: AutoscalerPolicy
    steps: list[dict[str, object]] = field(default_factory=list)
    pods: int = 1

    def observe(self, readings: PolicyReadings, /) -> None:
        self.policy.observe(readings)
        self.steps.append(
            {
                "type": "series",
                "pod": self._pod,
                "container": "main",
                "start": _moment(readings.times[0]),
                "stepSeconds": 60,
                "count": len(readings.times),
                "cpuMillicores": [int(amount) for amount in readings.amounts[CPU]],
                "memoryBytes": [int(amount) for amount in readings.amounts[MEMORY]],
            }
        )

    def learn_kills(self, killed: PolicySituation, /) -> None:
        self.policy.learn_kills(killed)
        requested = int(killed.fleet.requests[MEMORY, 0])
        self.steps.append(
            {
                "type": "oom",
                "pod": self._pod,
                "container": "main",
                "time": _moment(killed.times[0]),
                "requestedMemoryBytes": requested,
            }
        )

    def choose(self, situation: PolicySituation, /) -> Choice:
        choice = self.policy.choose(situation)
        if len(choice.retaken):
            # The policy forgets the step, and is shown it again minute by minute.
            self.steps.pop()
        self.pods += len(choice.workloads)
        return choice

    def bounds(self, workloads: Ints, /) -> Floats:
        return self.policy.bounds(workloads)

    @property
    def _pod(self) -> str:
        return f"pod-{self.pods}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(float(seconds), UTC).isoformat().replace("+00:00", "Z")


def _replay(demand: Demand) -> _Witness:
    scenario = SCENARIOS["under-strict"]
    requests = starting_requests(BUILT_IN["original"], demand, scenario)
    fleet = Fleet(requests, limits_of(requests, demand, scenario))
    witness = _Witness(AutoscalerPolicy(TEMPLATE, original_settings(), demand.starts, fleet))
    Replay(demand, fleet, witness, FleetSums(1)).run()
    return witness


def _question(name: str, witness: _Witness) -> dict[str, object]:
    names = [f"pod-{number}" for number in range(1, witness.pods + 1)]
    labels = {"app": "web"}
    return {
        "name": name,
        "input": {
            "pods": [
                {"name": each, "labels": labels, "containers": {"main": {}}} for each in names
            ],
            "selector": {"matchLabels": labels},
            "steps": witness.steps,
            "vpa": {
                "metadata": {"namespace": "default", "name": "web"},
                "spec": {
                    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
                },
            },
        },
    }


def _cases() -> Iterator[tuple[str, _Witness]]:
    whole = gather(read_recordings(_TRACE))
    for workload in range(len(whole)):
        for days in _DAYS:
            only = whole.only(slice(workload, workload + 1))
            steps = days * _DAY
            cut = replace(only, lengths=np.array([steps]), amounts=only.amounts[:steps])
            yield f"{whole.workloads[workload]} after {days} days", _replay(cut)


@pytest.mark.e2e
def test_the_original_would_have_published_what_the_backtest_says() -> None:
    witnesses = dict(_cases())
    questions = {
        "set": "recommendation",
        "cases": [_question(name, witness) for name, witness in witnesses.items()],
    }
    (_, answers), *_ = original.answer([("backtest", json.dumps(questions))])

    told = {
        case["name"]: case["expected"]["recommendation"] for case in json.loads(answers)["cases"]
    }
    assert told.keys() == witnesses.keys()
    assert any(witness.pods > 2 for witness in witnesses.values())
    for name, witness in witnesses.items():
        published = told[name]["containerRecommendations"][0]
        numbers = witness.policy.numbers(np.array([0]))[0].tolist()
        for place, field_name in enumerate(("target", "lowerBound", "upperBound")):
            expected = [parse_amount(each, published[field_name][each]) for each in BOTH]
            assert [amounts[place] for amounts in numbers] == expected, (name, field_name)
