"""The admission controller as a process with real flags and TLS, beside a small API server."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from support.makers.certificates import Pair, a_pair, an_authority
from support.makers.worst_reviews import a_large_autoscaler, a_large_selector
from support.servers.api_server import Asked, Response, ok, refused
from support.servers.read_only_cluster import ReadOnlyCluster, served

LOOPBACK = "127.0.0.1"
MIB = 1024 * 1024
PATIENCE_SECONDS = 60
NAMESPACE = "default"
_PROGRAM = "import sys; from trimtab.cli.main import main; sys.exit(main(sys.argv[1:]))"
_PROBE = Path(__file__).with_name("probe.py")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """Latency of good requests and memory of the webhook during one attack."""

    attack: str
    good_requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    peak_mib: float
    end_mib: float

    def __str__(self) -> str:
        return (
            f"{self.attack:<44} {self.good_requests:>6} {self.failed:>6} {self.p50_ms:>8.1f}"
            f" {self.p99_ms:>8.1f} {self.max_ms:>8.1f} {self.peak_mib:>8.0f} {self.end_mib:>8.0f}"
        )


TITLES = (
    f"{'attack':<44} {'good':>6} {'failed':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}"
    f" {'peak MiB':>8} {'end MiB':>8}"
)


@dataclass(slots=True)
class Webhook:
    """A webhook that runs."""

    process: subprocess.Popen[bytes]
    port: int
    authority: Path
    folder: Path
    figures: list[Figures] = field(default_factory=list)

    @property
    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts the webhook."""
        return ssl.create_default_context(cafile=self.authority)

    @property
    def resident_mib(self) -> float:
        """Memory of the process now."""
        return self._status("VmRSS")

    def connect(self) -> ssl.SSLSocket:
        """Open a connection, handshake included."""
        plain = socket.create_connection((LOOPBACK, self.port), timeout=PATIENCE_SECONDS)
        return self.trust.wrap_socket(plain, server_hostname=LOOPBACK)

    def ask(self, review: Json) -> Json:
        """Return the response to a review."""
        body = json.dumps(review).encode()
        connection = HTTPSConnection(
            LOOPBACK, self.port, context=self.trust, timeout=PATIENCE_SECONDS
        )
        try:
            connection.request("POST", "/", body, {"Content-Type": "application/json"})
            found: Json = json.loads(connection.getresponse().read())["response"]
            return found
        finally:
            connection.close()

    @contextmanager
    def attacked(self, attack: str) -> Iterator[None]:
        """Send good requests, and watch the memory, for as long as the block lasts."""
        self._reset_peak()
        command = [sys.executable, str(_PROBE), str(self.port), str(self.authority)]
        command.append(str(self.folder / "good.json"))
        probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert probe.stdout is not None
        probe.stdout.readline()
        try:
            yield
        finally:
            told, _ = probe.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.poll() is None, "the webhook has ended"
        found = json.loads(told)
        self.figures.append(
            Figures(attack, **found, peak_mib=self._status("VmHWM"), end_mib=self.resident_mib)
        )

    def _status(self, name: str) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024

    def _reset_peak(self) -> None:
        # Where it is not allowed the peak is that of the whole life.
        with suppress(OSError):
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="utf-8")


class Shown(ReadOnlyCluster):
    """Refuses all writes: status leases and events."""

    def answer(self, asked: Asked) -> Response:
        if asked.method != "GET":
            return refused(403, reason="Forbidden")
        if asked.path == "/version":
            return ok({"major": "1", "minor": "35", "gitVersion": "v1.35.0"})
        return ReadOnlyCluster.answer(self, asked)


def a_cluster(policies: int) -> ReadOnlyCluster:
    """Show `web`, `giant` with so many policies, and 20 siblings with large selectors."""
    cluster = a_small_cluster(Shown())
    for name in ("giant", "crowd"):
        cluster.deploy(name, namespace=NAMESPACE, replicas=1)
    giant = a_large_autoscaler(policies, name="giant")
    giant["spec"]["targetRef"]["name"] = "giant"
    for each in (giant, *(a_sibling(number) for number in range(20))):
        cluster.add_object("verticalpodautoscalers", each)
    return cluster


def a_small_cluster(cluster: ReadOnlyCluster) -> ReadOnlyCluster:
    """Show `web` with an autoscaler, and a node."""
    cluster.deploy("web", namespace=NAMESPACE, replicas=1)
    cluster.add_node(cpu="64", memory="256Gi")
    web = a_large_autoscaler(1)
    web["status"]["recommendation"]["containerRecommendations"][0]["containerName"] = "app"
    cluster.add_object("verticalpodautoscalers", web)
    return cluster


def a_sibling(number: int, values: int = 5000) -> Json:
    """One of many autoscalers of `crowd`, with a large selector that excludes the others."""
    found = a_large_autoscaler(0, name=f"crowd-{number}")
    found["spec"]["targetRef"]["name"] = "crowd"
    found["spec"]["selector"] = a_large_selector(values, own=f"crowd-{number}")
    return found


@contextmanager
def shown(cluster: ReadOnlyCluster, folder: Path) -> Iterator[Path]:
    """Serve the cluster from a thread of its own; the kubeconfig that leads to it."""
    is_served, found = threading.Event(), []
    loop = asyncio.new_event_loop()
    closing = asyncio.Event()

    async def serve() -> None:
        async with served(cluster, folder) as kubeconfig:
            found.append(kubeconfig)
            is_served.set()
            await closing.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert is_served.wait(PATIENCE_SECONDS)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(closing.set)
        thread.join(PATIENCE_SECONDS)
        loop.close()


@contextmanager
def running(folder: Path, good: Json, cluster: ReadOnlyCluster | None = None) -> Iterator[Webhook]:
    """Run a webhook that patches the pod of the good review."""
    cluster = cluster or a_cluster(policies=6000)
    authority = an_authority()
    pair = a_pair(authority, "webhook")
    paths = _write(folder, authority, pair)
    (folder / "good.json").write_text(json.dumps(good), encoding="utf-8")
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    with shown(cluster, folder) as kubeconfig, (folder / "log").open("wb") as log:
        flags = [
            "admission-controller",
            f"--kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--address={LOOPBACK}:0",
            f"--port={port}",
            f"--tls-cert-file={paths['webhook.crt']}",
            f"--tls-private-key={paths['webhook.key']}",
            f"--client-ca-file={paths['authority.crt']}",
            "--register-webhook=false",
            "--workers=1",
        ]
        command = [sys.executable, "-c", _PROGRAM, *flags]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            webhook = Webhook(process, port, paths["authority.crt"], folder)
            _wait_until_patching(webhook, good)
            yield webhook
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def _write(folder: Path, authority: Pair, pair: Pair) -> dict[str, Path]:
    texts = {
        "authority.crt": authority.certificate,
        "webhook.crt": pair.certificate,
        "webhook.key": pair.key,
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {name: folder / name for name in texts}


def _wait_until_patching(webhook: Webhook, good: Json) -> None:
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends_at:
        with suppress(OSError, HTTPException):
            if "patch" in webhook.ask(good):
                return
        assert webhook.process.poll() is None, (webhook.folder / "log").read_text()
        time.sleep(0.2)
    raise TimeoutError((webhook.folder / "log").read_text())
