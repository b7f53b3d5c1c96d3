"""Explanations of held targets: what holds a target, and when it falls."""

from datetime import datetime, timedelta

import pytest
from support.makers.running import GIB, MIB, Running
from support.makers.usage import moment

from trimtab.core.explain.held import HeldCpu, HeldMemory
from trimtab.core.explain.recommendation import Number, explain_containers
from trimtab.core.model.resources import Resource

HOUR = timedelta(hours=1)


def explained(running: Running) -> tuple[HeldMemory, HeldCpu]:
    world = running.world
    (container,) = explain_containers(
        world.usage, world.autoscaler.identity, world.settings, world.publications.held
    )
    found = {each.resource: each.held for each in container.resources}
    memory, cpu = found[Resource.MEMORY], found[Resource.CPU]
    assert isinstance(memory, HeldMemory)
    assert isinstance(cpu, HeldCpu)
    return memory, cpu


def wait_for_fall(running: Running) -> datetime:
    """Use little until the target falls; the time of that."""
    before = running.memory
    for _ in range(24 * 40):
        running.use(100, 400 * MIB, hours=1)
        if running.memory < before:
            return moment(running.minute)
    raise AssertionError("it never fell")


def peaked() -> Running:
    """A peak of 1.9 GiB eighteen hours after the start, and ten hours since."""
    running = Running()
    running.request(500, GIB)
    running.use(100, 400 * MIB, hours=8)
    running.use(120, 1900 * MIB, hours=0.1)
    running.use(100, 400 * MIB, hours=10)
    return running


def killed() -> Running:
    running = Running()
    running.request(500, GIB)
    running.use(100, 400 * MIB, hours=8)
    running.kill()
    running.use(100, 400 * MIB, hours=1)
    return running


def requested() -> Running:
    running = Running()
    running.request(500, 4 * GIB)
    running.use(100, 400 * MIB, hours=1)
    return running


def cheap() -> Running:
    """Little is held too much: that has to pay for 32 GiB-hours first."""
    running = Running()
    running.request(500, GIB)
    running.use(100, 400 * MIB, hours=8)
    running.use(100, 900 * MIB, hours=0.1)
    running.use(100, 400 * MIB, hours=40)
    return running


def flat() -> Running:
    """Nothing lower would be enough for what is used all the time."""
    running = Running()
    running.request(500, 500 * MIB)
    running.use(100, 400 * MIB, hours=48)
    return running


def test_a_target_that_is_needed_all_the_time_cannot_fall() -> None:
    memory, _ = explained(flat())

    assert memory.falls_at is None
    assert memory.falls_to is None
    assert memory.peak_bytes == 400 * MIB


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(peaked, id="a peak"),
        pytest.param(killed, id="an OOM kill"),
        pytest.param(requested, id="a request"),
        pytest.param(cheap, id="a small peak"),
    ],
)
def test_a_target_falls_when_and_to_what_was_explained(start: object) -> None:
    assert callable(start)
    running = start()
    memory, _ = explained(running)
    assert memory.falls_at is not None
    at = wait_for_fall(running)

    # Targets are lowered at their own minute of an hour.
    assert memory.falls_at <= at <= memory.falls_at + 2 * HOUR
    assert running.memory == memory.falls_to


def test_a_held_target_names_the_pod_that_needed_it_and_what_it_has_cost() -> None:
    memory, _ = explained(peaked())

    assert memory.pod == "web-0"
    assert memory.peak_bytes == 1900 * MIB
    assert memory.needed_at == moment(8 * 60)
    held, enough = 1900 * 1.15 + 40, 400 * 1.15 + 40
    assert memory.spent_gib_hours == pytest.approx((held - enough) / 1024 * 10, rel=0.01)
    assert memory.price_gib_hours == pytest.approx(40 * (held / 1024) ** 0.8)


def test_the_table_of_cpu_shows_that_no_other_level_is_cheaper() -> None:
    running = Running()
    running.request(500, GIB)
    for hour in range(24):
        running.use(50 + 10 * hour, 400 * MIB, hours=1)
    _, cpu = explained(running)
    (cheapest,) = [each for each in cpu.levels if each.is_cheapest]

    assert len(cpu.levels) == 7
    assert all(each.cost >= cheapest.cost for each in cpu.levels)
    assert [each.level for each in cpu.levels] == sorted(each.level for each in cpu.levels)
    assert cpu.wanted == int(cheapest.level * 1.05)


def test_the_other_estimator_is_told_beside_a_held_target() -> None:
    running = Running()
    running.request(500, 4 * GIB)
    running.use(100, 400 * MIB, hours=1)
    world = running.world
    (container,) = explain_containers(
        world.usage, world.autoscaler.identity, world.settings, world.publications.held
    )
    (memory,) = [each for each in container.resources if each.resource is Resource.MEMORY]

    assert memory.amounts()[Number.TARGET] == 4 * GIB
    assert memory.by_percentile is not None
    assert memory.by_percentile < GIB
