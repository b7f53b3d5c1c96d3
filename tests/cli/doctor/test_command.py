"""`trimtab doctor` beside a small cluster: everything well, then one thing after the other not."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from support.makers.certificates import an_authority
from support.readers.terminal import in_terminal
from support.servers.prometheus import FakePrometheus
from support.servers.prometheus import serving as serving_prometheus
from support.servers.read_only_cluster import Beside, Done, served
from support.servers.writable_cluster import WritableCluster

from trimtab.api.crds import definitions
from trimtab.api.kinds.webhook_configurations import encode_registration
from trimtab.cli.doctor.command import to_table
from trimtab.cli.main import main
from trimtab.core.diagnosis.findings import Diagnosis, Finding, Severity
from trimtab.core.diagnosis.registry import CHECKS
from trimtab.core.webhook.registration import (
    RegistrationSettings,
    ServiceAddress,
    plan_registration,
)

TRIMTAB = Path(sys.executable).parent / "trimtab"
DEFINITIONS = "customresourcedefinitions"
MUTATORS = "mutatingwebhookconfigurations"
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
ADVICE = {
    "containerRecommendations": [
        {"containerName": "app", "target": {"cpu": "100m", "memory": "100Mi"}}
    ]
}
NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Run = Callable[..., Awaitable[Done]]


def found_by(done: Done) -> dict[str, Any]:
    """What was found, by the name of the check."""
    return {one["name"]: one for one in json.loads(done.out)["checks"]}


@pytest.fixture
def run(beside: Beside) -> Run:
    return partial(_run, beside)


async def _run(beside: Beside, cluster: WritableCluster, *words: str) -> Done:
    return await beside(cluster, "doctor", "--timeout", "5s", *words)


def an_autoscaler(name: str = "web", target: str = "web", **status: object) -> Any:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "creationTimestamp": "2026-08-01T00:00:00Z",
        },
        "spec": {"targetRef": reference},
        "status": {"recommendation": ADVICE, **status},
    }


def a_component(name: str, image: str = "trimtab") -> Any:
    container = {"image": image, "command": ["trimtab"], "args": [name]}
    pods = {"containers": [container], "serviceAccountName": f"trimtab-{name}"}
    return {
        "metadata": {"name": f"trimtab-{name}", "namespace": "kube-system", "uid": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"spec": pods},
        },
        "status": {"readyReplicas": 1},
    }


def a_lease(name: str, holder: str) -> Any:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "renewTime": NOW}
    return {"metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


@pytest.fixture
def cluster() -> WritableCluster:
    """All is well, as far as a small cluster can tell."""
    made = WritableCluster()
    more = ("leases", "resourcequotas", "horizontalpodautoscalers", "endpointslices")
    made.objects |= {name: [] for name in (*more, DEFINITIONS, MUTATORS)}
    made.deploy("web", resources={"requests": {"cpu": "100m", "memory": "100Mi"}})
    made.use("100m", "100Mi")
    made.extra = {
        "/version": {"gitVersion": "v1.36.0"},
        "/api/v1": {"resources": [{"name": "pods/resize"}]},
    }
    for definition in definitions.definitions():
        made.add_object(DEFINITIONS, {**definition, "status": ESTABLISHED})
    made.add_object("verticalpodautoscalers", an_autoscaler())
    for name in ("recommender", "updater", "admission-controller"):
        made.add_object("deployments", a_component(name))
    made.add_object("leases", a_lease("vpa-admission-controller", "admission-1"))
    made.add_object("leases", a_lease("vpa-updater", "updater-1_x_trimtab"))
    return made


_WEBHOOK = ("webhook", "certificate", "other-webhooks")
"""A cluster on paper has nobody who could be asked about pods."""
_SOUND = [check.name for check in CHECKS if check.name not in (*_WEBHOOK, "history")]


async def test_where_all_is_well_every_check_says_so(run: Run, cluster: WritableCluster) -> None:
    done = await run(cluster, "-o", "json", "--check", *_SOUND)

    assert {name: one["severity"] for name, one in found_by(done).items()} == dict.fromkeys(
        _SOUND, "ok"
    )
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["summary"] == {"ok": len(_SOUND)}


async def test_a_namespace_that_does_not_exist_is_not_well(
    run: Run, cluster: WritableCluster
) -> None:
    done = await run(cluster, "-n", "typo", "--check", "targets")

    hint = "-A looks into all namespaces"
    assert done == Done(1, "", f"trimtab: there is no namespace typo; {hint}\n")
    assert (await run(cluster, "-n", "typo", "-A", "--check", "targets")).code == 0


@pytest.mark.parametrize(
    ("kind", "spec", "remedy"),
    [
        pytest.param(
            "verticalpodautoscalers",
            {"updatePolicy": {"minReplicas": "two"}},
            "kubectl -n shop get vpa bad -o yaml | trimtab validate -",
            id="an autoscaler",
        ),
        pytest.param(
            "pods", {"containers": "none"}, "kubectl -n shop get pod bad -o yaml", id="a pod"
        ),
    ],
)
async def test_what_cannot_be_read_comes_with_the_command_that_shows_it(
    run: Run, cluster: WritableCluster, kind: str, spec: dict[str, object], remedy: str
) -> None:
    metadata = {"name": "bad", "namespace": "shop"}
    cluster.add_object(kind, {"metadata": metadata, "spec": spec})
    done = await run(cluster, "--check", "targets", "-o", "json")
    (finding,) = found_by(done)["targets"]["findings"]

    assert done.code == 3
    assert (finding["subject"], finding["remedy"]) == ("shop/bad", remedy)
    assert "cannot be read, so nothing is done for it: spec." in finding["text"]


def forget_field(cluster: WritableCluster) -> None:
    definition = cluster.objects[DEFINITIONS][1]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["selector"]


def scale_horizontally(
    cluster: WritableCluster, kind: str = "Deployment", name: str = "web"
) -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu"}}
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    cluster.add_object(
        "horizontalpodautoscalers",
        {
            "metadata": {"name": "wide", "namespace": "shop"},
            "spec": {"scaleTargetRef": target, "metrics": [metric]},
        },
    )


def limit(cluster: WritableCluster) -> None:
    item = {"type": "Container", "max": {"cpu": "50m"}}
    cluster.add_object(
        "limitranges",
        {"metadata": {"name": "small", "namespace": "shop"}, "spec": {"limits": [item]}},
    )


def unmeasure(cluster: WritableCluster) -> None:
    for pod in cluster.objects["pods"]:
        statuses = [{"name": "app", "state": {"running": {}}}]
        pod["status"]["containerStatuses"] = statuses
    cluster.usage.clear()


@pytest.mark.parametrize(
    ("check", "severity", "text", "breaks"),
    [
        pytest.param(
            "crds",
            "problem",
            "spec.selector",
            forget_field,
            id="a field of a definition is gone",
        ),
        pytest.param(
            "crds",
            "problem",
            "is missing",
            lambda cluster: cluster.objects[DEFINITIONS].pop(),
            id="a definition is gone",
        ),
        pytest.param(
            "server",
            "note",
            "cannot resize",
            lambda cluster: cluster.extra.update({"/api/v1": {"resources": []}}),
            id="a server that cannot resize",
        ),
        pytest.param(
            "conflicts",
            "warning",
            "shop/web",
            lambda cluster: cluster.add_object("verticalpodautoscalers", an_autoscaler("younger")),
            id="two autoscalers of one workload",
        ),
        pytest.param(
            "targets",
            "problem",
            "Deployment/gone is not there",
            lambda cluster: cluster.add_object(
                "verticalpodautoscalers", an_autoscaler("lost", "gone")
            ),
            id="a target that is not there",
        ),
        pytest.param("hpa", "warning", "wide", scale_horizontally, id="a horizontal autoscaler"),
        pytest.param(
            "hpa",
            "warning",
            "scales ReplicaSet web-1",
            lambda cluster: scale_horizontally(cluster, "ReplicaSet", "web-1"),
            id="a horizontal autoscaler of what the target owns",
        ),
        pytest.param("limits", "warning", "allows 50m", limit, id="a limit range"),
        pytest.param(
            "recommendations",
            "problem",
            "no recommender",
            lambda cluster: cluster.add_object(
                "verticalpodautoscalers", an_autoscaler("mute", recommendation=None)
            ),
            id="no recommendation",
        ),
        pytest.param(
            "metrics",
            "problem",
            "does not answer",
            lambda cluster: cluster.missing.add("metrics"),
            id="no metrics API",
        ),
        pytest.param("metrics", "problem", "2 of 2 running pods", unmeasure, id="no readings"),
        pytest.param(
            "leases",
            "problem",
            "no lease vpa-admission-controller",
            lambda cluster: cluster.objects["leases"].pop(0),
            id="no status lease",
        ),
        pytest.param(
            "leases",
            "problem",
            "not Trimtab",
            lambda cluster: cluster.add_object("leases", a_lease("vpa-recommender-lease", "gke")),
            id="a lease that a rival holds",
        ),
        pytest.param(
            "other-installation",
            "problem",
            "runs beside ours",
            lambda cluster: cluster.add_object(
                "deployments", a_component("theirs", "registry.k8s.io/autoscaling/vpa-updater:1")
            ),
            id="the original beside ours",
        ),
        pytest.param(
            "components",
            "problem",
            "0 of 1 copies are ready",
            lambda cluster: cluster.objects["deployments"][-1].update(status={}),
            id="a component that is not ready",
        ),
        pytest.param(
            "webhook", "problem", "no webhook is registered", lambda _: None, id="no webhook"
        ),
        pytest.param(
            "certificate",
            "unknown",
            "no webhook is registered",
            lambda _: None,
            id="no certificate",
        ),
        pytest.param("history", "note", "was not asked", lambda _: None, id="no Prometheus"),
    ],
)
async def test_what_is_broken_is_found_with_its_remedy(
    run: Run,
    cluster: WritableCluster,
    check: str,
    severity: str,
    text: str,
    breaks: Callable[[WritableCluster], object],
) -> None:
    breaks(cluster)
    done = await run(cluster, "-o", "json", "--check", check)
    (found,) = found_by(done).values()
    first = found["findings"][0]

    assert (found["severity"], done.code) == (severity, 3 if severity == "problem" else 0)
    assert text in f"{first['subject']}: {first['text']}"
    assert first["remedy"] or severity in ("note", "unknown")


def register(cluster: WritableCluster) -> None:
    """A webhook behind a Service with one copy."""
    settings = RegistrationSettings(ServiceAddress("kube-system", "vpa-webhook"))
    made = encode_registration(plan_registration(None, settings, an_authority().certificate))
    cluster.add_object(MUTATORS, json.loads(made))
    endpoints = [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    cluster.add_object(
        "endpointslices",
        {"metadata": {"name": "x", "namespace": "kube-system"}, "endpoints": endpoints},
    )


def answer_trial(pod: Any) -> None:
    word = pod["metadata"]["labels"]["trimtab.dev/self-test"]
    pod["metadata"]["annotations"] = {"trimtab.dev/self-tested": word}


async def test_a_webhook_is_judged_by_a_pod_that_is_never_made(
    run: Run, cluster: WritableCluster
) -> None:
    register(cluster)
    pods = len(cluster.objects["pods"])
    ignored = await run(cluster, "-o", "json", "--check", "webhook")
    cluster.tried = answer_trial
    patched = await run(cluster, "-o", "json", "--check", "webhook", "other-webhooks")
    cluster.forbidden = {"create pods"}
    forbidden = await run(cluster, "-o", "json", "--check", "webhook")
    cluster.objects["endpointslices"].clear()
    alone = await run(cluster, "-o", "json", "--check", "webhook")

    assert (ignored.code, patched.code, forbidden.code, alone.code) == (3, 0, 0, 3)
    assert "did not get our patch" in found_by(ignored)["webhook"]["findings"][0]["text"]
    assert {one["severity"] for one in found_by(patched).values()} == {"ok"}
    assert found_by(forbidden)["webhook"]["severity"] == "unknown"
    assert "no ready copy" in found_by(alone)["webhook"]["findings"][0]["text"]
    assert len(cluster.objects["pods"]) == pods


async def test_a_certificate_that_is_not_reached_is_unknown(
    run: Run, cluster: WritableCluster
) -> None:
    register(cluster)
    done = await run(
        cluster, "-o", "json", "--check", "certificate", "--webhook-address", "127.0.0.1:1"
    )

    assert done.code == 0
    assert found_by(done)["certificate"]["findings"][0]["severity"] == "unknown"


async def test_what_may_not_be_seen_is_unknown_and_strict_minds_that(
    run: Run, cluster: WritableCluster
) -> None:
    cluster.forbidden = {"pods"}
    done = await run(cluster, "-o", "json", "--check", "targets", "metrics", "limits")
    strict = await run(cluster, "--check", "targets", "--strict")

    assert [one["severity"] for one in found_by(done).values()] == ["unknown"] * 3
    assert (done.code, strict.code) == (0, 3)


async def test_rights_are_asked_for_people_and_for_components(
    run: Run, cluster: WritableCluster
) -> None:
    def may(spec: Any) -> bool:
        is_updater = spec.get("user", "").endswith(":trimtab-updater")
        return not (is_updater and spec["resourceAttributes"]["subresource"] == "eviction")

    cluster.may = may
    own = await run(cluster, "--check", "rights")
    done = await run(cluster, "-o", "json", "--check", "rights", "--as-components")
    worst, *rest = found_by(done)["rights"]["findings"]

    assert own.code == 0
    assert "you: has every right" in own.out
    assert done.code == 3
    assert worst["subject"] == "kube-system/trimtab-updater"
    assert "may not create pods/eviction" in worst["text"]
    assert {one["severity"] for one in rest} == {"ok"}


async def test_a_prometheus_without_usage_is_a_problem(run: Run, cluster: WritableCluster) -> None:
    async with serving_prometheus(FakePrometheus()) as there:
        done = await run(
            cluster, "-o", "json", "--check", "history", "--prometheus-address", there.address
        )

    assert done.code == 3
    assert "there are no series" in found_by(done)["history"]["findings"][0]["text"]


async def test_in_a_narrow_terminal_no_line_is_too_long(
    cluster: WritableCluster, tmp_path: Path
) -> None:
    scale_horizontally(cluster)
    async with served(cluster, tmp_path) as kubeconfig:
        command = [str(TRIMTAB), "doctor", "--kubeconfig", str(kubeconfig), "--timeout", "5s"]
        seen = await asyncio.to_thread(in_terminal, command)

    assert seen.code == 3
    assert max(map(len, seen.lines)) <= 80
    assert seen.lines[-1].startswith(f"{len(CHECKS)} checks: ")
    assert any(line.startswith("warning  hpa") for line in seen.lines)
    assert any(line.lstrip().startswith("-> run the components") for line in seen.lines)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--check"], "--check needs a value", id="no check"),
        pytest.param(["--check", "luck"], 'there is no check "luck"', id="an unknown check"),
        pytest.param(["--webhook-address", "there"], "is not host:port", id="no port"),
        pytest.param(["--prometheus-address", "there"], "not an http", id="no address"),
        pytest.param(["--timeout", "soon"], "--timeout", id="no time"),
        pytest.param(["-o", "yaml"], "yaml", id="an unknown format"),
    ],
)
async def test_bad_input_is_told_in_one_line(
    run: Run, cluster: WritableCluster, arguments: list[str], told: str
) -> None:
    done = await run(cluster, *arguments)

    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err


def test_a_look_that_may_take_no_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--timeout=0s"])

    assert code == 2
    assert "--timeout: 0s is not above zero" in capsys.readouterr().err


def test_all_checks_can_be_listed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--list-checks"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]

    assert (code, listed) == (0, [check.name for check in CHECKS])


def test_without_a_cluster_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: StringIO
) -> None:
    assert told is not None
    code = main(["doctor", "--kubeconfig", str(tmp_path / "none")])
    captured = capsys.readouterr()

    assert (code, captured.out, captured.err.count("\n")) == (1, "", 1)


def test_names_and_texts_of_others_cannot_command_a_terminal() -> None:
    found = Finding(Severity.PROBLEM, "no\x1b[2J", remedy="do\x07", subject="shop/\x9bweb")
    table = to_table([Diagnosis("targets", (found,))], 80)

    assert "shop/\\x9bweb: no\\x1b[2J" in table
    assert all(line.isprintable() for line in table.split("\n"))
