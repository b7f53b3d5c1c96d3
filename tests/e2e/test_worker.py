"""The workload of our tests by itself: it has the appetite that it is told to have."""

import http.client
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from rig import building, node_images, waiting
from rig.building import Recipe

pytestmark = pytest.mark.e2e

LOOPBACK = "127.0.0.1"


@pytest.fixture(scope="module")
def program() -> Path:
    return building.build(Recipe("worker", node_images.IMAGES / "worker"))


class Worker:
    """A worker that runs, and what it says of itself."""

    def __init__(self, popen: subprocess.Popen[bytes], port: int) -> None:
        self.popen = popen
        self.port = port

    def ask(self, method: str, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((LOOPBACK, self.port)) == 0

    def holds(self) -> int:
        _, told = self.ask("GET", "/appetite")
        return int(told.rpartition("=")[2])

    def resident_mib(self) -> int:
        status = Path(f"/proc/{self.popen.pid}/status").read_text("ascii")
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found
        return int(found[1]) // 1024


@contextmanager
def running(program: Path, *flags: str) -> Iterator[Worker]:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [program, f"-listen={LOOPBACK}:{port}", *flags], stderr=subprocess.PIPE
    ) as popen:
        worker = Worker(popen, port)
        try:
            waiting.wait_for(worker.answers, bool)
            yield worker
        finally:
            popen.kill()


def test_memory_is_held_from_the_start_and_given_back_when_told(program: Path) -> None:
    with running(program, "-memory=64") as worker:
        full = worker.resident_mib()
        status, told = worker.ask("POST", "/appetite?memory=1")
        empty = worker.resident_mib()

    assert 64 <= full < 96
    assert status == HTTPStatus.OK
    assert told.startswith("cpu=0 memory=1 ")
    assert full - empty >= 60


def test_memory_grows_up_to_where_it_shall(program: Path) -> None:
    with running(program, "-memory=4", "-grow=100", "-grow-to=20") as worker:
        grown = waiting.wait_for(worker.holds, lambda held: held >= 20)
        worker.ask("POST", "/appetite?grow-to=25")
        more = waiting.wait_for(worker.holds, lambda held: held >= 25)

    assert (grown, more) == (20, 25)


def test_all_memory_is_given_back_in_time(program: Path) -> None:
    with running(program, "-memory=8", "-grow=10", "-free-after=500ms") as worker:
        freed = waiting.wait_for(worker.holds, lambda held: held == 0)

    assert freed == 0


def test_a_worker_that_shall_end_ends_well(program: Path) -> None:
    with running(program, "-end-after=500ms") as worker:
        code = worker.popen.wait(30)

    assert code == 0


def test_a_worker_ends_at_once_when_told_to(program: Path) -> None:
    with running(program, "-cpu=100") as worker:
        worker.popen.terminate()
        code = worker.popen.wait(30)

    assert code == 0


def test_a_worker_says_when_it_is_ready(program: Path) -> None:
    with running(program, "-ready-after=1s", "-start-work=200ms") as worker:
        early, _ = worker.ask("GET", "/ready")
        late, _ = waiting.wait_for(
            lambda: worker.ask("GET", "/ready"), lambda answer: answer[0] == HTTPStatus.OK
        )

    assert early == HTTPStatus.SERVICE_UNAVAILABLE
    assert late == HTTPStatus.OK


@pytest.mark.parametrize("wish", ["disk=1", "cpu=much"])
def test_a_wish_that_a_worker_does_not_understand_is_refused(program: Path, wish: str) -> None:
    with running(program, "-cpu=10") as worker:
        status, told = worker.ask("POST", f"/appetite?{wish}")
        _, kept = worker.ask("GET", "/appetite")

    assert status == HTTPStatus.BAD_REQUEST
    assert wish in told
    assert kept.startswith("cpu=10 memory=0 ")


def test_the_help_of_a_worker_names_all_that_it_can_be_told(program: Path) -> None:
    told = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stderr

    for flag in ("cpu", "memory", "grow", "grow-to", "ready-after", "start-work", "free-after"):
        assert f"  -{flag} " in told
    assert "worker ready" in told
