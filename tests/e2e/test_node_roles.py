"""Roles on a real node: pods really elect a leader by a Lease, and its size moves with it.

All four components are real processes, and so is the admission controller's webhook. What the
recommender would say after days is written by hand.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.node_stage import LEASE as STATUS_LEASE
from e2e.node_stage import NodeStage, restarts, worker
from support.stages.components import SLOW_SECONDS, Json, an_account
from support.stages.roles import LEADER, LEASE, OTHERS, Cast, name_of, role_keeper
from support.stages.updater import updater

from rig import waiting, workers
from rig.flags import LOOPBACK
from rig.node import container_id

pytestmark = pytest.mark.e2e

START = {"cpu": "150m", "memory": "32Mi"}
BIG, LITTLE = {"cpu": "400m", "memory": "32Mi"}, {"cpu": "100m", "memory": "32Mi"}
BIG_SHARES, LITTLE_SHARES = 409, 102
A_FEW_SECONDS = 30
"""Generous: machines that run tests do much else."""
LEASE_RIGHTS: list[Json] = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "update"],
    }
]


def electing(stage: NodeStage) -> Json:
    """A template of workers that elect one of them."""
    flags = (
        "-cpu=10",
        "-lead-cpu=200",
        f"-elect-by={LEASE}",
        f"-server=https://{LOOPBACK}:{stage.plane.port}",
        "-listen=127.0.0.1:0",
    )
    named = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    template = workers.template([worker(*flags, requests=START, env=[named])])
    # Only so does a pod of this node reach the API server.
    template["spec"]["hostNetwork"] = True
    return template


class Play(Cast):
    """The pods of a StatefulSet of the real node, one of which leads."""

    stage: NodeStage

    def pod(self, name: str) -> Json:
        return next(pod for pod in self.stage.pods(self.name) if name_of(pod) == name)

    def shares(self) -> dict[str, int]:
        """The weight that the kernel gives each pod; pods that are just coming have none."""
        found = {}
        for pod in self.stage.pods(self.name):
            statuses = pod["status"].get("containerStatuses", [])
            if statuses and "running" in statuses[0]["state"]:
                found[name_of(pod)] = self.stage.shares(pod)
        return found

    def wait_until_led_by_one(self) -> str:
        """The leader, as soon as there is one whose cgroup is as large as a leader's alone."""

        def is_led(shares: dict[str, int]) -> bool:
            holder = self.holder()
            if not holder or len(shares) < 3:
                return False
            return shares == {
                name: BIG_SHARES if name == holder else LITTLE_SHARES for name in shares
            }

        waiting.wait_for(self.shares, is_led, patience_seconds=SLOW_SECONDS)
        return self.holder()


@pytest.fixture
def play(node_stage: NodeStage, tmp_path: Path) -> Play:
    an_account(node_stage.plane, node_stage.namespace, LEASE_RIGHTS, tmp_path)
    made = Play(node_stage)
    made.autoscale("leader", LEADER, BIG)
    made.autoscale("others", OTHERS, LITTLE)
    node_stage.start(electing(node_stage), name="db", kind="StatefulSet", replicas=3)
    made.name_lease()
    return made


def test_the_size_of_a_leader_moves_with_the_leadership_and_nothing_restarts(
    play: Play, tmp_path: Path
) -> None:
    stage, kubeconfig = play.stage, play.plane.kubeconfig
    quick = stage.flags(STATUS_LEASE, "--role-dwell=1s")
    with ExitStack() as stack:
        namespace = f"--vpa-object-namespace={stage.namespace}"
        stack.enter_context(role_keeper(kubeconfig, tmp_path, namespace))
        stack.enter_context(updater(kubeconfig, tmp_path, *quick))
        first = play.wait_until_led_by_one()
        survivors = {
            name_of(pod): container_id(pod, "c0")
            for pod in stage.pods("db")
            if name_of(pod) != first
        }
        killed, voted = play.pod(first)["metadata"]["uid"], play.identity()
        play.plane.request("DELETE", f"{play.pods}/{first}?gracePeriodSeconds=0")
        # Its successor has the same name, and may win as well as any other.
        elected = waiting.wait_for(
            play.identity, lambda found: found not in ("", voted), patience_seconds=SLOW_SECONDS
        )
        second = elected.partition("_")[0]
        # From the election on it is a matter of seconds.
        waiting.wait_for(
            lambda: play.shares().get(second),
            BIG_SHARES.__eq__,
            patience_seconds=A_FEW_SECONDS,
        )
        led_by = play.wait_until_led_by_one()
        pods = stage.pods("db")
        used = stage.on.read_cgroup(play.pod(led_by), "cpu.shares", "c0")

    now = {name_of(pod): container_id(pod, "c0") for pod in pods}
    assert led_by == second
    assert play.leaders() == [second]
    assert killed not in {pod["metadata"]["uid"] for pod in pods}
    assert restarts(pods) == 0
    assert survivors.items() <= now.items()
    assert int(used) == BIG_SHARES
