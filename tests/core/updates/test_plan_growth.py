"""Growth: what it justifies under UpscaleOnly (D18), and that it does not wait (D17)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from support.makers.plans import (
    DOWN,
    REPLICA_SET,
    SMALL,
    UP,
    WEB,
    by_pod,
    planned,
    snapshot_of,
    told,
)
from support.makers.records import (
    MIB,
    NOW,
    a_container,
    a_pod,
    a_recommendation,
    amounts,
    an_autoscaler,
    hours,
    minutes,
)

from trimtab.core.changes.outcomes import Evict, Resize
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
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
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.resize_or_evict import InfeasibleAttempt, ResizeMemory
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

IN_PLACE, EITHER = UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE
UPSCALE_ONLY = UpdateMode.UPSCALE_ONLY
KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))

REQUESTS_ONLY = (ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY),)

# What was seen: 1 CPU and 100Mi, where 100m and 101Mi are recommended.
LARGE = amounts(1000, 100 * MIB)
A_MEBIBYTE_MORE = a_recommendation(
    target=amounts(100, 101 * MIB), lower=amounts(50, 50 * MIB), upper=amounts(200, 200 * MIB)
)
MUCH_MORE = a_recommendation(
    target=amounts(100, 150 * MIB), lower=amounts(50, 50 * MIB), upper=amounts(200, 200 * MIB)
)
NARROW = replace(A_MEBIBYTE_MORE, lower_bound=A_MEBIBYTE_MORE.target)
NEEDED = replace(MUCH_MORE, lower_bound=amounts(50, 120 * MIB))


def pods(count: int, container: Container, **fields: object) -> list[Pod]:
    usual: dict[str, object] = {"age": hours(24)}
    return [
        a_pod(container, name=f"web-{index}", **(usual | fields))  # type: ignore[arg-type]
        for index in range(count)
    ]


def with_obstacle(obstacle: str, recommendation: ContainerRecommendation) -> Snapshot:
    """Two pods that cannot be resized in place, for one reason or another."""
    asked = {**LARGE, Resource.MEMORY: recommendation.target[Resource.MEMORY]}
    # No less will do than the limit, so that no resize stays in the class.
    (policy,) = REQUESTS_ONLY
    policies = (replace(policy, min_allowed=asked),) if obstacle == "qos" else ()
    autoscaler = an_autoscaler(recommendation, mode=UPSCALE_ONLY, policies=policies)
    stuck = a_container(requests=asked, status=Allocation(LARGE))
    attempt = InfeasibleAttempt({"app": amounts(memory=101 * MIB)}, NOW - minutes(1))
    memories = {
        "refused": PodMemory(ResizeMemory(infeasible=attempt)),
        "deferred for long": PodMemory(ResizeMemory(resize_since=NOW - minutes(6))),
    }
    memory = memories.get(obstacle, PodMemory())
    found = {
        "infeasible": pods(2, stuck, resize=ResizeState.INFEASIBLE),
        "deferred for long": pods(2, stuck, resize=ResizeState.DEFERRED),
        "failing": pods(2, stuck, resize=ResizeState.ERROR),
        # A request that becomes equal to its limit, where all others are.
        "qos": pods(2, a_container(requests=LARGE, limits=asked)),
    }
    return snapshot_of(
        found.get(obstacle) or pods(2, a_container(requests=LARGE)),
        autoscaler,
        resizes_in_place=obstacle != "no resizes",
        pod_memory={(f"uid-web-{n}", autoscaler.identity): memory for n in range(2)},
    )


@pytest.mark.parametrize(
    ("recommendation", "expected"),
    [
        pytest.param(A_MEBIBYTE_MORE, ["ChangeTooSmall"] * 2, id="a mebibyte"),
        pytest.param(NARROW, ["ChangeTooSmall"] * 2, id="a mebibyte below its lower bound"),
        pytest.param(MUCH_MORE, ["Evict", "BudgetSpent"], id="half of what it has"),
        pytest.param(NEEDED, ["Evict", "BudgetSpent"], id="less than its lower bound"),
    ],
)
@pytest.mark.parametrize(
    "obstacle", ["refused", "infeasible", "deferred for long", "failing", "no resizes", "qos"]
)
def test_upscale_only_evicts_for_growth_that_matters(
    obstacle: str, recommendation: ContainerRecommendation, expected: list[str]
) -> None:
    assert told(planned(with_obstacle(obstacle, recommendation))) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(101, "ChangeTooSmall", id="a mebibyte"),
        pytest.param(111, "Evict", id="more than the update threshold"),
    ],
)
def test_an_oom_kill_restarts_nothing_under_upscale_only_for_a_little_more(
    target: int, expected: str
) -> None:
    container = a_container(requests=LARGE, last_termination=KILLED)
    recommendation = replace(A_MEBIBYTE_MORE, target=amounts(100, target * MIB))
    autoscaler = an_autoscaler(recommendation, mode=UPSCALE_ONLY)
    snapshot = snapshot_of(pods(2, container), autoscaler, resizes_in_place=False)

    assert told(planned(snapshot))[0] == expected


def test_an_oom_kill_that_more_cpu_does_not_cure_is_no_reason_to_evict() -> None:
    container = a_container(requests=SMALL, last_termination=KILLED)
    more_cpu = a_recommendation(target=amounts(200, 101 * MIB))
    autoscaler = an_autoscaler(more_cpu, mode=UPSCALE_ONLY)
    snapshot = snapshot_of(pods(2, container, age=hours(1)), autoscaler, resizes_in_place=False)

    assert told(planned(snapshot)) == ["TooYoung"] * 2


def test_in_place_an_oom_killed_pod_gets_also_a_little_more() -> None:
    container = a_container(requests=LARGE, last_termination=KILLED)
    autoscaler = an_autoscaler(A_MEBIBYTE_MORE, mode=UPSCALE_ONLY)
    outcomes = planned(snapshot_of(pods(2, container), autoscaler))

    assert [each.wanted for each in outcomes if isinstance(each, Resize)] == [
        {"app": Allocation(amounts(memory=101 * MIB), {})}
    ] * 2


def test_the_successor_of_an_eviction_gets_the_whole_recommendation() -> None:
    autoscaler = an_autoscaler(NEEDED, mode=UPSCALE_ONLY)
    snapshot = snapshot_of(pods(2, a_container(requests=LARGE)), autoscaler, resizes_in_place=False)
    evictions = [each for each in planned(snapshot) if isinstance(each, Evict)]

    assert [each.wanted for each in evictions] == [{"app": Allocation(NEEDED.target, {})}]


@pytest.mark.parametrize(
    ("recommendation", "expected"),
    [
        pytest.param(DOWN, "OnlyShrinks", id="it would shrink"),
        pytest.param(A_MEBIBYTE_MORE, "ChangeTooSmall", id="it would grow by a mebibyte"),
        pytest.param(NEEDED, "PodPending", id="it would grow by much"),
    ],
)
def test_a_pod_without_a_node_is_never_evicted_under_upscale_only(
    recommendation: ContainerRecommendation, expected: str
) -> None:
    waiting = pods(2, a_container(requests=LARGE), phase=PodPhase.PENDING)
    autoscaler = an_autoscaler(recommendation, mode=UPSCALE_ONLY)

    assert told(planned(snapshot_of(waiting, autoscaler))) == [expected] * 2


def test_a_pending_single_replica_under_upscale_only_is_not_evicted() -> None:
    waiting = pods(1, a_container(requests=SMALL), phase=PodPhase.PENDING)

    assert told(planned(snapshot_of(waiting, an_autoscaler(UP, mode=UPSCALE_ONLY)))) == [
        "BelowMinReplicas"
    ]


def test_under_upscale_only_the_order_is_that_of_growth() -> None:
    grows_most = a_pod(a_container(requests=amounts(500, 90 * MIB)), name="grows-most")
    shrinks = a_pod(a_container(requests=amounts(50_000, 100 * MIB)), name="shrinks")
    autoscaler = an_autoscaler(UP, mode=UPSCALE_ONLY)
    snapshot = snapshot_of([grows_most, shrinks], autoscaler, resizes_in_place=False)

    assert by_pod(planned(snapshot)) == {"grows-most": "Evict", "shrinks": "BudgetSpent"}


@pytest.mark.parametrize(
    ("direction", "resources", "expected"),
    [
        pytest.param(ChangeDirection.TARGET_HIGHER, BOTH, "Resize", id="something grows"),
        pytest.param(
            ChangeDirection.TARGET_HIGHER, BOTH[:1], "RequirementNotMet", id="cpu does not"
        ),
        pytest.param(
            ChangeDirection.TARGET_LOWER, BOTH[:1], "RequirementNotMet", id="nothing shrinks"
        ),
    ],
)
def test_under_upscale_only_requirements_are_met_by_growth_alone(
    direction: ChangeDirection, resources: tuple[Resource, ...], expected: str
) -> None:
    autoscaler = an_autoscaler(
        NEEDED, mode=UPSCALE_ONLY, requirements=(EvictionRequirement(resources, direction),)
    )
    snapshot = snapshot_of(pods(2, a_container(requests=LARGE)), autoscaler)

    assert told(planned(snapshot)) == [expected] * 2


PAIR = (
    a_container("app", requests=amounts(1000), limits=amounts(1000)),
    a_container("side", requests=amounts(1000), limits=amounts(1000)),
)
SHIFTED = (
    a_recommendation("app", target=amounts(1500), lower=amounts(1400)),
    a_recommendation("side", target=amounts(500), lower=amounts(400), upper=amounts(600)),
)
TIGHT = {"default": [LimitRangeItem(LimitRangeType.POD, max=amounts(2000))]}
ROOMY = {"default": [LimitRangeItem(LimitRangeType.POD, max=amounts(3000))]}


@pytest.mark.parametrize(
    ("limit_ranges", "expected"),
    [
        pytest.param(ROOMY, ["Resize"] * 2, id="room for what grows"),
        pytest.param(TIGHT, ["Evict", "BudgetSpent"], id="only room for the whole"),
    ],
)
def test_growth_that_a_limit_range_of_the_pod_would_refuse_is_not_asked_for(
    limit_ranges: dict[str, list[LimitRangeItem]], expected: list[str]
) -> None:
    both = [a_pod(*PAIR, name=f"web-{index}") for index in range(2)]
    autoscaler = an_autoscaler(*SHIFTED, mode=UPSCALE_ONLY)

    assert told(planned(snapshot_of(both, autoscaler, limit_ranges=limit_ranges))) == expected


def cooling(
    pod: Pod, autoscaler: Autoscaler, *, ago: timedelta = minutes(1), **fields: object
) -> Snapshot:
    """A cluster of one pod that was changed a moment ago."""
    memory = PodMemory(last_updated_at=NOW - ago, **fields)  # type: ignore[arg-type]
    return snapshot_of([pod], autoscaler, pod_memory={(pod.uid, autoscaler.identity): memory})


MIXED = a_recommendation(
    target=amounts(500, 50 * MIB), lower=amounts(400, 40 * MIB), upper=amounts(600, 90 * MIB)
)
SLIGHT = replace(MIXED, target=amounts(101, 50 * MIB), lower_bound=amounts(50, 40 * MIB))


@pytest.mark.parametrize("mode", [IN_PLACE, EITHER])
@pytest.mark.parametrize(
    ("recommendation", "wanted"),
    [
        pytest.param(UP, UP.target, id="all of it grows"),
        pytest.param(MIXED, amounts(500), id="only what grows"),
        pytest.param(DOWN, None, id="it shrinks"),
        pytest.param(SLIGHT, None, id="what grows does not matter"),
    ],
)
def test_a_pod_that_cools_down_grows_at_once(
    mode: UpdateMode, recommendation: ContainerRecommendation, wanted: Resources | None
) -> None:
    (outcome,) = planned(cooling(a_pod(), an_autoscaler(recommendation, mode=mode)))

    if wanted is None:
        assert told([outcome]) == ["CoolDown"]
    else:
        assert isinstance(outcome, Resize)
        assert outcome.wanted["app"].requests == wanted


@pytest.mark.parametrize(
    ("pod", "autoscaler"),
    [
        pytest.param(a_pod(), an_autoscaler(UP, min_replicas=1), id="an eviction"),
        pytest.param(
            a_pod(a_container(requests=SMALL, restarts_on_resize=True)),
            an_autoscaler(UP, mode=IN_PLACE, min_replicas=1),
            id="a resize that restarts",
        ),
        pytest.param(
            a_pod(a_container()),
            an_autoscaler(UP, mode=EITHER, min_replicas=1),
            id="another QoS class, for which it is evicted",
        ),
        pytest.param(
            a_pod(phase=PodPhase.PENDING),
            an_autoscaler(UP, mode=UPSCALE_ONLY, min_replicas=1),
            id="a pending pod",
        ),
    ],
)
def test_what_restarts_a_pod_waits_for_its_cool_down(pod: Pod, autoscaler: Autoscaler) -> None:
    assert told(planned(cooling(pod, autoscaler))) == ["CoolDown"]


def test_in_a_cool_down_grows_what_restarts_nothing() -> None:
    container = a_container(requests=SMALL, restarts_on_resize=frozenset({Resource.MEMORY}))
    (outcome,) = planned(cooling(a_pod(container), an_autoscaler(UP, mode=IN_PLACE)))

    assert isinstance(outcome, Resize)
    assert outcome.wanted == {"app": Allocation(amounts(500), {})}


def test_growth_that_needs_the_room_of_what_shrinks_waits_for_both() -> None:
    autoscaler = an_autoscaler(*SHIFTED, mode=EITHER)
    snapshot = cooling(a_pod(*PAIR), autoscaler)
    tight, roomy = (replace(snapshot, limit_ranges=each) for each in (TIGHT, ROOMY))

    assert told(planned(tight)) == ["CoolDown"]
    assert told(planned(roomy)) == ["Resize"]


def test_f16_growth_that_another_manager_undid_waits_for_its_verdict() -> None:
    autoscaler = an_autoscaler(UP, mode=IN_PLACE)
    asked = ResizeMemory(asked={"app": amounts(500, 500 * MIB)})

    assert told(planned(cooling(a_pod(), autoscaler, resize=asked))) == ["CoolDown"]


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        pytest.param(timedelta(seconds=9), "CoolDown", id="it may be an answer to an older one"),
        pytest.param(timedelta(seconds=10), "Evict", id="the node has refused this one"),
    ],
)
def test_a_growth_that_the_node_can_never_give_leads_to_an_eviction_at_once(
    ago: timedelta, expected: str
) -> None:
    container = a_container(requests=UP.target, status=Allocation(SMALL))
    pod = a_pod(container, resize=ResizeState.INFEASIBLE)
    autoscaler = an_autoscaler(UP, mode=EITHER, min_replicas=1)

    assert told(planned(cooling(pod, autoscaler, ago=ago))) == [expected]


def oom_looping(count: int, *, ready: int = 0) -> list[Pod]:
    dying = a_container(requests=SMALL, last_termination=KILLED)
    return [
        a_pod(dying, name=f"web-{index}", ready_since=NOW if index < ready else None)
        for index in range(count)
    ]


@pytest.mark.parametrize(
    ("ready", "recommendation", "expected"),
    [
        pytest.param(0, UP, ["Evict"] * 4, id="none is ready"),
        pytest.param(1, UP, ["Evict"] * 2 + ["BudgetSpent"] * 2, id="one is ready"),
        pytest.param(
            0,
            a_recommendation(target=amounts(500, 100 * MIB), lower=amounts(400)),
            ["Evict"] * 2 + ["BudgetSpent"] * 2,
            id="more cpu would cure nothing",
        ),
    ],
)
def test_an_oom_looping_workload_is_evicted_at_once(
    ready: int, recommendation: ContainerRecommendation, expected: list[str]
) -> None:
    snapshot = snapshot_of(oom_looping(4, ready=ready), an_autoscaler(recommendation))

    assert told(planned(snapshot)) == expected


def test_an_oom_looping_workload_that_lacks_pods_is_evicted_at_once() -> None:
    snapshot = snapshot_of(oom_looping(2), an_autoscaler(UP), configured_replicas={REPLICA_SET: 4})

    assert told(planned(snapshot)) == ["Evict"] * 2


def test_f16_also_an_oom_looping_workload_waits_for_the_effect_of_its_evictions() -> None:
    snapshot = snapshot_of(
        oom_looping(4), an_autoscaler(UP), unproven={WEB: 2}, convergence={WEB: Retry()}
    )

    settings = PlanSettings(max_unproven=3)

    assert told(planned(snapshot, settings)) == ["Evict"] + ["Resize"] * 3
    without = replace(snapshot, resizes_in_place=False)
    assert told(planned(without, settings)) == ["Evict"] + ["EffectAwaited"] * 3


def test_where_a_limit_range_refuses_resizes_dying_pods_wait_for_the_effect() -> None:
    # A refusal would keep them from their eviction.
    killed = a_container(requests=amounts(500, 100 * MIB), last_termination=KILLED)
    bounds = [LimitRangeItem(LimitRangeType.CONTAINER, max={Resource.CPU: 300})]
    snapshot = snapshot_of(
        pods(4, killed, node_name="one"),
        an_autoscaler(UP),
        unproven={WEB: 3},
        limit_ranges={"default": bounds},
    )

    assert told(planned(snapshot, PlanSettings(max_unproven=3))) == ["EffectAwaited"] * 4


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, IN_PLACE, EITHER, UPSCALE_ONLY])
@pytest.mark.parametrize(
    "configured", [pytest.param({}, id="not known"), pytest.param({REPLICA_SET: 0}, id="none")]
)
def test_pods_that_die_grow_in_place_also_under_an_owner_of_unknown_size(
    mode: UpdateMode, configured: dict[WorkloadName, int]
) -> None:
    healthy = a_pod(a_container(requests=SMALL), name="healthy", ready_since=NOW)
    snapshot = snapshot_of(
        [*oom_looping(3, ready=1), healthy],
        an_autoscaler(UP, mode=mode),
        configured_replicas=configured,
    )

    assert told(planned(snapshot)) == ["Resize"] * 3 + ["ReplicasUnknown"]
    without = replace(snapshot, resizes_in_place=False)
    assert set(told(planned(without))) == {"ReplicasUnknown"}


def test_a_dying_pod_of_an_owner_that_is_not_counted_says_so_where_it_has_no_room() -> None:
    (pod,) = oom_looping(1)
    snapshot = snapshot_of(
        [structs.replace(pod, node_name="one")],
        an_autoscaler(UP),
        configured_replicas={},
        node_use=NodeUse({"one": SMALL}, {"one": SMALL}),
    )

    assert told(planned(snapshot)) == ["ReplicasUnknown"]


def test_of_a_workload_the_pods_that_are_oom_killed_come_first() -> None:
    healthy = a_pod(a_container(requests=amounts(10, 10 * MIB)), name="healthy", ready_since=NOW)
    dying = structs.replace(oom_looping(1)[0], name="dying", uid="dying")

    assert by_pod(planned(snapshot_of([healthy, dying], an_autoscaler(UP)))) == {
        "dying": "Evict",
        "healthy": "BudgetSpent",
    }


def test_pods_of_a_job_that_are_oom_killed_get_more_memory_in_place() -> None:
    job = OwnerReference("Job", "import", "batch/v1")
    dying = a_container(requests=SMALL, last_termination=KILLED)
    snapshot = snapshot_of(
        pods(2, dying, owner=job),
        an_autoscaler(UP, mode=UpdateMode.RECREATE),
        configured_replicas={WorkloadName("default", "Job", "import"): 2},
    )

    assert told(planned(snapshot)) == ["Resize"] * 2


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param(amounts(900, 900 * MIB), amounts(500, 500 * MIB), id="room for both"),
        pytest.param(amounts(10, 900 * MIB), amounts(memory=500 * MIB), id="no room for CPU"),
        pytest.param(amounts(900, 10 * MIB), None, id="no room for memory"),
    ],
)
def test_memory_in_place_of_a_pod_that_may_not_be_evicted_waits_for_no_cpu(
    left: Resources, expected: Resources | None
) -> None:
    dying = a_pod(a_container(requests=SMALL, last_termination=KILLED), node_name="one")
    whole = {kind: SMALL[kind] + left[kind] for kind in BOTH}
    snapshot = snapshot_of(
        [dying], an_autoscaler(UP), node_use=NodeUse({"one": whole}, {"one": SMALL})
    )
    (outcome,) = planned(snapshot)

    found = outcome.wanted["app"].requests if isinstance(outcome, Resize) else None
    assert found == expected


DATABASE = OwnerReference("StatefulSet", "web-1")
ORDERED = {WorkloadName("default", "StatefulSet", "web-1"): 0}
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@pytest.mark.parametrize(
    ("replicas", "fields", "reason"),
    [
        pytest.param(1, {}, "BelowMinReplicas", id="a single replica"),
        pytest.param(3, {"annotations": UNSAFE}, "EvictionUnwanted", id="it shall run on"),
        pytest.param(3, {"owner": DATABASE}, "LowerOrdinalNotReady", id="the first waits for it"),
    ],
)
def test_pods_that_are_oom_killed_and_may_not_be_evicted_get_memory_in_place(
    replicas: int, fields: dict[str, object], reason: str
) -> None:
    killed = a_container(requests=SMALL, last_termination=KILLED)
    pods = [a_pod(killed, name=f"web-{index + 1}", **fields) for index in range(replicas)]  # type: ignore[arg-type]
    usual = snapshot_of(
        pods,
        an_autoscaler(UP),
        configured_replicas={REPLICA_SET: replicas, next(iter(ORDERED)): replicas},
        first_ordinals=ORDERED,
    )
    (outcome, *_) = planned(usual)

    assert set(told(planned(replace(usual, resizes_in_place=False)))) == {reason}
    assert set(told(planned(usual))) == {"Resize"}
    assert isinstance(outcome, Resize)
    assert outcome.wanted == {"app": Allocation(amounts(500, 500 * MIB), {})}


@pytest.mark.parametrize(
    ("mode", "in_vain", "expected"),
    [
        pytest.param(UpdateMode.RECREATE, True, "Resize", id="a mode that evicts"),
        pytest.param(EITHER, True, "Resize", id="a mode that resizes"),
        pytest.param(EITHER, False, "Resize", id="resizes of other pods were undone"),
    ],
)
def test_f16_changes_without_effect_keep_no_dying_pod_from_growing_in_place(
    mode: UpdateMode, expected: str, *, in_vain: bool
) -> None:
    killed = a_container(requests=SMALL, last_termination=KILLED)
    snapshot = snapshot_of(
        [a_pod(killed, name=f"web-{index}") for index in range(3)],
        an_autoscaler(UP, mode=mode),
        convergence={WEB: Retry(3, NOW - minutes(9))},
        evicted_in_vain=frozenset({WEB} if in_vain else ()),
    )

    assert told(planned(snapshot)) == [expected] * 3
    without = replace(snapshot, resizes_in_place=False)
    assert told(planned(without)) == ["NotConverging"] * 3


@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, IN_PLACE, EITHER, UPSCALE_ONLY])
@pytest.mark.parametrize(
    ("asked_ago", "expected"),
    [
        pytest.param(minutes(0.5), "CoolDown", id="before it is known to be undone"),
        pytest.param(minutes(3), "NotConverging", id="after that"),
    ],
)
def test_f16_growth_in_place_that_was_undone_is_not_repeated(
    mode: UpdateMode, asked_ago: timedelta, expected: str
) -> None:
    autoscaler = an_autoscaler(UP, mode=mode)
    asked = ResizeMemory(asked={"app": amounts(500, 500 * MIB)})
    memory = PodMemory(resize=asked, last_updated_at=NOW - asked_ago)
    killed = a_container(requests=SMALL, last_termination=KILLED)
    snapshot = snapshot_of(
        [a_pod(killed, name=f"web-{index}") for index in range(3)],
        autoscaler,
        convergence={WEB: Retry(3, NOW - minutes(1))} if asked_ago > minutes(1) else {},
        pod_memory={(f"uid-web-{index}", autoscaler.identity): memory for index in range(3)},
    )

    assert told(planned(snapshot)) == [expected] * 3
    # Less CPU alone keeps no pod from its memory.
    has_memory = ResizeMemory(asked={"app": amounts(500, 100 * MIB)})
    kept = {key: replace(memory, resize=has_memory) for key in snapshot.pod_memory}
    assert expected not in told(planned(replace(snapshot, pod_memory=kept)))


@pytest.mark.parametrize(
    ("failures", "in_vain", "expected"),
    [
        pytest.param(1, False, "Evict", id="resizes alone had no effect"),
        pytest.param(1, True, "NotConverging", id="evictions had none"),
        pytest.param(3, False, "NotConverging", id="too many changes had none"),
    ],
)
def test_f16_resizes_without_effect_keep_no_dying_pod_from_a_node_with_room(
    failures: int, expected: str, *, in_vain: bool
) -> None:
    killed = a_container(requests=SMALL, last_termination=KILLED)
    snapshot = snapshot_of(
        [a_pod(killed, name="dying", node_name="full"), *oom_looping(2, ready=2)],
        an_autoscaler(UP, mode=EITHER),
        convergence={WEB: Retry(failures, NOW + minutes(1))},
        evicted_in_vain=frozenset({WEB} if in_vain else ()),
        node_use=NodeUse(
            {"full": SMALL, "free": amounts(9000, 9000 * MIB)}, {"full": SMALL, "free": {}}
        ),
    )

    assert by_pod(planned(snapshot))["dying"] == expected


def test_no_growth_in_place_is_asked_for_that_a_limit_range_refuses() -> None:
    # The API server refuses all resizes of a pod that has more than a LimitRange allows.
    killed = a_container(requests=amounts(500, 100 * MIB), last_termination=KILLED)
    pods = [
        a_pod(killed, name=f"web-{index}", ready_since=NOW, node_name="one") for index in (1, 2)
    ]
    bounds = [LimitRangeItem(LimitRangeType.CONTAINER, max={Resource.CPU: 300})]
    snapshot = snapshot_of(pods, an_autoscaler(UP), limit_ranges={"default": bounds})

    assert told(planned(snapshot)) == ["LimitRangeRefuses"] * 2


DYING = a_container(requests=SMALL, last_termination=KILLED, restarts_on_resize=True)
ACTING = [UpdateMode.RECREATE, IN_PLACE, EITHER, UPSCALE_ONLY]


@pytest.mark.parametrize("mode", ACTING)
def test_a_single_replica_that_is_down_restarts_with_the_memory_it_dies_for(
    mode: UpdateMode,
) -> None:
    (outcome,) = planned(snapshot_of([a_pod(DYING)], an_autoscaler(UP, mode=mode)))

    assert isinstance(outcome, Resize)
    assert outcome.wanted["app"].requests == amounts(500, 500 * MIB)


@pytest.mark.parametrize("mode", ACTING)
def test_a_single_replica_that_is_ready_is_not_restarted_for_memory(mode: UpdateMode) -> None:
    pod = a_pod(DYING, ready_since=NOW - minutes(1))

    assert told(planned(snapshot_of([pod], an_autoscaler(UP, mode=mode)))) == ["BelowMinReplicas"]


@pytest.mark.parametrize("mode", ACTING)
def test_containers_at_work_are_not_restarted_beside_one_that_dies(mode: UpdateMode) -> None:
    helper = a_container("helper", requests=SMALL, restarts_on_resize=True)
    autoscaler = an_autoscaler(UP, replace(UP, container_name="helper"), mode=mode)
    (outcome,) = planned(snapshot_of([a_pod(DYING, helper)], autoscaler))

    assert isinstance(outcome, Resize)
    assert {name: each.requests for name, each in outcome.wanted.items() if each.requests} == {
        "app": amounts(500, 500 * MIB)
    }


@pytest.mark.parametrize("mode", [IN_PLACE, EITHER, UPSCALE_ONLY])
def test_restarts_of_pods_that_die_spend_no_budget_and_wait_for_none(mode: UpdateMode) -> None:
    ready = [a_pod(a_container(requests=amounts(500, 500 * MIB)), name="web-0", ready_since=NOW)]
    dying = [a_pod(DYING, name=f"web-{index}") for index in (1, 2)]
    outcomes = planned(snapshot_of([*ready, *dying], an_autoscaler(UP, mode=mode)))

    assert by_pod(outcomes) == {"web-0": "InsideBounds", "web-1": "Resize", "web-2": "Resize"}


def test_a_sidecar_that_is_oom_killed_does_not_wait_for_one_that_would_restart() -> None:
    app = a_container("app", requests=SMALL, restarts_on_resize=frozenset(BOTH))
    helper = a_container("helper", requests=SMALL, last_termination=KILLED)
    wide = {"lower": amounts(50, 50 * MIB), "upper": amounts(900, 900 * MIB)}
    autoscaler = an_autoscaler(
        a_recommendation("app", target=amounts(500, 500 * MIB), lower=amounts(400, 400 * MIB)),
        a_recommendation("helper", target=amounts(100, 200 * MIB), **wide),
        mode=UPSCALE_ONLY,
    )
    (outcome,) = planned(snapshot_of([a_pod(app, helper, age=minutes(5))], autoscaler))

    assert isinstance(outcome, Resize)
    assert {name: each.requests for name, each in outcome.wanted.items() if each.requests} == {
        "helper": amounts(memory=200 * MIB)
    }
