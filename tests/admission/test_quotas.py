"""Recommendations through the webhook in namespaces with quotas: no pod is kept out (D19)."""

import json
from collections.abc import Callable

import jsonpatch
import pytest
from admission.test_boosts import Time
from support.fakes.clocks import run_virtually
from support.fakes.updater_cluster import UpdaterCluster
from support.makers.records import MIB, a_recommendation, amounts
from support.makers.reviews import Json, Webhook, a_pod_object, a_review, patch_of

from trimtab.admission.settings import AdmissionSettings
from trimtab.api.admission.new_pods import NewPod
from trimtab.core.model.autoscalers import UpdateMode
from trimtab.core.model.pods import UPDATES, Pod
from trimtab.core.model.resources import Resource
from trimtab.core.sizing.quotas import Quota, QuotaClaim, QuotaScope, Side

CPU = QuotaClaim(Side.REQUESTS, Resource.CPU)
MEMORY_LIMIT = QuotaClaim(Side.LIMITS, Resource.MEMORY)
OWN = {"requests": {"cpu": "100m", "memory": "64Mi"}}


class Door:
    """A namespace with a quota of 1500m that counts pods as they are stored."""

    def __init__(self, cluster: UpdaterCluster, hard: int, used: int) -> None:
        self.cluster = cluster
        self.hard, self.used = hard, used
        self.webhook = Webhook(cluster, AdmissionSettings(), timer=Time())
        self._show()

    def _show(self) -> None:
        left, used = {CPU: self.hard - self.used}, {CPU: self.used}
        self.cluster.known_quotas["default"] = [Quota("default", "team", left, used=used)]

    def ask(self, resources: Json) -> Pod:
        """The pod as our webhook leaves it."""
        given = a_pod_object(containers=[{"name": "app", "resources": resources}])
        response = self.webhook.ask(a_review(given))
        assert response["allowed"] is True
        patch = jsonpatch.JsonPatch.from_string(json.dumps(patch_of(response)))
        return NewPod(json.dumps(patch.apply(given)).encode(), "default").read()

    def create(self) -> int:
        """Create a pod as the API server does; return its CPU, or 0 if the quota refuses it."""
        asked = (self.ask(OWN).containers[0].spec.requests or {})[Resource.CPU]
        if self.used + asked > self.hard:
            return 0
        self.used += asked
        self._show()
        return asked


def at_the_door(
    scene: Callable[[Door], None],
    *,
    hard: int = 1500,
    used: int = 0,
    replicas: int = 1,
    existing: int = 0,
) -> None:
    """Play a scene where pods of 100m are recommended to have 500m."""

    async def play() -> None:
        cluster = UpdaterCluster()
        cluster.deploy(replicas=0)
        cluster.count_pods(existing, replicas)
        target = a_recommendation(target=amounts(500, 128 * MIB))
        cluster.autoscale(target, mode=UpdateMode.AUTO)
        scene(Door(cluster, hard, used))

    run_virtually(play())


@pytest.mark.parametrize(
    ("hard", "used", "sizes"),
    [
        pytest.param(2000, 0, [500, 500, 500, 500], id="a quota for all as recommended"),
        pytest.param(2600, 600, [500, 500, 500, 500], id="beside others"),
        pytest.param(1000, 0, [500, 100, 100, 100], id="a quota for one as recommended"),
        pytest.param(1600, 600, [500, 100, 100, 100], id="that others use as well"),
        pytest.param(400, 0, [100, 100, 100, 100], id="a quota for their own size"),
    ],
)
def test_all_pods_that_fit_with_their_own_resources_come_up(
    hard: int, used: int, sizes: list[int]
) -> None:
    def scene(door: Door) -> None:
        found = [door.create() for _ in range(4)]

        assert found == sizes

    at_the_door(scene, hard=hard, used=used, replicas=4)


def test_a_pod_that_replaces_one_of_many_is_sized_as_far_as_the_quota_goes() -> None:
    def scene(door: Door) -> None:
        assert door.create() == 500

    at_the_door(scene, hard=2000, used=1500, replicas=4, existing=4)


def test_pods_that_were_deleted_at_once_all_come_back() -> None:
    def scene(door: Door) -> None:
        # The status of the owner still shows all of them.
        assert [door.create() for _ in range(4)] == [500, 100, 100, 100]

    at_the_door(scene, hard=900, replicas=4, existing=4)


def test_a_quota_that_demands_limits_keeps_no_best_effort_pod_out() -> None:
    def scene(door: Door) -> None:
        scopes = (QuotaScope("NotBestEffort"),)
        quota = Quota("default", "team", {MEMORY_LIMIT: 900 * MIB}, scopes)
        door.cluster.known_quotas["default"] = [quota]
        pod = door.ask({})

        assert not pod.containers[0].spec.requests
        assert pod.annotations[UPDATES] == (
            "Pod resources updated by web: container 0: "
            "cpu NOT updated since a ResourceQuota would refuse the pod, "
            "memory NOT updated since a ResourceQuota would refuse the pod"
        )

    at_the_door(scene)
