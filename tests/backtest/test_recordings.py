"""Recordings from what is remembered of pods."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from trimtab.backtest.recordings import Past, read_past, recordings_of, workload_of
from trimtab.cluster.errors import TooMuchHistoryError
from trimtab.core.model.pods import Allocation, Container, Pod
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.usage.history_samples import PastUsage, PodTrace, Series, Shard, gather

_STEP = timedelta(minutes=5)
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_COUNT = 20
_APP = Container("app")
_TIMES = _BEGIN.timestamp() + 300.0 * np.arange(_COUNT, dtype=np.float64)


def _series(pod: str, value: float, times: slice = slice(None), container: str = "app") -> Series:
    chosen = _TIMES[times]
    return Series((pod, container), chosen, np.full(len(chosen), value))


def _past(series: Sequence[Series], *pods: PodTrace) -> Past:
    usage = gather(series)
    return Past("shop", {resource: [usage] for resource in BOTH}, pods, _STEP)


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        pytest.param("web-5d4f8c7b9d-x2x4z", "web", id="of a Deployment"),
        pytest.param("web-shop-5d4f8c7b9-x2x4z", "web-shop", id="of one with a longer name"),
        pytest.param("db-12", "db", id="of a StatefulSet"),
        pytest.param("agent-x2x4z", "agent", id="of a DaemonSet or a Job"),
        pytest.param("lonely", "lonely", id="of nobody"),
        pytest.param("web-shop", "web-shop", id="whose last part is a word"),
    ],
)
def test_pods_are_named_after_their_workload(pod: str, workload: str) -> None:
    assert workload_of(pod) == workload


def test_a_workload_needs_what_its_neediest_pod_used_in_each_step() -> None:
    first, second = _series("db-0", 100.0), _series("db-1", 300.0, slice(5, 10))
    recordings, _ = recordings_of(_past([first, second]))

    assert [recording.workload for recording in recordings] == ["shop/db/app"]
    cpu = recordings[0].trace.cpu_millicores
    assert cpu == (100.0,) * 5 + (300.0,) * 5 + (100.0,) * 10


def test_pods_that_follow_each_other_are_one_recording() -> None:
    former = _series("web-5d4f8c7b9d-x2x4z", 100.0, slice(0, 10))
    latter = _series("web-7c7c7c7c7c-b2b4z", 200.0, slice(10, None))
    recordings, flaws = recordings_of(_past([former, latter]))

    assert len(recordings) == 1
    assert recordings[0].trace.memory_bytes == (100.0,) * 10 + (200.0,) * 10
    assert list(flaws.lines()) == []


def test_owners_count_more_than_names_and_containers_stay_apart() -> None:
    series = [_series("odd.name.a", 1.0), _series("odd.name.b", 2.0), _series("x-0", 3.0)]
    series.append(_series("odd.name.a", 9.0, container="proxy"))
    owner = (("ReplicaSet", "web-1"), ("Deployment", "web"))
    traces = [PodTrace(pod, {}, 0.0, owner) for pod in ("odd.name.a", "odd.name.b")]
    recordings, _ = recordings_of(_past(series, *traces))

    names = [recording.workload for recording in recordings]
    assert names == ["shop/web/app", "shop/web/proxy", "shop/x/app"]


def test_only_the_workloads_of_chosen_pods_are_taken_with_their_past() -> None:
    series = [_series("db-0", 1.0), _series("db-1", 2.0, slice(0, 12)), _series("web-0", 3.0)]
    recordings, _ = recordings_of(
        _past(series), [Pod("shop", "db-0", containers=(_APP,))], only_live=True
    )

    assert [recording.workload for recording in recordings] == ["shop/db/app"]
    assert recordings[0].trace.cpu_millicores[0] == 2.0


def test_the_newest_live_pod_of_a_workload_tells_what_is_requested() -> None:
    old, new = (Container("app", spec=Allocation({Resource.CPU: cpu})) for cpu in (100, 200))
    live = [
        Pod("shop", "web-5d4f8c7b9d-x2x4z", containers=(new,), created_at=_BEGIN),
        Pod("shop", "web-7c7c7c7c7c-b2b4z", containers=(old,), created_at=_BEGIN - _STEP),
    ]
    series = [_series("web-5d4f8c7b9d-x2x4z", 1.0), _series("db-0", 2.0)]
    recordings, _ = recordings_of(_past(series), live)

    assert [recording.size for recording in recordings] == [None, new.spec]


@dataclass
class _Strict:
    """A source that tells of no more than some moments at once."""

    most: int
    asked: list[int] = field(default_factory=list)

    async def fetch_usage(self, _: Resource, shard: Shard) -> PastUsage:
        self.asked.append(shard.moments)
        if shard.moments > self.most:
            raise TooMuchHistoryError("too much")
        begin = int((shard.begin - _BEGIN) / _STEP)
        return gather([_series("db-0", 5.0, slice(begin, begin + shard.moments))])

    async def fetch_pods(self, _: Shard) -> Sequence[PodTrace]:
        return ()

    def conventions(self) -> Mapping[str, str]:
        return {}


def test_what_is_too_much_at_once_is_read_in_parts() -> None:
    source = _Strict(6)
    whole = Shard("shop", _BEGIN, _BEGIN + (_COUNT - 1) * _STEP, _STEP)
    past = asyncio.run(read_past(source, [whole]))
    recordings, flaws = recordings_of(past)

    assert source.asked[0] == _COUNT
    assert len(recordings[0].trace.cpu_millicores) == _COUNT
    assert list(flaws.lines()) == []
