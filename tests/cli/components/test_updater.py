"""`trimtab updater` as it is called: mistakes, and clusters that are not there."""

import json
import re
from pathlib import Path

import pytest

from trimtab.cli import main

# The command sets up logs for its own process.
pytestmark = pytest.mark.usefixtures("told")


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param("--updater-interval=0s", "--updater-interval", id="no time at all"),
        pytest.param("--min-replicas=-1", "--min-replicas", id="fewer than none"),
        pytest.param("--eviction-tolerance=2", "--eviction-tolerance", id="beyond a whole"),
        pytest.param("--eviction-rate-burst=0", "--eviction-rate-burst", id="no burst at all"),
        pytest.param("--max-misses=0", "--max-misses", id="not a single try"),
        pytest.param("--cool-down=soon", "--cool-down", id="no duration"),
        pytest.param("--pause=perhaps", "--pause", id="neither yes nor no"),
        pytest.param(
            "--admission-controller-status-lease-timeout=0s",
            "--admission-controller-status-lease-timeout",
            id="a lease that is never fresh",
        ),
        pytest.param("--address=here", "--address", id="no address"),
        pytest.param("--feature-gates=InPlace", "--feature-gates", id="a gate without a value"),
        pytest.param("everything", "everything", id="no flag at all"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_line_and_code_2(
    flag: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["updater", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert re.fullmatch(r"trimtab: [^\n]+\n", output.err)
    assert named in output.err


def test_two_ways_to_say_which_namespaces_are_one_too_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"]
    code = main.main(["updater", *both])

    assert code == 2
    assert "--vpa-object-namespace" in capsys.readouterr().err


def test_without_a_cluster_it_says_what_it_is_and_ends_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIMTAB_MIN_REPLICAS", "1")
    flags = ["--pause", "--use-admission-controller-status=false", "--retired-flag"]
    code = main.main(["updater", f"--kubeconfig={tmp_path}/none", *flags])

    start, warning, last = capsys.readouterr().err.splitlines()
    told = json.loads(start)
    assert code == 1
    assert (told["event"], told["component"]) == ("starting", "updater")
    assert told["flags"] == {
        "kubeconfig": f"{tmp_path}/none",
        "min_replicas": 1,
        "pause": True,
        "use_admission_controller_status": False,
    }
    assert "--retired-flag is unknown" in json.loads(warning)["problem"]
    assert json.loads(warning)["component"] == "updater"
    assert last.startswith(f"trimtab: no way to a cluster: {tmp_path}/none: ")
