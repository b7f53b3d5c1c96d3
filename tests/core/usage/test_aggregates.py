from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from support.makers.records import MIB, a_container, an_autoscaler
from support.makers.usage import BEGIN, DAY, World

from trimtab.core.model.autoscalers import ContainerPolicy
from trimtab.core.model.resources import Resource
from trimtab.core.model.validation import SettingsError
from trimtab.core.usage.aggregates import UsageSettings, expendable, from_seconds, to_seconds


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param({}, False, id="fed lately by a running container"),
        pytest.param({"idle": 9, "live": False}, True, id="no sample for its lifetime"),
        pytest.param({"idle": 8, "live": False}, True, id="no sample for exactly its lifetime"),
        pytest.param({"idle": 7, "live": False}, False, id="a sample within its lifetime"),
        pytest.param({"idle": 9}, False, id="F11: never while a container runs on it"),
        pytest.param(
            {"sampled": False, "live": False, "contributive": False},
            True,
            id="never fed and nobody could feed it",
        ),
        pytest.param(
            {"sampled": False, "live": False},
            False,
            id="never fed but its workload may start pods again",
        ),
        pytest.param(
            {"live": False, "contributive": False},
            False,
            id="fed within its lifetime though its workload is gone",
        ),
    ],
)
def test_an_aggregate_goes_when_nothing_can_be_learned_from_it(
    facts: dict[str, Any], *, expected: bool
) -> None:
    known = {"idle": 0, "sampled": True, "live": True, "contributive": True, **facts}

    found = expendable(
        idle_seconds=np.array([known["idle"]]),
        lifetimes=np.array([8.0]),
        sampled=np.array([known["sampled"]]),
        live=np.array([known["live"]]),
        contributive=np.array([known["contributive"]]),
    )
    assert found.tolist() == [expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("memory_interval", timedelta(0), id="windows without a length"),
        pytest.param("memory_interval", timedelta.max, id="windows that never end"),
        pytest.param("cpu_half_life", timedelta(0), id="CPU that is forgotten at once"),
        pytest.param("cpu_half_life", timedelta(seconds=-1), id="CPU that grows with age"),
        pytest.param("memory_half_life", timedelta.max, id="memory that is never forgotten"),
        pytest.param("memory_interval_count", 0, id="no intervals"),
        pytest.param("oom_bump_up_ratio", 0.9, id="less after a kill"),
        pytest.param("oom_bump_up_ratio", float("nan"), id="a ratio that is not a number"),
        pytest.param("oom_bump_up_ratio", float("inf"), id="an endless ratio"),
        pytest.param("oom_min_bump_up_bytes", -1, id="fewer bytes after a kill"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(field: str, value: object) -> None:
    given_fields: dict[str, Any] = {field: value}

    with pytest.raises(SettingsError, match=f"^{field}: "):
        UsageSettings(**given_fields)


def test_a_policy_that_makes_no_sense_is_no_error() -> None:
    policy = ContainerPolicy(
        "app",
        oom_bump_up_ratio=-3.0,
        oom_min_bump_up_bytes=-5,
        memory_interval=timedelta.max,
        memory_interval_count=-1,
    )
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    world.pod()
    world.oom([100 * MIB], [1])

    assert world.container().target[Resource.MEMORY] == 250 * MIB


def window_minutes(*policies: ContainerPolicy) -> float:
    world = World(autoscaler=an_autoscaler(policies=policies))
    world.pod("web-0", "app")
    world.memory([MIB], [0])
    return float(world.usage.containers.floats("window_end")[world.row()] - BEGIN.timestamp()) / 60


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(ContainerPolicy("app"), DAY, id="a day unless somebody says otherwise"),
        pytest.param(
            ContainerPolicy("app", memory_interval=timedelta(hours=2)),
            120,
            id="an interval of its own",
        ),
        pytest.param(
            ContainerPolicy("*", memory_interval=timedelta(hours=2)),
            120,
            id="one for all containers",
        ),
        pytest.param(
            ContainerPolicy("app", memory_interval=timedelta(0)), DAY, id="one without a length"
        ),
        pytest.param(
            ContainerPolicy("app", memory_interval=timedelta(-5)), DAY, id="one that runs backwards"
        ),
    ],
)
def test_windows_are_as_long_as_the_policy_says(policy: ContainerPolicy, expected: float) -> None:
    assert window_minutes(policy) == expected


def test_the_lifetime_is_so_many_intervals() -> None:
    policy = ContainerPolicy("app", memory_interval=timedelta(hours=1), memory_interval_count=3)
    world = World(autoscaler=an_autoscaler(policies=(policy,)))
    world.pod("web-0", "app")
    owner = world.usage.containers.aggregate[world.row()]

    assert world.usage.aggregates.floats("lifetime")[owner] == 3 * 3600


def test_each_resource_has_a_bank_of_its_own() -> None:
    world = World()
    world.pod("web-0", a_container().name)
    world.cpu([1000], [0])
    owner = world.usage.containers.aggregate[[world.row()]]
    aggregates = world.usage.aggregates

    cpu_row = aggregates.bank_rows(Resource.CPU, owner)
    memory_row = aggregates.bank_rows(Resource.MEMORY, owner)
    assert not aggregates.bank(Resource.CPU).is_empty(cpu_row).any()
    assert aggregates.bank(Resource.MEMORY).is_empty(memory_row).all()


def test_half_lives_are_settings() -> None:
    settings = replace(UsageSettings(), cpu_half_life=timedelta(hours=1))
    world = World(usage_settings=settings)
    world.pod("web-0", "app")
    world.cpu([100, 200], [0, 60])

    assert world.history().cpu_histogram.total_weight == pytest.approx(0.1 + 0.2)


def test_moments_survive_the_way_through_columns() -> None:
    assert from_seconds(to_seconds(BEGIN, missing=0.0)) == BEGIN
    assert from_seconds(to_seconds(None, missing=np.inf)) is None
