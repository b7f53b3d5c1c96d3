"""Snapshots of clusters as odd as dice make them, for properties of plans."""

from random import Random

from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import BOOST_TOLD, MIB, NOW, amounts, an_autoscaler, minutes

from trimtab.core.guards.degradation import Degradation
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.guards.eviction_brake import NO_BRAKE, PROBE_AFTER, Lack, find_brake
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    Condition,
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    CpuBoost,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import (
    Allocation,
    Container,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, MAX_AMOUNT, Resource
from trimtab.core.model.selectors import LabelRequirement, Operator, Selector
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.sizing.pod_totals import reserved_for
from trimtab.core.sizing.startup_boost import annotation_name
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import ObservedPod, PodMemory, Retry, Snapshot

NODES = ("one", "two")
WEB = WorkloadName("default", "Deployment", "web")
OWNERS = [OwnerReference("ReplicaSet", "a"), OwnerReference("Job", "b"), OwnerReference("X", "c")]
TARGETS = [Selector(), Selector(), Selector(), None]
ACTING = (
    UpdateMode.RECREATE,
    UpdateMode.IN_PLACE,
    UpdateMode.IN_PLACE_OR_RECREATE,
    UpdateMode.UPSCALE_ONLY,
)
IN_PLACE_MODES = (UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE)

ODD_MAPS = [None, {}, amounts(0, 0), amounts(memory=MAX_AMOUNT), amounts(1)]
SIZES = [amounts(100, 100 * MIB), amounts(900, 900 * MIB), amounts(100, 900 * MIB)]
# Clocks differ: something may have happened in the future.
AHEAD = NOW + minutes(7)
MOMENTS = [None, NOW, NOW - minutes(1), NOW - minutes(9), NOW - minutes(2000), AHEAD]
KILLS = [
    None,
    Termination("OOMKilled"),
    Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1)),
    Termination("OOMKilled", AHEAD, AHEAD),
    Termination("OOMKilled", AHEAD, NOW),
]
BOOSTS = [
    {},
    {},
    {},
    {**BOOST_TOLD, annotation_name("app"): '{"requests":{"cpu":"100m"}}'},
    {**BOOST_TOLD, annotation_name("gone"): "}{"},
    {"vpaObservedContainers": "app"},
]
CONTAINERS = [
    Container(name, spec=Allocation(requests, limits), restarts_on_resize=restarts)
    for name in ("app", "side")
    for restarts in (frozenset[Resource](), frozenset(BOTH), frozenset({Resource.MEMORY}))
    for requests, limits in (
        *((size, None) for size in SIZES),
        *((size, size) for size in SIZES),
        *((odd, odd) for odd in ODD_MAPS),
    )
]
RECOMMENDATIONS = [
    ContainerRecommendation(name, target, lower, upper)
    for name in ("app", "app", "side", "gone")
    for target, lower, upper in (
        (amounts(500, 500 * MIB), amounts(400, 400 * MIB), amounts(600, 600 * MIB)),
        (amounts(500, 500 * MIB), None, None),
        (amounts(50), amounts(50), amounts(50)),
        (amounts(500, 0), {}, {}),
        (amounts(MAX_AMOUNT, MAX_AMOUNT), None, amounts(memory=0)),
        ({}, None, None),
    )
]
REQUIREMENTS = [
    (),
    (),
    (EvictionRequirement(BOTH, ChangeDirection.TARGET_HIGHER),),
    (EvictionRequirement(BOTH[:1], ChangeDirection.TARGET_LOWER),),
    (EvictionRequirement((), None),),
]
SELECTORS = [None, Selector(), Selector((LabelRequirement("role", Operator.IN, ("leader",)),))]
MEMORIES = [
    PodMemory(),
    PodMemory(ResizeMemory(InfeasibleAttempt({"app": amounts(100, MIB)}, NOW - minutes(1)))),
    PodMemory(ResizeMemory(resize_since=NOW - minutes(70))),
    PodMemory(last_updated_at=NOW - minutes(1), unboost=Retry(2, NOW + minutes(1))),
    PodMemory(governed_since=NOW - minutes(1)),
    PodMemory(ResizeMemory(resize_since=AHEAD), last_updated_at=AHEAD, governed_since=AHEAD),
]
POLICIES = [
    (),
    (),
    (ContainerPolicy("side", mode=ContainerMode.OFF),),
    (ContainerPolicy("*", min_allowed=amounts(450), max_allowed=amounts(550, 450 * MIB)),),
    (ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY),),
    (ContainerPolicy("app", min_allowed=amounts(0, MAX_AMOUNT), max_allowed=amounts(-1)),),
]
CONDITIONS = [
    *[()] * 6,
    (Condition("UsageStale", "True"),),
    (Condition("RecommendationSuspicious", "True"), Condition("", "")),
    (Condition("UsageStale", "Unknown"),),
]
LIMIT_RANGES: list[dict[str, list[LimitRangeItem]]] = [
    {},
    {},
    {"default": []},
    {"elsewhere": [LimitRangeItem(LimitRangeType.POD, max=amounts(1, 1))]},
    {"default": [LimitRangeItem(LimitRangeType.POD, max=amounts(600, 600 * MIB))]},
    {"default": [LimitRangeItem(LimitRangeType.POD, min=amounts(0, MAX_AMOUNT))]},
    {
        "default": [
            LimitRangeItem(LimitRangeType.CONTAINER, default=amounts(700)),
            LimitRangeItem(LimitRangeType.CONTAINER, amounts(300), amounts(200, 0)),
        ]
    },
]


def a_pod(dice: Random, name: str) -> Pod:
    last, status = dice.choice(KILLS), dice.choice([None, None, Allocation(SIZES[0]), Allocation()])
    first = structs.replace(dice.choice(CONTAINERS), status=status, last_termination=last)
    return Pod(
        "default",
        name,
        uid=f"uid-{name}",
        labels=dice.choice([{}, {"role": "leader"}]),
        annotations=dice.choice(BOOSTS),
        owner=dice.choice([None, *OWNERS, *OWNERS]),
        phase=dice.choice([*[PodPhase.RUNNING] * 8, *PodPhase]),
        containers=(first, *dice.sample(CONTAINERS, dice.choice([0, 0, 1]))),
        started_at=dice.choice(MOMENTS),
        ready_since=dice.choice(MOMENTS),
        resize=dice.choice([*[None] * 8, *ResizeState]),
        is_deleting=dice.random() < 0.1,
        node_name=dice.choice(["", *NODES]),
    )


def a_use(dice: Random, pods: list[Pod]) -> NodeUse:
    """Nodes of which some are full."""
    given = [amounts(4000, 4000 * MIB), amounts(1000, 9000 * MIB), amounts(10), {}]
    taken = {
        name: [reserved_for(pod) for pod in pods if pod.node_name == name and dice.random() < 0.9]
        for name in NODES
    }
    return NodeUse(
        {name: dice.choice(given) for name in NODES},
        {
            name: {kind: sum(each[kind] for each in found) for kind in BOTH}
            for name, found in taken.items()
        },
    )


def an_odd_autoscaler(dice: Random, name: str) -> Autoscaler:
    sensible, odd = RECOMMENDATIONS[:1], dice.sample(RECOMMENDATIONS, 2)
    return an_autoscaler(
        name=name,
        mode=dice.choice([*UpdateMode, *ACTING]),
        selector=dice.choice(SELECTORS),
        min_replicas=dice.choice([None, 0, 1, 3]),
        requirements=dice.choice(REQUIREMENTS),
        policies=dice.choice(POLICIES),
        conditions=dice.choice(CONDITIONS),
        boost=dice.choice([None, CpuBoost(factor=2)]),
        recommendation=dice.choice([None, (), *[tuple(sensible)] * 8, *[tuple(odd)] * 4]),
    )


BRAKES = [
    *[NO_BRAKE] * 8,
    find_brake({WEB: Lack(NOW)}, {}, {}),
    find_brake({WEB._replace(name="other"): Lack(NOW)}, {}, {}),
    find_brake({WEB._replace(name="other"): Lack(NOW - PROBE_AFTER)}, {}, {}),
]


def a_snapshot(dice: Random) -> Snapshot:
    found = [a_pod(dice, f"web-{number}") for number in range(dice.randint(0, 12))]
    governors = [an_odd_autoscaler(dice, name) for name in ("one", "two")]
    return Snapshot(
        pods=[ObservedPod(pod, dice.choice([None, *[WEB] * 8])) for pod in found],
        autoscalers=[ObservedAutoscaler(each, dice.choice(TARGETS)) for each in governors],
        limit_ranges=dice.choice(LIMIT_RANGES),
        configured_replicas={
            WorkloadName("default", owner.kind, owner.name): dice.randint(0, 6)
            for owner in dice.sample(OWNERS, 2)
        },
        admission_alive=dice.random() < 0.9,
        resizes_in_place=dice.random() < 0.8,
        pod_memory={
            (pod.uid, dice.choice(governors).identity): dice.choice(MEMORIES) for pod in found
        },
        convergence=dice.choice([{}, {}, {}, {WEB: Retry(1, NOW)}, {WEB: Retry(3)}]),
        usual_shares=dice.choice([{}, {"default": 0.0}, {"default": 0.9}]),
        node_use=dice.choice([NodeUse(), a_use(dice, found)]),
        brake=dice.choice(BRAKES),
        evicted_in_vain=dice.choice([frozenset(), frozenset({WEB})]),
        degraded=dice.choice([{}, {}, {}, {WEB: Degradation(1, 3, NOW - minutes(9))}]),
        gaps=dice.choice([{}, {}, {}, {"default": NOW + minutes(0.1)}]),
    )


def some_settings(dice: Random) -> PlanSettings:
    return PlanSettings(
        disruption=DisruptionSettings(
            min_replicas=dice.randint(0, 3),
            tolerance=dice.choice([0.0, 0.3, 0.5, 1.0]),
        ),
        gates=FeatureGates(*(dice.random() < 0.9 for _ in range(5))),
        max_boost_duration=dice.choice([None, minutes(30)]),
        role_dwell=dice.choice([minutes(0), minutes(5)]),
        grow_only_under_requirements=dice.random() < 0.5,
        surge_min_pods=dice.choice([0, 50]),
    )


# A seed rather than a strategy: a cluster is hundreds of choices, and a seed replays them at once.
seeds = st.integers(0, 2**32).map(Random)
