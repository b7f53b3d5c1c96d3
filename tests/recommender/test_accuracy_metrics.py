"""Quality of recommendations: samples beside what was recommended before they came."""

import numpy as np
import pytest
from prometheus_client import REGISTRY
from support.fakes.recommender_cluster import Load, RecommenderCluster
from support.makers.records import MIB, minutes

from trimtab.core.model.autoscalers import ContainerMode, ContainerPolicy, UpdateMode
from trimtab.recommender.accuracy_metrics import QualityMeter
from trimtab.recommender.prometheus_types import ArrayHistogram

HISTOGRAM = ArrayHistogram("test_array_histogram", "For tests.", ["kind"], [-1, 0, 2.5])


def read(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Measured:
    """A recommender whose quality is measured, and how far series have grown since its start."""

    def __init__(self, world: RecommenderCluster) -> None:
        self.world = world
        self.recommender = world.recommender()
        self.meter = QualityMeter()
        self._before = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in REGISTRY.collect()
            for sample in family.samples
        }

    async def tick(self) -> None:
        self.meter.note(await self.recommender.tick(), self.recommender.state)
        self.world.wait(minutes(1))

    def grown(self, name: str, **labels: str) -> float:
        name = f"vpa_quality_{name}"
        before = self._before.get((name, tuple(sorted(labels.items()))), 0.0)
        return read(name, **labels) - before


@pytest.fixture
async def measured() -> Measured:
    world = RecommenderCluster()
    world.deploy(replicas=4)
    world.autoscale(mode=UpdateMode.OFF)
    # The target is 587m and 1168723596 bytes.
    world.loads[""] = Load(cpu=500, memory=1e9)
    return Measured(world)


async def test_samples_are_compared_with_what_was_recommended_before(measured: Measured) -> None:
    await measured.tick()
    measured.world.loads[""] = Load(cpu=1000, memory=1e9)
    await measured.tick()

    under = "cpu_recommendation_lower_equal_usage_diffs_cores"
    known = {"update_mode": "Off", "recommendation_missing": "false"}
    assert measured.grown(f"{under}_count", **known) == 4
    assert measured.grown(f"{under}_sum", **known) == pytest.approx(4 * (1.000 - 0.587))
    over = "mem_recommendation_over_usage_diffs_bytes"
    assert measured.grown(f"{over}_count", **known, is_oom="false") == 4
    assert measured.grown(f"{over}_sum", **known, is_oom="false") == 4 * (1168723596 - 1e9)


async def test_differences_are_counted_as_a_part_of_the_recommendation(measured: Measured) -> None:
    await measured.tick()
    measured.world.loads[""] = Load(cpu=1174, memory=1e9)
    await measured.tick()

    cpu = {"update_mode": "Off", "resource": "cpu", "is_oom": "false"}
    relative = "usage_recommendation_relative_diffs"
    assert measured.grown(f"{relative}_sum", **cpu) == pytest.approx(4)
    assert measured.grown(f"{relative}_bucket", **cpu, le="0.75") == 0
    assert measured.grown(f"{relative}_bucket", **cpu, le="1") == 4
    assert measured.grown("cpu_recommendations_cores_sum", update_mode="Off") == pytest.approx(
        4 * 0.587
    )


async def test_samples_before_any_recommendation_are_counted_as_such(measured: Measured) -> None:
    world = measured.world
    world.silent |= {f"web-{number}" for number in range(4)}
    await measured.tick()
    world.silent.clear()
    await measured.tick()

    cpu = {"update_mode": "Off", "resource": "cpu", "is_oom": "false"}
    assert measured.grown("usage_sample_missing_recommendation_count", **cpu) == 4
    assert measured.grown("usage_recommendation_relative_diffs_count", **cpu) == 0
    under = "cpu_recommendation_lower_equal_usage_diffs_cores_sum"
    missing = {"update_mode": "Off", "recommendation_missing": "true"}
    assert measured.grown(under, **missing) == pytest.approx(4 * 0.5)


async def test_a_reading_that_is_read_twice_is_compared_once(measured: Measured) -> None:
    await measured.tick()
    measured.world.read_at = measured.world.clock.now()
    await measured.tick()
    await measured.tick()

    assert measured.grown("cpu_recommendations_cores_count", update_mode="Off") == 4


async def test_containers_that_are_switched_off_are_not_compared(measured: Measured) -> None:
    policy = ContainerPolicy("app", mode=ContainerMode.OFF)
    measured.world.autoscale(policies=(policy,))
    await measured.tick()
    await measured.tick()

    assert measured.grown("cpu_recommendations_cores_count", update_mode="Off") == 0


async def test_an_oom_kill_is_compared_apart_from_readings(measured: Measured) -> None:
    await measured.tick()
    measured.world.kill("web-0")
    await measured.tick()

    kills = {"update_mode": "Off", "recommendation_missing": "false", "is_oom": "true"}
    over = "mem_recommendation_over_usage_diffs_bytes"
    assert measured.grown(f"{over}_count", **kills) == 1
    assert measured.grown(f"{over}_sum", **kills) == 1168723596 - 200 * MIB


async def test_moves_of_recommendations_are_counted_by_the_size_of_the_workload(
    measured: Measured,
) -> None:
    await measured.tick()
    await measured.tick()

    cpu = {"update_mode": "Off", "resource": "cpu", "vpa_size_log2": "2"}
    assert measured.grown("relative_recommendation_changes_count", **cpu) == 1
    assert measured.grown("relative_recommendation_changes_bucket", **cpu, le="-0.001") == 0
    assert measured.grown("relative_recommendation_changes_bucket", **cpu, le="0") == 1


async def test_the_first_autoscaler_may_come_when_ticks_have_gone_by_without_any() -> None:
    world = RecommenderCluster()
    world.deploy(replicas=4)
    measured = Measured(world)
    await measured.tick()
    world.autoscale(mode=UpdateMode.OFF)
    world.loads[""] = Load(cpu=500, memory=1e9)
    await measured.tick()
    await measured.tick()

    known = {"update_mode": "Off", "recommendation_missing": "false"}
    under = "cpu_recommendation_lower_equal_usage_diffs_cores"
    over = "cpu_recommendation_over_usage_diffs_cores"
    assert sum(measured.grown(f"{name}_count", **known) for name in (under, over)) == 4


async def test_another_autoscaler_does_not_mix_up_who_recommended_what(measured: Measured) -> None:
    await measured.tick()
    measured.world.deploy("api")
    measured.world.loads["api-0"] = Load(cpu=4000, memory=1e9)
    measured.world.autoscale("api", mode=UpdateMode.OFF)
    await measured.tick()
    await measured.tick()

    cpu = {"update_mode": "Off", "resource": "cpu"}
    moved = measured.grown("relative_recommendation_changes_sum", **cpu, vpa_size_log2="2")
    assert moved == 0
    assert measured.grown("relative_recommendation_changes_count", **cpu, vpa_size_log2="0") == 1


def test_a_bucket_holds_what_is_no_more_than_its_bound() -> None:
    HISTOGRAM.observe(np.array([-2.0, -1.0, 0.0, 2.5, 3.0]), "all")
    HISTOGRAM.observe(np.array([]), "none")

    counts = [read("test_array_histogram_bucket", kind="all", le=le) for le in ("-1", "0", "2.5")]
    assert counts == [2, 3, 4]
    assert read("test_array_histogram_count", kind="all") == 5
    assert read("test_array_histogram_sum", kind="all") == 2.5
    assert REGISTRY.get_sample_value("test_array_histogram_count", {"kind": "none"}) is None
