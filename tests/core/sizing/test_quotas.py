"""Whether quotas leave room for successors, and what a plan makes of it."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.plans import (
    DOWN,
    REPLICA_SET,
    SMALL,
    UP,
    WEB,
    boosting,
    by_pod,
    planned,
    several,
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

from trimtab.core.changes.outcomes import Evict, Hold, Resize
from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import (
    ChangeDirection,
    CpuBoost,
    EvictionRequirement,
    UpdateMode,
)
from trimtab.core.model.cap_notes import ContainerUpdate, Note, NoteKind, format_updates
from trimtab.core.model.feature_gates import FeatureGates
from trimtab.core.model.nodes import Placement
from trimtab.core.model.pods import (
    IN_PLACE_UPDATED,
    UPDATES,
    Allocation,
    OwnerReference,
    Pod,
    ResizeState,
    TargetResources,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import Resource, Resources
from trimtab.core.sizing.admission_patch import size_pod
from trimtab.core.sizing.boost_room import BoostRoom
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side, covers, growth
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import Retry
from trimtab.simulation.api_server.json_patch import apply_patch

UP_IN_CPU = a_recommendation(target=amounts(500, 100 * MIB), lower=amounts(400, 100 * MIB))
"""Of memory the pods have what is recommended."""
RESIZING = (UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY)
BY_ADMISSION = "Pod resources updated by web: container 0: cpu request, memory request"
REFUSED = format_updates(
    "web",
    [ContainerUpdate(a_container(), notes=(Note(Resource.CPU, NoteKind.QUOTA_REFUSES),))],
)
CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
MEMORY = QuotaClaim(Side.REQUESTS, Resource.MEMORY)
CPU_LIMIT = QuotaClaim(Side.LIMITS, Resource.CPU)


def quota(**left: int) -> Quota:
    claims = {"cpu": CPU, "memory": MEMORY, "cpu_limit": CPU_LIMIT}
    return Quota("default", "team", {claims[name]: amount for name, amount in left.items()})


def test_growth_is_the_difference_over_all_containers_that_change() -> None:
    pod = a_pod(
        a_container(name="a", requests=amounts(100, 100 * MIB), limits=amounts(200)),
        a_container(name="b", requests=amounts(300)),
        a_container(name="c", requests=amounts(50)),
    )
    wanted = {
        "a": Allocation(amounts(500, 50 * MIB), amounts(1000)),
        "b": Allocation(amounts(200, 10 * MIB), {}),
    }

    assert growth(pod, wanted) == {CPU: 300, MEMORY: -40 * MIB, CPU_LIMIT: 800}


def test_f20_no_pod_is_evicted_whose_successor_a_quota_would_refuse() -> None:
    pods, autoscaler = several(2), an_autoscaler(UP_IN_CPU)
    tight = planned(snapshot_of(pods, autoscaler, quotas={"default": [quota(cpu=499)]}))
    wide = planned(snapshot_of(pods, autoscaler, quotas={"default": [quota(cpu=500)]}))

    assert sorted(told(tight)) == ["QuotaExceeded", "QuotaExceeded"]
    assert all(isinstance(each, Hold) and each.wanted for each in tight)
    assert {each.detail for each in tight if isinstance(each, Hold)} == {
        "ResourceQuota team leaves less requests.cpu than the 500m needed"
    }
    assert sorted(told(wide)) == ["BudgetSpent", "Evict"]


@pytest.mark.parametrize(
    ("owner", "left", "expected"),
    [
        pytest.param("ReplicaSet", 400, "QuotaExceeded", id="it would come in its own size"),
        pytest.param("ReplicaSet", 99, "QuotaExceeded", id="it would never fit"),
        pytest.param("StatefulSet", 400, "QuotaExceeded", id="the quota's use falls too late"),
        pytest.param("DaemonSet", 499, "QuotaExceeded", id="too little for the recommended size"),
        pytest.param("StatefulSet", 500, "Evict", id="it fits beside the pod"),
    ],
)
def test_d19_a_pod_is_evicted_only_if_its_successor_gets_its_size(
    owner: str, left: int, expected: str
) -> None:
    pods = several(2, owner=OwnerReference(owner, "web-1"))
    replicas = {WorkloadName("default", owner, "web-1"): 2}
    quotas = {"default": [quota(cpu=left)]}
    snapshot = snapshot_of(
        pods, an_autoscaler(UP_IN_CPU), quotas=quotas, configured_replicas=replicas
    )

    assert expected in told(planned(snapshot))


def test_d19_a_successor_that_waits_for_room_is_sized_once_the_pod_is_gone() -> None:
    large = several(2, containers=(a_container(requests=amounts(480, 100 * MIB)),))
    quotas = {"default": [quota(cpu=20)]}

    assert "Evict" in told(planned(snapshot_of(large, an_autoscaler(UP), quotas=quotas)))


@pytest.mark.parametrize("owner", ["ReplicaSet", "StatefulSet"])
@pytest.mark.parametrize(
    ("annotations", "left", "expected"),
    [
        pytest.param({}, 20, "Evict", id="it has the size of its template"),
        pytest.param({UPDATES: REFUSED}, 20, "Evict", id="admission left it as it came"),
        pytest.param({UPDATES: BY_ADMISSION}, 20, "QuotaExceeded", id="admission has sized it"),
        pytest.param({IN_PLACE_UPDATED: "true"}, 20, "QuotaExceeded", id="it was resized"),
        pytest.param({UPDATES: BY_ADMISSION}, 500, "Evict", id="a sized pod fits beside it"),
    ],
)
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, *RESIZING])
def test_d19_no_pod_comes_back_in_the_size_of_its_template(
    owner: str, annotations: dict[str, str], left: int, expected: str, mode: UpdateMode
) -> None:
    pods = several(
        2,
        containers=(a_container(requests=amounts(480, 100 * MIB)),),
        owner=OwnerReference(owner, "web-1"),
        annotations=annotations,
    )
    snapshot = snapshot_of(
        pods,
        replace(an_autoscaler(UP), mode=mode),
        quotas={"default": [quota(cpu=left)]},
        configured_replicas={WorkloadName("default", owner, "web-1"): 2},
        resizes_in_place=False,
    )

    assert expected in told(planned(snapshot))


@pytest.mark.parametrize(
    ("mode", "annotations", "left", "expected"),
    [
        *(
            pytest.param(mode, {UPDATES: REFUSED}, 400, "Resize", id=f"room for growth, {mode}")
            for mode in RESIZING
        ),
        pytest.param(RESIZING[0], {UPDATES: REFUSED}, 399, "Resize", id="memory alone"),
        pytest.param(RESIZING[0], {}, 400, "NotConverging", id="something else undid it"),
        pytest.param(
            UpdateMode.RECREATE, {UPDATES: REFUSED}, 400, "NotConverging", id="no resizes"
        ),
    ],
)
def test_d19_a_pod_that_admission_left_small_for_a_quota_grows_in_place(
    mode: UpdateMode, annotations: dict[str, str], left: int, expected: str
) -> None:
    pods, missed = several(1, annotations=annotations), Retry(3, NOW + hours(1))
    snapshot = snapshot_of(
        pods,
        replace(an_autoscaler(UP), mode=mode),
        quotas={"default": [quota(cpu=left)]},
        convergence={WEB: missed},
    )

    assert told(planned(snapshot)) == [expected]


def test_d19_a_pod_that_admission_left_small_for_a_quota_is_not_evicted_again() -> None:
    small = several(2, annotations={UPDATES: REFUSED}, resize=ResizeState.INFEASIBLE)
    for mode in RESIZING:
        snapshot = snapshot_of(
            small,
            replace(an_autoscaler(UP), mode=mode),
            quotas={"default": [quota(cpu=1000)]},
            convergence={WEB: Retry(1, NOW + hours(1))},
        )

        assert "Evict" not in told(planned(snapshot))


@pytest.mark.parametrize(
    ("seconds", "left", "expected"),
    [
        pytest.param(8, 500, "QuotaExceeded", id="admission may count the new pod twice"),
        pytest.param(8, 980, "Evict", id="there is room all the same"),
        pytest.param(16, 500, "Evict", id="admission has forgotten it"),
    ],
)
def test_d19_pods_that_just_came_count_twice(seconds: int, left: int, expected: str) -> None:
    old, new = several(2, annotations={UPDATES: BY_ADMISSION})
    new = structs.replace(
        new,
        created_at=NOW - timedelta(seconds=seconds),
        containers=(a_container(requests=amounts(480, 500 * MIB)),),
    )
    quotas = {"default": [quota(cpu=left)]}

    assert expected in told(planned(snapshot_of([old, new], an_autoscaler(UP), quotas=quotas)))


def test_d19_no_sized_pod_shrinks_to_its_template_in_a_tight_quota() -> None:
    sized = several(2, annotations={UPDATES: BY_ADMISSION})
    quotas = {"default": [quota(cpu=5)]}

    assert set(told(planned(snapshot_of(sized, an_autoscaler(DOWN), quotas=quotas)))) == {
        "QuotaExceeded"
    }


def test_d19_no_best_effort_pod_is_evicted_into_a_quota_that_demands_limits() -> None:
    demanding = Quota("default", "team", {CPU_LIMIT: 10**6}, (QuotaScope("NotBestEffort"),))
    bare = several(4, containers=(a_container(),))
    sized = several(4)
    quotas = {"default": [demanding]}
    held = planned(snapshot_of(bare, an_autoscaler(UP), quotas=quotas))

    assert set(told(held)) == {"QuotaExceeded"}
    assert {each.detail for each in held if isinstance(each, Hold)} == {
        "ResourceQuota team demands limits.cpu of each container"
    }
    # These came before the quota, which refuses them now in any size.
    assert set(told(planned(snapshot_of(sized, an_autoscaler(UP), quotas=quotas)))) == {
        "QuotaExceeded"
    }


def test_no_pod_takes_the_room_that_missing_pods_of_its_owner_need() -> None:
    pods, quotas = several(4), {"default": [quota(cpu=550)]}
    complete = snapshot_of(pods, an_autoscaler(UP_IN_CPU), quotas=quotas)
    short = replace(complete, configured_replicas={REPLICA_SET: 5})
    settings = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))

    assert "Evict" in told(planned(complete, settings))
    assert set(told(planned(short, settings))) == {"QuotaExceeded"}


def test_f20_evictions_of_one_plan_share_what_a_quota_leaves() -> None:
    pods, autoscaler = several(6), an_autoscaler(UP_IN_CPU)
    quotas = {"default": [quota(cpu=1050)]}
    outcomes = planned(snapshot_of(pods, autoscaler, quotas=quotas))

    assert sorted(told(outcomes)) == ["Evict", "Evict", *["QuotaExceeded"] * 4]


def test_d19_successors_are_counted_with_the_boosts_that_admission_will_give_them() -> None:
    pods, quotas = several(6), {"default": [quota(cpu=2500)]}
    plain = planned(snapshot_of(pods, an_autoscaler(UP_IN_CPU), quotas=quotas))
    boosted = planned(
        snapshot_of(pods, boosting(UP_IN_CPU, mode=UpdateMode.RECREATE), quotas=quotas)
    )

    assert sorted(told(plain)) == [*["BudgetSpent"] * 3, *["Evict"] * 3]
    # The first successor takes 2000m, the second gets the rest, unboosted.
    assert sorted(told(boosted)) == ["Evict", "Evict", *["QuotaExceeded"] * 4]


def test_d19_a_pod_is_evicted_where_its_successor_fits_without_its_boost() -> None:
    pods = several(2)
    fitting = planned(
        snapshot_of(
            pods,
            boosting(UP_IN_CPU, mode=UpdateMode.RECREATE),
            quotas={"default": [quota(cpu=500)]},
        )
    )
    tight = planned(
        snapshot_of(
            pods,
            boosting(UP_IN_CPU, mode=UpdateMode.RECREATE),
            quotas={"default": [quota(cpu=499)]},
        )
    )

    assert sorted(told(fitting)) == ["BudgetSpent", "Evict"]
    assert set(told(tight)) == {"QuotaExceeded"}


def test_a_boost_that_does_not_say_how_much_keeps_no_pod_from_eviction() -> None:
    unclear = replace(an_autoscaler(UP), boost=CpuBoost("Quantity"))
    quotas = {"default": [quota(cpu=500)]}

    assert "Evict" in told(planned(snapshot_of(several(2), unclear, quotas=quotas)))


def test_f20_limits_count_as_the_admission_controller_will_set_them() -> None:
    container = a_container(requests=SMALL, limits=amounts(200))
    pods, autoscaler = several(2, containers=(container,)), an_autoscaler(UP_IN_CPU)
    quotas = {"default": [quota(cpu_limit=999)]}

    assert set(told(planned(snapshot_of(pods, autoscaler, quotas=quotas)))) == {"QuotaExceeded"}


def test_f20_shrinking_pods_and_those_of_other_namespaces_need_no_room() -> None:
    pods, full = several(2), {"default": [quota(cpu=-1, memory=-1)]}
    shrinking = planned(snapshot_of(pods, an_autoscaler(DOWN), quotas=full))
    elsewhere = planned(snapshot_of(pods, an_autoscaler(UP), quotas={"other": full["default"]}))

    assert "Evict" in told(shrinking)
    assert "Evict" in told(elsewhere)


@pytest.mark.parametrize("mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE])
@pytest.mark.parametrize(
    ("left", "expected"),
    [
        pytest.param({"cpu": 800}, ["Resize", "Resize"], id="room for both"),
        pytest.param({"cpu": 400}, ["QuotaExceeded", "Resize"], id="room for one"),
        pytest.param({"cpu": 399}, ["QuotaExceeded"] * 2, id="room for none"),
        pytest.param({"cpu_limit": 9000}, ["QuotaExceeded"] * 2, id="limits that are demanded"),
    ],
)
def test_f20_no_resize_is_asked_for_that_a_quota_refuses(
    mode: UpdateMode, left: dict[str, int], expected: list[str]
) -> None:
    grown = replace(UP, target=amounts(500, 100 * MIB), lower_bound=amounts(400, 100 * MIB))
    autoscaler = replace(an_autoscaler(grown), mode=mode)
    quotas = {"default": [quota(**left)]}
    outcomes = planned(snapshot_of(several(2), autoscaler, quotas=quotas))

    assert sorted(told(outcomes)) == expected
    assert all(each.detail for each in outcomes if isinstance(each, Hold))


def test_f20_a_full_quota_for_cpu_keeps_no_pod_from_more_memory() -> None:
    autoscaler = replace(an_autoscaler(UP), mode=UpdateMode.IN_PLACE)
    quotas = {"default": [quota(cpu=0)]}
    (outcome,) = planned(snapshot_of(several(1), autoscaler, quotas=quotas))

    assert isinstance(outcome, Resize)
    assert (outcome.wanted["app"].requests or {}).keys() == {Resource.MEMORY}


def test_a_paused_namespace_shows_what_would_be_done_and_no_other_is_paused() -> None:
    pods, autoscaler = several(2), an_autoscaler(UP)
    paused = planned(snapshot_of(pods, autoscaler, paused_namespaces=frozenset({"default"})))
    other = planned(snapshot_of(pods, autoscaler, paused_namespaces=frozenset({"other"})))
    (hold,) = [each for each in paused if isinstance(each, Hold) and each.withheld]

    assert by_pod(paused)[hold.pod.name] == "Paused"
    assert type(hold.withheld).__name__ == "Evict"
    assert "Paused" not in told(other)


BARE = a_pod(a_container())
SIZED = {"app": Allocation(amounts(500), {})}


@pytest.mark.parametrize(
    ("scope", "pod", "wanted", "expected"),
    [
        pytest.param(QuotaScope("BestEffort"), BARE, {}, True, id="nothing requested"),
        pytest.param(QuotaScope("BestEffort"), BARE, SIZED, False, id="its successor will request"),
        pytest.param(QuotaScope("NotBestEffort"), BARE, SIZED, True, id="and is counted elsewhere"),
        pytest.param(QuotaScope("NotBestEffort"), BARE, {}, False, id="still nothing requested"),
        pytest.param(QuotaScope("Terminating"), a_pod(), {}, False, id="it may run for ever"),
        pytest.param(
            QuotaScope("Terminating"), a_pod(has_deadline=True), {}, True, id="a deadline"
        ),
        pytest.param(QuotaScope("NotTerminating"), a_pod(), {}, True, id="no deadline"),
        pytest.param(
            QuotaScope("NotTerminating"), a_pod(has_deadline=True), {}, False, id="with a deadline"
        ),
        pytest.param(
            QuotaScope("PriorityClass", "In", ("high",)),
            a_pod(priority_class="high"),
            {},
            True,
            id="its class",
        ),
        pytest.param(
            QuotaScope("PriorityClass", "In", ("high",)), a_pod(), {}, False, id="without a class"
        ),
        pytest.param(
            QuotaScope("PriorityClass", "NotIn", ("high",)), a_pod(), {}, True, id="not that class"
        ),
        pytest.param(
            QuotaScope("PriorityClass"), a_pod(priority_class="x"), {}, True, id="any class"
        ),
        pytest.param(QuotaScope("PriorityClass", "DoesNotExist"), a_pod(), {}, True, id="no class"),
        pytest.param(QuotaScope("PriorityClass", "Odd"), a_pod(), {}, False, id="an odd operator"),
        pytest.param(
            QuotaScope("CrossNamespacePodAffinity"),
            a_pod(placement=Placement(crosses_namespaces=True)),
            {},
            True,
            id="near pods of other namespaces",
        ),
        pytest.param(QuotaScope("CrossNamespacePodAffinity"), a_pod(), {}, False, id="no affinity"),
        pytest.param(QuotaScope("VolumeAttributesClass"), a_pod(), {}, False, id="not about pods"),
    ],
)
def test_a_quota_counts_only_pods_in_its_scope(
    scope: QuotaScope, pod: Pod, wanted: TargetResources, *, expected: bool
) -> None:
    assert covers(Quota("default", "some", {}, (scope,)), pod, wanted) is expected
    assert covers(Quota("default", "all"), pod, wanted)


def test_a_pod_must_be_in_all_scopes_of_a_quota() -> None:
    both = Quota("default", "both", {}, (QuotaScope("NotTerminating"), QuotaScope("PriorityClass")))

    assert not covers(both, a_pod(), {})
    assert covers(both, a_pod(priority_class="high"), {})


def test_f20_a_full_quota_for_other_pods_keeps_nobody_from_being_evicted() -> None:
    full = replace(quota(cpu=0), scopes=(QuotaScope("PriorityClass", "In", ("high",)),))
    pods, autoscaler = several(2), an_autoscaler(UP_IN_CPU)
    high = several(2, priority_class="high")

    assert "Evict" in told(planned(snapshot_of(pods, autoscaler, quotas={"default": [full]})))
    assert set(told(planned(snapshot_of(high, autoscaler, quotas={"default": [full]})))) == {
        "QuotaExceeded"
    }


def test_f20_what_pods_of_one_scope_claim_is_not_taken_from_another() -> None:
    for_high = replace(quota(cpu=500), scopes=(QuotaScope("PriorityClass"),))
    for_low = replace(
        quota(cpu=500), name="low", scopes=(QuotaScope("PriorityClass", "DoesNotExist"),)
    )
    pods = several(4)
    pods[0] = structs.replace(pods[0], priority_class="high")
    settings = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
    outcomes = planned(
        snapshot_of(pods, an_autoscaler(UP_IN_CPU), quotas={"default": [for_high, for_low]}),
        settings,
    )

    assert sorted(told(outcomes)) == ["Evict", "Evict", "QuotaExceeded", "QuotaExceeded"]


def test_d19_a_pod_is_evicted_for_memory_where_a_quota_is_short_of_cpu() -> None:
    quotas = {"default": [quota(cpu=499)]}
    (evicted,) = [
        each
        for each in planned(snapshot_of(several(2), an_autoscaler(UP), quotas=quotas))
        if isinstance(each, Evict)
    ]

    assert evicted.wanted == {"app": Allocation(amounts(None, 500 * MIB), {})}
    assert evicted.change.relative_difference == 4


@pytest.mark.parametrize(
    ("has", "template", "expected"),
    [
        pytest.param((100, 100), None, "Evict", id="it was never sized"),
        pytest.param((100, 500), None, "QuotaExceeded", id="it has its memory"),
        pytest.param((100, 470), None, "QuotaExceeded", id="inside its bounds, and young"),
        pytest.param((300, 100), (100, 100), "QuotaExceeded", id="it would lose CPU"),
        pytest.param((300, 100), (300, 100), "Evict", id="the template has as much CPU"),
    ],
)
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, *RESIZING])
def test_d19_an_eviction_for_a_part_must_be_worth_it_and_take_nothing(
    has: tuple[int, int],
    template: tuple[int, int] | None,
    expected: str,
    mode: UpdateMode,
) -> None:
    container = a_container(requests=amounts(has[0], has[1] * MIB))
    sizes = {}
    if template is not None:
        sizes = {REPLICA_SET: {"app": Allocation(amounts(template[0], template[1] * MIB))}}
    snapshot = snapshot_of(
        several(2, containers=(container,), age=hours(1)),
        an_autoscaler(UP, mode=mode),
        quotas={"default": [quota(cpu=450)]},
        template_sizes=sizes,
        resizes_in_place=False,
    )

    assert expected in told(planned(snapshot))


@pytest.mark.parametrize(
    ("resource", "expected"), [(Resource.CPU, "QuotaExceeded"), (Resource.MEMORY, "Evict")]
)
def test_d19_an_eviction_for_a_part_meets_the_requirements(
    resource: Resource, expected: str
) -> None:
    higher = EvictionRequirement((resource,), ChangeDirection.TARGET_HIGHER)
    autoscaler = an_autoscaler(UP, requirements=(higher,))
    snapshot = snapshot_of(several(2), autoscaler, quotas={"default": [quota(cpu=450)]})

    assert expected in told(planned(snapshot))


def test_d19_no_oom_kill_is_answered_with_more_cpu_alone() -> None:
    last = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    # Its CPU is inside the bounds, so that nothing but the kill would be a reason.
    container = a_container(requests=amounts(450, 100 * MIB), last_termination=last)
    pods = several(2, containers=(container,))
    quotas = {"default": [quota(memory=350 * MIB)]}

    assert set(told(planned(snapshot_of(pods, an_autoscaler(UP), quotas=quotas)))) == {
        "QuotaExceeded"
    }


def test_d19_an_oom_killed_pod_whose_successor_a_quota_refuses_grows_in_place() -> None:
    last = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))
    container = a_container(requests=amounts(450, 100 * MIB), last_termination=last)
    pods = several(2, containers=(container,))
    # Beside the pod there is no room for its successor, but for its growth.
    quotas = {"default": [quota(memory=450 * MIB)]}
    outcomes = planned(snapshot_of(pods, an_autoscaler(UP), quotas=quotas))

    assert told(outcomes) == ["Resize", "QuotaExceeded"]


some_sizes = st.tuples(st.integers(1, 8), st.integers(1, 8))


@given(
    has=some_sizes,
    template=some_sizes,
    target=some_sizes,
    left=st.tuples(st.none() | st.integers(0, 16), st.none() | st.integers(0, 16)),
    mode=st.sampled_from([UpdateMode.RECREATE, *RESIZING]),
)
def test_d19_plan_and_admission_agree_on_what_a_successor_gets(
    has: tuple[int, int],
    template: tuple[int, int],
    target: tuple[int, int],
    left: tuple[int | None, int | None],
    mode: UpdateMode,
) -> None:
    def size(given: tuple[int, int]) -> Resources:
        return amounts(given[0] * 100, given[1] * 100 * MIB)

    claims = {CPU: left[0], MEMORY: left[1]}
    unit = {CPU: 100, MEMORY: 100 * MIB}
    room = {claim: count * unit[claim] for claim, count in claims.items() if count is not None}
    found = Quota("default", "team", room)
    autoscaler = an_autoscaler(a_recommendation(target=size(target), lower=size(target)), mode=mode)
    pods = several(2, containers=(a_container(requests=size(has)),))
    snapshot = snapshot_of(
        pods,
        autoscaler,
        quotas={"default": [found]},
        template_sizes={REPLICA_SET: {"app": Allocation(size(template))}},
        resizes_in_place=False,
    )
    outcomes = planned(snapshot)
    evicted = [each for each in outcomes if isinstance(each, Evict)]

    # Where the template does not fit beside the pod, its owner tries until the pod is gone.
    gone = {claim: amount + size(has)[claim.resource] for claim, amount in room.items()}
    waits = any(size(template)[claim.resource] > amount for claim, amount in room.items())
    at_last = gone if waits else room
    new = a_pod(a_container(requests=size(template)))
    rules = BoostRoom(quotas=[replace(found, left=at_last)])
    sized = apply_patch(new, size_pod(new, autoscaler, gates=FeatureGates(), room=rules).patch)
    gets = sized.containers[0].spec.requests or {}
    is_accepted = all(gets[claim.resource] <= amount for claim, amount in at_last.items())

    for each in evicted:
        wanted = each.wanted["app"].requests or {}
        assert is_accepted
        assert {kind: gets[kind] for kind in wanted} == wanted
        assert all(gets[kind] >= size(has)[kind] for kind in gets if kind not in wanted)
    if is_accepted and gets == size(target):
        assert "QuotaExceeded" not in told(outcomes)
