"""Prometheus beside a cluster: it scrapes what it is told to, every second, and answers queries.

Targets may come and go while it runs, as components under test do.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from rig import controlplane, debian, fake_node, processes, programs, waiting
from rig.certificates import Certificates
from rig.controlplane import ControlPlane
from rig.fake_node import Json
from rig.flags import LOOPBACK
from rig.processes import Process

_NAME: Final = "prometheus"
_TIMEOUT_SECONDS: Final = 10


class QueryError(RuntimeError):
    """A query that Prometheus cannot make sense of."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that tells figures, and the job under which they are kept."""

    job: str
    address: str
    """With the port."""
    path: str = "/metrics"
    is_secure: bool = False
    """Whether it has a certificate of the cluster's authority, and asks us for one."""


@dataclass(frozen=True, slots=True)
class Series:
    """The newest value of one series."""

    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A Prometheus that answers."""

    port: int
    directory: Path
    process: Process
    targets: list[Target] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Where it is asked, for those who query it themselves."""
        return f"http://{LOOPBACK}:{self.port}"

    def query(self, expression: str) -> list[Series]:
        """What an expression yields now."""
        status, body = self._fetch("/api/v1/query?" + urlencode({"query": expression}))
        if status != HTTPStatus.OK:
            raise QueryError(f"{expression}: {body.decode(errors='replace')}")
        return [
            Series(each["metric"], float(each["value"][1]))
            for each in json.loads(body)["data"]["result"]
        ]

    def wait_for(self, expression: str, holds: Callable[[list[Series]], object]) -> list[Series]:
        """What an expression yields as soon as it is as wanted; else a WaitError that shows it."""
        return waiting.wait_for(lambda: self.query(expression), holds)

    @contextmanager
    def scraping(self, *targets: Target) -> Iterator[None]:
        """Scrape further targets for as long as the block lasts; all have been tried before it."""
        self.targets.extend(targets)
        try:
            _write_targets(self.directory, self.targets)
            _wait_until_tried(self, targets)
            yield
        finally:
            for each in targets:
                self.targets.remove(each)
            _write_targets(self.directory, self.targets)

    def is_ready(self) -> bool:
        """Whether it answers queries."""
        try:
            status, _ = self._fetch("/-/ready")
        except OSError:
            return False
        return status == HTTPStatus.OK

    def _fetch(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def why_not() -> str | None:
    """Why Prometheus cannot be had here, if so."""
    return None if programs.find_installed(_NAME) else debian.why_not()


@contextmanager
def running(plane: ControlPlane, *targets: Target) -> Iterator[Prometheus]:
    """A Prometheus with the cluster's credentials; it is fetched first if it is missing."""
    program = programs.find(_NAME)
    directory = plane.directory / _NAME
    directory.mkdir()
    _write_targets(directory, targets)
    settings = directory / "prometheus.json"
    settings.write_text(json.dumps(_settings(directory, plane.certificates)), encoding="utf-8")
    (port,) = controlplane.free_ports(1)
    flags = [
        f"--config.file={settings}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={LOOPBACK}:{port}",
        "--log.level=warn",
    ]
    with processes.running(program, flags, directory, logs=plane.logs) as process:
        ready = Prometheus(port, directory, process, [*targets])
        process.wait_until(ready.is_ready)
        _wait_until_tried(ready, targets)
        yield ready


def fake_usage(plane: ControlPlane) -> Target:
    """What the fake node tells of its containers."""
    return Target("fake-usage", f"{LOOPBACK}:{plane.ports.kwok}", fake_node.USAGE_PATH)


def cadvisor(address: str) -> Target:
    """What a real kubelet at an address tells of its containers."""
    return Target("kubernetes-cadvisor", address, "/metrics/cadvisor", is_secure=True)


def component(job: str, port: int) -> Target:
    """A component of loopback that tells its figures to anyone."""
    return Target(job, f"{LOOPBACK}:{port}")


def _wait_until_tried(asked: Prometheus, targets: Sequence[Target]) -> None:
    wanted = {(each.job, each.address) for each in targets}
    asked.wait_for(
        "up", lambda found: wanted <= {(it.labels["job"], it.labels["instance"]) for it in found}
    )


def _settings(directory: Path, made: Certificates) -> Json:
    tls = {
        "ca_file": str(made.authority),
        "cert_file": str(made.kubelet_client.certificate),
        "key_file": str(made.kubelet_client.key),
    }
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            _scrape(directory, "plain", {}),
            _scrape(directory, "secure", {"scheme": "https", "tls_config": tls}),
        ],
    }


def _scrape(directory: Path, name: str, security: Json) -> Json:
    files = [str(directory / f"{name}.json")]
    return {"job_name": name, "file_sd_configs": [{"files": files}], **security}


def _write_targets(directory: Path, targets: Sequence[Target]) -> None:
    """Write the files that Prometheus looks into whenever they change."""
    for name, is_secure in (("plain", False), ("secure", True)):
        listed = [_listed(each) for each in targets if each.is_secure is is_secure]
        unfinished = directory / f"{name}.tmp"
        unfinished.write_text(json.dumps(listed), encoding="utf-8")
        unfinished.replace(directory / f"{name}.json")


def _listed(target: Target) -> Json:
    labels = {"job": target.job, "__metrics_path__": target.path}
    return {"targets": [target.address], "labels": labels}
