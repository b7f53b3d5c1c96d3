"""The role keeper as a cluster runs it: leases are written by hand, labels follow them."""

import json
import subprocess
from pathlib import Path

import pytest
from support.stages.components import (
    ROOT,
    SLOW_SECONDS,
    Json,
    Lacking,
    Run,
    an_account,
    install,
    rights_of,
)
from support.stages.roles import (
    BIG,
    LABEL,
    LEADER,
    LITTLE,
    OTHERS,
    Cast,
    name_of,
    role_keeper,
)
from support.stages.updater import Stage, updater

from rig import programs, waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

RIGHTS = rights_of("roles")
CHANGES = ("Give", "Take")


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> ControlPlane:
    install(cluster)
    return cluster


@pytest.fixture
def cast(installed: ControlPlane, namespace: str) -> Cast:
    made = Cast(Stage(installed, namespace))
    made.start()
    made.name_lease()
    return made


def flags(cast: Cast, *more: str) -> list[str]:
    namespace = cast.stage.namespace
    return [
        f"--vpa-object-namespace={namespace}",
        f"--leader-elect-resource-namespace={namespace}",
        *more,
    ]


def standing(run: Run) -> str:
    _, body = run.ask("/roles")
    shown = json.loads(body or '{"workloads": []}')["workloads"]
    return shown[0]["standing"] if shown else ""


def wait_for_standing(run: Run, expected: str) -> None:
    waiting.wait_for(lambda: standing(run), expected.__eq__, patience_seconds=SLOW_SECONDS)


def test_the_label_follows_the_lease_and_nobody_has_it_when_that_has_expired(
    cast: Cast, tmp_path: Path
) -> None:
    cast.hold("db-1_1234")
    with role_keeper(cast.plane.kubeconfig, tmp_path, *flags(cast)) as run:
        cast.wait_for_leaders("db-1")
        cast.hold("db-2")
        cast.wait_for_leaders("db-2")
        cast.hold("somebody-else")
        cast.wait_for_leaders()
        wait_for_standing(run, "UnknownHolder")
        cast.hold("db-0", seconds=2)
        cast.wait_for_leaders("db-0")
        cast.wait_for_leaders()
        wait_for_standing(run, "Expired")
        cast.hold("")
        wait_for_standing(run, "Released")
        changes = [run.metric(f'vpa_roles_changes_total{{change="{each}"}}') for each in CHANGES]

    assert changes == [3, 3]


def test_a_lease_can_be_named_by_a_flag_and_so_can_the_label(cast: Cast, tmp_path: Path) -> None:
    cast.name_lease(None)
    cast.hold("db-1")
    named = f"--role-leases={cast.stage.namespace}/StatefulSet/db=db-leader"
    own = ("--role-label=example.com/part", "--role-name=primary")
    with role_keeper(cast.plane.kubeconfig, tmp_path, *flags(cast, named, *own)):
        pod = cast.plane.wait_for(
            f"{cast.pods}/db-1", lambda pod: "example.com/part" in pod["metadata"]["labels"]
        )

    assert pod["metadata"]["labels"]["example.com/part"] == "primary"
    assert LABEL not in pod["metadata"]["labels"]


def test_a_pause_shows_what_would_be_done_and_does_nothing(cast: Cast, tmp_path: Path) -> None:
    cast.hold("db-1")
    with role_keeper(cast.plane.kubeconfig, tmp_path, *flags(cast, "--pause")) as run:
        wait_for_standing(run, "Held")
        shown = json.loads(run.ask("/roles")[1])

    assert shown["isPaused"]
    assert shown["workloads"][0]["gives"] == "db-1"
    assert cast.leaders() == []


def test_of_two_processes_one_acts_and_the_other_takes_over_when_it_ends(
    cast: Cast, tmp_path: Path
) -> None:
    kubeconfig, quick = cast.plane.kubeconfig, flags(cast, "--leader-elect")
    with (
        role_keeper(kubeconfig, tmp_path, *quick, name="first") as first,
        role_keeper(kubeconfig, tmp_path, *quick, name="second") as second,
    ):
        runs = [first, second]
        waiting.wait_for(lambda: [run.leads() for run in runs], any, patience_seconds=SLOW_SECONDS)
        acting, idle = sorted(runs, key=Run.leads, reverse=True)
        cast.hold("db-0")
        cast.wait_for_leaders("db-0")
        were_leading = acting.leads(), idle.leads()
        code = acting.end()
        cast.hold("db-1")
        cast.wait_for_leaders("db-1")

    assert were_leading == (True, False)
    assert code == 0


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param(
            Lacking("", "pods", "patch", "missing right: patch pods in {}"), id="to write labels"
        ),
        pytest.param(
            Lacking(
                "coordination.k8s.io",
                "leases",
                "list",
                "missing right: list leases.coordination.k8s.io in {}",
            ),
            id="to see leases",
        ),
    ],
)
def test_a_right_that_is_missing_is_named_by_readiness(
    cast: Cast, tmp_path: Path, lacking: Lacking
) -> None:
    cast.hold("db-1")
    rights = lacking.taken_from(RIGHTS)
    kubeconfig = an_account(cast.plane, cast.stage.namespace, rights, tmp_path)
    with role_keeper(kubeconfig, tmp_path, *flags(cast)) as run:
        status, told = run.wait_until("/readyz", lambda answer: "missing right" in answer[1])

    assert status == 500
    assert lacking.told.format(cast.stage.namespace) in told.splitlines()


def test_a_fail_over_moves_the_leader_s_size_in_place(cast: Cast, tmp_path: Path) -> None:
    stage, kubeconfig = cast.stage, cast.plane.kubeconfig
    stage.promise_admission()
    cast.autoscale("leader", LEADER, BIG)
    cast.autoscale("others", OTHERS, LITTLE)
    before = stage.uids("db")
    cast.hold("db-0")
    dwell = stage.flags("--role-dwell=2s")
    with role_keeper(kubeconfig, tmp_path, *flags(cast)), updater(kubeconfig, tmp_path, *dwell):
        cast.wait_for_sizes("500m", "100m", "100m")
        cast.hold("db-2")
        cast.wait_for_sizes("100m", "100m", "500m")

    assert stage.uids("db") == before
    assert cast.leaders() == ["db-2"]


def test_roles_of_a_deployment_are_those_of_all_its_replica_sets(
    installed: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    cast = Cast(Stage(installed, namespace), "web", "Deployment")
    cast.start(2)
    cast.name_lease()
    first, *_ = map(name_of, cast.stage.pods())
    with role_keeper(installed.kubeconfig, tmp_path, *flags(cast)) as run:
        cast.hold(first)
        cast.wait_for_leaders(first)
        template = {"metadata": {"annotations": {"version": "2"}}}
        cast.patch(cast.workload, {"spec": {"template": template}})
        renewed = cast.stage.wait_for_pods(
            lambda pods: len(pods) == 2 and first not in map(name_of, pods)
        )
        successor = name_of(renewed[0])
        cast.hold(successor)
        cast.wait_for_leaders(successor)
        shown = json.loads(run.ask("/roles")[1])["workloads"]

    assert [each["kind"] for each in shown] == ["Deployment"]


def test_the_example_applied_with_kubectl_has_a_leader_of_its_own_size(
    installed: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    cast = Cast(Stage(installed, namespace), "database")
    kubectl = [str(programs.find("kubectl")), f"--kubeconfig={installed.kubeconfig}"]
    words = [*kubectl, f"--namespace={namespace}", "apply", "-f"]
    subprocess.run([*words, ROOT / "examples/heterogeneous"], check=True, capture_output=True)
    cast.stage.wait_until_running(3, "database")
    cast.stage.promise_admission()
    for role, target in (("leader", BIG), ("followers", LITTLE)):
        bounds: Json = {"target": target, "lowerBound": target, "upperBound": target}
        said = {"containerName": "database", **bounds}
        status = {"recommendation": {"containerRecommendations": [said]}}
        cast.patch(f"{cast.autoscalers}/database-{role}/status", {"status": status})
    cast.hold("database-2", lease="database-leader")
    quick = cast.stage.flags("--role-dwell=1s")
    with (
        role_keeper(installed.kubeconfig, tmp_path, *flags(cast)),
        updater(installed.kubeconfig, tmp_path, *quick),
    ):
        cast.wait_for_sizes("100m", "100m", "500m")

    assert cast.leaders() == ["database-2"]
