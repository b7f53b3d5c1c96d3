"""Pods through the webhook that other rules refuse for their size: they come with less of it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import jsonpatch
import pytest
from admission.test_boosts import Time, millicores
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_recommendation, amounts
from support.makers.reviews import (
    Webhook,
    a_pod_object,
    a_review,
    loop_seconds,
    patch_of,
)

from trimtab.admission.admit import AdmitOutcome
from trimtab.admission.settings import AdmissionSettings
from trimtab.admission.withheld_sizes import Withholding
from trimtab.api.admission.new_pods import NewPod
from trimtab.core.model.autoscalers import Autoscaler, CpuBoost, UpdateMode
from trimtab.core.model.pods import UPDATES, OwnerReference, Pod, PodHead, WorkloadName
from trimtab.core.model.workloads import Workload
from trimtab.core.sizing.refusals import Offer, Withheld
from trimtab.core.sizing.startup_boost import annotation_name

HALF = {"requests": {"cpu": "500m", "memory": "64Mi"}}


class Door:
    """An API server whose policy lets no pod in with more CPU than that."""

    def __init__(self, cluster: UpdaterCluster, most: int, replicas: int) -> None:
        self.cluster = cluster
        self.most, self.replicas = most, replicas
        self.time = Time()
        self.webhook = Webhook(cluster, AdmissionSettings(), timer=self.time)
        self.created: list[Pod] = []
        self.opens_at = 0.0
        """Time until which no pod is let in, whatever its size."""
        self.show(is_failing=False)

    def show(self, *, is_failing: bool) -> None:
        """Let the ReplicaSet write its status."""
        self.cluster.count_pods(len(self.created), self.replicas)
        place = self.cluster.owners.known(WorkloadName("default", "ReplicaSet", "web-1"))
        assert place is not None
        self.cluster.put_workload(replace(place, is_failing=is_failing))

    def ask(self, *, is_dry_run: bool = False) -> Pod:
        """Return a pod as our webhook leaves it."""
        given = a_pod_object(containers=[{"name": "app", "resources": HALF}])
        response = self.webhook.ask(a_review(given, dryRun=is_dry_run))
        assert response["allowed"] is True
        patch = jsonpatch.JsonPatch.from_string(json.dumps(patch_of(response)))
        return NewPod(json.dumps(patch.apply(given)).encode(), "default").read()

    def create(self) -> bool:
        """Create a pod, if the policy lets it in."""
        pod = self.ask()
        if millicores(pod) > self.most or self.time.seconds < self.opens_at:
            return False
        self.created.append(pod)
        return True

    def work(self, seconds: float) -> None:
        """Let the ReplicaSet try for so long, as its controller does."""
        delay, end = 0.005, self.time.seconds + seconds
        while len(self.created) < self.replicas and self.time.seconds < end:
            before, is_created = len(self.created), True
            while is_created and len(self.created) < self.replicas:
                is_created = self.create()
            self.show(is_failing=not is_created)
            if not is_created:
                # A pod that appears starts the next round at once.
                self.time.seconds += delay if len(self.created) == before else 0.05
                delay *= 2


def at_the_door(
    scene: Callable[[Door], None],
    *,
    most: int = 1000,
    target: int | None = None,
    boosts: bool = True,
) -> None:
    """Play a scene where three pods of 500m come; a boost gives them three times their CPU."""

    async def play() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=0)
        found = [] if target is None else [a_recommendation(target=amounts(target, 64 * MIB))]
        mode = UpdateMode.OFF if target is None else UpdateMode.INITIAL
        cluster.autoscale(*found, mode=mode, boost=CpuBoost(factor=3) if boosts else None)
        scene(Door(cluster, most, replicas=3))

    run_virtually(play())


def test_a_boost_that_a_policy_refuses_is_left_out() -> None:
    def scene(door: Door) -> None:
        door.work(30)

        assert [millicores(pod) for pod in door.created] == [500] * 3
        assert all(annotation_name("app") not in pod.annotations for pod in door.created)
        assert door.created[0].annotations[UPDATES] == (
            "Pod resources updated by web: container 0: "
            "cpu startup boost left out since boosted pods were not created"
        )
        assert door.webhook.tally.pods[AdmitOutcome.WITHHELD] == 3

    at_the_door(scene)


def test_each_step_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def scene(door: Door) -> None:
        door.work(90)

        found = [vars(each) for each in caplog.records if hasattr(each, "withheld")]
        assert [each["withheld"] for each in found] == [Withheld.BOOST, Withheld.SIZE]
        assert {each["owner"] for each in found} == {"default/ReplicaSet/web-1"}

    at_the_door(scene, target=1200)


def test_a_recommendation_that_a_policy_refuses_is_left_out() -> None:
    def scene(door: Door) -> None:
        door.work(60)
        assert not door.created
        door.work(30)

        assert [millicores(pod) for pod in door.created] == [500] * 3
        assert "cpu NOT updated since pods" in door.created[0].annotations[UPDATES]

    at_the_door(scene, target=1200, boosts=False)


def test_the_boost_goes_before_the_recommendation() -> None:
    def scene(door: Door) -> None:
        door.work(30)

        assert [millicores(pod) for pod in door.created] == [800] * 3

    at_the_door(scene, target=800)


def test_boost_and_recommendation_go_where_both_are_refused() -> None:
    def scene(door: Door) -> None:
        door.work(90)

        assert [millicores(pod) for pod in door.created] == [500] * 3
        assert annotation_name("app") not in door.created[0].annotations

    at_the_door(scene, target=1200)


def test_pods_that_are_created_keep_their_boosts() -> None:
    def scene(door: Door) -> None:
        door.replicas = 500
        door.show(is_failing=False)
        for _ in range(500):
            # All of them come before the ReplicaSet writes its status.
            assert door.create()
            door.time.seconds += 0.05

        assert {millicores(pod) for pod in door.created} == {1500}

    at_the_door(scene, most=2000)


def test_dry_runs_do_not_count_and_show_what_a_pod_gets() -> None:
    def scene(door: Door) -> None:
        door.show(is_failing=True)
        for _ in range(50):
            assert millicores(door.ask(is_dry_run=True)) == 1500
            door.time.seconds += 1
        door.work(30)

        assert millicores(door.ask(is_dry_run=True)) == 500

    at_the_door(scene)


def test_the_whole_boost_is_tried_again_after_a_while() -> None:
    def scene(door: Door) -> None:
        door.work(30)
        door.most, door.replicas = 2000, 4
        door.show(is_failing=False)
        door.time.seconds += 700
        door.work(30)

        assert millicores(door.created[-1]) == 1500

    at_the_door(scene)


@pytest.mark.parametrize("seconds", [2, 3.5, 4.5, 10, 30])
def test_an_outage_of_seconds_leaves_pods_their_recommendation(seconds: float) -> None:
    def scene(door: Door) -> None:
        door.opens_at = door.time.seconds + seconds
        door.work(90)

        assert [millicores(pod) for pod in door.created] == [1200] * 3

    at_the_door(scene, most=2000, target=1200, boosts=False)


@pytest.mark.parametrize("seconds", [60, 150, 500])
def test_a_longer_outage_costs_one_pod_its_recommendation_at_most(seconds: float) -> None:
    def scene(door: Door) -> None:
        door.replicas = 10
        door.opens_at = door.time.seconds + seconds
        door.work(3600)

        assert len(door.created) == 10
        assert [millicores(pod) for pod in door.created].count(1200) >= 9

    at_the_door(scene, most=2000, target=1200, boosts=False)


def _an_owner(number: int, existing: int = 0) -> Workload:
    name = WorkloadName("default", "ReplicaSet", f"web-{number}")
    return Workload(name, replicas=1, existing=existing, uid=f"rs-{number}", is_failing=True)


def _a_pod_of(number: int) -> PodHead:
    return PodHead("default", OwnerReference("ReplicaSet", f"web-{number}", "apps/v1"))


ANY = Autoscaler("default", "web")
BOOSTED = Offer(is_boosted=True)


def test_memory_of_owners_is_bounded() -> None:
    time = Time()
    memory = Withholding(lambda name: _an_owner(int(name.name.removeprefix("web-"))), time)
    for number in range(10_000):
        memory.choose(_a_pod_of(number), ANY, BOOSTED, is_dry_run=False)

    assert len(memory) <= 4096


@pytest.mark.parametrize(
    ("owner", "count"),
    [
        pytest.param(_an_owner(0), 1, id="its pod has not appeared"),
        pytest.param(_an_owner(0, existing=1), 0, id="its pod has appeared"),
        pytest.param(replace(_an_owner(0), uid="another"), 0, id="it was replaced"),
        pytest.param(None, 0, id="it is gone"),
    ],
)
def test_owners_without_trouble_are_forgotten(owner: Workload | None, count: int) -> None:
    known: dict[str, Workload | None] = {"web-0": _an_owner(0)}
    memory = Withholding(lambda name: known[name.name], Time())
    memory.choose(_a_pod_of(0), ANY, BOOSTED, is_dry_run=False)
    known["web-0"] = owner
    memory.look()

    assert len(memory) == count


def test_a_pod_that_came_and_went_between_two_others_has_appeared() -> None:
    time, existing = Time(), {"web-0": 0}
    memory = Withholding(
        lambda name: replace(_an_owner(0, existing[name.name]), is_failing=None), time
    )
    found = set()
    for _ in range(100):
        found.add(memory.choose(_a_pod_of(0), ANY, BOOSTED, is_dry_run=False))
        for count in (1, 0):
            existing["web-0"] = count
            memory.look()
        time.seconds = time.seconds * 2 + 1

    assert found == {Withheld.NOTHING}


def test_owners_are_looked_at_while_their_pods_are_awaited() -> None:
    async def scene() -> None:
        known = {"web-0": replace(_an_owner(0), is_failing=None)}
        memory = Withholding(lambda name: known[name.name], loop_seconds)
        runs = asyncio.create_task(memory.run())
        found, pause = set(), 1.0
        for _ in range(10):
            found.add(memory.choose(_a_pod_of(0), ANY, BOOSTED, is_dry_run=False))
            # The pod appears, and is deleted long before the next one comes.
            for count in (1, 0):
                known["web-0"] = replace(known["web-0"], existing=count)
                await asyncio.sleep(pause)
            pause *= 2
        runs.cancel()

        assert found == {Withheld.NOTHING}
        assert len(memory) == 0

    run_virtually(scene())
