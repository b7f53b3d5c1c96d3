"""Commands that find nothing where they look say so at once, in fresh processes."""

import asyncio
import sys
from pathlib import Path

import pytest
from support.servers.read_only_cluster import Done, ReadOnlyCluster, served

ELSEWHERE = "; -A looks into all namespaces"
REPORT = ("report", "--watch-for=1h")
"""Watches for longer than any test may take, should it watch at all."""


async def run(cluster: ReadOnlyCluster, folder: Path, *words: str) -> Done:
    async with served(cluster, folder) as kubeconfig:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from trimtab.cli.main import main; raise SystemExit(main())",
            *words,
            f"--kubeconfig={kubeconfig}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(30):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.mark.parametrize("more", [(), ("-o", "json"), ("--patch", "vpa")], ids=" ".join)
@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        pytest.param(("-A",), "there are no pods in any namespace", id="all namespaces"),
        pytest.param((), f"there are no pods in the namespace shop{ELSEWHERE}", id="the context's"),
        pytest.param(("-n", "typo"), f"there is no namespace typo{ELSEWHERE}", id="a mistyped one"),
    ],
)
async def test_a_report_without_any_pods_says_so_at_once_and_fails(
    tmp_path: Path, where: tuple[str, ...], sentence: str, more: tuple[str, ...]
) -> None:
    done = await run(ReadOnlyCluster(), tmp_path, *REPORT, *where, *more)

    assert done == Done(1, "", f"trimtab: {sentence}\n")


@pytest.mark.parametrize(
    ("where", "place"),
    [
        pytest.param(("-A",), "in any namespace", id="all namespaces"),
        pytest.param(("-n", "shop"), f"in the namespace shop{ELSEWHERE}", id="one namespace"),
    ],
)
async def test_a_selector_that_matches_no_pod_is_named(
    tmp_path: Path, where: tuple[str, ...], place: str
) -> None:
    cluster = ReadOnlyCluster()
    cluster.deploy("web")
    done = await run(cluster, tmp_path, *REPORT, *where, "--selector=app=typo")

    assert done == Done(1, "", f"trimtab: there are no pods that --selector matches {place}\n")


async def test_a_namespace_that_may_not_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    cluster = ReadOnlyCluster(forbidden={"namespaces"})
    done = await run(cluster, tmp_path, *REPORT, "-n", "secret")

    assert done == Done(1, "", f"trimtab: there are no pods in the namespace secret{ELSEWHERE}\n")


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        pytest.param(("get",), 0, "autoscalers", id="get"),
        pytest.param(("checkpoint", "inspect"), 0, "checkpoints", id="checkpoint inspect"),
        pytest.param(("checkpoint", "export"), 1, "checkpoints", id="checkpoint export"),
    ],
)
async def test_other_commands_name_the_place_and_minus_a_only_where_it_helps(
    tmp_path: Path, words: tuple[str, ...], code: int, what: str
) -> None:
    cluster = ReadOnlyCluster()

    for where, sentence in (
        ("-A", f"there are no {what} in any namespace"),
        ("-nshop", f"there are no {what} in the namespace shop{ELSEWHERE}"),
    ):
        done = await run(cluster, tmp_path, *words, where)
        assert done == Done(code, "", f"trimtab: {sentence}\n")


@pytest.mark.parametrize(
    "words",
    [
        ("get",),
        ("get", "web"),
        ("explain", "web"),
        ("explain", "pod/web"),
        ("checkpoint", "inspect"),
        ("checkpoint", "export"),
    ],
    ids=" ".join,
)
async def test_a_namespace_that_does_not_exist_is_one_line_and_code_1(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = await run(ReadOnlyCluster(), tmp_path, *words, "-n", "typo")

    assert done == Done(1, "", f"trimtab: there is no namespace typo{ELSEWHERE}\n")


async def test_a_name_that_is_not_there_is_one_line_in_an_empty_namespace(tmp_path: Path) -> None:
    done = await run(ReadOnlyCluster(), tmp_path, "get", "web")

    assert done == Done(1, "", "trimtab: there is no autoscaler web\n")


BAD = {
    "metadata": {"name": "bad", "namespace": "shop"},
    "spec": {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"minReplicas": "two"},
    },
}
WHY = 'cannot be read: spec.updatePolicy.minReplicas: must be of type integer, not string: "two"'


async def test_an_autoscaler_that_cannot_be_read_is_never_said_to_be_missing(
    tmp_path: Path,
) -> None:
    cluster = ReadOnlyCluster()
    cluster.deploy("web", replicas=1)
    cluster.add_object("verticalpodautoscalers", BAD)
    pod = cluster.objects["pods"][0]["metadata"]["name"]
    line = f"autoscaler shop/bad {WHY}"

    for words in (("get",), ("get", "bad"), ("get", "-A")):
        assert await run(cluster, tmp_path, *words) == Done(1, "", f"trimtab: {line}\n")
    for words, text in (
        (("explain", "bad"), f"{line}; nothing is done for it"),
        (("explain", f"pod/{pod}"), f"no autoscaler is for pod {pod}; {line}"),
    ):
        assert await run(cluster, tmp_path, *words) == Done(1, "", f"trimtab: {text}\n")
    reported = await run(cluster, tmp_path, "report", "--watch-for", "0s")
    assert f"as if it were not there: {line}" in " ".join(reported.out.split())


async def test_a_pod_that_cannot_be_read_is_never_said_to_be_missing(tmp_path: Path) -> None:
    cluster = ReadOnlyCluster()
    cluster.deploy("web", replicas=1)
    cluster.add_object("pods", {"metadata": BAD["metadata"], "spec": {"containers": "none"}})
    shown = await run(cluster, tmp_path, "get")
    explained = await run(cluster, tmp_path, "explain", "pod/bad")

    line = 'pod shop/bad cannot be read: spec.containers: must be of type array, not string: "none"'
    assert shown.err.splitlines()[0] == f"trimtab: {line}"
    assert explained == Done(1, "", f"trimtab: {line}; nothing is done for it\n")
