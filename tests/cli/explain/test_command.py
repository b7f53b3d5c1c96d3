"""`trimtab explain` beside a small cluster that only shows, and beside components that answer."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from support.readers.terminal import in_terminal
from support.servers.api_server import Asked, Response, ok, refused, serving
from support.servers.read_only_cluster import Json, ReadOnlyCluster, in_namespace, served

from trimtab.cli.main import main

TRIMTAB = Path(sys.executable).parent / "trimtab"
STARTED = "2026-08-22T11:00:00Z"
COMPONENT = {"app.kubernetes.io/part-of": "trimtab", "app.kubernetes.io/component": "updater"}


def histogram(bucket: int) -> Json:
    return {
        "referenceTimestamp": "2026-08-22T00:00:00Z",
        "bucketWeights": {str(bucket): 10000},
        "totalWeight": 144.0,
    }


def a_checkpoint(name: str = "web") -> Json:
    return {
        "metadata": {"name": f"{name}-app", "namespace": "shop"},
        "spec": {"vpaObjectName": name, "containerName": "app"},
        "status": {
            "cpuHistogram": histogram(8),
            "memoryHistogram": histogram(30),
            "firstSampleStart": "2026-08-21T00:00:00Z",
            "lastSampleStart": "2026-08-22T00:00:00Z",
            "totalSamplesCount": 1440,
            "lastUpdateTime": "2026-08-22T00:01:00Z",
            "version": "v3",
        },
    }


def an_autoscaler(name: str = "web", mode: str = "Recreate", **spec: object) -> Json:
    amounts = {"cpu": "126m", "memory": "800Mi"}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-vpa-{name}"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "updatePolicy": {"updateMode": mode},
            **spec,
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [
                    {"containerName": "app", "target": amounts, "lowerBound": amounts}
                ]
            },
            "conditions": [
                {"type": "RecommendationProvided", "status": "True"},
                {"type": "LowConfidence", "status": "True", "message": "little is known"},
            ],
        },
    }


@dataclass(slots=True)
class ReadableCluster(ReadOnlyCluster):
    """One with everything that an explanation reads, and components behind its proxy."""

    pages: dict[str, Callable[[], Response]] = field(default_factory=dict)
    reviewed: list[Json] = field(default_factory=list)

    def answer(self, asked: Asked) -> Response:
        if asked.path.endswith("/selfsubjectaccessreviews"):
            self.reviewed.append(asked.json)
            return ok({"status": {"allowed": True}})
        if "/proxy/" in asked.path:
            return self.pages[asked.path.partition("/proxy")[2]]()
        if asked.path == "/api/v1/namespaces/shop":
            return ok({"metadata": {"name": "shop", "resourceVersion": "1"}})
        if "labelSelector" in asked.query:
            return in_namespace(asked, self.objects["components"])
        return ReadOnlyCluster.answer(self, asked)


@pytest.fixture
def cluster() -> ReadableCluster:
    """Web asks for too little; its autoscaler has a checkpoint."""
    made = ReadableCluster()
    made.objects |= {"resourcequotas": [], "horizontalpodautoscalers": [], "components": []}
    made.add_node()
    made.deploy("web", resources={"requests": {"cpu": "100m", "memory": "100Mi"}})
    made.add_object("verticalpodautoscalers", an_autoscaler())
    made.add_object("verticalpodautoscalercheckpoints", a_checkpoint())
    return made


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


Explain = Callable[..., Awaitable[Done]]


@pytest.fixture
def explain(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    told: StringIO,
) -> Explain:
    """The command beside a cluster, without the time that a process of its own takes."""
    assert told is not None
    monkeypatch.setenv("COLUMNS", "80")

    async def run(cluster: ReadOnlyCluster, *arguments: str) -> Done:
        async with served(cluster, tmp_path) as kubeconfig:
            given = ["explain", *arguments, "--kubeconfig", str(kubeconfig)]
            code = await asyncio.to_thread(main, given)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


async def records(explain: Explain, cluster: ReadOnlyCluster, *arguments: str) -> Any:
    done = await explain(cluster, *arguments, "-o", "json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def checks(pod: Json) -> dict[str, str]:
    return {each["check"]: each["verdict"] for each in pod["checks"]}


async def test_an_autoscaler_whose_pods_obey_another_one_says_which(
    cluster: ReadableCluster, explain: Explain
) -> None:
    cluster.add_object("verticalpodautoscalers", an_autoscaler("younger"))
    cluster.objects["verticalpodautoscalers"][-1]["spec"]["targetRef"]["name"] = "web"
    done = await explain(cluster, "younger")

    assert "  - its pods obey web: the oldest that acts on pods is in charge\n" in done.out
    assert "Nothing is planned: it governs no running pod." in done.out
    assert "obey" not in (await explain(cluster, "web")).out


async def test_numbers_are_worked_out_from_checkpoints_alone(
    cluster: ReadableCluster, explain: Explain
) -> None:
    found = await records(explain, cluster, "web")
    numbers = found["numbers"]
    cpu, memory = numbers["containers"][0]["resources"]
    steps = {each["step"]: each["target"] for each in cpu["steps"]}

    assert (numbers["source"], numbers["savedAt"]) == ("checkpoints", "2026-08-22T00:01:00Z")
    assert numbers["containers"][0]["samples"] == 1440
    assert cpu["target"]["bucket"] == {"index": 8, "start": "95m", "end": "110m"}
    assert steps["margin"] == {"before": "110m", "after": "126m"}
    assert (cpu["target"]["value"], cpu["target"]["published"]) == ("126m", "126m")
    assert memory["target"]["value"] != memory["target"]["published"]


async def test_a_held_target_is_worked_out_from_its_checkpoint(
    cluster: ReadableCluster, explain: Explain
) -> None:
    held = {
        "at": "",
        "targets": {"first": 1.787e9, "now": 1.7874e9, "cpu": [900], "memory": [2**31]},
    }
    autoscaler = cluster.objects["verticalpodautoscalers"][-1]
    autoscaler["metadata"]["annotations"] = {"trimtab.dev/estimator": "cost"}
    checkpoint = cluster.objects["verticalpodautoscalercheckpoints"][-1]
    checkpoint["metadata"]["annotations"] = {"trimtab/supplement": json.dumps(held)}
    found = await records(explain, cluster, "web")
    cpu, memory = found["numbers"]["containers"][0]["resources"]

    assert (cpu["target"]["value"], memory["target"]["value"]) == ("900m", "2Gi")


async def test_every_check_of_every_pod_is_told(cluster: ReadableCluster, explain: Explain) -> None:
    found = await records(explain, cluster, "vpa/web", "--offline")
    evicted, held = found["plan"]["pods"]

    assert (evicted["action"], held["action"], held["reason"]) == ("Evict", "Hold", "BudgetSpent")
    assert checks(held)["disruptionBudget"] == "fail"
    assert checks(held)["coolDown"] == "unknown"
    assert checks(held)["admissionController"] == "unknown"
    assert held["containers"][0]["next"]["requests"] == {"cpu": "126m", "memory": "800Mi"}
    assert found["autoscaler"]["conditions"][1]["message"] == "little is known"


async def test_a_single_pod_is_told_without_the_numbers(
    cluster: ReadableCluster, explain: Explain
) -> None:
    found = await records(explain, cluster, "pod/web-1-1")

    assert "numbers" not in found
    assert [each["pod"] for each in found["plan"]["pods"]] == ["web-1-1"]
    assert found["autoscaler"]["name"] == "web"


async def test_yaml_says_the_same_as_json(cluster: ReadableCluster, explain: Explain) -> None:
    found = await records(explain, cluster, "web", "--offline")
    done = await explain(cluster, "web", "--offline", "-o", "yaml")
    same = yaml.safe_load(done.out)
    for each in (found, same):
        del each["numbers"]["at"], each["plan"]["at"]
        for pod in each["plan"]["pods"]:
            del pod["age"], pod["checks"]

    assert same == found


async def test_people_read_it_in_eighty_columns(cluster: ReadableCluster, tmp_path: Path) -> None:
    async with served(cluster, tmp_path) as kubeconfig:
        command = [str(TRIMTAB), "explain", "web", "--kubeconfig", str(kubeconfig)]
        seen = await asyncio.to_thread(in_terminal, command)
    text = "\n".join(seen.lines)

    assert seen.code == 0
    assert max(map(len, seen.lines)) <= 80
    assert "LOWER    TARGET     UPPER" in text
    assert "comes to" in text
    assert "LowConfidence True: little is known" in text
    assert "NO! disruption budget" in text
    assert "the next pod would have requests cpu 126m memory 800Mi" in text


async def test_an_upper_bound_without_confidence_is_endless(
    cluster: ReadableCluster, explain: Explain
) -> None:
    status = cluster.objects["verticalpodautoscalercheckpoints"][0]["status"]
    status |= {"firstSampleStart": status["lastSampleStart"], "totalSamplesCount": 1}
    done = await explain(cluster, "web", "--offline")

    assert "1 CPU samples over 0s, the last at 2026-08-22 00:00 UTC" in done.out
    assert "comes to             25m      126m   endless" in done.out


async def test_of_a_container_alone_nothing_else_is_told(
    cluster: ReadableCluster, explain: Explain
) -> None:
    found = await records(explain, cluster, "web", "-c", "app")
    wrong = await explain(cluster, "web", "--container", "nope")

    assert [each["name"] for each in found["numbers"]["containers"]] == ["app"]
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err == "trimtab: there is no container nope; there are: app\n"


@pytest.mark.parametrize(
    ("arguments", "code", "told_of"),
    [
        pytest.param(["nobody"], 1, "there is no autoscaler nobody in shop", id="no autoscaler"),
        pytest.param(["pod/nobody"], 1, "there is no pod nobody in shop", id="no pod"),
        pytest.param(["pod/alone"], 1, "no autoscaler is for pod alone", id="ungoverned"),
        pytest.param(["deployment/web"], 2, "neither the name of an autoscaler", id="other kind"),
        pytest.param(["web", "-A"], 2, "one autoscaler or pod of one namespace", id="everywhere"),
        pytest.param(["web", "--from", "there"], 2, "not an address such as", id="no address"),
        pytest.param(["web", "-o", "xml"], 2, "xml", id="an unknown format"),
        pytest.param([], 2, "", id="nothing to explain"),
    ],
)
async def test_what_makes_no_sense_is_told_in_one_line(
    cluster: ReadableCluster, explain: Explain, arguments: list[str], code: int, told_of: str
) -> None:
    cluster.add_pod("alone")
    done = await explain(cluster, *arguments)

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("trimtab: ")
    assert told_of in done.err
    assert done.err.count("\n") == 1


async def test_what_may_not_be_read_is_done_without_and_told(
    cluster: ReadableCluster, explain: Explain
) -> None:
    cluster.forbidden = {"verticalpodautoscalercheckpoints", "resourcequotas", "limitranges"}
    found = await records(explain, cluster, "web", "--offline")
    text = await explain(cluster, "web", "--offline")
    (container,) = found["numbers"]["containers"]

    assert [each["absence"] for each in container["resources"]] == ["NoSamples"] * 2
    assert "checkpoints cannot be read: no history is known" in found["numbers"]["remarks"]
    assert "resource quotas cannot be read: as if there were none" in found["plan"]["remarks"]
    assert "no checkpoint is there yet" in text.out
    assert "CPU: no number: nothing is known of its usage yet" in text.out


async def test_who_may_not_see_horizontal_autoscalers_is_told_that_none_is_counted(
    cluster: ReadableCluster, explain: Explain
) -> None:
    cluster.forbidden = {"horizontalpodautoscalers", "nodes"}
    found = await records(explain, cluster, "web", "--offline")

    assert found["plan"]["remarks"] == [
        "nodes cannot be read: as if any pod fitted on one",
        "horizontal autoscalers cannot be read: as if there were none",
    ]


async def test_without_pods_or_autoscalers_there_is_nothing_to_explain(
    cluster: ReadableCluster, explain: Explain
) -> None:
    cluster.forbidden = {"pods"}
    done = await explain(cluster, "web")

    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(" forbids it: pods is forbidden\n")


def install(cluster: ReadableCluster, component: str, namespace: str, *flags: str) -> None:
    """A Deployment of a component with one pod, without any label of the chart."""
    labels = {"app": f"vpa-{component}"}
    container = {"image": "trimtab", "command": ["trimtab"], "args": [component, *flags]}
    cluster.add_object(
        "deployments",
        {
            "metadata": {"name": labels["app"], "namespace": namespace, "uid": component},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"spec": {"containers": [container]}},
            },
        },
    )
    metadata = {"name": f"{component}-0", "namespace": namespace, "labels": labels}
    cluster.add_object("components", {"metadata": metadata})


@pytest.mark.parametrize("namespace", ["trimtab-system", "kube-system", "shop"])
async def test_components_are_found_where_doctor_finds_them_and_asked_through_the_server(
    cluster: ReadableCluster, explain: Explain, tmp_path: Path, namespace: str
) -> None:
    mine = await records(explain, cluster, "web", "--offline")
    theirs = {**mine["plan"], "source": "updater", "waiting": 2}
    install(cluster, "updater", namespace)
    cluster.pages = {"/explain/pods": lambda: ok(theirs)}
    found = await records(explain, cluster, "web")
    async with served(cluster, tmp_path) as kubeconfig:
        process = await asyncio.create_subprocess_exec(
            *(str(TRIMTAB), "explain", "web", "--kubeconfig", str(kubeconfig)),
            stdout=subprocess.PIPE,
        )
        text = (await process.communicate())[0].decode()

    assert (found["plan"]["source"], found["plan"]["waiting"]) == ("updater", 2)
    assert found["numbers"]["source"] == "checkpoints"
    assert "Plan of the updater that runs" in text
    assert "2 changes wait for the rate limits" in text
    assert f"- answered by the pod updater-0 in {namespace}" in text


async def test_a_component_is_asked_where_tenants_may_see_no_other_namespace(
    cluster: ReadableCluster, explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = await records(explain, cluster, "web", "--offline")
    install(cluster, "updater", "trimtab-system")
    cluster.pages = {"/explain/pods": lambda: ok({**mine["plan"], "source": "updater"})}
    answer = ReadableCluster.answer

    def answer_tenant(self: ReadableCluster, asked: Asked) -> Response:
        if asked.path == "/apis/apps/v1/deployments":
            return refused(403, reason="Forbidden")
        return answer(self, asked)

    monkeypatch.setattr(ReadableCluster, "answer", answer_tenant)
    found = await records(explain, cluster, "web")

    assert found["plan"]["remarks"][0] == "answered by the pod updater-0 in trimtab-system"


@pytest.mark.parametrize(
    ("others", "remark"),
    [
        pytest.param(
            (("updater", "elsewhere"), ("updater", "kube-system")),
            "components run in elsewhere, kube-system; --components-namespace says which to ask",
            id="two namespaces",
        ),
        pytest.param(
            (("updater", "kube-system", "--vpa-object-namespace=other"),),
            "no component that serves shop was found; --components-namespace says where else they "
            "are, --from at which address",
            id="one of another namespace",
        ),
    ],
)
async def test_where_nobody_knows_whom_to_believe_no_component_is_asked(
    cluster: ReadableCluster, explain: Explain, others: tuple[tuple[str, ...], ...], remark: str
) -> None:
    for component, namespace, *flags in others:
        install(cluster, component, namespace, *flags)
    found = await records(explain, cluster, "web")

    assert found["plan"]["source"] == "cluster"
    assert remark in found["plan"]["remarks"]


async def test_of_several_installations_the_usual_or_the_named_one_is_asked(
    cluster: ReadableCluster, explain: Explain
) -> None:
    mine = await records(explain, cluster, "web", "--offline")
    install(cluster, "updater", "shop")
    install(cluster, "updater", "trimtab-system")
    cluster.pages = {"/explain/pods": lambda: ok({**mine["plan"], "source": "updater"})}
    usual = await records(explain, cluster, "web")
    named = await records(explain, cluster, "web", "--components-namespace", "shop")

    assert usual["plan"]["remarks"][0] == "answered by the pod updater-0 in trimtab-system"
    assert named["plan"]["remarks"][0] == "answered by the pod updater-0 in shop"


async def test_a_pod_that_calls_itself_a_component_is_not_believed(
    cluster: ReadableCluster, explain: Explain
) -> None:
    mine = await records(explain, cluster, "web", "--offline")
    cluster.add_object(
        "components", {"metadata": {"name": "fake", "namespace": "shop", "labels": COMPONENT}}
    )
    cluster.pages = {"/explain/pods": lambda: ok({**mine["plan"], "source": "updater"})}
    found = await records(explain, cluster, "web")

    assert found["plan"]["source"] == "cluster"
    assert any("no component that serves shop" in one for one in found["plan"]["remarks"])


async def test_a_component_that_does_not_answer_is_remarked(
    cluster: ReadableCluster, explain: Explain
) -> None:
    install(cluster, "recommender", "trimtab-system")
    cluster.pages = {"/explain/numbers": lambda: refused(403, reason="Forbidden")}
    found = await records(explain, cluster, "web")

    assert found["numbers"]["source"] == "checkpoints"
    assert any(
        "trimtab-system/recommender-0 could not be asked" in one for one in found["plan"]["remarks"]
    )


async def test_components_are_asked_at_their_addresses(
    cluster: ReadableCluster, explain: Explain
) -> None:
    mine = await records(explain, cluster, "web", "--offline")
    numbers = {**mine["numbers"], "source": "recommender", "remarks": ["so"]}
    asked: list[Asked] = []

    def answer(each: Asked) -> web.Response:
        asked.append(each)
        return ok(numbers) if each.path == "/explain/numbers" else refused(404)

    async with serving(answer) as recommender:
        found = await records(explain, cluster, "web", "--from", recommender.url)
    silent = await explain(cluster, "web", "--from", recommender.url)

    assert found["numbers"]["source"] == "recommender"
    assert found["plan"]["source"] == "cluster"
    assert asked[0].query == {"namespace": "shop", "autoscaler": "web"}
    assert (silent.code, silent.out) == (1, "")
    assert silent.err.startswith(f"trimtab: no explanation at {recommender.url}: ")


async def test_a_component_that_knows_nothing_yet_leaves_it_to_the_cluster(
    cluster: ReadableCluster, explain: Explain
) -> None:
    async with serving(lambda _: web.Response(body=b"null")) as starting:
        found = await records(explain, cluster, "web", "--from", starting.url)

    assert (found["numbers"]["source"], found["plan"]["source"]) == ("checkpoints", "cluster")


async def test_without_a_cluster_one_line_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], told: StringIO
) -> None:
    assert told is not None
    code = await asyncio.to_thread(main, ["explain", "web", "--kubeconfig", str(tmp_path / "no")])
    captured = capsys.readouterr()

    assert (code, captured.out) == (1, "")
    assert captured.err.startswith("trimtab: no way to a cluster: ")
