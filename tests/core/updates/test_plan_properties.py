"""What holds for every plan, whatever the cluster looks like."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from random import Random

from hypothesis import assume, given
from msgspec import structs
from support.makers.plans import share_wanting_change
from support.makers.records import NOW, an_autoscaler, minutes
from support.strategies.plans import (
    MEMORIES,
    OWNERS,
    RECOMMENDATIONS,
    WEB,
    a_pod,
    a_snapshot,
    seeds,
    some_settings,
)

from trimtab.core.changes.change import Thresholds
from trimtab.core.changes.outcomes import EndOfBoost, Evict, Hold, Outcome, Resize, Unboost
from trimtab.core.guards import disruption_budgets
from trimtab.core.model.autoscalers import Condition, UpdateMode
from trimtab.core.model.hold_reasons import HoldReason
from trimtab.core.model.matching import ObservedAutoscaler
from trimtab.core.model.pods import PAUSED, Allocation, Container, Pod, PodPhase, WorkloadName
from trimtab.core.model.resources import Resource
from trimtab.core.model.selectors import Selector
from trimtab.core.sizing.startup_boost import boosted_containers
from trimtab.core.updates.plan import Planner, plan
from trimtab.core.updates.resize_or_evict import restarts_containers, restarts_others
from trimtab.core.updates.snapshot import ObservedPod, PodMemory, Retry, Snapshot

SURGING = [frozenset[str](), frozenset({"default"})]


def uniquely_named(pod: Pod) -> list[Container]:
    names = Counter(container.name for container in pod.containers)
    return [container for container in pod.containers if names[container.name] == 1]


def pods_named(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(each.pod.name for each in outcomes)


@given(seeds)
def test_f28_every_live_pod_of_an_autoscaler_has_exactly_one_entry(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    outcomes = plan(snapshot, settings, NOW)
    ended = (PodPhase.SUCCEEDED, PodPhase.FAILED)
    live = {
        observed.pod.name: observed
        for observed in snapshot.pods
        if not observed.pod.is_deleting and observed.pod.phase not in ended
    }
    # An autoscaler without a selector matches every pod of its workload.
    catches_all = any(
        each.autoscaler.selector is None and each.target_selector is not None
        for each in snapshot.autoscalers
    )
    governed = {name for name, each in live.items() if each.workload == WEB and catches_all}

    assert set(pods_named(outcomes).values()) <= {1}
    assert governed <= set(pods_named(outcomes)) <= set(live)
    assert 0.0 <= share_wanting_change(outcomes) <= 1.0


@given(seeds)
def test_the_order_of_the_snapshot_does_not_change_the_plan(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    shuffled = replace(
        snapshot,
        pods=dice.sample(snapshot.pods, len(snapshot.pods)),
        autoscalers=snapshot.autoscalers[::-1],
    )

    assert plan(shuffled, settings, NOW) == plan(snapshot, settings, NOW)


@given(seeds)
def test_the_share_that_a_plan_shows_is_the_one_that_a_surge_is_told_by(dice: Random) -> None:
    # Only the plan finds trifles that would restart a pod, and pods whose successor is the same.
    settings = replace(some_settings(dice), surge_min_pods=0, thresholds=Thresholds(0))
    snapshot = a_snapshot(dice)
    free = plan(replace(snapshot, usual_shares={}), settings, NOW)
    assume(not any(map(comes_back_the_same, free)))
    share = share_wanting_change(free)
    usual, rare = (
        replace(snapshot, usual_shares={"default": share - settings.surge_margin + near})
        for near in (1e-9, -1e-9)
    )

    surging = plan(rare, settings, NOW)
    hasty = [each for each in surging if isinstance(each, Evict | Resize) and not each.quick_oom]

    assert plan(usual, settings, NOW) == free
    assert share_wanting_change(surging) == share
    assert not (share and hasty)


def comes_back_the_same(each: Outcome) -> bool:
    """Whether the pod asks for what its successor would ask for, and its kubelet shows less."""
    if not isinstance(each, Hold) or each.reason is not HoldReason.INSIDE_BOUNDS:
        return False
    return each.change is not None and each.change.relative_difference > 0


def needs_budget(each: Outcome) -> bool:
    """Whether the outcome takes something from its group that must have been there."""
    if isinstance(each, Hold) or each.pod.phase is PodPhase.PENDING:
        return False
    if isinstance(each, Resize) and each.pod.ready_since is None:
        # A restart of nothing but what dies takes nothing from a pod that is down (D17).
        return restarts_others(each.pod, each.wanted, killed_lately(each.pod))
    return isinstance(each, Evict) or restarts_containers(each.pod, each.wanted)


def killed_lately(pod: Pod) -> list[Container]:
    """Return the containers whose last run ended by an OOM kill less than ten minutes ago."""
    return [
        each
        for each in pod.containers
        if (last := each.last_termination) is not None
        and last.is_oom_kill
        and last.finished_at is not None
        and NOW - last.finished_at < minutes(10)
    ]


@given(seeds)
def test_a_plan_never_overdraws_a_budget(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    live = [
        observed.pod
        for observed in snapshot.pods
        if not observed.pod.is_deleting
        and observed.pod.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    ]
    groups = disruption_budgets.count_groups(live, snapshot.configured_replicas)
    taken: Counter[WorkloadName | None] = Counter()
    first_forced: Counter[WorkloadName | None] = Counter()
    for each in plan(snapshot, settings, NOW):
        owner = disruption_budgets.owner_of(each.pod)
        # Where none is ready, there is nothing to lose by the rescue of one that dies early.
        is_rescue = isinstance(each, Evict | Resize) and each.quick_oom
        is_lost = owner is not None and owner in groups and groups[owner].ready == 0
        # No boost lasts beyond its hard limit (D8): one pod of an owner goes back in any case.
        is_forced = isinstance(each, Unboost) and each.cause is EndOfBoost.HARD_LIMIT
        if is_forced and owner is None:
            continue
        if needs_budget(each) and not (is_rescue and is_lost):
            first_forced[owner] += is_forced and not taken[owner]
            taken[owner] += 1

    for owner, count in taken.items():
        if first_forced[owner] and count == 1:
            continue
        assert owner is not None
        assert groups[owner].is_disruptable(settings.disruption.tolerance, count - 1)


def is_rescue(each: Evict | Resize) -> bool:
    """Return True for growth in place of a pod that is OOM-killed early, as all modes do."""
    if not isinstance(each, Resize) or not each.quick_oom:
        return False
    own = {container.name: container.current.requests or {} for container in each.pod.containers}
    return all(
        amount >= own[name].get(kind, 0)
        for name, wanted in each.wanted.items()
        for kind, amount in (wanted.requests or {}).items()
    )


@given(seeds)
def test_a_plan_does_nothing_that_the_mode_forbids(
    dice: Random,
) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    modes = {each.autoscaler.identity: each.autoscaler.mode for each in snapshot.autoscalers}
    changed = {
        (type(each), modes[each.autoscaler])
        for each in plan(snapshot, settings, NOW)
        if isinstance(each, Evict | Resize) and not is_rescue(each)
    }

    assert (Evict, UpdateMode.IN_PLACE) not in changed
    assert not {mode for _, mode in changed} & {UpdateMode.OFF, UpdateMode.INITIAL}
    assert (Resize, UpdateMode.RECREATE) not in changed


@given(seeds)
def test_the_end_of_a_boost_changes_the_cpu_of_boosted_containers_alone(dice: Random) -> None:
    outcomes = plan(a_snapshot(dice), some_settings(dice), NOW)

    for each in outcomes:
        if isinstance(each, Unboost):
            assert each.wanted.keys() <= set(boosted_containers(each.pod))
            for wanted in each.wanted.values():
                assert {**(wanted.requests or {}), **(wanted.limits or {})}.keys() <= {Resource.CPU}


def upscaling(snapshot: Snapshot) -> Snapshot:
    """The same cluster with all autoscalers in mode UpscaleOnly."""
    growing = [
        ObservedAutoscaler(
            replace(each.autoscaler, mode=UpdateMode.UPSCALE_ONLY), each.target_selector
        )
        for each in snapshot.autoscalers
    ]
    return replace(snapshot, autoscalers=growing)


@given(seeds)
def test_under_upscale_only_no_resize_lowers_anything(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)

    for each in plan(upscaling(snapshot), settings, NOW):
        if not isinstance(each, Resize):
            continue
        for container in uniquely_named(each.pod):
            wanted = each.wanted.get(container.name, Allocation())
            has = container.current
            for asked, before in (
                (wanted.requests or {}, has.requests or {}),
                (wanted.limits or {}, has.limits or {}),
            ):
                assert all(asked[kind] >= before.get(kind, asked[kind]) for kind in asked)
            # A limit where there was none would take something away.
            own = {**(container.spec.limits or {}), **(has.limits or {})}
            assert (wanted.limits or {}).keys() <= own.keys()


@given(seeds)
def test_under_upscale_only_no_eviction_is_for_growth_that_does_not_matter(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)

    for each in plan(upscaling(snapshot), settings, NOW):
        if isinstance(each, Evict):
            assert each.change.scale_up
            assert (
                each.change.outside_bounds
                or each.change.relative_difference >= settings.thresholds.smallest_change
            )


@given(seeds)
def test_a_resize_that_restarts_nothing_is_never_held_for_a_budget(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    resizing = replace(snapshot, resizes_in_place=True)
    modes = {each.autoscaler.identity: each.autoscaler.mode for each in snapshot.autoscalers}

    for each in plan(resizing, settings, NOW):
        if (
            isinstance(each, Hold)
            and each.reason in (HoldReason.BUDGET_SPENT, HoldReason.BELOW_MIN_REPLICAS)
            and each.change is not None
            and each.autoscaler is not None
            and modes[each.autoscaler] is UpdateMode.IN_PLACE
        ):
            assert each.wanted is not None
            assert restarts_containers(each.pod, each.wanted)


@given(seeds)
def test_a_pod_that_was_just_changed_only_grows_in_place(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    cooling = PodMemory(last_updated_at=NOW - timedelta(seconds=5))
    keys = [
        (each.pod.uid, governor.autoscaler.identity)
        for each in snapshot.pods
        for governor in snapshot.autoscalers
    ]

    for each in plan(replace(snapshot, pod_memory=dict.fromkeys(keys, cooling)), settings, NOW):
        if isinstance(each, Evict | Resize) and not each.quick_oom:
            assert isinstance(each, Resize)
            assert not restarts_containers(each.pod, each.wanted)
            for container in uniquely_named(each.pod):
                has = container.current.requests or {}
                asked = each.wanted.get(container.name, Allocation()).requests or {}
                assert all(asked[kind] > has.get(kind, -1) for kind in asked)


@given(seeds)
def test_upscale_only_never_shrinks_the_memory_of_a_running_pod(dice: Random) -> None:
    snapshot, settings = a_snapshot(dice), some_settings(dice)
    outcomes = plan(upscaling(snapshot), settings, NOW)

    for each in outcomes:
        if isinstance(each, Resize | Unboost):
            for container in uniquely_named(each.pod):
                has = (container.current.requests or {}).get(Resource.MEMORY, 0)
                wanted = each.wanted.get(container.name, Allocation()).requests or {}
                assert wanted.get(Resource.MEMORY, has) >= has


PASSED = [minutes(0), *map(minutes, (0.01, 1, 1, 4, 5, 10, 60, 720, -3))]
PLAIN = an_autoscaler(RECOMMENDATIONS[1], name="one", mode=UpdateMode.RECREATE)
GROWING = replace(PLAIN, recommendation=(RECOMMENDATIONS[0],))
SHRINKING = replace(PLAIN, recommendation=(RECOMMENDATIONS[2],))
LATER = [{}, {WEB: Retry(1, NOW + minutes(1))}, {WEB: Retry(1, NOW + minutes(30))}]


def a_plain_snapshot(dice: Random) -> Snapshot:
    """A cluster in which nothing but time stands between pods and their change."""
    pods = [
        structs.replace(
            a_pod(dice, f"web-{number}"), owner=OWNERS[0], phase=PodPhase.RUNNING, resize=None
        )
        for number in range(dice.randint(1, 6))
    ]
    autoscaler = dice.choice([PLAIN, GROWING, SHRINKING])
    return Snapshot(
        pods=[ObservedPod(pod, WEB) for pod in pods],
        autoscalers=[ObservedAutoscaler(autoscaler, Selector())],
        configured_replicas={WorkloadName("default", "ReplicaSet", "a"): 9},
        pod_memory={(pod.uid, autoscaler.identity): dice.choice(MEMORIES) for pod in pods},
        convergence=dice.choice(LATER),
    )


def rewritten(observed: ObservedAutoscaler, dice: Random) -> ObservedAutoscaler:
    """The same autoscaler with something else in its status or its metadata."""
    before = observed.autoscaler
    changed = dice.choice(
        [
            {"resource_version": str(dice.random())},
            {"conditions": (Condition("UsageStale", dice.choice(["True", "False"])),)},
            {"conditions": (Condition("UpdatesHeld", "True", message=str(dice.random())),)},
            {"observed_generation": dice.randrange(9)},
            {"annotations": {PAUSED: dice.choice(["true", "false"])}},
            {"recommendation": (before.recommendation or ())[1:]},
        ]
    )
    after = replace(before, **changed)  # type: ignore[arg-type]
    return ObservedAutoscaler(after, observed.target_selector)


def some_time_later(before: Snapshot, dice: Random) -> Snapshot:
    """The same cluster after something changed in it, or nothing did."""
    pods, other = list(before.pods), a_snapshot(dice)
    place = dice.randrange(len(pods)) if pods else 0
    memory = {(each.pod.uid, PLAIN.identity): dice.choice(MEMORIES) for each in pods[place:]}
    nothing: dict[str, object] = {}
    changed = dice.choice(
        [
            *[nothing] * 8,
            {"pods": [*pods[:place], *other.pods[place:]]},
            {"pods": pods[:place]},
            {"autoscalers": [*before.autoscalers[:1], *other.autoscalers[1:]]},
            {"autoscalers": other.autoscalers},
            {"autoscalers": [rewritten(each, dice) for each in before.autoscalers]},
            {"pod_memory": {**before.pod_memory, **memory}},
            {"settling": frozenset(each.pod.uid for each in pods[place:])},
            {"convergence": dice.choice(LATER)},
            {"limit_ranges": other.limit_ranges},
            {"configured_replicas": other.configured_replicas},
            {"admission_alive": other.admission_alive},
        ]
    )
    return replace(before, **changed)  # type: ignore[arg-type]


@given(seeds)
def test_whoever_planned_before_plans_like_one_who_never_did(dice: Random) -> None:
    settings, now = some_settings(dice), NOW
    snapshot = dice.choice([a_snapshot, a_plain_snapshot])(dice)
    planner = Planner(settings)
    for _ in range(16):
        # A part of the pods now and then, as when something changed between two plans of all.
        part = [each for each in snapshot.pods if dice.random() < 0.5]
        some = replace(snapshot, pods=part, surging=dice.choice(SURGING))
        seen = some if dice.random() < 0.1 else snapshot

        assert planner.plan(seen, now) == plan(seen, settings, now)

        now += dice.choice(PASSED)
        snapshot = some_time_later(snapshot, dice)
