"""`trimtab admission-controller` as it is called: mistakes, and clusters that are not there."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab.cli import main

# The command sets up logs for its own process.
pytestmark = pytest.mark.usefixtures("told")


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        pytest.param("--min-tls-version=tls1_1", "--min-tls-version", id="a TLS of former times"),
        pytest.param("--port=70000", "--port", id="no port"),
        pytest.param("--port=https", "--port", id="no number"),
        pytest.param("--workers=-1", "--workers", id="less than no workers"),
        pytest.param("--status-lease-update-interval=0s", "--status-lease", id="no interval"),
        pytest.param("--max-allowed-cpu-boost=much", "--max-allowed-cpu-boost", id="no quantity"),
        pytest.param("--address=here", "--address", id="no address"),
        pytest.param("--health-address=here", "--health-address", id="no address for probes"),
        pytest.param(
            "--webhook-client-ca-file=/none", "--webhook-client-ca-file", id="no such authority"
        ),
        pytest.param(
            "--webhook-client-ca-file=/dev/null", "--webhook-client-ca-file", id="an empty file"
        ),
        pytest.param("--feature-gates=InPlace", "--feature-gates", id="a gate without a value"),
        pytest.param("everything", "everything", id="no flag at all"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_line_and_code_2(
    flag: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main.main(["admission-controller", "--bind-address=127.0.0.1", "--port=0", flag])

    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert re.fullmatch(r"trimtab: [^\n]+\n", output.err)
    assert named in output.err


def test_two_ways_to_say_which_namespaces_are_one_too_many(
    capsys: pytest.CaptureFixture[str],
) -> None:
    both = ["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"]

    assert main.main(["admission-controller", *both]) == 2
    assert "--vpa-object-namespace" in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line_and_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main.main(["admission-controller", "--bind-address=127.0.0.1", f"--port={port}"])

    assert code == 1
    assert re.fullmatch(r"trimtab: cannot listen on [^\n]+\n", capsys.readouterr().err)


def test_without_a_cluster_it_ends_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--bind-address=127.0.0.1", "--port=0", f"--kubeconfig={tmp_path / 'none'}"]
    code = main.main(["admission-controller", *arguments])

    assert code == 1
    assert "no way to a cluster" in capsys.readouterr().err


def test_nothing_is_imported_that_only_others_need() -> None:
    """Every megabyte counts where there are three copies of us and five pods."""
    look = "import sys, trimtab.cli.components.admission; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "trimtab.admission.server.server" in found
    assert {"numpy", "cryptography", "trimtab.recommender", "trimtab.simulation"}.isdisjoint(found)
