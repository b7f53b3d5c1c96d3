"""Acceptance of `spec.selector`: one workload, several autoscalers, each for pods of one role.

The nine tests that the founding document asks for, on a real API server with a fake node. What is
recommended comes from a real recommender where that is the point, and is written by hand elsewhere.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.stages.admission import OBSERVED, Webhook, admission_controller
from support.stages.components import SLOW_SECONDS, Json, Run, install, running
from support.stages.roles import BIG, FOLLOWER, LABEL, LEADER, LITTLE, Cast, name_of
from support.stages.updater import (
    Stage,
    conditions,
    plan,
    updater,
    wait_for_holds,
    wait_for_plan,
)

from rig import waiting
from rig.controlplane import ControlPlane
from trimtab.core.model.quantities import parse_amount
from trimtab.core.model.resources import Resource

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
SAMPLES = 'vpa_recommender_samples_total{kind="cpu",outcome="accepted"}'
QUICK = "--role-dwell=2s"

recommender = partial(running, "recommender")


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def cast(installed: ControlPlane, namespace: str) -> Cast:
    stage = Stage(installed, namespace)
    stage.promise_admission()
    return Cast(stage)


@pytest.fixture
def webhook(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    folder = tmp_path_factory.mktemp("admission")
    with admission_controller(installed.kubeconfig, folder) as it:
        yield it


def learning(cast: Cast, folder: Path) -> Any:
    flags = (f"--vpa-object-namespace={cast.stage.namespace}", "--recommender-interval=5s")
    return recommender(cast.plane.kubeconfig, folder, *flags)


def updating(cast: Cast, folder: Path, *flags: str) -> Any:
    return updater(cast.plane.kubeconfig, folder, *cast.stage.flags(*flags))


def two_roles(cast: Cast, *targets: Json) -> None:
    """A leader and two followers, and an autoscaler for each role."""
    cast.start()
    cast.give("leader", "db-0")
    cast.give("follower", "db-1", "db-2")
    big, little = targets or (None, None)
    cast.autoscale("leader", LEADER, big)
    cast.autoscale("followers", FOLLOWER, little)


def millicores(target: Json) -> int:
    return parse_amount(Resource.CPU, target["cpu"]) if target else 0


def mebibytes(target: Json) -> int:
    return parse_amount(Resource.MEMORY, target["memory"]) // MIB if target else 0


def wait_for_samples(run: Run, more: int) -> None:
    before = run.metric(SAMPLES)
    waiting.wait_for(
        lambda: run.metric(SAMPLES),
        lambda found: found >= before + more,
        patience_seconds=SLOW_SECONDS,
    )


def test_1_recommendations_diverge_and_only_the_leader_grows(cast: Cast, tmp_path: Path) -> None:
    two_roles(cast)
    before = cast.stage.uids("db")
    cast.use("db-0", cpu="2")
    cast.use("db-1", cpu="60m")
    cast.use("db-2", cpu="60m")
    cast.plane.read_usage()
    with learning(cast, tmp_path), updating(cast, tmp_path):
        leader = cast.wait_for_target("leader", lambda said: millicores(said) > 1500)
        followers = cast.wait_for_target("followers")
        waiting.wait_for(
            lambda: millicores({"cpu": cast.sizes()["db-0"]}),
            lambda cpu: cpu > 1500,
            patience_seconds=SLOW_SECONDS,
        )
        sizes = cast.sizes()

    assert millicores(leader) > 10 * millicores(followers)
    assert all(millicores({"cpu": sizes[name]}) <= millicores(LITTLE) for name in ("db-1", "db-2"))
    assert cast.stage.uids("db") == before


def test_2_sizes_swap_with_the_labels_without_a_restart(cast: Cast, tmp_path: Path) -> None:
    two_roles(cast, BIG, LITTLE)
    before = cast.stage.uids("db")
    with updating(cast, tmp_path, QUICK):
        cast.wait_for_sizes("500m", "100m", "100m")
        cast.give("follower", "db-0")
        cast.give("leader", "db-2")
        cast.wait_for_sizes("100m", "100m", "500m")

    assert cast.stage.uids("db") == before
    restarts = [
        status["restartCount"]
        for pod in cast.stage.pods("db")
        for status in pod["status"]["containerStatuses"]
    ]
    assert restarts == [0, 0, 0]


def test_2_a_swap_of_labels_leaves_what_was_learned_as_it_is(cast: Cast, tmp_path: Path) -> None:
    two_roles(cast)
    use = {"db-0": "2", "db-1": "60m", "db-2": "60m"}
    for pod, cpu in use.items():
        cast.use(pod, cpu=cpu)
    cast.plane.read_usage()
    with learning(cast, tmp_path) as run:
        wait_for_samples(run, 9)
        before = cast.target("leader")
        cast.give("follower", "db-0")
        cast.use("db-0", cpu="60m")
        cast.give("leader", "db-1")
        cast.use("db-1", cpu="2")
        promoted = cast.target("leader")
        wait_for_samples(run, 9)
        after = cast.target("leader")

    assert millicores(before) > 1500
    assert promoted["cpu"] == before["cpu"] == after["cpu"]


def test_3_a_larger_peak_in_the_new_role_leaves_the_old_one_as_it_was(
    cast: Cast, tmp_path: Path
) -> None:
    cast.start(1)
    cast.autoscale("leader", LEADER)
    cast.autoscale("followers", FOLLOWER)
    cast.give("follower", "db-0")
    cast.use("db-0", cpu="100m", memory="2Gi")
    cast.plane.read_usage()
    with learning(cast, tmp_path) as run:
        old = cast.wait_for_target("followers")
        cast.give("leader", "db-0")
        cast.use("db-0", cpu="100m", memory="3Gi")
        new = cast.wait_for_target("leader", lambda said: mebibytes(said) > 3072)
        wait_for_samples(run, 2)
        still = cast.target("followers")

    assert 2048 < mebibytes(old) < 3072
    assert still["memory"] == old["memory"]
    assert 3072 < mebibytes(new) < 4096


def expression(operator: str, *values: str) -> Json:
    asked: Json = {"key": LABEL, "operator": operator}
    return {"matchExpressions": [{**asked, "values": [*values]} if values else asked]}


EXISTS, ABSENT = expression("Exists"), expression("DoesNotExist")


def labels(**given: str) -> Json:
    named = {LABEL if key == "role" else key: value for key, value in given.items()}
    return {"matchLabels": named}


PAIRS: dict[str, tuple[Json, Json, bool]] = {
    "two values of one label": (LEADER, FOLLOWER, True),
    "two sets of values": (expression("In", "a", "b"), expression("In", "c"), True),
    "sets with a value in common": (
        expression("In", "a", "b"),
        expression("In", "b", "c"),
        False,
    ),
    "a value and all others": (LEADER, expression("NotIn", "leader"), True),
    "there or not": (EXISTS, ABSENT, True),
    "all but a and all but b": (expression("NotIn", "a"), expression("NotIn", "b"), False),
    "different labels": (LEADER, labels(env="prod"), False),
    "kept apart by the second label": (
        labels(role="leader", env="prod"),
        labels(role="leader", env="dev"),
        True,
    ),
    "kept apart by the label in common": (labels(role="leader", zone="x"), FOLLOWER, True),
    "everything and something": ({}, LEADER, False),
    "both take pods without the label": (ABSENT, expression("NotIn", "leader"), False),
}
"""Two selectors, and whether they may share a target: the table of the founding document."""


def test_4_autoscalers_share_a_target_only_if_they_are_proven_disjoint(
    webhook: Webhook, cast: Cast
) -> None:
    with webhook.registered(cast.plane, "selectors"):
        answers = {}
        for number, (pair, (one, other, _)) in enumerate(PAIRS.items()):
            shared = Cast(cast.stage, f"db-{number}")
            first, _ = shared.autoscale(f"one-{number}", one)
            second, said = shared.autoscale(f"other-{number}", other)
            answers[pair] = (first, second, "spec.selector" in said.get("message", ""))

    assert answers == {
        pair: (201, 201, False) if is_disjoint else (201, 422, True)
        for pair, (_, _, is_disjoint) in PAIRS.items()
    }


def test_4_an_overlap_that_was_there_before_does_not_stand_in_the_way_of_other_edits(
    webhook: Webhook, cast: Cast
) -> None:
    for name in ("one", "other"):
        assert cast.autoscale(name, LEADER)[0] == 201
    with webhook.registered(cast.plane, "selectors"):
        cast.patch(f"{cast.autoscalers}/other", {"spec": {"updatePolicy": {"updateMode": "Off"}}})
        overlapping = {"spec": {"selector": {"matchLabels": {"zone": "x"}}}}
        status, body = cast.plane.request(
            "PATCH",
            f"{cast.autoscalers}/other",
            json.dumps(overlapping).encode(),
            "application/merge-patch+json",
        )

    assert status == 422, body


def test_5_a_pod_without_a_role_is_left_alone_by_all(
    webhook: Webhook, cast: Cast, tmp_path: Path
) -> None:
    cast.autoscale("leader", LEADER, BIG)
    with webhook.registered(cast.plane, "selectors"), updating(cast, tmp_path) as run:
        cast.start()
        cast.give("leader", "db-0")
        cast.wait_for_sizes("500m", "100m", "100m")
        planned = set(plan(run, "leader"))
        # What is counted is told after a whole plan, which may not be the one that resized it.
        counted = waiting.wait_for(
            lambda: run.metric(
                'vpa_updater_controlled_pods_total{update_mode="InPlace",vpa_size_log2="0"}'
            ),
            bool,
            patience_seconds=90,
        )
        marked = [
            name_of(pod)
            for pod in cast.stage.pods("db")
            if OBSERVED in pod["metadata"].get("annotations", {})
        ]

    assert planned == {"db-0"}
    assert counted == 1
    assert marked == []


def test_6_a_leader_counts_the_replicas_of_its_whole_workload(cast: Cast, tmp_path: Path) -> None:
    two_roles(cast, BIG, LITTLE)
    alone = Cast(cast.stage, "alone")
    alone.start(1)
    alone.give("leader", "alone-0")
    # In place it would grow without other replicas (D17).
    alone.autoscale("lonely", LEADER, BIG, mode="Recreate")
    with updating(cast, tmp_path) as run:
        cast.wait_for_sizes("500m", "100m", "100m")
        wait_for_holds(run, "BelowMinReplicas", name="lonely")

    assert alone.sizes() == {"alone-0": "100m"}


def checkpoint(cast: Cast, autoscaler: str) -> Json:
    path = cast.autoscalers.replace("autoscalers", "autoscalercheckpoints")
    _, body = cast.plane.request("GET", f"{path}/{autoscaler}-c0")
    found: Json = json.loads(body)
    return found


def test_7_each_autoscaler_restores_its_own_history_and_a_new_selector_none(
    cast: Cast, tmp_path: Path
) -> None:
    two_roles(cast)
    for pod, cpu in {"db-0": "2", "db-1": "60m", "db-2": "60m"}.items():
        cast.use(pod, cpu=cpu)
    cast.plane.read_usage()
    with learning(cast, tmp_path) as run:
        wait_for_samples(run, 9)
        assert run.end() == 0
    saved = {name: checkpoint(cast, name) for name in ("leader", "followers")}
    known = {name: each["status"]["totalSamplesCount"] for name, each in saved.items()}
    wider = expression("In", "leader", "deputy")
    cast.patch(f"{cast.autoscalers}/leader", {"spec": {"selector": {"matchLabels": None, **wider}}})
    with learning(cast, tmp_path) as run:
        wait_for_samples(run, 3)
        assert run.end() == 0
    again = {name: checkpoint(cast, name) for name in ("leader", "followers")}
    counts = {name: each["status"]["totalSamplesCount"] for name, each in again.items()}

    assert known["leader"] >= 3
    assert known["followers"] >= 6
    assert counts["followers"] > known["followers"]
    assert counts["leader"] < known["leader"]
    print_before, print_after = (
        each["leader"]["metadata"]["annotations"]["trimtab/selector-fingerprint"]
        for each in (saved, again)
    )
    assert print_before != print_after


def test_8_without_its_gate_a_selector_is_refused_and_what_has_one_is_inert(
    cast: Cast, tmp_path: Path
) -> None:
    two_roles(cast, BIG, LITTLE)
    off = "--feature-gates=PodSelector=false"
    with (
        admission_controller(cast.plane.kubeconfig, tmp_path, off) as it,
        it.registered(cast.plane, "selectors"),
        updating(cast, tmp_path, off) as run,
    ):
        status, said = cast.autoscale("another", labels(role="witness"))
        edited, _ = cast.plane.request(
            "PATCH",
            f"{cast.autoscalers}/leader",
            b'{"spec": {"updatePolicy": {"minReplicas": 1}}}',
            "application/merge-patch+json",
        )
        ticks = 'vpa_updater_execution_latency_seconds_count{step="total"}'
        waiting.wait_for(lambda: run.metric(ticks), lambda count: count > 3)
        planned = {**plan(run, "leader"), **plan(run, "followers")}

    assert (status, edited) == (422, 200)
    assert "PodSelector" in said["message"]
    assert planned == {}
    assert set(cast.sizes().values()) == {"100m"}


def test_9_of_two_that_overlap_the_stronger_acts_and_the_other_says_so(
    cast: Cast, tmp_path: Path
) -> None:
    cast.start()
    cast.give("leader", "db-0")
    cast.autoscale("a-first", LEADER, BIG)
    cast.autoscale("b-second", EXISTS, {"cpu": "900m", "memory": "128Mi"})
    with learning(cast, tmp_path), updating(cast, tmp_path) as run:
        told = waiting.wait_for(
            lambda: conflict(cast, "b-second"), bool, patience_seconds=SLOW_SECONDS
        )
        wait_for_plan(run, bool, "a-first")
        governed, others = set(plan(run, "a-first")), set(plan(run, "b-second"))

    assert told["reason"] == "OverlappingSelector"
    assert "a-first" in told["message"]
    assert governed == {"db-0"}
    assert others == set()


def conflict(cast: Cast, autoscaler: str) -> Json:
    _, body = cast.plane.request("GET", f"{cast.autoscalers}/{autoscaler}")
    found: Json = conditions(json.loads(body)).get("ConfigConflict", {})
    return found
