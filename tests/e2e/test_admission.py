"""The admission controller as a cluster runs it: every pod passes it, asked by a real API server.

Rows A1 to A30 are the scenarios of the original's own suite; A30 is as the founding documents have
it (a boost is applied whatever the container's mode), and A26 stands where certificates are tested.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.stages.admission import (
    MERGE_PATCH,
    OBSERVED,
    Stage,
    Webhook,
    admission_controller,
)
from support.stages.components import ROOT, children, install

from rig import programs, waiting
from rig.controlplane import ControlPlane

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
Amounts = str | None
"""CPU and memory as `250m/200Mi`; None for no map at all."""

APPLIED = 'vpa_admission_controller_admission_pods_total{applied="true"}'
REFUSED = "vpa_admission_controller_refused_autoscalers_total"


@pytest.fixture(scope="module")
def webhook(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    install(cluster)
    folder = tmp_path_factory.mktemp("admission")
    with (
        admission_controller(cluster.kubeconfig, folder) as it,
        it.registered(cluster, "vpa-webhook-config"),
    ):
        yield it


@pytest.fixture
def stage(webhook: Webhook, cluster: ControlPlane, namespace: str) -> Stage:
    assert webhook.port
    return Stage(cluster, namespace)


def amounts(text: Amounts) -> Json:
    if text is None:
        return {}
    cpu, _, memory = text.partition("/")
    return {"cpu": cpu, "memory": memory} if memory else {"cpu": cpu}


@dataclass(frozen=True, slots=True)
class Ctr:
    """A container before and after."""

    asks: Amounts
    gets: Amounts
    limit: Amounts = None
    gets_limit: Amounts = None
    target: Amounts = None
    """What is recommended for it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario."""

    containers: tuple[Ctr, ...]
    spec: Json = field(default_factory=dict)
    more_targets: dict[str, str] = field(default_factory=dict)
    """What is recommended for containers that do not exist."""
    bounds: Json | None = None
    """The namespace's limit range."""


def one(
    asks: Amounts,
    target: Amounts,
    gets: Amounts,
    limits: tuple[Amounts, Amounts] = (None, None),
    **row: Any,
) -> Row:
    return Row((Ctr(asks, gets, limits[0], limits[1], target),), **row)


def bounds(kind: str, **items: str) -> Json:
    return {"type": kind, **{name: amounts(text) for name, text in items.items()}}


def policy(**fields: Any) -> Json:
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "*", **fields}]}}


def boost(**cpu: Any) -> Json:
    return {"startupBoost": {"cpu": cpu}}


def mode(name: str) -> Json:
    return {"updatePolicy": {"updateMode": name}}


USUAL, TARGET = "100m/100Mi", "250m/200Mi"
TWICE = {"type": "Factor", "factor": 2}

ROWS = [
    pytest.param(one(USUAL, TARGET, TARGET, spec=mode("InPlaceOrRecreate")), id="A1"),
    pytest.param(one(USUAL, TARGET, TARGET), id="A2"),
    pytest.param(one(USUAL, TARGET, TARGET, more_targets={"absent": "500m/500Mi"}), id="A3"),
    pytest.param(one(USUAL, None, USUAL, more_targets={"absent": "250m/200Mi"}), id="A4"),
    pytest.param(Row((Ctr(USUAL, TARGET, target=TARGET), Ctr(USUAL, USUAL))), id="A5"),
    pytest.param(
        one(
            USUAL,
            "500m/500Mi",
            USUAL,
            (None, "300m/1Gi"),
            more_targets={"absent": "500m/500Mi"},
            bounds=bounds("Container", max="300m/1Gi"),
        ),
        id="A6",
    ),
    pytest.param(
        one(USUAL, TARGET, USUAL, (None, "300m/1Gi"), bounds=bounds("Container", max="300m/1Gi")),
        id="A7",
    ),
    pytest.param(
        Row(
            (
                Ctr(USUAL, "200m/512Mi", USUAL, "200m/512Mi", "400m/600Mi"),
                Ctr("400m/600Mi", "200m/512Mi", "400m/600Mi", "200m/512Mi"),
            ),
            bounds=bounds("Pod", max="400m/1Gi"),
        ),
        id="A8",
    ),
    pytest.param(one(None, TARGET, TARGET, (USUAL, TARGET)), id="A10"),
    pytest.param(one(USUAL, TARGET, TARGET, ("150m/200Mi", "375m/400Mi")), id="A11"),
    pytest.param(
        one(
            USUAL,
            TARGET,
            TARGET,
            ("500m/500Mi", "500m/500Mi"),
            spec=policy(controlledValues="RequestsOnly"),
        ),
        id="A12",
    ),
    pytest.param(
        one(
            USUAL,
            TARGET,
            "200m/200Mi",
            ("150m/200Mi", "300m/400Mi"),
            bounds=bounds("Container", max="300m/1Gi"),
        ),
        id="A13",
    ),
    pytest.param(
        one(
            "100m/200Mi",
            "250m/100Mi",
            "250m/250Mi",
            ("150m/400Mi", "375m/500Mi"),
            bounds=bounds("Container", min="50m/250Mi"),
        ),
        id="A14",
    ),
    pytest.param(
        Row(
            (Ctr(USUAL, "200m/200Mi", "150m/200Mi", "300m/400Mi", TARGET),) * 2,
            bounds=bounds("Pod", max="600m/1Gi"),
        ),
        id="A15",
    ),
    pytest.param(
        Row(
            (
                Ctr("1m/100Mi", "6m/100Mi", "1m/100Mi", "6m/100Mi", "4m/100Mi"),
                Ctr("1m/100Mi", "28m/100Mi", "1m/100Mi", "28m/100Mi", "21m/100Mi"),
                Ctr("1m/100Mi", "118m/100Mi", "1m/100Mi", "118m/100Mi", "90m/100Mi"),
            ),
            bounds=bounds("Pod", min="150m"),
        ),
        id="A16",
    ),
    pytest.param(
        Row(
            (
                Ctr("1m/100Mi", "2m/100Mi", "1m/100Mi", "2m/100Mi", "4m/100Mi"),
                Ctr("1m/100Mi", "14m/100Mi", "1m/100Mi", "14m/100Mi", "21m/100Mi"),
                Ctr("1m/100Mi", "62m/100Mi", "1m/100Mi", "62m/100Mi", "90m/100Mi"),
            ),
            bounds=bounds("Pod", max="80m"),
        ),
        id="A17",
    ),
    pytest.param(
        Row(
            (Ctr("100m/200Mi", "120m/250Mi", "150m/400Mi", "180m/500Mi", "120m/100Mi"),) * 2,
            bounds=bounds("Pod", min="100m/500Mi"),
        ),
        id="A18",
    ),
    pytest.param(
        one(USUAL, TARGET, "233m/150Mi", spec=policy(maxAllowed=amounts("233m/150Mi"))), id="A19"
    ),
    pytest.param(
        one(USUAL, "50m/60Mi", "90m/80Mi", spec=policy(minAllowed=amounts("90m/80Mi"))), id="A20"
    ),
    pytest.param(one(USUAL, None, USUAL), id="A21"),
    pytest.param(one(None, None, None), id="A22"),
    pytest.param(one(USUAL, "100m/100Mi", "200m/100Mi", spec=boost(**TWICE)), id="A27"),
    pytest.param(
        one(USUAL, "100m/100Mi", "600m/100Mi", spec=boost(type="Quantity", quantity="500m")),
        id="A28",
    ),
    pytest.param(
        one(USUAL, "100m/100Mi", "200m/100Mi", spec={**mode("Off"), **boost(**TWICE)}), id="A29"
    ),
    pytest.param(
        one(
            USUAL,
            "100m/100Mi",
            "200m/100Mi",
            spec={**policy(mode="Off", controlledValues="RequestsOnly"), **boost(**TWICE)},
        ),
        id="A30",
    ),
]


@pytest.mark.parametrize("row", ROWS)
def test_a_new_pod_gets_what_the_scenarios_of_the_original_say(stage: Stage, row: Row) -> None:
    if row.bounds is not None:
        stage.limit(row.bounds)
    stage.autoscale(row.spec)
    targets = {
        _name(index): amounts(each.target)
        for index, each in enumerate(row.containers)
        if each.target
    }
    more = {name: amounts(text) for name, text in row.more_targets.items()}
    if targets or more:
        stage.recommend({**targets, **more})
    stage.deploy({"containers": [_container(index, it) for index, it in enumerate(row.containers)]})
    pod = stage.observed_pod()

    found = [each.get("resources", {}) for each in pod["spec"]["containers"]]
    assert [each.get("requests", {}) for each in found] == [
        amounts(each.gets) for each in row.containers
    ]
    assert [each.get("limits", {}) for each in found] == [
        amounts(each.gets_limit) for each in row.containers
    ]


def _name(index: int) -> str:
    return f"hamster{index + 1}" if index else "hamster"


def _container(index: int, it: Ctr) -> Json:
    given = {"requests": amounts(it.asks), "limits": amounts(it.limit)}
    resources = {name: found for name, found in given.items() if found}
    return {"name": _name(index), "image": "none", "resources": resources}


def test_a_pod_can_be_annotated_after_its_recommendation_has_changed(stage: Stage) -> None:
    """Row A9."""
    stage.autoscale({})
    stage.recommend({"hamster": amounts(TARGET)})
    stage.deploy({"containers": [_container(0, Ctr(USUAL, TARGET))]})
    pod = stage.observed_pod()
    stage.recommend({"hamster": amounts("100m/100Mi")})
    patch = json.dumps({"metadata": {"annotations": {"someone": "else"}}}).encode()
    path = f"{stage.pods}/{pod['metadata']['name']}"
    status, body = stage.plane.request("PATCH", path, patch, MERGE_PATCH)

    assert status == 200, body
    assert json.loads(body)["spec"]["containers"] == pod["spec"]["containers"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(policy(minAllowed={"requests": {"cpu": "50m"}}), "minAllowed", id="A24"),
        pytest.param(policy(oomBumpUpRatio="not-a-number"), "oomBumpUpRatio", id="A25"),
        pytest.param(
            {
                "updatePolicy": {
                    "updateMode": "Recreate",
                    "evictionRequirements": [
                        {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"},
                        {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"},
                    ],
                }
            },
            "evictionRequirements",
            id="requirements that contradict each other",
        ),
        pytest.param(
            {"updatePolicy": {"updateMode": False}},
            'in YAML write "Off" in quotes',
            id="an Off without quotes",
        ),
        pytest.param(
            boost(type="Quantity", quantity="500Mi"),
            "is an amount of memory",
            id="a boost by memory",
        ),
        pytest.param(
            {
                "updatePolicy": {
                    "updateMode": "UpscaleOnly",
                    "evictionRequirements": [
                        {"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}
                    ],
                }
            },
            "is never met under UpscaleOnly",
            id="a requirement that is never met",
        ),
    ],
)
def test_an_autoscaler_that_makes_no_sense_is_denied(stage: Stage, spec: Json, words: str) -> None:
    status, answer = stage.try_autoscale(spec)

    assert status == 422
    assert words in answer["message"]
    assert 'admission webhook "vpa.k8s.io" denied the request' in answer["message"]


def test_a_valid_autoscaler_is_accepted_and_gets_the_default_update_policy(stage: Stage) -> None:
    """Row A23."""
    stored = stage.autoscale(policy(minAllowed={"cpu": "50m"}))

    assert stored["spec"]["updatePolicy"] == {"updateMode": "Recreate"}


def test_of_two_autoscalers_that_are_created_at_once_for_one_target_one_is_denied(
    stage: Stage,
) -> None:
    names = ["first", "second", "third", "fourth"]
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda name: stage.try_autoscale({}, name=name), names))
    denied = [answer for status, answer in answers if status != 201]

    assert sorted(status for status, _ in answers) == [201, 422, 422, 422]
    assert all("spec.selector" in answer["message"] for answer in denied)


def test_autoscalers_of_one_target_may_share_its_pods_by_a_label(stage: Stage) -> None:
    leader = {"selector": {"matchLabels": {"role": "leader"}}, **mode("InPlace")}
    follower = {"selector": {"matchLabels": {"role": "follower"}}, **mode("InPlace")}
    elsewhere = {"selector": {"matchLabels": {"zone": "a"}}, **mode("InPlace")}
    answers = [
        stage.try_autoscale(spec, name=name)
        for name, spec in (("leader", leader), ("follower", follower), ("zone", elsewhere))
    ]
    message = answers[-1][1]["message"]

    assert [status for status, _ in answers] == [201, 201, 422]
    assert '"leader" (selector role=leader) has the same target' in message
    assert '{key: role, operator: NotIn, values: ["leader"]}' in message


def test_a_native_sidecar_is_sized_where_it_stands(stage: Stage) -> None:
    stage.autoscale({})
    stage.recommend({"hamster": amounts(TARGET), "helper": amounts("50m/60Mi")})
    helper = {"name": "helper", "image": "none", "restartPolicy": "Always"}
    setup = {"name": "setup", "image": "none"}
    stage.deploy(
        {"initContainers": [setup, helper], "containers": [_container(0, Ctr(USUAL, TARGET))]}
    )
    spec = stage.observed_pod()["spec"]

    assert spec["containers"][0]["resources"]["requests"] == amounts(TARGET)
    assert spec["initContainers"][1]["resources"]["requests"] == amounts("50m/60Mi")
    assert spec["initContainers"][0]["resources"] == {}


@pytest.mark.parametrize(
    ("own", "gets"),
    [
        pytest.param("300m/300Mi", TARGET, id="with room for it"),
        pytest.param("200m/300Mi", USUAL, id="with too little room"),
    ],
)
def test_a_pod_with_resources_of_its_own_is_never_made_invalid(
    stage: Stage, own: str, gets: str
) -> None:
    stage.autoscale({})
    stage.recommend({"hamster": amounts(TARGET)})
    stage.deploy(
        {
            "resources": {"requests": amounts(own)},
            "containers": [_container(0, Ctr(USUAL, gets))],
        }
    )
    spec = stage.observed_pod()["spec"]

    assert spec["containers"][0]["resources"]["requests"] == amounts(gets)
    assert spec["resources"]["requests"] == amounts(own)


def test_a_pod_says_that_it_has_no_boost_since_the_end_would_restart_it(stage: Stage) -> None:
    stage.autoscale(boost(**TWICE))
    container = {
        **_container(0, Ctr("100m/100Mi", None)),
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    }
    stage.deploy({"containers": [container]})
    pod = stage.observed_pod()

    notes = pod["metadata"]["annotations"]
    assert "startup boost left out since its end would restart" in notes["vpaUpdates"]
    assert not [name for name in notes if name.startswith("vpaCpuStartupBoost/")]


def test_pods_are_still_created_when_the_webhook_is_gone(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    install(cluster)
    stage = Stage(cluster, namespace)
    with (
        admission_controller(cluster.kubeconfig, tmp_path) as doomed,
        doomed.registered(cluster, f"doomed-{namespace}"),
    ):
        doomed.run.kill()
        stage.deploy({"containers": [_container(0, Ctr(USUAL, USUAL))]})
        pods = cluster.wait_for(stage.pods, lambda found: found["items"])

    assert len(pods["items"]) == 1


def test_the_webhook_ends_when_it_is_told_to(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    assert namespace
    install(cluster)
    with admission_controller(cluster.kubeconfig, tmp_path) as it:
        assert it.run.end() == 0


def test_several_processes_answer_on_one_port_and_end_together(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    install(cluster)
    stage = Stage(cluster, namespace)
    with (
        admission_controller(cluster.kubeconfig, tmp_path, "--workers=3") as it,
        it.registered(cluster, f"many-{namespace}"),
    ):
        workers = children(it.run.pid)
        stage.autoscale({})
        stage.recommend({"hamster": amounts(TARGET)})
        stage.deploy({"containers": [_container(0, Ctr(USUAL, TARGET))]}, replicas=20)
        stage.observed_pod()
        waiting.wait_for(lambda: it.run.metric(APPLIED), lambda count: count >= 20)
        code = it.run.end()

    assert len(workers) == 2
    assert code == 0
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_the_end_of_one_process_is_the_end_of_all(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    assert namespace
    install(cluster)
    with admission_controller(cluster.kubeconfig, tmp_path, "--workers=3") as it:
        first, second = children(it.run.pid)
        os.kill(first, signal.SIGKILL)
        code = it.run.process.popen.wait(30)
        waiting.wait_for(lambda: Path(f"/proc/{second}").exists(), lambda is_there: not is_there)

    assert code == 1


# Those of workloads whose pods differ are tried where these are tested (test_roles.py).
EXAMPLES = sorted(
    path
    for path in (ROOT / "examples").rglob("*.yaml")
    if path.stem != "deployment" and path.parent.name != "heterogeneous"
)
# What the containers `app` and `other` get, given 200m/200Mi for each.
OUTCOMES = {
    "boost-all-but-one": ["400m/200Mi", "200m/200Mi"],
    "boost-and-updates": ["600m/200Mi", "600m/200Mi"],
    "boost-beyond-the-maximum": ["4250m/200Mi", "200m/200Mi"],
    "boost-one-container": ["2100m/100Mi", "200m/200Mi"],
    "boost-only": ["300m/100Mi", "300m/100Mi"],
    "grow-memory-only": ["200m/200Mi", "200m/200Mi"],
    "grow-only": ["200m/200Mi", "200m/200Mi"],
    "leader-and-followers": ["200m/200Mi", "200m/200Mi"],
    "updates-only": ["200m/200Mi", "200m/200Mi"],
}
# Those in which a founding document says Auto.
DEPRECATED = {"boost-and-updates", "updates-only"}


def test_every_example_has_an_outcome() -> None:
    assert {path.stem for path in EXAMPLES} == OUTCOMES.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_applied_with_kubectl_does_what_it_says(stage: Stage, path: Path) -> None:
    kubectl = [str(programs.find("kubectl")), f"--kubeconfig={stage.plane.kubeconfig}"]
    words = [*kubectl, f"--namespace={stage.namespace}", "apply", "-f"]
    applied = subprocess.run([*words, path], capture_output=True, text=True, check=False)
    target = amounts("200m/200Mi")
    stage.recommend({"app": target, "other": target}, name="example")
    subprocess.run([*words, ROOT / "examples/deployment.yaml"], check=True, capture_output=True)
    pod = stage.observed_pod()

    assert applied.returncode == 0, applied.stderr
    found = [each["resources"]["requests"] for each in pod["spec"]["containers"]]
    assert found == [amounts(text) for text in OUTCOMES[path.stem]]
    assert pod["metadata"]["annotations"][OBSERVED] == "app, other"
    assert ("Warning:" in applied.stderr) is (path.stem in DEPRECATED)


def test_metrics_tell_what_was_done(webhook: Webhook, stage: Stage) -> None:
    refused, applied = webhook.run.metric(REFUSED), webhook.run.metric(APPLIED)
    stage.try_autoscale(mode("Sometimes"), name="nonsense")
    stage.autoscale({})
    stage.deploy({"containers": [_container(0, Ctr(USUAL, USUAL))]})
    stage.observed_pod()

    assert webhook.run.metric(REFUSED) == refused + 1
    assert webhook.run.metric(APPLIED) > applied
    assert webhook.run.ask("/readyz") == (200, "OK")
    assert webhook.run.ask("/health-check") == (200, "OK")
