"""Whether quotas leave room for successors, and what a plan makes of it."""

from dataclasses import replace

import pytest
from makers import MIB, a_container, a_pod, amounts, an_autoscaler
from plan_makers import DOWN, SMALL, UP, boosting, by_pod, planned, several, snapshot_of, told

from trimtab.core.assessment import PlanSettings
from trimtab.core.autoscalers import CpuBoost, UpdateMode
from trimtab.core.disruption import DisruptionSettings
from trimtab.core.outcomes import Hold, Wanted
from trimtab.core.placement import Placement
from trimtab.core.pods import Allocation, Pod
from trimtab.core.quotas import Claim, Quota, Scope, Side, covers, growth, leave_room
from trimtab.core.resources import Resource

CPU = Claim(Side.REQUESTS, Resource.CPU)
MEMORY = Claim(Side.REQUESTS, Resource.MEMORY)
CPU_LIMIT = Claim(Side.LIMITS, Resource.CPU)


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


@pytest.mark.parametrize(
    ("left", "asked", "claimed", "is_enough"),
    [
        pytest.param({"cpu": 100}, {CPU: 100}, {}, True, id="just enough"),
        pytest.param({"cpu": 100}, {CPU: 101}, {}, False, id="a little too much"),
        pytest.param({"cpu": 100}, {CPU: 60}, {CPU: 50}, False, id="others were first"),
        pytest.param({"cpu": -5}, {CPU: 0, MEMORY: 9}, {}, True, id="nothing more of what is out"),
        pytest.param({"cpu": -5}, {CPU: -1}, {CPU: 50}, True, id="less of what is out"),
        pytest.param({"memory": 1}, {CPU: 10**6}, {}, True, id="nobody counts that"),
        pytest.param({}, {CPU: 10**6}, {}, True, id="nothing counted at all"),
    ],
)
def test_quotas_refuse_only_growth_beyond_what_is_left(
    left: dict[str, int], asked: dict[Claim, int], claimed: dict[Claim, int], *, is_enough: bool
) -> None:
    assert leave_room([quota(), quota(**left)], asked, claimed) is is_enough


def test_f20_no_pod_is_evicted_whose_successor_a_quota_would_refuse() -> None:
    pods, autoscaler = several(2), an_autoscaler(UP)
    tight = planned(snapshot_of(pods, autoscaler, quotas={"default": [quota(cpu=399)]}))
    wide = planned(snapshot_of(pods, autoscaler, quotas={"default": [quota(cpu=400)]}))

    assert sorted(told(tight)) == ["QuotaExceeded", "QuotaExceeded"]
    assert all(isinstance(each, Hold) and each.wanted for each in tight)
    assert sorted(told(wide)) == ["BudgetSpent", "Evict"]


def test_f20_evictions_of_one_plan_share_what_a_quota_leaves() -> None:
    pods, autoscaler = several(6), an_autoscaler(UP)
    quotas = {"default": [quota(memory=900 * MIB)]}
    outcomes = planned(snapshot_of(pods, autoscaler, quotas=quotas))

    assert sorted(told(outcomes)) == ["Evict", "Evict", *["QuotaExceeded"] * 4]


def test_d19_successors_are_counted_with_the_boosts_that_admission_will_give_them() -> None:
    pods, quotas = several(6), {"default": [quota(cpu=2300)]}
    plain = planned(snapshot_of(pods, an_autoscaler(UP), quotas=quotas))
    boosted = planned(snapshot_of(pods, boosting(UP, mode=UpdateMode.RECREATE), quotas=quotas))

    assert sorted(told(plain)) == [*["BudgetSpent"] * 3, *["Evict"] * 3]
    # The first successor takes 1900m more, the second gets the rest, unboosted.
    assert sorted(told(boosted)) == ["Evict", "Evict", *["QuotaExceeded"] * 4]


def test_d19_a_pod_is_evicted_where_its_successor_fits_without_its_boost() -> None:
    pods = several(2)
    fitting = planned(
        snapshot_of(
            pods, boosting(UP, mode=UpdateMode.RECREATE), quotas={"default": [quota(cpu=400)]}
        )
    )
    tight = planned(
        snapshot_of(
            pods, boosting(UP, mode=UpdateMode.RECREATE), quotas={"default": [quota(cpu=399)]}
        )
    )

    assert sorted(told(fitting)) == ["BudgetSpent", "Evict"]
    assert set(told(tight)) == {"QuotaExceeded"}


def test_a_boost_that_does_not_say_how_much_keeps_no_pod_from_eviction() -> None:
    unclear = replace(an_autoscaler(UP), boost=CpuBoost("Quantity"))
    quotas = {"default": [quota(cpu=400)]}

    assert "Evict" in told(planned(snapshot_of(several(2), unclear, quotas=quotas)))


def test_f20_limits_count_as_the_admission_controller_will_set_them() -> None:
    container = a_container(requests=SMALL, limits=amounts(200))
    pods, autoscaler = several(2, containers=(container,)), an_autoscaler(UP)
    quotas = {"default": [quota(cpu_limit=799)]}

    assert set(told(planned(snapshot_of(pods, autoscaler, quotas=quotas)))) == {"QuotaExceeded"}


def test_f20_shrinking_pods_and_those_of_other_namespaces_need_no_room() -> None:
    pods, full = several(2), {"default": [quota(cpu=-1, memory=-1)]}
    shrinking = planned(snapshot_of(pods, an_autoscaler(DOWN), quotas=full))
    elsewhere = planned(snapshot_of(pods, an_autoscaler(UP), quotas={"other": full["default"]}))

    assert "Evict" in told(shrinking)
    assert "Evict" in told(elsewhere)


def test_f20_a_resize_in_place_is_left_to_the_api_server() -> None:
    autoscaler = replace(an_autoscaler(UP), mode=UpdateMode.IN_PLACE)
    quotas = {"default": [quota(cpu=0)]}

    assert "Resize" in told(planned(snapshot_of(several(2), autoscaler, quotas=quotas)))


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
        pytest.param(Scope("BestEffort"), BARE, {}, True, id="nothing requested"),
        pytest.param(Scope("BestEffort"), BARE, SIZED, False, id="its successor will request"),
        pytest.param(Scope("NotBestEffort"), BARE, SIZED, True, id="and is counted elsewhere"),
        pytest.param(Scope("NotBestEffort"), BARE, {}, False, id="still nothing requested"),
        pytest.param(Scope("Terminating"), a_pod(), {}, False, id="it may run for ever"),
        pytest.param(Scope("Terminating"), a_pod(has_deadline=True), {}, True, id="a deadline"),
        pytest.param(Scope("NotTerminating"), a_pod(), {}, True, id="no deadline"),
        pytest.param(
            Scope("NotTerminating"), a_pod(has_deadline=True), {}, False, id="with a deadline"
        ),
        pytest.param(
            Scope("PriorityClass", "In", ("high",)),
            a_pod(priority_class="high"),
            {},
            True,
            id="its class",
        ),
        pytest.param(
            Scope("PriorityClass", "In", ("high",)), a_pod(), {}, False, id="without a class"
        ),
        pytest.param(
            Scope("PriorityClass", "NotIn", ("high",)), a_pod(), {}, True, id="not that class"
        ),
        pytest.param(Scope("PriorityClass"), a_pod(priority_class="x"), {}, True, id="any class"),
        pytest.param(Scope("PriorityClass", "DoesNotExist"), a_pod(), {}, True, id="no class"),
        pytest.param(Scope("PriorityClass", "Odd"), a_pod(), {}, False, id="an odd operator"),
        pytest.param(
            Scope("CrossNamespacePodAffinity"),
            a_pod(placement=Placement(crosses_namespaces=True)),
            {},
            True,
            id="near pods of other namespaces",
        ),
        pytest.param(Scope("CrossNamespacePodAffinity"), a_pod(), {}, False, id="no affinity"),
        pytest.param(Scope("VolumeAttributesClass"), a_pod(), {}, False, id="not about pods"),
    ],
)
def test_a_quota_counts_only_pods_in_its_scope(
    scope: Scope, pod: Pod, wanted: Wanted, *, expected: bool
) -> None:
    assert covers(Quota("default", "some", {}, (scope,)), pod, wanted) is expected
    assert covers(Quota("default", "all"), pod, wanted)


def test_a_pod_must_be_in_all_scopes_of_a_quota() -> None:
    both = Quota("default", "both", {}, (Scope("NotTerminating"), Scope("PriorityClass")))

    assert not covers(both, a_pod(), {})
    assert covers(both, a_pod(priority_class="high"), {})


def test_f20_a_full_quota_for_other_pods_keeps_nobody_from_being_evicted() -> None:
    full = replace(quota(cpu=0), scopes=(Scope("PriorityClass", "In", ("high",)),))
    pods, autoscaler = several(2), an_autoscaler(UP)
    high = several(2, priority_class="high")

    assert "Evict" in told(planned(snapshot_of(pods, autoscaler, quotas={"default": [full]})))
    assert set(told(planned(snapshot_of(high, autoscaler, quotas={"default": [full]})))) == {
        "QuotaExceeded"
    }


def test_f20_what_pods_of_one_scope_claim_is_not_taken_from_another() -> None:
    for_high = replace(quota(cpu=400), scopes=(Scope("PriorityClass"),))
    for_low = replace(quota(cpu=400), name="low", scopes=(Scope("PriorityClass", "DoesNotExist"),))
    pods = several(4)
    pods[0] = replace(pods[0], priority_class="high")
    settings = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
    outcomes = planned(
        snapshot_of(pods, an_autoscaler(UP), quotas={"default": [for_high, for_low]}), settings
    )

    assert sorted(told(outcomes)) == ["Evict", "Evict", "QuotaExceeded", "QuotaExceeded"]
