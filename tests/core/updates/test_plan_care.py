"""What plans take care of beyond the original: what came of others, pauses, owners' wishes."""

from dataclasses import replace
from datetime import datetime

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
    boosted,
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

from trimtab.core.changes.outcomes import Evict, Hold, Outcome, Resize
from trimtab.core.guards.degradation import Degradation
from trimtab.core.guards.eviction_brake import Lack, find_brake
from trimtab.core.model.autoscalers import ContainerRecommendation, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import (
    PAUSED,
    Allocation,
    Container,
    ContainerKind,
    Envelope,
    OwnerReference,
    Pod,
    PodPhase,
    ResizeState,
    Termination,
    WorkloadName,
)
from trimtab.core.model.resources import BOTH, Resource, Resources
from trimtab.core.model.validation import SettingsError
from trimtab.core.model.workloads import Namespace
from trimtab.core.sizing.node_capacity import Daemon, NodeRooms
from trimtab.core.sizing.node_use import NodeUse
from trimtab.core.updates.plan_context import PlanContext
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import ObservedPod, PodMemory, Retry, Snapshot

CAREFUL = PlanSettings(max_unproven=3)
UNSAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}


@given(replicas=st.integers(2, 30), missed=st.integers(0, 4), unproven=st.integers(0, 4))
def test_misses_and_open_evictions_of_a_workload_are_never_more_than_may_be(
    replicas: int, missed: int, unproven: int
) -> None:
    snapshot = snapshot_of(
        several(replicas),
        an_autoscaler(UP),
        convergence={WEB: Retry(missed)},
        unproven={WEB: unproven},
    )
    evictions = told(planned(snapshot, CAREFUL)).count("Evict")

    assert missed + unproven + evictions <= max(3, missed + unproven)


def test_the_first_eviction_for_a_size_is_alone() -> None:
    snapshot = snapshot_of(several(10), an_autoscaler(UP))

    assert told(planned(snapshot, CAREFUL)) == ["Evict"] + ["EffectAwaited"] * 9


CPU_RANGES = [
    LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(5344)),
    LimitRangeItem(LimitRangeType.POD, max=amounts(10_688)),
]
"""They leave `side` in the pods of `squeezed` 72 millicores, whatever the recommendation."""


def squeezed(memory_mib: int) -> list[Outcome]:
    """Plan two pods with all the CPU that limit ranges allow, and 100 MiB in each container."""
    app = a_container(requests=amounts(920, 100 * MIB), limits=amounts(1840))
    side = a_container("side", requests=amounts(72, 100 * MIB), limits=amounts(5344))
    autoscaler = an_autoscaler(
        a_recommendation(
            target=amounts(920, memory_mib * MIB),
            lower=amounts(863, (memory_mib - 20) * MIB),
            upper=amounts(1026, (memory_mib + 20) * MIB),
        ),
        a_recommendation(
            "side",
            target=amounts(323, 100 * MIB),
            lower=amounts(295, 100 * MIB),
            upper=amounts(360, 100 * MIB),
        ),
    )
    pods = several(2, containers=(app, side))
    return planned(snapshot_of(pods, autoscaler, limit_ranges={"default": CPU_RANGES}))


@pytest.mark.parametrize(
    ("memory_mib", "expected"),
    [
        pytest.param(105, ["ChangeTooSmall"] * 2, id="one bucket more inside the bounds"),
        pytest.param(125, ["Evict", "BudgetSpent"], id="memory below the lower bound"),
    ],
)
def test_cpu_that_limit_ranges_keep_from_a_pod_makes_no_trifle_urgent(
    memory_mib: int, expected: list[str]
) -> None:
    assert told(squeezed(memory_mib)) == expected


@pytest.mark.parametrize(
    ("target", "current", "other", "evictions"),
    [
        pytest.param(500, 100, 500, 3, id="the wanted size"),
        pytest.param(500, 100, 470, 3, id="nearly the wanted size"),
        pytest.param(500, 100, 800, 3, id="more than that"),
        pytest.param(500, 100, 400, 1, id="a part of the way"),
        pytest.param(500, 900, 500, 3, id="the wanted size after a shrink"),
        pytest.param(500, 900, 300, 3, id="less than that"),
        pytest.param(500, 900, 700, 1, id="a part of the way down"),
    ],
)
def test_a_sibling_of_the_wanted_size_shows_that_it_can_be_had(
    target: int, current: int, other: int, evictions: int
) -> None:
    pods = several(10, containers=(a_container(requests=amounts(current, 100 * MIB)),))
    sibling = structs.replace(
        pods[-1], containers=(a_container(requests=amounts(other, 100 * MIB)),), uid="x", name="x"
    )
    wanted = a_recommendation(
        target=amounts(target, 100 * MIB),
        lower=amounts(min(target, 450), 50 * MIB),
        upper=amounts(max(target, 550), 200 * MIB),
    )
    snapshot = snapshot_of([*pods[:-1], sibling], an_autoscaler(wanted))

    assert told(planned(snapshot, CAREFUL)).count("Evict") == evictions


def test_resizes_do_not_wait_for_the_effect_of_others() -> None:
    snapshot = snapshot_of(several(10), an_autoscaler(UP, mode=UpdateMode.IN_PLACE))

    assert told(planned(snapshot, CAREFUL)).count("Resize") == 10


@pytest.mark.parametrize(
    ("settings", "annotations"),
    [
        pytest.param(PlanSettings(paused=True), {}, id="by the operator"),
        pytest.param(PlanSettings(), {PAUSED: "true"}, id="by the autoscaler"),
    ],
)
def test_what_is_paused_shows_what_would_be_done(
    settings: PlanSettings, annotations: dict[str, str]
) -> None:
    pods, autoscaler = several(2), an_autoscaler(UP)
    usual = planned(snapshot_of(pods, autoscaler))
    paused = planned(snapshot_of(pods, replace(autoscaler, annotations=annotations)), settings)
    unpaused = [each.withheld or each if isinstance(each, Hold) else each for each in paused]

    assert told(paused) == ["Paused", "BudgetSpent"]
    assert unpaused == usual


def test_a_pause_that_is_not_true_is_none() -> None:
    autoscaler = an_autoscaler(UP, annotations={PAUSED: "false"})

    assert told(planned(snapshot_of(several(2), autoscaler))) == ["Evict", "BudgetSpent"]


@pytest.mark.parametrize(
    ("mode", "settings", "kind"),
    [
        pytest.param(UpdateMode.RECREATE, PlanSettings(), Hold, id="an eviction is not wanted"),
        pytest.param(
            UpdateMode.RECREATE,
            PlanSettings(evicts_unwillingly=True),
            Evict,
            id="unless the operator says so",
        ),
        pytest.param(UpdateMode.IN_PLACE_OR_RECREATE, PlanSettings(), Resize, id="a resize is"),
    ],
)
def test_the_wish_of_a_pod_s_owner_not_to_evict_it_is_honoured(
    mode: UpdateMode, settings: PlanSettings, kind: type[object]
) -> None:
    pods = [a_pod(name=f"web-{number}", annotations=UNSAFE) for number in range(2)]
    first = planned(snapshot_of(pods, an_autoscaler(UP, mode=mode)), settings)[0]

    assert isinstance(first, kind)
    assert not isinstance(first, Hold) or first.reason == "EvictionUnwanted"


@pytest.mark.parametrize(
    ("not_before", "word"),
    [
        pytest.param(NOW + minutes(1), "PodDisruptionBudget", id="refused a moment ago"),
        pytest.param(NOW, "Evict", id="time to try again"),
    ],
)
def test_an_eviction_that_a_budget_refused_is_not_tried_at_once(
    not_before: object, word: str
) -> None:
    pod, autoscaler = a_pod(), an_autoscaler(UP, min_replicas=1)
    memory = PodMemory(eviction=Retry(1, not_before))  # type: ignore[arg-type]
    snapshot = snapshot_of([pod], autoscaler, pod_memory={(pod.uid, autoscaler.identity): memory})

    assert told(planned(snapshot)) == [word]


def test_pods_that_settle_cannot_be_counted_on() -> None:
    pods = several(4)
    settling = frozenset({pods[3].uid, pods[2].uid})
    snapshot = snapshot_of(pods, an_autoscaler(UP), settling=settling)

    assert "Evict" not in told(planned(snapshot))


@pytest.mark.parametrize(
    ("pod", "word"),
    [
        pytest.param(boosted(ready=minutes(2)), "BoostActive", id="its boost goes on"),
        pytest.param(
            boosted(ready=minutes(2), age=hours(1)), "Unboost", id="but not beyond its hard limit"
        ),
    ],
)
def test_a_boosted_pod_whose_autoscaler_cannot_be_seen_is_left_alone(pod: Pod, word: str) -> None:
    seen = [ObservedPod(pod, None, is_in_doubt=True)]
    snapshot = Snapshot(seen, configured_replicas={REPLICA_SET: 1})

    assert told(planned(snapshot)) == [word]


@pytest.mark.parametrize(
    ("surging", "word"),
    [
        pytest.param({"default"}, "Surge", id="a surge here"),
        pytest.param({"shop"}, "Evict", id="a surge in another namespace"),
        pytest.param(set(), "Evict", id="none anywhere"),
    ],
)
def test_a_part_of_the_cluster_is_told_whether_there_is_a_surge(
    word: str, surging: set[str]
) -> None:
    snapshot = snapshot_of(several(2), an_autoscaler(UP), surging=frozenset(surging))

    assert told(planned(snapshot))[0] == word


def test_an_eviction_says_what_the_successor_should_have() -> None:
    first = planned(snapshot_of(several(2), an_autoscaler(UP)))[0]

    assert isinstance(first, Evict)
    assert first.wanted["app"].requests == UP.target


def test_pods_that_are_alike_are_judged_by_their_own_observed_containers() -> None:
    seen = a_pod(name="seen", annotations={"vpaObservedContainers": "app"})
    unseen = a_pod(name="unseen", annotations={"vpaObservedContainers": "other"})
    snapshot = snapshot_of([seen, unseen], an_autoscaler(UP))

    assert told(planned(snapshot)) == ["Evict", "InsideBounds"]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        pytest.param(Allocation(), "InsideBounds", id="the status names nothing"),
        pytest.param(Allocation(amounts(500)), "InsideBounds", id="the status names only cpu"),
        pytest.param(
            Allocation(amounts(100, 100 * MIB)), "Evict", id="the kubelet reports another size"
        ),
        pytest.param(
            Allocation(amounts(500, 100 * MIB)), "Evict", id="the kubelet reports other memory"
        ),
    ],
)
@pytest.mark.parametrize("mode", [UpdateMode.RECREATE, UpdateMode.AUTO])
def test_no_pod_is_evicted_for_a_successor_of_its_own_size(
    status: Allocation, word: str, mode: UpdateMode
) -> None:
    container = a_container(requests=amounts(500, 500 * MIB), status=status)
    snapshot = snapshot_of(several(2, containers=(container,)), an_autoscaler(UP, mode=mode))

    assert told(planned(snapshot))[0] == word


def test_a_target_outside_its_own_bounds_evicts_no_pod_that_has_it() -> None:
    odd = a_recommendation(target=amounts(500, 500 * MIB), upper=amounts(400, 400 * MIB))
    container = a_container(requests=amounts(500, 500 * MIB))
    snapshot = snapshot_of(several(2, containers=(container,)), an_autoscaler(odd))

    assert told(planned(snapshot)) == ["InsideBounds"] * 2


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        pytest.param(amounts(505, 505 * MIB), "ChangeTooSmall", id="a hair"),
        pytest.param(amounts(532, 505 * MIB), "ChangeTooSmall", id="one bucket too much"),
        pytest.param(amounts(470, 505 * MIB), "Evict", id="one bucket too little"),
        pytest.param(amounts(560, 505 * MIB), "Evict", id="two buckets too much"),
        pytest.param(amounts(505, 560 * MIB), "Evict", id="one resource by much"),
        pytest.param(amounts(505), "Evict", id="no request at all"),
    ],
)
def test_no_pod_restarts_for_a_hair_outside_its_bounds(has: Resources, expected: str) -> None:
    close = a_recommendation(target=amounts(500, 500 * MIB), upper=amounts(501, 501 * MIB))
    pods = several(2, containers=(a_container(requests=has),))

    assert expected in told(planned(snapshot_of(pods, an_autoscaler(close))))


def test_a_pod_that_waits_for_a_node_is_evicted_for_one_bucket_less() -> None:
    close = a_recommendation(target=amounts(500, 500 * MIB), upper=amounts(501, 501 * MIB))
    container = a_container(requests=amounts(532, 505 * MIB))
    pods = several(2, containers=(container,), phase=PodPhase.PENDING, node_name="")

    assert "Evict" in told(planned(snapshot_of(pods, an_autoscaler(close))))


def test_two_containers_that_change_places_do_not_cancel_each_other() -> None:
    large, small = amounts(500, 500 * MIB), amounts(100, 100 * MIB)
    containers = (a_container("a", requests=large), a_container("b", requests=small))
    autoscaler = an_autoscaler(
        a_recommendation("a", target=small, upper=small),
        a_recommendation("b", target=large, lower=large),
    )

    assert "Evict" in told(planned(snapshot_of(several(2, containers=containers), autoscaler)))


ASKED = Allocation(amounts(500, 500 * MIB))
PRESENT = Allocation(amounts(100, 100 * MIB))
BETWEEN = a_recommendation(target=amounts(300, 300 * MIB), lower=amounts(250, 250 * MIB))


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_pods_that_are_alike_are_judged_by_their_own_resizes(names: tuple[str, str]) -> None:
    container = Container("app", spec=ASKED, status=PRESENT)
    refused, accepted = names
    pods = [
        a_pod(container, name=refused, resize=ResizeState.INFEASIBLE),
        a_pod(container, name=accepted),
    ]
    snapshot = snapshot_of(pods, an_autoscaler(BETWEEN, mode=UpdateMode.UPSCALE_ONLY))

    assert by_pod(planned(snapshot)) == {refused: "Resize", accepted: "OnlyShrinks"}


def test_pods_that_are_alike_are_judged_by_their_own_kinds_of_containers() -> None:
    # A sidecar runs beside the init container, for which 450m are set aside.
    envelope = Envelope(amounts(500), {}, amounts(450))
    app, helper = (a_container(name, requests=amounts(10)) for name in ("app", "helper"))
    sidecar = structs.replace(helper, kind=ContainerKind.SIDECAR)
    pods = [
        a_pod(app, helper, name="regular", envelope=envelope),
        a_pod(app, sidecar, name="sidecar", envelope=envelope),
    ]
    more = a_recommendation("helper", target=amounts(100), lower=amounts(90))

    assert by_pod(planned(snapshot_of(pods, an_autoscaler(more)))) == {
        "regular": "Evict",
        "sidecar": "NoRecommendation",
    }


def test_pods_that_are_alike_are_judged_by_their_own_daemon_sets() -> None:
    needs = {"small": 100, "large": 300}
    daemons = [
        Daemon(WorkloadName("default", "DaemonSet", name), amounts(cpu))
        for name, cpu in needs.items()
    ]
    container = a_container(requests=amounts(50))
    pods = [a_pod(container, name=each, owner=OwnerReference("DaemonSet", each)) for each in needs]
    snapshot = snapshot_of(
        pods,
        an_autoscaler(a_recommendation(target=amounts(400)), mode=UpdateMode.IN_PLACE),
        rooms=NodeRooms([Node("one", amounts(600, MIB))], daemons),
    )
    judged = PlanContext(snapshot, PlanSettings(), {}, NOW)
    autoscaler = snapshot.autoscalers[0].autoscaler
    found = {each.name: judged.judge(each, autoscaler).recommendation[0].target for each in pods}

    assert found == {"small": amounts(300), "large": amounts(400)}


def test_no_room_for_any_eviction_is_refused_as_a_setting() -> None:
    with pytest.raises(SettingsError):
        PlanSettings(max_unproven=0)


JOB = OwnerReference("Job", "import", "batch/v1")


@pytest.mark.parametrize(
    ("mode", "recommendation", "phase"),
    [
        (UpdateMode.RECREATE, UP, PodPhase.RUNNING),
        (UpdateMode.RECREATE, DOWN, PodPhase.PENDING),
        (UpdateMode.IN_PLACE_OR_RECREATE, UP, PodPhase.RUNNING),
        (UpdateMode.UPSCALE_ONLY, UP, PodPhase.RUNNING),
    ],
)
def test_no_pod_of_a_job_is_evicted(
    mode: UpdateMode, recommendation: ContainerRecommendation, phase: PodPhase
) -> None:
    snapshot = snapshot_of(
        several(4, owner=JOB, phase=phase),
        an_autoscaler(recommendation, mode=mode),
        configured_replicas={WorkloadName("default", "Job", "import"): 4},
        resizes_in_place=False,
    )
    reasons = set(told(planned(snapshot)))

    assert "Evict" not in reasons
    assert "RunsToCompletion" in reasons


def test_pods_of_a_job_are_resized_in_place() -> None:
    snapshot = snapshot_of(
        several(4, owner=JOB),
        an_autoscaler(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE),
        configured_replicas={WorkloadName("default", "Job", "import"): 4},
    )

    assert set(told(planned(snapshot))) == {"Resize"}


SPARED = {"karpenter.sh/do-not-disrupt": "true"}
OOM_KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))


@pytest.mark.parametrize(
    "mode", [UpdateMode.IN_PLACE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.UPSCALE_ONLY]
)
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"owner": JOB}, "RunsToCompletion", id="a Job"),
        pytest.param({"annotations": SPARED}, "EvictionUnwanted", id="an owner who asks for it"),
    ],
)
def test_no_resize_begins_work_again_that_is_to_run_on(
    fields: dict[str, object], reason: str, mode: UpdateMode
) -> None:
    container = a_container(requests=SMALL, restarts_on_resize=True)
    pods = [a_pod(container, name=f"web-{index}", **fields) for index in range(3)]  # type: ignore[arg-type]
    snapshot = snapshot_of(
        pods,
        an_autoscaler(UP, mode=mode),
        configured_replicas={REPLICA_SET: 3, WorkloadName("default", "Job", "import"): 3},
    )

    assert told(planned(snapshot)) == [reason] * 3


def test_work_goes_on_beside_what_restarts_nothing() -> None:
    container = a_container(requests=SMALL, restarts_on_resize=frozenset({Resource.MEMORY}))
    pods = [a_pod(container, name=f"web-{index}", owner=JOB) for index in range(2)]
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE)
    outcomes = planned(snapshot_of(pods, autoscaler, configured_replicas={}))

    assert [each.wanted for each in outcomes if isinstance(each, Resize)] == [
        {"app": Allocation(amounts(500), {})}
    ] * 2


@pytest.mark.parametrize(
    ("mode", "restarts"),
    [
        (UpdateMode.RECREATE, frozenset()),
        (UpdateMode.RECREATE, frozenset({Resource.MEMORY})),
        (UpdateMode.IN_PLACE, frozenset()),
        (UpdateMode.IN_PLACE, frozenset({Resource.MEMORY})),
    ],
)
@pytest.mark.parametrize(
    "last",
    [
        pytest.param(None, id="the other one never ended"),
        pytest.param(
            Termination("OOMKilled", NOW - hours(30), NOW - hours(20)), id="its kill is long past"
        ),
    ],
)
def test_the_rescue_of_a_container_restarts_no_other_one_of_its_job(
    mode: UpdateMode, restarts: frozenset[Resource], last: Termination | None
) -> None:
    app = a_container(requests=SMALL, restarts_on_resize=True, last_termination=last)
    side = a_container(
        "side", requests=SMALL, restarts_on_resize=restarts, last_termination=OOM_KILLED
    )
    pods = [a_pod(app, side, name=f"web-{index}", owner=JOB) for index in range(2)]
    more = a_recommendation("side", target=amounts(100, 200 * MIB))
    outcomes = planned(
        snapshot_of(pods, an_autoscaler(UP, more, mode=mode), configured_replicas={})
    )

    (resize,) = [each for each in outcomes if isinstance(each, Resize)][:1]
    assert "app" not in resize.wanted
    requests = resize.wanted["side"].requests
    assert requests is not None
    assert requests[Resource.MEMORY] == 200 * MIB


@pytest.mark.parametrize(
    ("value", "is_held"),
    [
        *((yes, True) for yes in ("true", "True", "TRUE", " true", "yes", "1", "on", "y", "t")),
        *((no, False) for no in ("false", "False", "no", "0", "off", "")),
    ],
)
def test_any_spelling_of_yes_pauses_an_autoscaler_and_a_namespace(
    value: str, *, is_held: bool
) -> None:
    annotations = {PAUSED: value}
    snapshot = snapshot_of(several(4), an_autoscaler(UP, annotations=annotations))

    assert ("Paused" in told(planned(snapshot))) is is_held
    assert Namespace("default", annotations).is_paused is is_held


@pytest.mark.parametrize(
    ("minutes_ago", "is_killed", "has_news", "expected"),
    [
        pytest.param(11, True, False, 1, id="all of them die"),
        pytest.param(9, True, False, 0, id="it is early"),
        pytest.param(11, False, False, 0, id="they are fine"),
        pytest.param(11, False, True, 1, id="others got pods"),
    ],
)
def test_one_pod_of_a_workload_that_lacks_another_is_tried_again(
    minutes_ago: int, expected: int, *, is_killed: bool, has_news: bool
) -> None:
    killed = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1)) if is_killed else None
    ready_since = None if is_killed else NOW - hours(2)
    small = a_container(requests=amounts(100, 100 * MIB), last_termination=killed)
    pods = [
        structs.replace(a_pod(small, name=f"web-{place}", age=hours(3)), ready_since=ready_since)
        for place in range(3)
    ]
    lacking = {WEB: Lack(NOW - minutes(minutes_ago))}
    # Others of the namespace are evicted all the time.
    brake = find_brake(lacking, {"default": NOW} if has_news else {}, {"default": NOW})
    snapshot = snapshot_of(
        pods, an_autoscaler(UP), brake=brake, configured_replicas={REPLICA_SET: 4}
    )

    assert told(planned(snapshot)).count("Evict") == expected


WORSE = {WEB: Degradation(2, 3, NOW - minutes(6))}
MIXED = a_recommendation(
    target=amounts(500, 50 * MIB), lower=amounts(400, 40 * MIB), upper=amounts(600, 60 * MIB)
)


@pytest.mark.parametrize("recommendation", [UP, MIXED], ids=["all grows", "memory shrinks"])
@pytest.mark.parametrize(
    ("mode", "ready_since"),
    [
        pytest.param(UpdateMode.IN_PLACE, None, id="starving"),
        pytest.param(UpdateMode.IN_PLACE, NOW - minutes(9), id="ready"),
        pytest.param(UpdateMode.UPSCALE_ONLY, None, id="starving, only grows"),
        pytest.param(UpdateMode.UPSCALE_ONLY, NOW - minutes(9), id="ready, only grows"),
        pytest.param(UpdateMode.RECREATE, None, id="starving, is evicted otherwise"),
        pytest.param(UpdateMode.AUTO, None, id="starving, is evicted otherwise as well"),
    ],
)
def test_d22_pods_of_a_workload_that_got_worse_still_grow_in_place(
    mode: UpdateMode, recommendation: ContainerRecommendation, ready_since: datetime | None
) -> None:
    autoscaler = an_autoscaler(recommendation, mode=mode)
    pods = several(3, ready_since=ready_since)
    outcomes = planned(snapshot_of(pods, autoscaler, degraded=WORSE))
    given = amounts(500, 500 * MIB) if recommendation is UP else amounts(500)

    assert [each.wanted for each in outcomes if isinstance(each, Resize)] == [
        {"app": Allocation(given, {})}
    ] * 3


@pytest.mark.parametrize(
    ("recommendation", "mode", "fields"),
    [
        pytest.param(DOWN, UpdateMode.IN_PLACE, {}, id="it would shrink"),
        pytest.param(DOWN, UpdateMode.RECREATE, {}, id="it would be evicted to shrink"),
        pytest.param(
            UP, UpdateMode.RECREATE, {"ready_since": NOW - minutes(9)}, id="a ready pod would go"
        ),
        pytest.param(
            UP,
            UpdateMode.IN_PLACE_OR_RECREATE,
            {"ready_since": NOW - minutes(9), "resize": ResizeState.INFEASIBLE},
            id="a ready pod that its node cannot resize would go",
        ),
    ],
)
def test_d22_nothing_else_of_such_a_workload_changes(
    recommendation: ContainerRecommendation, mode: UpdateMode, fields: dict[str, object]
) -> None:
    pods = several(3, **fields)
    snapshot = snapshot_of(pods, an_autoscaler(recommendation, mode=mode), degraded=WORSE)
    holds = [each for each in planned(snapshot) if isinstance(each, Hold)]

    assert [each.reason.value for each in holds] == ["WorkloadDegraded"] * 3
    assert {each.detail for each in holds} == {WORSE[WEB].detail}


BURSTABLE = a_container(requests=SMALL, limits=amounts(200, 200 * MIB))


@pytest.mark.parametrize(
    ("container", "fields", "expected"),
    [
        pytest.param(
            structs.replace(BURSTABLE, restarts_on_resize=frozenset(BOTH)),
            {},
            "WorkloadDegraded",
            id="it would restart",
        ),
        pytest.param(
            a_container(requests=SMALL, limits=SMALL),
            {},
            "Resize",
            id="its limits grow with its requests",
        ),
        pytest.param(BURSTABLE, {"resizes_in_place": False}, "WorkloadDegraded", id="no resizes"),
        pytest.param(
            BURSTABLE,
            {"node_use": NodeUse({"one": amounts(150, 120 * MIB)}, {"one": SMALL})},
            "ResizeInfeasible",
            id="the node is full",
        ),
        pytest.param(
            BURSTABLE,
            {"node_use": NodeUse({"one": amounts(150, 900 * MIB)}, {"one": SMALL})},
            "Resize",
            id="the node has room for the memory",
        ),
    ],
)
def test_d22_where_pods_are_evicted_only_free_growth_goes_on(
    container: Container, fields: dict[str, object], expected: str
) -> None:
    autoscaler = an_autoscaler(UP, mode=UpdateMode.RECREATE)
    pods = several(2, containers=(container,), node_name="one")
    snapshot = snapshot_of(pods, autoscaler, degraded=WORSE, **fields)

    assert set(told(planned(snapshot))) == {expected}
