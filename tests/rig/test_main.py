"""`make cluster` and `make cluster-down` without a cluster: what they say, whom they end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig import __main__ as rig
from rig import locks

ROOT = Path(__file__).parents[2]

# Stands for `make cluster`: holds the record until it is told to end, then takes its time.
HOLDER = """\
import pathlib, signal, sys
from rig import locks
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
with locks.held(pathlib.Path(sys.argv[1])) as tell:
    tell({"kubeconfig": "there"})
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))


def test_without_a_cluster_there_is_nothing_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    code = rig.main(["down"])

    assert code == 0
    assert capsys.readouterr().out == "No cluster runs.\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["--help"], 0, id="help is asked for"),
        pytest.param(["-h"], 0, id="help is asked for in short"),
        pytest.param(["up"], 2, id="a word that means nothing"),
        pytest.param(["image"], 2, id="an image without a place for it"),
    ],
)
def test_nothing_is_started_when_help_or_nonsense_is_said(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = rig.main(words)

    told = capsys.readouterr()
    assert answer == code
    assert "python -m rig down" in (told.err if code else told.out)


def test_the_record_of_a_cluster_that_died_ends_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    rig._record().write_text('{"pid": "1", "kubeconfig": "gone"}', encoding="utf-8")
    code = rig.main(["down"])

    assert code == 0
    assert capsys.readouterr().out == "No cluster runs.\n"


def test_the_holder_of_the_record_is_ended_and_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(rig._record())], stdout=subprocess.PIPE, cwd=ROOT
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        code = rig.main(["down"])

    assert code == 0
    assert holder.returncode == 7
    assert capsys.readouterr().out == "The cluster has ended.\n"


def test_a_second_cluster_is_refused_with_the_kubeconfig_of_the_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with locks.held(rig._record()) as tell:
        tell({"kubeconfig": "there"})
        code = rig.main([])

    assert code == 1
    assert capsys.readouterr().out == "A cluster runs already: export KUBECONFIG=there\n"


def test_what_cannot_be_built_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    code = rig.main([])

    assert code == 1
    assert "rig: Go is needed to build this" in capsys.readouterr().err
    assert locks.read_holder(rig._record()) is None
