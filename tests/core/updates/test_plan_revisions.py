"""Plans for owners that replace no pod by themselves (`OnDelete`): evictions roll out nothing."""

from dataclasses import replace

import pytest
from msgspec import structs
from support.makers.plans import DOWN, REPLICA_SET, SMALL, UP, by_pod, planned, snapshot_of
from support.makers.records import NOW, a_container, a_pod, an_autoscaler, minutes

from trimtab.core.guards.disruption_budgets import DisruptionSettings
from trimtab.core.model.autoscalers import Autoscaler, UpdateMode
from trimtab.core.model.pods import Container, OwnerReference, Pod, Termination, WorkloadName
from trimtab.core.updates.plan_settings import PlanSettings
from trimtab.core.updates.snapshot import Snapshot

OLD, NEW = "web-65c9d8", "web-7f4b6c"
ALL_AT_ONCE = PlanSettings(disruption=DisruptionSettings(tolerance=1.0))
KILLED = Termination("OOMKilled", NOW - minutes(2), NOW - minutes(1))


def of_revision(revision: str | None, name: str, container: Container | None = None) -> Pod:
    """Return a pod that its owner made of a revision of its template."""
    labels = {"app": "web"} | ({} if revision is None else {"controller-revision-hash": revision})
    return a_pod(*([] if container is None else [container]), name=name, labels=labels)


def staged(pods: list[Pod], autoscaler: Autoscaler, revision: str | None = NEW) -> Snapshot:
    """Return a snapshot in which only new pods get the revision."""
    staged_revisions = {} if revision is None else {REPLICA_SET: revision}
    return snapshot_of(pods, autoscaler, staged_revisions=staged_revisions)


@pytest.mark.parametrize(
    "autoscaler",
    [
        pytest.param(an_autoscaler(UP), id="growth"),
        pytest.param(an_autoscaler(DOWN), id="a shrink"),
        pytest.param(an_autoscaler(UP, mode=UpdateMode.AUTO), id="mode Auto"),
    ],
)
def test_no_eviction_rolls_out_a_staged_revision(autoscaler: Autoscaler) -> None:
    pods = [of_revision(OLD, "old"), of_revision(None, "unknown"), of_revision(NEW, "new")]

    assert by_pod(planned(staged(pods, autoscaler), ALL_AT_ONCE)) == {
        "old": "RevisionStaged",
        "unknown": "RevisionStaged",
        "new": "Evict",
    }


def test_a_staged_revision_without_a_name_may_be_of_no_pod() -> None:
    pods = [of_revision(OLD, "old"), of_revision(NEW, "new")]

    assert set(by_pod(planned(staged(pods, an_autoscaler(UP), ""))).values()) == {"RevisionStaged"}


def test_an_owner_that_replaces_pods_itself_holds_nothing() -> None:
    pods = [of_revision(OLD, "web-0"), of_revision(OLD, "web-1"), of_revision(NEW, "web-2")]
    outcomes = by_pod(planned(staged(pods, an_autoscaler(UP), None)))

    assert outcomes["web-0"] == "Evict"


def test_a_partition_keeps_only_pods_below_it_from_a_rollout() -> None:
    pods = [of_revision(OLD, f"web-{index}") for index in range(3)] + [of_revision(NEW, "web-3")]
    snapshot = replace(staged(pods, an_autoscaler(UP)), staged_from={REPLICA_SET: 1})

    # A lower pod comes back in the revision that it has.
    assert by_pod(planned(snapshot, ALL_AT_ONCE)) == {
        "web-0": "Evict",
        "web-1": "RevisionStaged",
        "web-2": "RevisionStaged",
        "web-3": "Evict",
    }


def test_pods_with_a_staged_revision_are_resized_in_place() -> None:
    pods = [of_revision(OLD, "web-0"), of_revision(OLD, "web-1")]
    autoscaler = an_autoscaler(UP, mode=UpdateMode.IN_PLACE_OR_RECREATE)

    assert set(by_pod(planned(staged(pods, autoscaler))).values()) == {"Resize"}


@pytest.mark.parametrize(
    ("resizes", "expected"),
    [
        pytest.param(True, "Resize", id="they get memory in place"),
        pytest.param(False, "RevisionStaged", id="the cluster cannot resize"),
    ],
)
def test_not_even_oom_kills_roll_out_a_staged_revision(*, resizes: bool, expected: str) -> None:
    killed = a_container(requests=SMALL, last_termination=KILLED)
    pods = [of_revision(OLD, f"web-{index}", killed) for index in range(2)]
    snapshot = replace(staged(pods, an_autoscaler(UP)), resizes_in_place=resizes)

    assert set(by_pod(planned(snapshot)).values()) == {expected}


def ready(pod: Pod) -> Pod:
    """Return the pod as one that is ready."""
    return structs.replace(pod, ready_since=NOW - minutes(9))


@pytest.mark.parametrize(
    ("new", "resizes", "expected"),
    [
        pytest.param(
            ready(of_revision(NEW, "web-1")), False, "Evict", id="the rollout waits for it"
        ),
        pytest.param(of_revision(OLD, "web-1"), False, "Evict", id="it has not begun"),
        pytest.param(
            ready(of_revision(NEW, "web-1")), True, "Resize", id="it gets memory in place"
        ),
        pytest.param(
            of_revision(NEW, "web-1"), False, "RevisionStaged", id="the revision may be bad"
        ),
    ],
)
def test_a_rollout_that_waits_for_an_oom_killed_pod_goes_on(
    new: Pod, *, resizes: bool, expected: str
) -> None:
    killed = a_container(requests=SMALL, last_termination=KILLED)
    pods = [of_revision(OLD, "web-0", killed), new]
    rolling = replace(
        staged(pods, an_autoscaler(UP)),
        resizes_in_place=resizes,
        rolling_out=frozenset({REPLICA_SET}),
    )

    assert by_pod(planned(rolling, ALL_AT_ONCE))["web-0"] == expected


@pytest.mark.parametrize(
    ("generation", "known", "expected"),
    [
        pytest.param("6", "7", "RevisionStaged", id="it has the old template"),
        pytest.param("7", "7", "Evict", id="it has the new one"),
        pytest.param("7", "", "RevisionStaged", id="the new one is not known"),
        pytest.param(None, "7", "RevisionStaged", id="its own is not known"),
    ],
)
def test_a_daemon_set_that_rolls_out_loses_no_ready_pod_of_the_old_template(
    generation: str | None, known: str, expected: str
) -> None:
    # A node that is down keeps a rollout from its end for as long as it is there.
    agent = WorkloadName("default", "DaemonSet", "agent")
    labels = {} if generation is None else {"pod-template-generation": generation}
    pods = [
        a_pod(
            name=f"agent-{index}",
            labels={"app": "web", **labels},
            owner=OwnerReference("DaemonSet", "agent"),
            ready_since=NOW - minutes(9) if index else None,
        )
        for index in range(4)
    ]
    snapshot = snapshot_of(
        pods,
        an_autoscaler(UP),
        configured_replicas={agent: 4},
        staged_revisions={agent: known},
        rolling_out=frozenset({agent}),
    )

    assert by_pod(planned(snapshot, ALL_AT_ONCE)) == {
        "agent-0": "Evict",
        **{f"agent-{index}": expected for index in range(1, 4)},
    }
