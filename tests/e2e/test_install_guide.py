"""The install guide, word by word: each command is run, and prints what the page says.

Nothing on the page is replaced. `my-values.yaml` holds what is special about the rig, the manifests
of `deploy` are rendered with it, and the image that the page calls nginx is our idle worker.
"""

import http.client
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml
from e2e import install_stage
from e2e.install_stage import CLUSTER_WIDE, ROOT, Ground, Shell

from rig import controlplane, waiting
from rig.flags import LOOPBACK

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs/install.md").read_text(encoding="utf-8")
NEEDS_A_REGISTRY = "podman "
ENDLESS = "trimtab run "
EXAMPLE_IMAGE = "docker.io/library/nginx:1.29"


@pytest.fixture
def clone(ground: Ground, tmp_path: Path) -> Iterator[Path]:
    """The folder that the guide is followed in: this one, but for `deploy` and what is made."""
    folder = tmp_path / "clone"
    (folder / ".venv").mkdir(parents=True)
    for each in ROOT.iterdir():
        if each.name not in {".git", ".venv", "deploy", "dist"}:
            (folder / each.name).symlink_to(each)
    # Whoever runs tests has made it; here it is complete in any case.
    for each in (ROOT / ".venv").iterdir():
        (folder / ".venv" / each.name).symlink_to(each)
    (folder / ".venv/ready").unlink(missing_ok=True)
    (folder / ".venv/ready").touch()
    ground.write_manifests(folder)
    ground.load_worker(EXAMPLE_IMAGE, tmp_path)
    yield folder
    # It is large, and pytest keeps folders.
    (folder / "dist/trimtab-image.tar").unlink(missing_ok=True)


@pytest.fixture
def bare(ground: Ground) -> Iterator[Ground]:
    """The cluster as somebody finds it who has installed nothing yet, and as it is left."""
    ground.clear()
    yield ground
    ground.clear()


def interrupt_when_ready(shell: Shell, commands: str, port: int) -> tuple[int, str]:
    """The end of commands that run until Ctrl-C, which comes as soon as they say they are ready."""
    with shell.start(commands) as process:
        try:
            waiting.wait_for(
                lambda: process.poll() is not None or _is_ready(port), bool, patience_seconds=60
            )
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
        return process.returncode, printed


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()


def test_the_guide_works_as_it_is_written(bare: Ground, clone: Path) -> None:
    (port,) = controlplane.free_ports(1)
    # Whatever the page starts on this machine listens on loopback alone.
    address = {"TRIMTAB_ADDRESS": f"{LOOPBACK}:{port}"}
    shell = Shell(clone, bare.surroundings(clone) | address)
    for step in install_stage.read_steps(PAGE):
        if step.commands.startswith(NEEDS_A_REGISTRY):
            continue
        if ENDLESS in step.commands:
            code, printed = interrupt_when_ready(shell, step.commands, port)
        else:
            done = shell.run(step.commands)
            code, printed = done.returncode, done.stdout
        missing = install_stage.find_missing(step.promised, printed)

        assert (code, missing) == (0, []), f"$ {step.commands}\n{printed}"


def test_only_what_needs_a_registry_is_left_out_of_following() -> None:
    steps = list(install_stage.read_steps(PAGE))

    assert len([step for step in steps if step.commands.startswith(NEEDS_A_REGISTRY)]) == 1
    assert len([step for step in steps if ENDLESS in step.commands]) == 1
    assert len(steps) == PAGE.count("```sh\n") > 15


def test_uninstalling_plain_manifests_names_every_kind_outside_of_the_namespace() -> None:
    manifests = yaml.safe_load_all((ROOT / "deploy/trimtab.yaml").read_text(encoding="utf-8"))
    kinds = {each["kind"] for each in manifests if each and "namespace" not in each["metadata"]}
    named = {kind.lower().removesuffix("y") for kind in kinds}
    listed = {plural.removesuffix("ies").removesuffix("s") for plural in CLUSTER_WIDE}

    assert named - {"namespace", "customresourcedefinition"} == listed
    assert ",".join(CLUSTER_WIDE) in PAGE


@pytest.mark.parametrize(
    ("promised", "printed", "missing"),
    [
        pytest.param("a b", "x\na   b\ny", [], id="columns may be wider, and more may be told"),
        pytest.param("pod-… 1/1 …", "pod-x7 1/1 Running 12s", [], id="what differs is left open"),
        pytest.param("web … -95%", "web nginx CPU -95%", [], id="words in the middle, too"),
        pytest.param("a", "ab", ["a"], id="a line is meant whole"),
        pytest.param("b\na", "a\nb", ["a"], id="the order counts"),
        pytest.param("a.c", "abc", ["a.c"], id="a dot is a dot"),
        pytest.param("web …", "", ["web …"], id="something must be told"),
    ],
)
def test_promises_are_compared_line_by_line(
    promised: str, printed: str, missing: list[str]
) -> None:
    assert install_stage.find_missing(promised, printed) == missing
