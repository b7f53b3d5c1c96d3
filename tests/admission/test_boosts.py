"""Startup boosts through the webhook: no boost keeps a pod from being created (D19)."""

import json
from collections.abc import Callable
from dataclasses import replace

import jsonpatch
import pytest
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import amounts
from support.makers.reviews import Json, Webhook, a_pod_object, a_review, patch_of
from support.models.pod_rules import refusals, total

from trimtab.admission.settings import AdmissionSettings
from trimtab.api.admission.new_pods import NewPod
from trimtab.core.model.autoscalers import CpuBoost, UpdateMode
from trimtab.core.model.limit_ranges import LimitRangeItem, LimitRangeType
from trimtab.core.model.pods import UPDATES, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, Side
from trimtab.core.sizing.startup_boost import annotation_name

CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
CPU_LIMIT = QuotaClaim(Side.LIMITS, Resource.CPU)
HALF = {"cpu": "500m", "memory": "64Mi"}


class Time:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Door:
    """The API server as a pod meets it: our webhook, limit ranges and a quota that it counts."""

    def __init__(self, cluster: UpdaterCluster) -> None:
        self.cluster = cluster
        self.time = Time()
        self.webhook = Webhook(cluster, AdmissionSettings(), timer=self.time)
        self.created: list[Pod] = []

    def leave(self, **left: int) -> None:
        """Let a quota have so much left."""
        claims = {"requests": CPU, "limits": CPU_LIMIT}
        found = {claims[name]: amount for name, amount in left.items()}
        self.cluster.known_quotas["default"] = [Quota("default", "team", found)]

    def ask(self, pod: Json | None = None, *, is_dry_run: bool = False) -> Pod:
        """The pod as our webhook leaves it."""
        given = pod or a_boosted_pod()
        response = self.webhook.ask(a_review(given, dryRun=is_dry_run))
        assert response["allowed"] is True
        patch = jsonpatch.JsonPatch.from_string(json.dumps(patch_of(response)))
        changed = patch.apply(given)
        return NewPod(json.dumps(changed).encode(), "default").read()

    def create(self, pod: Json | None = None) -> Pod:
        """The pod as it is stored; it must not be refused."""
        found = self.ask(pod)
        quotas = self.cluster.quotas("default")
        assert refusals(found, self.cluster.limit_ranges("default"), quotas) == []
        self.created.append(found)
        return found

    def count(self, *pods: Pod) -> None:
        """Let the quota count pods that were stored."""
        for quota in self.cluster.quotas("default"):
            left = {
                claim: amount - sum(total(pod, claim.side) or 0 for pod in pods)
                for claim, amount in quota.left.items()
            }
            self.cluster.known_quotas["default"] = [replace(quota, left=left)]


def a_boosted_pod(**resources: Json) -> Json:
    own = resources or {"requests": HALF, "limits": HALF}
    return a_pod_object(containers=[{"name": "app", "resources": own}])


def at_the_door(scene: Callable[[Door], None], replicas: int = 1, existing: int = 0) -> None:
    """Play a scene where new pods of the Deployment `web` start with three times their CPU."""

    async def play() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=0)
        cluster.count_pods(existing, replicas)
        cluster.autoscale(mode=UpdateMode.OFF, boost=CpuBoost(factor=3))
        scene(Door(cluster))

    run_virtually(play())


def millicores(pod: Pod) -> int:
    return (pod.containers[0].spec.requests or {})[Resource.CPU]


@pytest.mark.parametrize("of", [LimitRangeType.CONTAINER, LimitRangeType.POD])
def test_a_limit_range_keeps_no_boosted_pod_from_being_created(of: LimitRangeType) -> None:
    def scene(door: Door) -> None:
        door.cluster.items["default"] = [LimitRangeItem(of, max=amounts(1000))]
        pod = door.create()

        assert millicores(pod) == 1000
        assert "capped to fit the LimitRange" in pod.annotations[UPDATES]

    at_the_door(scene)


def test_a_pod_with_no_limit_but_that_of_its_namespace_is_boosted_below_it() -> None:
    def scene(door: Door) -> None:
        item = LimitRangeItem(LimitRangeType.CONTAINER, max=amounts(1000), default=amounts(1000))
        door.cluster.items["default"] = [item]
        # The API server fills in defaults before it asks us.
        limits = {"cpu": "1", "memory": "64Mi"}
        pod = door.create(a_boosted_pod(requests=HALF, limits=limits))

        assert millicores(pod) == 999

    at_the_door(scene)


def test_a_full_quota_lets_a_pod_start_unboosted_with_a_note() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=500, limits=500)
        pod = door.create()

        assert millicores(pod) == 500
        assert annotation_name("app") not in pod.annotations
        assert pod.annotations[UPDATES] == (
            "Pod resources updated by web: container 0: "
            "cpu startup boost capped to fit the ResourceQuota, "
            "cpu NOT boosted since no room is left"
        )

    at_the_door(scene)


def test_a_boost_takes_what_a_quota_has_left_and_no_more() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=1200)

        assert millicores(door.create()) == 1200

    at_the_door(scene)


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen at once", "seen too late"])
@pytest.mark.parametrize("left", [2000, 2500, 3000, 6000])
def test_pods_that_come_at_once_all_fit_into_a_quota_that_has_room_for_them(
    left: int, *, is_seen: bool
) -> None:
    def scene(door: Door) -> None:
        door.leave(requests=left)
        sizes = []
        for _ in range(4):
            pod = door.ask()
            sizes.append(millicores(pod))
            if is_seen:
                door.count(pod)

        assert min(sizes) >= 500
        assert sum(sizes) <= left

    at_the_door(scene, replicas=4)


def test_the_last_missing_pod_of_a_workload_may_have_all_that_is_left() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=1300)

        assert millicores(door.create()) == 1300

    at_the_door(scene, replicas=4, existing=3)


def test_where_a_status_shows_no_gap_all_other_pods_may_be_missing() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=2000)
        # A user deleted all pods at once, and the owner creates four before its status says so.
        sizes = [millicores(door.ask()) for _ in range(4)]

        assert sizes == [500] * 4

    at_the_door(scene, replicas=4, existing=4)


def test_an_answer_is_not_repeated_once_the_quota_has_less_left() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=1500)
        first = door.create()
        door.time.seconds += 11
        door.leave(requests=700)

        assert (millicores(first), millicores(door.create())) == (1500, 700)

    at_the_door(scene)


def test_what_was_granted_a_moment_ago_is_not_granted_again() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=2500)
        sizes = [millicores(door.ask())]
        # The quota has not counted the first pod yet.
        sizes.append(millicores(door.ask()))
        door.time.seconds += 11
        # That pod was never stored.
        sizes.append(millicores(door.ask()))

        assert sizes == [1500, 1000, 1500]

    at_the_door(scene)


def test_a_pod_that_is_only_tried_takes_nothing_from_a_quota() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=1500)
        tried = door.ask(is_dry_run=True)

        assert millicores(tried) == millicores(door.create()) == 1500

    at_the_door(scene)


def test_pods_of_other_priorities_are_not_taken_for_the_last_one() -> None:
    def scene(door: Door) -> None:
        door.leave(requests=9000)
        plain = door.webhook.ask(a_review(a_boosted_pod()))
        urgent = a_boosted_pod()
        urgent["spec"]["priorityClassName"] = "high"
        deadline = a_boosted_pod()
        deadline["spec"]["activeDeadlineSeconds"] = 60
        likenesses = {
            NewPod(json.dumps(pod).encode(), "default").likeness()
            for pod in (a_boosted_pod(), urgent, deadline)
        }

        assert plain["allowed"] is True
        assert len(likenesses) == 3

    at_the_door(scene)


def test_the_mark_of_a_template_goes_where_no_autoscaler_boosts() -> None:
    def scene(door: Door) -> None:
        copied = a_boosted_pod()
        copied["metadata"]["labels"] = {"app": "other"}
        marks = {annotation_name("app"): '{"requests":{"cpu":"10m"}}', "team": "blue"}
        copied["metadata"]["annotations"] = marks

        pod = door.create(copied)

        assert pod.annotations == {"team": "blue"}
        assert millicores(pod) == 500

    at_the_door(scene)


@pytest.mark.parametrize(
    ("own", "mark"),
    [
        pytest.param("500m", {"requests": {"cpu": "500m"}, "limits": {}}, id="without a limit"),
        pytest.param(
            "500m", {"requests": {"cpu": "200m"}, "limits": {}}, id="that had less and no limit"
        ),
        pytest.param(
            "500m", {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, id="that no pod can have"
        ),
    ],
)
def test_the_mark_of_another_version_of_a_template_keeps_no_pod_from_being_created(
    own: str, mark: Json
) -> None:
    """A template was made from a running pod, and got a CPU limit later."""

    def scene(door: Door) -> None:
        size = {"cpu": own, "memory": "64Mi"}
        pod = a_boosted_pod(requests=size, limits=size)
        updates = "Pod resources updated by web: container 0: cpu request"
        pod["metadata"]["annotations"] = {
            UPDATES: updates,
            annotation_name("app"): json.dumps(mark),
        }

        created = door.create(pod)

        assert millicores(created) == 1500
        original = json.loads(created.annotations[annotation_name("app")])
        assert original["limits"] == {"cpu": own, "memory": "64Mi"}

    at_the_door(scene)
