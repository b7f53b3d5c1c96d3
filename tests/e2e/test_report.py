"""`trimtab report` on a real API server, also as a plugin of the real kubectl."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from contract.world import CUSTOM_KIND
from e2e.conftest import Bring
from support.readers.terminal import in_terminal
from support.stages.components import SLOW_SECONDS, an_account, install
from support.stages.manifests import rollouts

from rig import debian, programs
from rig.controlplane import ControlPlane
from rig.prometheus import Prometheus

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
QUICK = ("--watch-for", "0s", "--min-samples", "1")
USAGE = {"kwok.x-k8s.io/usage-cpu": "150m", "kwok.x-k8s.io/usage-memory": "400Mi"}
RESOURCES = {
    "requests": {"cpu": "1", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "2Gi"},
}
KINDS = {
    "Deployment": ("apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "statefulsets"),
    "DaemonSet": ("apps/v1", "daemonsets"),
}
READING = [
    {
        "apiGroups": ["", "apps", "batch", "autoscaling", "autoscaling.k8s.io", "metrics.k8s.io"],
        "resources": [
            *("pods", "limitranges", "replicationcontrollers", "deployments", "replicasets"),
            *("statefulsets", "daemonsets", "jobs", "cronjobs", "horizontalpodautoscalers"),
            *("verticalpodautoscalers", "verticalpodautoscalercheckpoints"),
        ],
        "verbs": ["list", "watch"],
    }
]
Json = dict[str, Any]


def _template(name: str) -> Json:
    containers = [{"name": "app", "image": "none", "resources": RESOURCES}]
    return {
        "metadata": {"annotations": USAGE, "labels": {"app": name}},
        "spec": {"containers": containers},
    }


def _manifest(kind: str, name: str) -> Json:
    spec: Json = {"template": _template(name), "selector": {"matchLabels": {"app": name}}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {
        "apiVersion": KINDS[kind][0],
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def _collection(namespace: str, kind: str) -> str:
    version, resource = KINDS[kind]
    return f"/apis/{version}/namespaces/{namespace}/{resource}"


@pytest.fixture(scope="module")
def place(cluster: ControlPlane) -> Iterator[str]:
    """A namespace with workloads of all sorts, whose usage is known."""
    install(cluster)
    with cluster.own_namespace() as namespace:
        for kind in ("Deployment", "StatefulSet", "DaemonSet"):
            cluster.create(_collection(namespace, kind), _manifest(kind, kind.lower()))
        pods = f"/api/v1/namespaces/{namespace}/pods"
        alone = {"apiVersion": "v1", "kind": "Pod", **_template("alone")}
        alone["metadata"]["name"] = "alone"
        cluster.create(pods, alone)
        usage = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        cluster.wait_for(
            usage, lambda found: len(found["items"]) >= 4, patience_seconds=SLOW_SECONDS
        )
        yield namespace


def _report(cluster: ControlPlane, *arguments: str) -> Json:
    done = _run(cluster.kubeconfig, "-o", "json", *arguments)
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    return found


def _run(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAMS / "trimtab", "report", "--kubeconfig", kubeconfig, *QUICK, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_workloads_of_all_kinds_are_found_and_sized(cluster: ControlPlane, place: str) -> None:
    found = _report(cluster, "-n", place)
    sized = {each["kind"]: each for each in found["workloads"]}

    assert set(sized) == {"Deployment", "StatefulSet", "DaemonSet", "Pod"}
    for workload in sized.values():
        (container,) = workload["containers"]
        assert container["current"] == RESOURCES
        # 400Mi and the margin, up to the end of a bucket.
        assert container["recommended"]["requests"]["memory"].endswith("Mi")
        assert 460 <= int(container["recommended"]["requests"]["memory"][:-2]) < 560
        assert workload["severity"] == "critical"
        assert workload["binding"] in ("cpu", "memory")


def test_who_may_only_read_one_namespace_sees_the_same_but_for_nodes(
    cluster: ControlPlane, place: str, tmp_path: Path
) -> None:
    reader = an_account(cluster, place, READING, tmp_path)
    done = _run(reader, "-n", place, "-o", "json")
    found = json.loads(done.stdout)

    assert len(found["workloads"]) == 4
    assert [note.partition(" ")[0] for note in found["notes"]] == ["nodes"]


def test_who_may_not_read_pods_is_told_so_in_one_line(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    done = _run(an_account(cluster, namespace, [], tmp_path), "-n", namespace)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("trimtab: no view at ")
    assert done.stderr.count("\n") == 1


def test_a_custom_kind_is_found_by_its_scale(cluster: ControlPlane, place: str) -> None:
    version, kind = CUSTOM_KIND
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    # Another test may have made it.
    cluster.request("POST", definitions, json.dumps(definition | rollouts()).encode())
    path = f"/apis/{version}/namespaces/{place}/rollouts"
    cluster.wait_for(path, lambda found: "items" in found)
    selector = {"matchLabels": {"app": "rolled"}}
    body = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "rolled"},
        "spec": {"replicas": 1, "selector": selector},
        "status": {"selector": "app=rolled"},
    }
    made = cluster.create(path, body)
    status = json.dumps({"status": {"selector": "app=rolled", "replicas": 1}}).encode()
    merge = "application/merge-patch+json"
    cluster.request("PATCH", f"{path}/rolled/status", status, merge)
    owner = {"apiVersion": version, "kind": kind, "name": "rolled", "controller": True}
    pod = {"apiVersion": "v1", "kind": "Pod", **_template("rolled")}
    pod["metadata"] |= {
        "name": "rolled-0",
        "ownerReferences": [{**owner, "uid": made["metadata"]["uid"]}],
    }
    cluster.create(f"/api/v1/namespaces/{place}/pods", pod)
    try:
        usage = f"/apis/metrics.k8s.io/v1beta1/namespaces/{place}/pods?labelSelector=app%3Drolled"
        cluster.wait_for(usage, lambda found: found["items"], patience_seconds=SLOW_SECONDS)
        found = _report(cluster, "-n", place, "-l", "app=rolled")
    finally:
        cluster.request("DELETE", f"/api/v1/namespaces/{place}/pods/rolled-0")
    (workload,) = found["workloads"]

    assert (workload["kind"], workload["name"], workload["apiVersion"]) == (kind, "rolled", version)


def test_history_comes_from_a_real_prometheus(
    cluster: ControlPlane, place: str, fake_prometheus: Prometheus
) -> None:
    selected = f'container_cpu_usage_seconds_total{{namespace="{place}"}}'
    fake_prometheus.wait_for(
        f"count(rate({selected}[1m]))", lambda found: found and found[0].value >= 4
    )
    past = ["--prometheus-address", fake_prometheus.address]
    past += ["--history-length", "10m", "--history-resolution", "10s"]
    found = _report(cluster, "-n", place, "-l", "app=deployment", *past)
    (workload,) = found["workloads"]

    assert found["source"] == "10m of Prometheus"
    assert workload["containers"][0]["samples"] >= 1
    assert workload["containers"][0]["recommended"] is not None


# The plugin


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the scripts that the package installs for kubectl."""
    folder = tmp_path_factory.mktemp("plugins")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        text = f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\n"
        (folder / name).write_text(f"{text}sys.exit({function}())\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def kubectl(bring: Bring, cluster: ControlPlane, plugins: Path) -> list[str]:
    """The words with which a shell calls the real kubectl, with our plugins on its path."""
    bring("kubectl")
    return [
        "env",
        f"PATH={plugins}:{os.environ['PATH']}",
        f"KUBECONFIG={cluster.kubeconfig}",
        str(programs.find("kubectl")),
    ]


def _call(command: list[str], *, given: str | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_knows_the_plugin_and_its_namespace_flag(kubectl: list[str], place: str) -> None:
    listed = _call([*kubectl, "plugin", "list", "--name-only"])
    told = _call([*kubectl, "trimtab", "report", "-n", place, *QUICK, "-o", "json"])
    overview = _call([*kubectl, "trimtab", "get", "-n", place, "-o", "json"])

    assert "kubectl-trimtab" in listed.split()
    assert len(json.loads(told)["workloads"]) == 4
    assert json.loads(overview) == []


def test_kubectl_completes_what_follows_the_plugin(kubectl: list[str], place: str) -> None:
    commands = _call([*kubectl, "__complete", "trimtab", "re"])
    choices = _call([*kubectl, "__complete", "trimtab", "report", "--sort", ""])
    names = _call([*kubectl, "__complete", "trimtab", "get", "-n", place[:-1]])

    assert commands.split()[:2] == ["recommender", "report"]
    assert choices.split()[:4] == ["severity", "name", "cpu", "memory"]
    assert place in names.split()


def test_no_line_of_get_or_report_wraps_in_a_terminal_of_80_columns(
    kubectl: list[str], place: str
) -> None:
    for words in (["report", *QUICK, "-A"], ["report", *QUICK, "-n", place], ["get", "-A"]):
        seen = in_terminal([*kubectl, "trimtab", *words])

        assert seen.code == 0, seen.raw
        assert max(map(len, seen.lines), default=0) <= 80


def test_kubectl_explains_an_autoscaler_by_the_plugin_on_80_columns(
    kubectl: list[str], place: str, tmp_path: Path
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment"}
    autoscaler = {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "asked", "namespace": place},
        "spec": {"targetRef": target},
    }
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump(autoscaler), encoding="utf-8")
    _call([*kubectl, "apply", "-f", str(file)])
    try:
        words = [*kubectl, "trimtab", "explain", "asked", "-n", place, "--offline"]
        told = json.loads(_call([*words, "-o", "json"]))
        seen = in_terminal(words)
    finally:
        _call([*kubectl, "delete", "-f", str(file)])

    assert told["autoscaler"]["name"] == "asked"
    assert seen.code == 0, seen.raw
    assert max(map(len, seen.lines), default=0) <= 80


def test_patches_apply_cleanly_by_kustomize_and_by_server_side_apply(
    kubectl: list[str], cluster: ControlPlane, place: str, tmp_path: Path
) -> None:
    _report(
        cluster,
        "-n",
        place,
        "--patch",
        "kustomize",
        "--allow-thin-data",
        "--out",
        str(tmp_path / "patches"),
    )
    kinds = ("Deployment", "StatefulSet", "DaemonSet")
    base = [_manifest(kind, kind.lower()) for kind in kinds]
    (tmp_path / "base.yaml").write_text(yaml.safe_dump_all(base), encoding="utf-8")
    overlay = {
        "resources": ["base.yaml"],
        "components": [f"patches/{place}"],
        "namespace": place,
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    built = _call([*kubectl, "kustomize", str(tmp_path)])
    patched = list(yaml.safe_load_all(built))
    apply = [*kubectl, "apply", "--dry-run=server"]
    applied = _call([*apply, "-f", "-"], given=built)
    patch = tmp_path / "patches" / place / "deployment-deployment.yaml"
    merged = _call([*apply, "--server-side", "--force-conflicts", "-f", str(patch), "-o", "json"])
    (container,) = json.loads(merged)["spec"]["template"]["spec"]["containers"]

    assert len(patched) == 3
    for each in patched:
        resources = each["spec"]["template"]["spec"]["containers"][0]["resources"]
        assert resources["requests"]["cpu"] != "1"
        assert resources["limits"]["memory"] != "2Gi"
    assert applied.count("(server dry run)") == 3
    assert container["image"] == "none"
    assert container["resources"] == _only_container(patch)["resources"]


def _only_container(patch: Path) -> Json:
    written = yaml.safe_load(patch.read_text(encoding="utf-8"))
    (container,) = written["spec"]["template"]["spec"]["containers"]
    found: Json = container
    return found


def test_autoscalers_that_are_written_can_be_applied(
    kubectl: list[str], cluster: ControlPlane, place: str, tmp_path: Path
) -> None:
    folder = tmp_path / "autoscalers"
    _report(cluster, "-n", place, "--patch", "vpa", "--out", str(folder))
    applied = _call([*kubectl, "apply", "--dry-run=server", "-R", "-f", str(folder)])

    assert applied.count("created (server dry run)") == 3


# Shells that are not everywhere


def _environment(**more: str) -> dict[str, str]:
    return {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": "/nonexistent", **more}


def test_a_real_zsh_completes_by_its_script() -> None:
    zsh = debian.find("zsh", "zsh")
    modules = next(zsh.parents[1].glob("usr/lib/*/zsh/*"), Path("/nonexistent"))
    # What the editor of an interactive zsh does with the candidates is not ours.
    script = f"""
    module_path+=({modules})
    compdef() {{ : }}
    compadd() {{ print -l -- "${{(@P)2}}" }}
    _files() {{ print FILES }}
    source <(trimtab completion zsh)
    ask() {{ words=("$@"); CURRENT=$#words; _trimtab }}
    ask trimtab re
    ask trimtab report --patch ""
    ask trimtab validate ""
    """
    done = subprocess.run(
        [zsh, "-f", "-c", script], capture_output=True, text=True, check=False, env=_environment()
    )

    assert done.stderr == ""
    assert done.stdout.split() == ["recommender", "report", "kustomize", "vpa", "FILES"]


def test_a_real_fish_completes_by_its_script(tmp_path: Path) -> None:
    fish = debian.find("fish", "fish")
    libraries = sorted(debian.unpack("libpcre2-32-0").glob("usr/lib/*"))
    script = """
    trimtab completion fish | source
    complete -C 'trimtab re'
    complete -C 'trimtab report --patch '
    """
    done = subprocess.run(
        [fish, "--no-config", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(HOME=str(tmp_path), LD_LIBRARY_PATH=str(libraries[0])),
    )

    assert done.stdout.split() == ["recommender", "report", "kustomize", "vpa"]
