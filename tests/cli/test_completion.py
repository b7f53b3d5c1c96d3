"""What may come next on a command line, asked as shells ask it."""

import asyncio
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers.read_only_cluster import ReadOnlyCluster, served

from trimtab.cli.completion import CompletionAnswer, Shell, complete
from trimtab.cli.main import main

PROGRAMS = Path(sys.executable).parent
ASK = """
source <(trimtab completion bash)
COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDBREAKS=$' \\t\\n"=<>|&;:'
_trimtab
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        pytest.param("rep", ["report"], id="a command"),
        pytest.param("checkpoint ex", ["export"], id="a command of a group"),
        pytest.param("report --min-se", ["--min-severity"], id="a flag"),
        pytest.param("report --patch ", ["kustomize", "vpa"], id="a choice"),
        pytest.param("report --sort=n", ["--sort=name"], id="a choice after an equals sign"),
        pytest.param("get -A -o y", ["yaml"], id="a choice of a short flag"),
        pytest.param("completion z", ["zsh"], id="an argument"),
        pytest.param("recommender --leader-elect=t", ["--leader-elect=true"], id="a switch"),
        pytest.param("frobnicate ", [], id="nothing after nonsense"),
        pytest.param("get --frobnicate=", [], id="nothing of an unknown flag"),
        pytest.param("get ", [], id="no names without a cluster"),
        pytest.param("get --context ", [], id="no contexts without a file"),
    ],
)
def test_candidates_begin_with_what_is_typed(line: str, candidates: list[str]) -> None:
    assert complete(line.split(" ")) == CompletionAnswer(tuple(candidates))


def test_at_the_very_beginning_all_commands_may_come_but_none_that_is_hidden() -> None:
    found = complete([]).candidates

    assert {"get", "report", "demo", "version", "completion"} <= set(found)
    assert not [name for name in found if name.startswith(("-", "_"))]


@pytest.mark.parametrize(
    "line", ["validate ", "report --out ", "get --kubeconfig ", "backtest --trace "]
)
def test_where_a_file_is_wanted_files_may_come(line: str) -> None:
    assert complete(line.split(" ")) == CompletionAnswer(are_files=True)


async def test_names_are_those_of_the_cluster_that_the_line_is_about(tmp_path: Path) -> None:
    cluster = ReadOnlyCluster()
    for namespace, name in (("shop", "web"), ("shop", "wiki"), ("other", "web2")):
        cluster.add_object(
            "verticalpodautoscalers", {"metadata": {"namespace": namespace, "name": name}}
        )
    cluster.objects["namespaces"] = [{"metadata": {"name": "shop"}}, {"metadata": {"name": "sea"}}]
    lines = ("get we", "get -A we", "get -n other ", "get -n s", "get --context ")
    async with served(cluster, tmp_path) as kubeconfig:
        found = [
            (await asyncio.to_thread(complete, _insert(line, kubeconfig))).candidates
            for line in lines
        ]

    assert found == [("web",), ("web", "web2"), ("web2",), ("sea", "shop"), ("small",)]


def _insert(line: str, kubeconfig: Path) -> list[str]:
    command, *rest = line.split(" ")
    return [command, "--kubeconfig", str(kubeconfig), *rest]


def test_the_answer_is_in_the_words_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    codes = main(["__complete", "report", "--patch", ""]), main(["__complete", "validate", ""])

    assert codes == (0, 0)
    assert capsys.readouterr().out == "kustomize\nvpa\n:4\n:0\n"


@pytest.mark.parametrize("shell", Shell)
def test_every_shell_has_a_script_that_asks(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", shell.value]) == 0
    assert "trimtab __complete" in capsys.readouterr().out.replace('"${words[0]}"', "trimtab")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("trimtab rep", ["report"], id="a command"),
        pytest.param("trimtab report --min-sev", ["--min-severity"], id="a flag"),
        pytest.param("trimtab report --sort=n", ["name"], id="only what follows an equals sign"),
    ],
)
def test_a_real_bash_completes_by_the_script(line: str, expected: list[str]) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"},
    )

    assert done.stdout.split() == expected


def test_somebody_who_presses_tab_in_a_terminal_sees_the_word_completed(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    ours, theirs = pty.openpty()
    environment = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(tmp_path), "PS1": "$ "}
    with subprocess.Popen(
        [bash, "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "dumb"},
        start_new_session=True,
    ) as running:
        os.close(theirs)
        os.write(ours, b"source <(trimtab completion bash); echo rea''dy\n")
        _read_until(ours, b"ready")
        os.write(ours, b"trimtab repo\t")
        seen = _read_until(ours, b"trimtab report ")
        running.kill()
    os.close(ours)

    assert b"trimtab report " in seen


def _read_until(descriptor: int, wanted: bytes) -> bytes:
    told = b""
    while wanted not in told:
        told += os.read(descriptor, 4096)
    return told
