"""The webhooks of both sides as processes, and the load that is put on them."""

import json
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from time import time
from typing import Final

from bench import contestants, measuring
from bench.measuring import Vitals
from bench.scoring import Side
from rig import building, controlplane, processes, programs
from rig.controlplane import ControlPlane
from rig.flags import LOOPBACK
from rig.processes import Process

LOAD: Final = building.Recipe("bench-load", Path(__file__).parent / "load")
CONNECTIONS: Final = 8
MAX_SECONDS: Final = 30
"""How long a load lasts at most."""
_TRY_SECONDS: Final = 5


class LoadError(RuntimeError):
    """A load that was not answered as it should have been."""


@dataclass(frozen=True, slots=True)
class Answers:
    """How a load was answered; times are in seconds."""

    answered: int
    patched: int
    failed: int
    seconds: float
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Webhook:
    """A side that answers."""

    process: Process
    authority: Path
    port: int
    started: float
    """Seconds since the epoch."""

    def vitals(self) -> Vitals:
        """What it costs, with all its workers."""
        return measuring.read_family(measuring.pid_of(self.process))

    def wait_until_patching(self, reviews: Path) -> None:
        """Return as soon as the first of the reviews is answered by a patch."""
        body = reviews.read_bytes().partition(b"\n")[0]
        trust = ssl.create_default_context(cafile=self.authority)
        self.process.wait_until(lambda: b'"patch":' in self._ask_once(body, trust))

    def load(self, reviews: Path, requests: int) -> Answers:
        """Send reviews in turn until there were so many requests."""
        command = [
            str(building.build(LOAD)),
            f"-port={self.port}",
            f"-authority={self.authority}",
            f"-reviews={reviews}",
            f"-connections={CONNECTIONS}",
            f"-requests={requests}",
            f"-seconds={MAX_SECONDS}",
        ]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        answers = Answers(**json.loads(told))
        if answers.failed or not answers.answered:
            raise LoadError(f"{answers}\n{self.process.last_words()}")
        return answers

    def _ask_once(self, body: bytes, trust: ssl.SSLContext) -> bytes:
        connection = HTTPSConnection(LOOPBACK, self.port, context=trust, timeout=_TRY_SECONDS)
        try:
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            return connection.getresponse().read()
        except (OSError, HTTPException):
            return b""
        finally:
            connection.close()


@contextmanager
def admitting(side: Side, plane: ControlPlane) -> Iterator[Webhook]:
    """A webhook of one side for as long as the block lasts; nobody but us asks it."""
    port, told_at = controlplane.free_ports(2)
    shown, authority = plane.certificates.server, plane.certificates.authority
    flags = [
        f"--kubeconfig={plane.kubeconfig}",
        f"--address={LOOPBACK}:{told_at}",
        f"--port={port}",
        f"--tls-cert-file={shown.certificate}",
        f"--tls-private-key={shown.key}",
        f"--client-ca-file={authority}",
        "--register-webhook=false",
        contestants.QUIET,
    ]
    match side:
        case Side.OURS:
            program = contestants.TRIMTAB
            flags = ["admission-controller", *flags, f"--bind-address={LOOPBACK}"]
        case Side.ORIGINAL:
            program = programs.find("original-admission")
    started = time()
    with processes.running(program, flags, plane.directory, name="contestant") as process:
        yield Webhook(process, authority, port, started)
