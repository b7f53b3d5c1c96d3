from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs
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

from trimtab.core.changes.outcomes import Hold
from trimtab.core.guards.disruption_budgets import GroupPermission, count_groups
from trimtab.core.model.autoscalers import (
    Autoscaler,
    ChangeDirection,
    Condition,
    ContainerMode,
    ContainerPolicy,
    ContainerRecommendation,
    ControlledValues,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import Allocation, Container, Pod, Termination, WorkloadName
from trimtab.core.model.resources import BOTH, Resource
from trimtab.core.model.validation import SettingsError
from trimtab.core.updates.candidates import Candidate
from trimtab.core.updates.checks.assessment import assess
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import PodMemory, Retry, Snapshot

WEB = WorkloadName("default", "Deployment", "web")
REPLICA_SET = WorkloadName("default", "ReplicaSet", "web-1")
KEY = ("uid-web-0", an_autoscaler().identity)

UP = a_recommendation(
    target=amounts(500, 500 * MIB),
    lower=amounts(400, 400 * MIB),
    upper=amounts(600, 600 * MIB),
)
DOWN = a_recommendation(target=amounts(50, 50 * MIB), upper=amounts(90, 90 * MIB))
MIXED = a_recommendation(
    target=amounts(500, 50 * MIB), lower=amounts(400), upper=amounts(memory=90 * MIB)
)
UPSCALE_ONLY = UpdateMode.UPSCALE_ONLY

HIGHER = ChangeDirection.TARGET_HIGHER
EITHER_GROWS = (EvictionRequirement(BOTH, HIGHER),)
BOTH_GROW = (
    EvictionRequirement((Resource.CPU,), HIGHER),
    EvictionRequirement((Resource.MEMORY,), HIGHER),
)


def assessed(
    autoscaler: Autoscaler,
    pod: Pod | None = None,
    *,
    settings: PlanSettings | None = None,
    **fields: object,
) -> Candidate | Hold:
    """What comes of a pod of 100m and 100Mi, by default one of two replicas and an hour old."""
    pod = a_pod() if pod is None else pod
    snapshot = Snapshot(configured_replicas={REPLICA_SET: 2}, **fields)  # type: ignore[arg-type]
    groups = count_groups([pod, a_pod(name="web-1")], snapshot.configured_replicas)
    return assess(
        pod, autoscaler, WEB, PlanContext(snapshot, settings or PlanSettings(), groups, NOW)
    )


def reason(found: Candidate | Hold) -> HoldReason | None:
    return found.reason if isinstance(found, Hold) else None


def oom_killed(*, beside: bool = False) -> Pod:
    """A pod whose container was killed early, or the one `beside` that."""
    last = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    app = a_container(requests=amounts(100, 100 * MIB), last_termination=last)
    if not beside:
        return a_pod(app)
    return a_pod(
        structs.replace(app, last_termination=None), structs.replace(app, name="side", index=1)
    )


def test_a_pod_outside_its_bounds_is_a_candidate() -> None:
    found = assessed(an_autoscaler(UP))

    assert isinstance(found, Candidate)
    assert found.change.scale_up
    assert found.standing is GroupPermission.OPEN
    assert found.wanted == {"app": Allocation(amounts(500, 500 * MIB), {})}


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(an_autoscaler(UP, mode=UpdateMode.OFF), HoldReason.MODE_OFF, id="off"),
        pytest.param(
            an_autoscaler(UP, mode=UpdateMode.INITIAL), HoldReason.MODE_INITIAL, id="initial"
        ),
        pytest.param(an_autoscaler(UP, mode=UpdateMode.AUTO), None, id="auto"),
        pytest.param(an_autoscaler(), HoldReason.NO_RECOMMENDATION, id="no recommendation"),
        pytest.param(
            an_autoscaler(a_recommendation("other", target=amounts(1))),
            HoldReason.NO_RECOMMENDATION,
            id="a recommendation for a container that is gone",
        ),
        pytest.param(
            an_autoscaler(UP, policies=(ContainerPolicy("app", mode=ContainerMode.OFF),)),
            HoldReason.NO_RECOMMENDATION,
            id="the only container is not scaled",
        ),
        pytest.param(
            an_autoscaler(UP, conditions=(Condition("UsageStale", "True"),)),
            HoldReason.RECOMMENDATION_STALE,
            id="the recommender has seen no usage",
        ),
        pytest.param(
            an_autoscaler(UP, conditions=(Condition("RecommendationSuspicious", "True"),)),
            HoldReason.RECOMMENDATION_SUSPICIOUS,
            id="the recommender distrusts itself",
        ),
        pytest.param(
            an_autoscaler(UP, conditions=(Condition("UsageStale", "False"),)), None, id="not stale"
        ),
        pytest.param(
            an_autoscaler(UP, conditions=(Condition("LowConfidence", "True"),)),
            None,
            id="low confidence is in the bounds already",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(500, 0))),
            HoldReason.RECOMMENDATION_SUSPICIOUS,
            id="a target of nothing",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(500, 250))),
            HoldReason.RECOMMENDATION_SUSPICIOUS,
            id="a target whose unit was forgotten",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(10_000_001, MIB))),
            HoldReason.RECOMMENDATION_SUSPICIOUS,
            id="more cores than any machine has",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(500, 1024**5 + 1))),
            HoldReason.RECOMMENDATION_SUSPICIOUS,
            id="more memory than any machine has",
        ),
        pytest.param(
            an_autoscaler(a_recommendation(target=amounts(1, MIB))),
            HoldReason.TOO_YOUNG,
            id="a target that is tiny, and may be meant",
        ),
    ],
)
def test_what_the_autoscaler_says_comes_first(
    autoscaler: Autoscaler, expected: HoldReason | None
) -> None:
    assert reason(assessed(autoscaler)) is expected


@pytest.mark.parametrize(
    ("side", "policies", "limit_range"),
    [
        pytest.param(
            a_container("side", requests=amounts(0, 10 * MIB)),
            (),
            LimitRangeItem(LimitRangeType.POD, max=amounts(100_000, 100_000 * MIB)),
            id="a sidecar that asks for no cpu under a limit range of the pod",
        ),
        pytest.param(
            a_container("side", requests=amounts(0), limits=amounts(0)),
            (ContainerPolicy("side", controlled_values=ControlledValues.REQUESTS_ONLY),),
            LimitRangeItem(LimitRangeType.CONTAINER),
            id="a request that may not exceed a limit of nothing",
        ),
    ],
)
def test_an_amount_of_nothing_that_nobody_recommended_is_not_suspicious(
    side: Container, policies: tuple[ContainerPolicy, ...], limit_range: LimitRangeItem
) -> None:
    pod = a_pod(a_container(requests=amounts(100, 100 * MIB)), side)
    recommended = [UP, replace(UP, container_name="side")] if policies else [UP]
    autoscaler = an_autoscaler(*recommended, policies=policies)

    found = assessed(autoscaler, pod, limit_ranges={"default": [limit_range]})

    assert reason(found) is None


def test_a_target_of_nothing_is_suspicious_whatever_it_is_capped_to() -> None:
    policy = ContainerPolicy("app", min_allowed=amounts(500, 500 * MIB))
    autoscaler = an_autoscaler(a_recommendation(target=amounts(0, 0)), policies=(policy,))

    assert reason(assessed(autoscaler)) is HoldReason.RECOMMENDATION_SUSPICIOUS


def test_a_target_of_nothing_for_a_container_that_is_not_scaled_does_not_matter() -> None:
    nothing = a_recommendation("side", target=amounts(0, 0))
    pod = a_pod(a_container(requests=amounts(100, 100 * MIB)), a_container("side"))
    policies = (ContainerPolicy("side", mode=ContainerMode.OFF),)

    assert reason(assessed(an_autoscaler(UP, nothing, policies=policies), pod)) is None


def test_a_bound_below_nothing_leads_to_no_request_below_nothing() -> None:
    policy = ContainerPolicy("app", max_allowed=amounts(-5))
    found = assessed(an_autoscaler(UP, policies=(policy,)))
    wanted = found.wanted if isinstance(found, Candidate) else {}

    assert all(amount >= 0 for each in wanted.values() for amount in (each.requests or {}).values())


@pytest.mark.parametrize(
    ("mode", "gates", "expected"),
    [
        pytest.param(
            UpdateMode.IN_PLACE,
            FeatureGates(in_place=False),
            HoldReason.FEATURE_GATE_OFF,
            id="in place",
        ),
        pytest.param(
            UPSCALE_ONLY,
            FeatureGates(upscale_only=False),
            HoldReason.FEATURE_GATE_OFF,
            id="upscale only",
        ),
        pytest.param(
            UpdateMode.IN_PLACE_OR_RECREATE,
            FeatureGates(in_place=False),
            None,
            id="in place or recreate has no gate any more",
        ),
    ],
)
def test_a_mode_whose_gate_is_off_does_nothing(
    mode: UpdateMode, gates: FeatureGates, expected: HoldReason | None
) -> None:
    found = assessed(an_autoscaler(UP, mode=mode), settings=PlanSettings(gates=gates))

    assert reason(found) is expected


@pytest.mark.parametrize(
    ("recommendation", "pod", "expected"),
    [
        pytest.param(
            a_recommendation(target=amounts(190, 100 * MIB)),
            a_pod(age=hours(1)),
            HoldReason.TOO_YOUNG,
            id="inside its bounds and an hour old",
        ),
        pytest.param(
            a_recommendation(target=amounts(190, 100 * MIB)),
            a_pod(age=hours(13)),
            None,
            id="inside its bounds and thirteen hours old",
        ),
        pytest.param(
            a_recommendation(target=amounts(105, 100 * MIB)),
            a_pod(age=hours(13)),
            HoldReason.CHANGE_TOO_SMALL,
            id="too small a change",
        ),
        pytest.param(
            a_recommendation(target=amounts(100, 100 * MIB)),
            a_pod(age=hours(13)),
            HoldReason.INSIDE_BOUNDS,
            id="nothing to change",
        ),
        pytest.param(
            a_recommendation(target=amounts(100, 101 * MIB)), oom_killed(), None, id="a quick oom"
        ),
        pytest.param(
            a_recommendation(target=amounts(101, 100 * MIB)),
            oom_killed(),
            HoldReason.CHANGE_TOO_SMALL,
            id="a quick oom that gets only cpu",
        ),
        pytest.param(
            a_recommendation(target=amounts(101)),
            oom_killed(),
            HoldReason.CHANGE_TOO_SMALL,
            id="a quick oom without a target for memory",
        ),
        pytest.param(
            a_recommendation(target=amounts(100, 99 * MIB)),
            oom_killed(),
            HoldReason.CHANGE_TOO_SMALL,
            id="a quick oom that gets less memory",
        ),
        pytest.param(
            a_recommendation(target=amounts(100, 100 * MIB)),
            oom_killed(),
            HoldReason.INSIDE_BOUNDS,
            id="a quick oom with the same target",
        ),
        pytest.param(
            a_recommendation(target=amounts(100, 101 * MIB)),
            oom_killed(beside=True),
            HoldReason.CHANGE_TOO_SMALL,
            id="a quick oom of a container without a recommendation",
        ),
    ],
)
def test_what_the_change_is_worth(
    recommendation: ContainerRecommendation, pod: Pod, expected: HoldReason | None
) -> None:
    assert reason(assessed(an_autoscaler(recommendation), pod)) is expected


def test_an_autoscaler_may_have_its_own_idea_of_a_quick_oom() -> None:
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(100, 101 * MIB)), quick_oom_threshold=timedelta(0)
    )
    gates_off = PlanSettings(gates=FeatureGates(per_vpa_config=False))

    assert reason(assessed(autoscaler, oom_killed())) is HoldReason.CHANGE_TOO_SMALL
    assert reason(assessed(autoscaler, oom_killed(), settings=gates_off)) is None


@pytest.mark.parametrize(
    ("autoscaler", "expected"),
    [
        pytest.param(an_autoscaler(UP, mode=UPSCALE_ONLY), None, id="it grows"),
        pytest.param(
            an_autoscaler(DOWN, mode=UPSCALE_ONLY), HoldReason.ONLY_SHRINKS, id="it shrinks"
        ),
        pytest.param(an_autoscaler(MIXED, mode=UPSCALE_ONLY), None, id="a mixed change grows"),
        pytest.param(
            an_autoscaler(DOWN, mode=UpdateMode.RECREATE), None, id="switched to recreate"
        ),
        pytest.param(
            an_autoscaler(
                UP,
                mode=UPSCALE_ONLY,
                policies=(ContainerPolicy("app", max_allowed=amounts(50, 50 * MIB)),),
            ),
            HoldReason.ONLY_SHRINKS,
            id="maxAllowed lowered below the request",
        ),
        pytest.param(
            an_autoscaler(
                replace(DOWN, lower_bound=amounts(10, 10 * MIB)),
                mode=UPSCALE_ONLY,
                policies=(ContainerPolicy("app", min_allowed=amounts(200)),),
            ),
            None,
            id="minAllowed raised above the request",
        ),
        pytest.param(
            an_autoscaler(
                a_recommendation(target=amounts(memory=50 * MIB), upper=amounts(memory=90 * MIB)),
                mode=UPSCALE_ONLY,
            ),
            HoldReason.ONLY_SHRINKS,
            id="only memory is controlled, and it shrinks",
        ),
        pytest.param(
            an_autoscaler(MIXED, mode=UPSCALE_ONLY, requirements=BOTH_GROW),
            HoldReason.REQUIREMENT_NOT_MET,
            id="requirements must hold as well",
        ),
    ],
)
def test_upscale_only_changes_what_grows(
    autoscaler: Autoscaler, expected: HoldReason | None
) -> None:
    assert reason(assessed(autoscaler)) is expected


def test_upscale_only_wants_only_the_resources_that_grow() -> None:
    found = assessed(an_autoscaler(MIXED, mode=UPSCALE_ONLY))

    assert isinstance(found, Candidate)
    assert found.wanted == {"app": Allocation(amounts(500), {})}


def test_upscale_only_takes_a_missing_request_for_growth() -> None:
    pod = a_pod(a_container(requests=amounts(100)))

    assert reason(assessed(an_autoscaler(DOWN, mode=UPSCALE_ONLY), pod)) is None


def test_upscale_only_ignores_an_injected_sidecar() -> None:
    pod = a_pod(
        a_container("app", requests=amounts(100, 100 * MIB)),
        a_container("proxy", requests=amounts(1, MIB)),
        annotations={"vpaObservedContainers": "app"},
    )
    proxy = replace(UP, container_name="proxy")

    found = assessed(an_autoscaler(DOWN, proxy, mode=UPSCALE_ONLY), pod)

    assert reason(found) is HoldReason.ONLY_SHRINKS


def test_upscale_only_with_a_target_capped_to_the_limit_does_not_grow() -> None:
    pod = a_pod(a_container(requests=amounts(100), limits=amounts(100)), age=hours(13))
    policy = ContainerPolicy("app", controlled_values=ControlledValues.REQUESTS_ONLY)
    autoscaler = an_autoscaler(
        a_recommendation(target=amounts(500), lower=amounts(400)),
        mode=UPSCALE_ONLY,
        policies=(policy,),
    )

    assert reason(assessed(autoscaler, pod)) is HoldReason.INSIDE_BOUNDS


def test_a_limit_range_that_caps_the_target_leaves_nothing_to_grow() -> None:
    item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(100, 100 * MIB))
    pod = a_pod(a_container(requests=amounts(100, 100 * MIB), limits=amounts(100, 100 * MIB)))

    found = assessed(an_autoscaler(UP, mode=UPSCALE_ONLY), pod, limit_ranges={"default": (item,)})

    assert reason(found) is HoldReason.INSIDE_BOUNDS


@pytest.mark.parametrize(
    ("recommendation", "requirements", "expected"),
    [
        pytest.param(UP, EITHER_GROWS, None, id="it grows"),
        pytest.param(DOWN, EITHER_GROWS, HoldReason.REQUIREMENT_NOT_MET, id="it shrinks"),
        pytest.param(MIXED, EITHER_GROWS, None, id="one of them grows"),
        pytest.param(MIXED, BOTH_GROW, HoldReason.REQUIREMENT_NOT_MET, id="both should grow"),
        pytest.param(DOWN, (), None, id="no requirement"),
    ],
)
def test_requirements_hold_pods_back(
    recommendation: ContainerRecommendation,
    requirements: tuple[EvictionRequirement, ...],
    expected: HoldReason | None,
) -> None:
    autoscaler = an_autoscaler(recommendation, requirements=requirements)

    assert reason(assessed(autoscaler)) is expected


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        pytest.param(EITHER_GROWS, amounts(500), id="only what grows"),
        pytest.param((), amounts(500, 50 * MIB), id="without requirements everything"),
        pytest.param(
            (EvictionRequirement(BOTH, ChangeDirection.TARGET_LOWER),),
            amounts(500, 50 * MIB),
            id="a requirement to shrink does not forbid it",
        ),
    ],
)
def test_requirements_can_be_made_to_keep_a_resize_from_shrinking(
    requirements: tuple[EvictionRequirement, ...], expected: dict[Resource, int]
) -> None:
    found = assessed(
        an_autoscaler(MIXED, mode=UpdateMode.IN_PLACE, requirements=requirements),
        settings=PlanSettings(grow_only_under_requirements=True),
    )

    assert isinstance(found, Candidate)
    assert found.wanted["app"].requests == expected


@pytest.mark.parametrize(
    ("recommendation", "ago", "expected"),
    [
        pytest.param(DOWN, minutes(9), HoldReason.ROLE_DWELL, id="shrinking waits"),
        pytest.param(DOWN, minutes(10), None, id="shrinking after the dwell time"),
        pytest.param(UP, minutes(1), None, id="growing is immediate"),
    ],
)
def test_a_pod_that_changed_its_role_shrinks_only_after_a_while(
    recommendation: ContainerRecommendation, ago: timedelta, expected: HoldReason | None
) -> None:
    found = assessed(
        an_autoscaler(recommendation),
        settings=PlanSettings(role_dwell=minutes(10)),
        pod_memory={KEY: PodMemory(governed_since=NOW - ago)},
    )

    assert reason(found) is expected


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(PodMemory(), HoldReason.TOO_YOUNG, id="its role is as old as the pod"),
        pytest.param(PodMemory(governed_since=NOW - minutes(20)), None, id="its role is new"),
        pytest.param(
            PodMemory(governed_since=NOW - hours(3), last_updated_at=NOW - hours(2)),
            HoldReason.TOO_YOUNG,
            id="it was changed in its new role",
        ),
    ],
)
def test_after_a_role_change_the_lifetime_does_not_count(
    memory: PodMemory, expected: HoldReason | None
) -> None:
    inside = a_recommendation(
        target=amounts(150, 100 * MIB),
        lower=amounts(50, 50 * MIB),
        upper=amounts(400, 400 * MIB),
    )
    young = a_pod(age=hours(4))
    found = assessed(an_autoscaler(inside), pod=young, pod_memory={KEY: memory})

    assert reason(found) is expected


@pytest.mark.parametrize(
    ("pod", "ago", "expected"),
    [
        pytest.param(a_pod(), minutes(4), HoldReason.COOL_DOWN, id="changed a moment ago"),
        pytest.param(a_pod(), minutes(5), None, id="cooled down"),
        pytest.param(oom_killed(), minutes(1), None, id="a quick oom does not wait"),
        pytest.param(
            oom_killed(beside=True),
            minutes(1),
            HoldReason.COOL_DOWN,
            id="a quick oom that is not cured waits",
        ),
    ],
)
def test_f19_a_pod_is_changed_at_most_once_in_its_cool_down(
    pod: Pod, ago: timedelta, expected: HoldReason | None
) -> None:
    found = assessed(an_autoscaler(UP), pod, pod_memory={KEY: PodMemory(last_updated_at=NOW - ago)})

    assert reason(found) is expected


def test_f19_a_target_that_swings_inside_the_bounds_waits_for_twelve_hours_again() -> None:
    autoscaler = an_autoscaler(a_recommendation(target=amounts(190, 100 * MIB)))

    found = assessed(
        autoscaler,
        a_pod(age=hours(48)),
        pod_memory={KEY: PodMemory(last_updated_at=NOW - hours(11))},
    )

    assert reason(found) is HoldReason.TOO_YOUNG


def test_memory_of_another_autoscaler_does_not_count() -> None:
    memory = {("uid-web-0", an_autoscaler(name="other").identity): PodMemory(last_updated_at=NOW)}

    assert reason(assessed(an_autoscaler(UP), pod_memory=memory)) is None


def test_without_an_admission_controller_nothing_is_changed() -> None:
    found = assessed(an_autoscaler(UP), admission_alive=False)

    assert reason(found) is HoldReason.ADMISSION_ABSENT


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param(Retry(), None, id="no miss"),
        pytest.param(Retry(1, NOW + minutes(1)), HoldReason.NOT_CONVERGING, id="backing off"),
        pytest.param(Retry(2, NOW), None, id="the next try is due"),
        pytest.param(Retry(3, NOW), HoldReason.NOT_CONVERGING, id="three misses are enough"),
    ],
)
def test_f16_a_workload_whose_pods_do_not_follow_is_left_alone(
    record: Retry, expected: HoldReason | None
) -> None:
    found = assessed(an_autoscaler(UP), convergence={WEB: record})

    assert reason(found) is expected


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(owner=None), HoldReason.NO_OWNER, id="nobody would bring it back"),
        pytest.param(a_pod(), None, id="its group is large enough"),
    ],
)
def test_the_workload_has_the_last_word(pod: Pod, expected: HoldReason | None) -> None:
    assert reason(assessed(an_autoscaler(UP), pod)) is expected


def test_a_hold_tells_the_change_that_it_holds_back() -> None:
    found = assessed(an_autoscaler(UP, min_replicas=5))

    assert isinstance(found, Hold)
    assert found.reason is HoldReason.BELOW_MIN_REPLICAS
    assert found.change is not None
    assert found.change.outside_bounds


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("max_boost_duration", minutes(-1), id="a boost that ends before it starts"),
        pytest.param("role_dwell", minutes(-1), id="a dwell of less than no time"),
        pytest.param("cool_down", minutes(-1), id="a cool-down of less than no time"),
        pytest.param("infeasible_retry_after", minutes(-1), id="a retry before the failure"),
        pytest.param("evict_after_deferred", minutes(-1), id="an eviction before the resize"),
        pytest.param("max_misses", 0, id="nothing may ever miss"),
        pytest.param("surge_margin", -0.1, id="every share is a surge"),
        pytest.param("surge_margin", float("nan"), id="a margin that is no number"),
        pytest.param("surge_min_pods", -1, id="fewer pods than none"),
    ],
)
def test_settings_of_plans_that_make_no_sense_are_refused_by_name(
    field: str, value: object
) -> None:
    fields: dict[str, Any] = {field: value}

    with pytest.raises(SettingsError, match=rf"^{field}: "):
        PlanSettings(**fields)


@pytest.mark.parametrize(
    "limit", [pytest.param(None, id="none"), pytest.param(minutes(0), id="zero, as for the flag")]
)
def test_a_boost_need_not_have_a_limit(limit: timedelta | None) -> None:
    assert not PlanSettings(max_boost_duration=limit).max_boost_duration
