"""The page about numbers: exact amounts, the rule of each step, both ways over the wire."""

import json
from dataclasses import replace

import pytest
from support.makers.records import MIB, NOW, a_recommendation, amounts, an_autoscaler
from support.makers.usage import DAY, World, a_day_of_usage

from trimtab.api.explain.recommendation import (
    NumbersFrom,
    NumbersPage,
    Origin,
    ShownResource,
    decode_numbers,
    show_numbers,
)
from trimtab.api.wire.codec import DecodeError, encode
from trimtab.core.explain.recommendation import explain_containers
from trimtab.core.model.autoscalers import ContainerMode, ContainerPolicy
from trimtab.core.model.recommendation import RecommendationSettings, ResourceSettings

ORIGIN = Origin(NumbersFrom.CHECKPOINTS, NOW, NOW, has_default_settings=True, remarks=("so",))


def page(world: World) -> NumbersPage:
    name, settings = world.autoscaler.identity, world.settings
    workings = explain_containers(world.usage, name, settings)
    return show_numbers(world.autoscaler, workings, settings, ORIGIN)


def cpu_of(shown: NumbersPage) -> ShownResource:
    return shown.containers[0].resources[0]


def rules(resource: ShownResource) -> dict[str, str]:
    return {each.step: each.rule for each in resource.steps if each.applies}


def test_numbers_are_told_exactly_with_what_they_are_made_from() -> None:
    said = a_recommendation(target=amounts(126), lower=amounts(100))
    shown = page(a_day_of_usage(autoscaler=an_autoscaler(said)))
    container, cpu = shown.containers[0], cpu_of(shown)

    assert (container.samples, container.span) == (DAY + 1, "24h0m0s")
    assert cpu.target is not None
    assert cpu.target.bucket is not None
    assert (cpu.target.bucket.start, cpu.target.bucket.end) == ("95m", "110m")
    assert (cpu.target.value, cpu.target.published, cpu.uncapped_target) == ("126m", "126m", "126m")
    assert cpu.upper_bound is not None
    assert cpu.upper_bound.published is None
    margin = cpu.steps[1]
    assert (margin.step, margin.target.before, margin.target.after) == ("margin", "110m", "126m")
    assert container.resources[1].steps[3].target.after == "250Mi"


def test_rules_are_told_with_their_figures() -> None:
    policies = (ContainerPolicy("app", min_allowed=amounts(200), max_allowed=amounts(300)),)
    settings = RecommendationSettings(
        cpu=ResourceSettings(pod_floor=25, rounding=50), max_allowed=amounts(memory=MIB)
    )
    shown = page(a_day_of_usage(autoscaler=an_autoscaler(policies=policies), settings=settings))
    cpu, memory = (rules(each) for each in shown.containers[0].resources)

    assert cpu["margin"] == "15 % more, to be safe"
    assert cpu["podMinimum"] == "at least 25m: a pod's minimum is 25m"
    assert cpu["rounding"] == "up to a multiple of 50m"
    assert cpu["minAllowed"] == "at least minAllowed of the policy, 200m"
    assert cpu["maxAllowed"] == "at most maxAllowed of the policy, 300m"
    assert memory["maxAllowed"].endswith("--container-recommendation-max-allowed-memory says")
    assert "0.5 (lower), 0.9 (target), 0.95 (upper)" in cpu["percentile"]
    assert cpu["confidence"].startswith("confidence 1 by 1441 samples (1 with one a minute for 1d)")
    assert not {"oomKills", "integerCpu"} & cpu.keys()


def test_a_policy_may_allow_less_than_the_minimum_of_a_pod() -> None:
    policies = (ContainerPolicy("app", min_allowed=amounts(10)),)
    shown = page(a_day_of_usage(autoscaler=an_autoscaler(policies=policies)))

    assert rules(cpu_of(shown))["podMinimum"] == "at least 10m: minAllowed allows so little"


def test_whole_cores_kills_and_units_are_told_where_they_count() -> None:
    annotations = {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}
    settings = RecommendationSettings(integer_cpu=True, humanize_memory=True)
    world = a_day_of_usage(autoscaler=an_autoscaler(annotations=annotations), settings=settings)
    world.oom([500e6], [DAY])
    cpu, memory = (rules(each) for each in page(world).containers[0].resources)

    assert cpu["integerCpu"].startswith("up to whole cores")
    assert memory["oomKills"].startswith("an OOM kill showed that 604857600")
    assert memory["rounding"] == "to two decimals of its unit"


def test_what_has_no_number_says_why() -> None:
    policies = (ContainerPolicy("side", mode=ContainerMode.OFF),)
    said = replace(a_recommendation(target=amounts(1)), container_name="side")
    world = World(autoscaler=an_autoscaler(said, policies=policies))
    world.pod("web-0", "app", "side")
    shown = page(world)

    assert shown.switched_off == ["side"]
    assert [each.absence for each in shown.containers[0].resources] == ["NoSamples"] * 2


def test_an_upper_bound_without_confidence_has_no_factor() -> None:
    world = World()
    world.pod()
    world.cpu([100.0], [0])
    cpu = cpu_of(page(world))

    assert cpu.upper_bound is not None
    assert cpu.upper_bound.confidence_factor is None
    assert "upper times without end" in rules(cpu)["confidence"]


def test_who_asks_reads_what_was_written() -> None:
    shown = page(a_day_of_usage())
    written = json.loads(encode(shown))

    assert encode(decode_numbers(encode(shown))) == encode(shown)
    assert written["source"] == "checkpoints"
    assert written["savedAt"] == written["at"]
    assert (written["hasDefaultSettings"], written["remarks"]) == (True, ["so"])
    with pytest.raises(DecodeError):
        decode_numbers(b'{"containers": 1}')
