"""Demand, evaluated the plain way: one load, one resource, one moment at a time."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.core.model.resources import Resource
from trimtab.simulation.world.loads import Load
from trimtab.simulation.world.virtual_time import START

HOUR = 3600.0


@dataclass(frozen=True)
class Luck:
    """What chance gives one row at one look, for one resource."""

    noise: float
    spike: float


def plain_demand(
    load: Load, resource: Resource, *, since: datetime, now: datetime, luck: Luck
) -> float:
    wave = load.cpu if resource is Resource.CPU else load.memory
    seconds = (now - START) / timedelta(seconds=1)
    level = _daily(load, resource, seconds) + wave.base
    if load.trace is not None:
        step = load.trace.step.total_seconds()
        place = math.floor((seconds + load.phase.total_seconds()) / step)
        values = {
            Resource.CPU: load.trace.cpu_millicores,
            Resource.MEMORY: load.trace.memory_bytes,
        }[resource]
        level = values[place % len(values)]
    spike = wave.spike if luck.spike < wave.spike_chance else 0.0
    level += wave.noise * luck.noise + spike
    into_burst = (seconds + load.phase.total_seconds()) % load.bursts.every.total_seconds()
    level += wave.burst if into_burst < load.bursts.length.total_seconds() else 0.0
    level += wave.leak_per_hour * (max(seconds - (since - START) / timedelta(seconds=1), 0) / HOUR)
    return max(level, 0.0)


def _daily(load: Load, resource: Resource, seconds: float) -> float:
    wave = load.cpu if resource is Resource.CPU else load.memory
    hours = seconds % (24 * HOUR) / HOUR
    begin, end = load.day[int(hours)], load.day[(int(hours) + 1) % 24]
    daily = wave.daily * (begin + (end - begin) * (hours - int(hours)))
    is_weekend = int(seconds // (24 * HOUR)) % 7 in (5, 6)
    return daily * wave.weekend_factor if is_weekend else daily
