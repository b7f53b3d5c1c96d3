"""The metrics server: the readings of the kubelet's last turn, and faults that change them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from random import Random
from typing import Final

import numpy as np

from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.cluster.ports import UsageSource
from trimtab.core.model.resources import MAX_AMOUNT
from trimtab.simulation.api_server import requests
from trimtab.simulation.api_server.connection import SimulatedConnection
from trimtab.simulation.api_server.requests import USAGE, Act, Request
from trimtab.simulation.nodes.containers import ContainerName, Running
from trimtab.simulation.nodes.kubelet import Kubelet
from trimtab.simulation.world.facts import UsageTold

_REQUEST: Final = Request(Act.FETCH_USAGE, USAGE.right("list"))
_SHARE_GIVEN: Final = 0.5
_ABSURD: Final = (MAX_AMOUNT, 2**53 + 1, 0, -1, -MAX_AMOUNT)
"""Values that the wire format allows: integers of any sign, but no NaN and no infinity."""


class MetricsFault(StrEnum):
    """A fault of the metrics server."""

    GONE = "gone"
    """The metrics server does not answer."""
    HALF = "half"
    """Some pods are missing, different ones each time."""
    STALE = "stale"
    """The metrics server repeats the same readings."""
    ABSURD = "absurd"
    """Some readings are huge, negative or zero, or have no value at all."""


class _Roll:
    """The names of the reported containers, cached while they stay the same."""

    def __init__(self) -> None:
        self._runs = np.zeros(0, np.int64)
        self._blank = UsageColumns()

    def columns(self, running: Running) -> UsageColumns:
        """Return the readings of containers that have not restarted since the measurement."""
        readings = running.readings
        if readings is None:
            return UsageColumns()
        places = running.places_of(readings)
        if not np.array_equal(readings.runs[places], self._runs):
            self._runs = readings.runs[places]
            self._blank = _blank(running.names_of(readings.rows[places]))
        return replace(
            self._blank,
            times=(readings.at.timestamp(),) * len(places),
            cpu_millicores=tuple(readings.cpu_millicores[places].tolist()),
            memory_bytes=tuple(readings.memory_bytes[places].tolist()),
        )


class Metrics:
    """The metrics server."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self._roll = _Roll()
        self._served = UsageColumns()
        self.faults: list[MetricsFault] = []
        """Active faults for all components."""
        self.faults_of: dict[str, list[MetricsFault]] = {}
        """Active faults for single copies of components, by name."""

    def source(self, line: SimulatedConnection) -> UsageSource:
        """Return the usage source of one copy of a component."""
        return _Source(line, self._serve)

    def _serve(self, line: SimulatedConnection) -> UsageColumns:
        faults = [*self.faults, *self.faults_of.get(line.actor, ())]
        if MetricsFault.GONE in faults:
            raise requests.refuse(str(_REQUEST), HTTPStatus.SERVICE_UNAVAILABLE)
        if MetricsFault.STALE not in faults:
            self._served = self._roll.columns(self._kubelet.running)
        served = self._served
        if MetricsFault.HALF in faults:
            served = _half(served, line.random)
        if MetricsFault.ABSURD in faults:
            served = _absurd(served, line.random)
        world = self._kubelet.world
        world.record(UsageTold(world.now(), line.actor, served))
        return served


@dataclass(frozen=True, slots=True)
class _Source:
    """The metrics server at the other end of a connection."""

    line: SimulatedConnection
    serve: Callable[[SimulatedConnection], UsageColumns]

    async def fetch(self) -> UsageColumns:
        """Fetch the newest reading of every container."""
        await self.line.send(_REQUEST)
        served = self.serve(self.line)
        await self.line.receive(_REQUEST)
        return served


def _blank(names: Sequence[ContainerName]) -> UsageColumns:
    """Return columns with the names of these containers and no values."""
    return UsageColumns(
        namespaces=tuple(name.namespace for name in names),
        pods=tuple(name.pod for name in names),
        containers=tuple(name.container for name in names),
        has_cpu=(True,) * len(names),
        has_memory=(True,) * len(names),
    )


def _half(served: UsageColumns, chance: Random) -> UsageColumns:
    """Leave out random pods; a pod is reported with all containers or not at all."""
    # A dict and not a set: its order is that of the pods, so a seed draws the same ones.
    pods = dict.fromkeys(zip(served.namespaces, served.pods, strict=True))
    given = {pod for pod in pods if chance.random() < _SHARE_GIVEN}
    kept = [
        place
        for place, pod in enumerate(zip(served.namespaces, served.pods, strict=True))
        if pod in given
    ]
    return UsageColumns(
        namespaces=tuple(served.namespaces[place] for place in kept),
        pods=tuple(served.pods[place] for place in kept),
        containers=tuple(served.containers[place] for place in kept),
        times=tuple(served.times[place] for place in kept),
        cpu_millicores=tuple(served.cpu_millicores[place] for place in kept),
        memory_bytes=tuple(served.memory_bytes[place] for place in kept),
        has_cpu=tuple(served.has_cpu[place] for place in kept),
        has_memory=tuple(served.has_memory[place] for place in kept),
    )


def _absurd(served: UsageColumns, chance: Random) -> UsageColumns:
    def spoil(values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            value if chance.random() < _SHARE_GIVEN else chance.choice(_ABSURD) for value in values
        )

    has_cpu = tuple(chance.random() < _SHARE_GIVEN for _ in served.has_cpu)
    return replace(
        served,
        cpu_millicores=tuple(
            value if has else 0
            for value, has in zip(spoil(served.cpu_millicores), has_cpu, strict=True)
        ),
        memory_bytes=spoil(served.memory_bytes),
        has_cpu=has_cpu,
    )
