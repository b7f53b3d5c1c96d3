"""`trimtab checkpoint` beside a small cluster that keeps what is written."""

import copy
import json
from collections.abc import Awaitable, Callable
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.makers.wire_examples import CHECKPOINT
from support.servers.read_only_cluster import Beside, Done
from support.servers.writable_cluster import WritableCluster

CHECKPOINTS = "verticalpodautoscalercheckpoints"
AUTOSCALERS = "verticalpodautoscalers"

Run = Callable[..., Awaitable[Done]]


@pytest.fixture
def run(beside: Beside) -> Run:
    return partial(_run, beside)


async def _run(beside: Beside, cluster: WritableCluster, *words: str) -> Done:
    return await beside(cluster, "checkpoint", *words)


def a_checkpoint(container: str = "app", namespace: str = "shop", **status: object) -> Any:
    made: Any = copy.deepcopy(CHECKPOINT)
    made["metadata"] = {
        "name": f"web-{container}",
        "namespace": namespace,
        "annotations": {"someone.example/note": "kept"},
    }
    made["spec"]["containerName"] = container
    made["status"].update(status)
    return made


def a_cluster(*checkpoints: Any, has_autoscaler: bool = True) -> WritableCluster:
    cluster = WritableCluster()
    for each in checkpoints:
        known = {"uid": "1", "resourceVersion": "5", "managedFields": [{"manager": "x"}]}
        cluster.add_object(CHECKPOINTS, {**each, "metadata": {**each["metadata"], **known}})
    if has_autoscaler:
        cluster.add_object(AUTOSCALERS, {"metadata": {"name": "web", "namespace": "shop"}})
    return cluster


async def test_what_a_checkpoint_holds_is_shown_for_each_container(run: Run) -> None:
    cluster = a_cluster(
        a_checkpoint(), a_checkpoint("odd", lastUpdateTime="7"), a_checkpoint("side", version="v2")
    )
    shown = await run(cluster, "inspect")
    everywhere = await run(cluster, "inspect", "-A")
    records = json.loads((await run(cluster, "inspect", "-o", "json")).out)
    same = yaml.safe_load((await run(cluster, "inspect", "-o", "yaml")).out)

    lines = [line.split() for line in shown.out.splitlines()]
    assert shown.code == 0
    assert lines[0][:3] == ["AUTOSCALER", "CONTAINER", "STATE"]
    assert lines[1][:3] == ["web", "app", "ok"]
    # Almost all weight is in bucket 8, which ends at 0.01 * (1.05^9 - 1) / 0.05 cores.
    assert lines[1][-4:] == ["CPU", "110m", "110m", "110m"]
    assert lines[2] == ["MEMORY", "-", "-", "-"]
    assert lines[3][:2] == ["web", "damaged"]
    assert lines[4][:3] == ["web", "side", "damaged"]
    assert shown.out.splitlines()[-1] == "shop/web-side: unsupported checkpoint version v2"
    assert max(map(len, shown.out.splitlines())) <= 80
    assert everywhere.out.splitlines()[1].split()[:2] == ["shop", "web"]
    assert records == same
    assert [one["state"] for one in records] == ["ok", "damaged", "damaged"]
    assert records[0]["samples"] == 720
    assert sum(one["share"] for one in records[0]["histograms"]["cpu"]["buckets"]) == (
        pytest.approx(1.0)
    )


async def test_every_bucket_is_shown_to_who_asks_for_it(run: Run) -> None:
    shown = await run(a_cluster(a_checkpoint()), "inspect", "web", "--buckets")

    assert "shop/web-app CPU, total weight 0.0727827" in shown.out
    assert "     95m - 110m     99.24% ##############################" in shown.out


async def test_a_checkpoint_without_its_autoscaler_is_orphaned(run: Run) -> None:
    shown = await run(a_cluster(a_checkpoint(), has_autoscaler=False), "inspect")
    empty = a_checkpoint(cpuHistogram={"referenceTimestamp": None})

    assert shown.out.splitlines()[1].split()[2] == "orphaned"
    assert " empty " in (await run(a_cluster(empty), "inspect")).out


async def test_what_is_named_and_not_there_is_told(run: Run) -> None:
    named = await run(a_cluster(a_checkpoint()), "inspect", "web", "nobody")
    none = await run(a_cluster(), "inspect")
    nothing = await run(a_cluster(), "export")
    nobody = await run(a_cluster(a_checkpoint()), "export", "nobody")

    assert (named.code, named.err) == (1, "trimtab: there is no checkpoint of nobody\n")
    assert (none.code, none.out) == (0, "")
    assert "-A looks into all namespaces" in none.err
    assert (nothing.code, nothing.out) == (1, "")
    assert nobody.code == 1
    assert "there is no checkpoint of nobody; nothing was written" in nobody.err


@pytest.mark.parametrize("output", ["yaml", "json"])
async def test_what_is_exported_comes_back_to_the_last_bit(
    run: Run, tmp_path: Path, output: str
) -> None:
    source = a_cluster(a_checkpoint(), a_checkpoint("side", totalSamplesCount=10**15))
    file = tmp_path / f"saved.{output}"
    exported = await run(source, "export", "-o", output, "-f", str(file))
    target = a_cluster()
    imported = await run(target, "import", str(file))
    header = yaml.safe_load(file.read_text(encoding="utf-8"))["metadata"]["annotations"]

    assert (exported.code, exported.err) == (0, "trimtab: 2 checkpoints exported\n")
    assert (imported.code, imported.out) == (0, "2 checkpoints imported\n")
    assert target.stored() == [a_checkpoint(), a_checkpoint("side", totalSamplesCount=10**15)]
    assert header["trimtab.dev/exported-from"].startswith("http://127.0.0.1:")
    assert set(header) == {
        "trimtab.dev/exported-from",
        "trimtab.dev/exported-at",
        "trimtab.dev/exported-by",
    }


def write(folder: Path, *documents: Any) -> str:
    file = folder / "given.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(file)


def broken(change: Callable[[Any], object]) -> Any:
    made = a_checkpoint()
    change(made)
    return made


@pytest.mark.parametrize(
    ("document", "told"),
    [
        pytest.param(a_checkpoint(version="v2"), "unsupported checkpoint version v2", id="version"),
        pytest.param(
            a_checkpoint(cpuHistogram={"bucketWeights": {"999": 1}, "totalWeight": 1.0}),
            "checkpoint has bucket 999",
            id="a bucket that does not exist",
        ),
        pytest.param(
            a_checkpoint(cpuHistogram={"bucketWeights": {"1": 1}, "totalWeight": -1.0}),
            "negative weight",
            id="less than nothing",
        ),
        pytest.param(a_checkpoint(totalSamplesCount="many"), "totalSamplesCount", id="a text"),
        pytest.param(a_checkpoint(lastUpdateTime="yesterday"), "lastUpdateTime", id="no time"),
        pytest.param(
            broken(lambda one: one["spec"].pop("containerName")),
            "spec.containerName: missing",
            id="no container",
        ),
        pytest.param(
            broken(lambda one: one["metadata"].pop("namespace")),
            "metadata.namespace: missing",
            id="no namespace",
        ),
        pytest.param(
            broken(lambda one: one["metadata"].update(name="other")),
            "metadata.name: 'other' should be 'web-app'",
            id="a name of another",
        ),
        pytest.param(
            broken(lambda one: one.update(apiVersion="autoscaling.k8s.io/v9")),
            "apiVersion: 'autoscaling.k8s.io/v9'",
            id="a version of tomorrow",
        ),
        pytest.param(a_checkpoint("side"), "shop/web-side: given 2 times", id="the same twice"),
    ],
)
async def test_one_damaged_checkpoint_keeps_all_from_being_stored(
    run: Run, tmp_path: Path, document: Any, told: str
) -> None:
    target = a_cluster()
    done = await run(target, "import", write(tmp_path, a_checkpoint("side"), document))

    assert (done.code, target.stored()) == (1, [])
    first, last = done.err.splitlines()
    assert told in first
    assert last == "trimtab: nothing was imported: 1 flaw, see above"


async def test_what_is_there_is_replaced_only_on_demand(run: Run, tmp_path: Path) -> None:
    target = a_cluster(a_checkpoint(totalSamplesCount=1))
    file = write(tmp_path, a_checkpoint(), a_checkpoint("side"))
    refused = await run(target, "import", file)
    left = len(target.stored())
    tried = await run(target, "import", file, "--overwrite", "--dry-run")
    still = len(target.stored())
    done = await run(target, "import", file, "--overwrite")

    assert (refused.code, left) == (1, 1)
    assert "shop/web-app: it exists already; --overwrite replaces it" in refused.err
    assert (tried.code, still) == (0, 1)
    assert tried.out == "2 checkpoints can be imported; nothing was stored\n"
    assert (done.code, done.out) == (0, "2 checkpoints imported\n")
    assert [one["status"]["totalSamplesCount"] for one in target.stored()] == [720, 720]


async def test_a_write_that_fails_takes_all_others_back(run: Run, tmp_path: Path) -> None:
    before = a_checkpoint(totalSamplesCount=1)
    target = a_cluster(before)
    target.refuses = {("POST", "web-side")}
    file = write(tmp_path, a_checkpoint(), a_checkpoint("extra"), a_checkpoint("side"))
    done = await run(target, "import", file, "--overwrite")
    (left,) = target.stored()

    assert done.code == 1
    assert "the disk is full" in done.err
    assert left["status"] == before["status"]


async def test_a_write_of_which_it_is_not_known_what_became_is_taken_back_too(
    run: Run, tmp_path: Path
) -> None:
    target = a_cluster()
    target.loses = {"web-side"}
    done = await run(target, "import", write(tmp_path, a_checkpoint(), a_checkpoint("side")))

    assert (done.code, target.stored()) == (1, [])


async def test_a_namespace_that_no_checkpoint_is_in_cannot_be_mapped(
    run: Run, tmp_path: Path
) -> None:
    target = a_cluster()
    file = write(tmp_path, a_checkpoint())
    done = await run(target, "import", file, "--namespace-map", "shpo=other")

    assert (done.code, target.stored()) == (1, [])
    assert "--namespace-map: nothing is in the namespace shpo" in done.err


async def test_checkpoints_of_one_namespace_go_to_another(run: Run, tmp_path: Path) -> None:
    target = a_cluster()
    file = write(tmp_path, a_checkpoint(namespace="gone"))
    lost = await run(target, "import", file)
    done = await run(target, "import", file, "--namespace-map", "gone=other")
    odd = await run(target, "import", file, "--namespace-map", "gone")
    misused = await run(target, "import", file, "-n", "other")

    assert "there is no namespace gone; --namespace-map gone=NEW" in lost.err
    assert done.code == 0
    assert [one["metadata"]["namespace"] for one in target.stored()] == ["other"]
    assert odd.code == 2
    assert "--namespace-map: 'gone' is not old=new" in odd.err
    assert misused.code == 2


async def test_what_kubectl_wrote_of_the_original_is_taken(run: Run, tmp_path: Path) -> None:
    old = a_checkpoint()
    old["apiVersion"] = "autoscaling.k8s.io/v1beta2"
    old["metadata"].update(uid="7", generation=3, creationTimestamp="2026-08-01T00:00:00Z")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    target = a_cluster()
    file = write(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [other, old]})
    done = await run(target, "import", file)

    assert done.code == 0
    assert target.stored() == [a_checkpoint()]


async def test_checkpoints_come_through_the_standard_input_as_well(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(json.dumps(a_checkpoint())))
    target = a_cluster()
    done = await run(target, "import", "-")

    assert (done.code, target.stored()) == (0, [a_checkpoint()])


async def test_who_would_undo_an_import_is_told_before(run: Run, tmp_path: Path) -> None:
    target = a_cluster(has_autoscaler=False)
    container = {"image": "registry.k8s.io/autoscaling/vpa-recommender:1.8.1"}
    target.add_object(
        "deployments",
        {
            "metadata": {"name": "vpa-recommender", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
            "status": {"readyReplicas": 1},
        },
    )
    done = await run(target, "import", write(tmp_path, a_checkpoint()))

    assert done.code == 0
    assert "warning: there is no autoscaler shop/web" in done.err
    assert "warning: the recommender kube-system/vpa-recommender runs" in done.err
    assert "kubectl -n kube-system scale deployment vpa-recommender --replicas=0" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        pytest.param(["import"], 2, "import needs at least one file", id="no file"),
        pytest.param(["import", "x", "--force"], 2, "flag --force is unknown", id="a wrong flag"),
        pytest.param(["import", "none.yaml"], 2, "cannot read none.yaml", id="a missing file"),
        pytest.param(["export", "-f", "no/where"], 2, "cannot write no/where", id="no folder"),
        pytest.param(["inspect", "-o", "csv"], 2, "csv", id="an unknown format"),
    ],
)
async def test_bad_input_is_told_in_one_line(
    run: Run, arguments: list[str], code: int, told: str
) -> None:
    done = await run(a_cluster(a_checkpoint()), *arguments)

    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert told in done.err


async def test_a_file_without_checkpoints_is_no_success(run: Run, tmp_path: Path) -> None:
    done = await run(a_cluster(), "import", write(tmp_path, {"kind": "ConfigMap"}))

    assert done.code == 1
    assert "there are no checkpoints in" in done.err


async def test_names_and_texts_of_others_cannot_command_a_terminal(run: Run) -> None:
    cluster = WritableCluster()
    cluster.add_object(CHECKPOINTS, a_checkpoint("odd\x1b[2J"))
    cluster.add_object(CHECKPOINTS, a_checkpoint("bad\x07", version="v\x1b[0m"))
    done = await run(cluster, "inspect", "--buckets", "-n", "shop")

    assert "odd\\x1b[2J" in done.out
    assert "bad\\x07" in done.out
    assert all(line.isprintable() for line in done.out.split("\n"))
