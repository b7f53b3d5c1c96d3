"""What a process costs, and what it asks of its API server, as the kernel and the server tell it.

Nothing here touches the process that is measured: CPU and memory are read from `/proc`, requests
from the counters of the API server.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig.controlplane import ControlPlane
from rig.processes import Process

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024
_READS: Final = frozenset(("GET", "LIST"))
_WATCH: Final = "WATCH"
_REQUEST: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LONG_REQUEST: Final = re.compile(r"^apiserver_longrunning_requests\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_WATCHED: Final = frozenset(
    (
        "cronjobs",
        "daemonsets",
        "deployments",
        "events",
        "horizontalpodautoscalers",
        "jobs",
        "limitranges",
        "namespaces",
        "nodes",
        "pods",
        "replicasets",
        "replicationcontrollers",
        "resourcequotas",
        "statefulsets",
        "verticalpodautoscalercheckpoints",
        "verticalpodautoscalers",
    )
)
"""What an autoscaler reads or writes; all else is the business of the API server itself."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a process has used up to now, and holds now."""

    cpu_seconds: float
    resident_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests an API server has answered up to now."""

    answers: float = 0.0
    """Reads that were answered at once."""
    watches: float = 0.0
    """Reads that went on for minutes; they are counted when they end."""
    writes: float = 0.0

    @property
    def reads(self) -> float:
        """Reads of both kinds."""
        return self.answers + self.watches

    def __sub__(self, earlier: "Requests") -> "Requests":
        return Requests(
            self.answers - earlier.answers,
            self.watches - earlier.watches,
            self.writes - earlier.writes,
        )


def read_vitals(pid: int) -> Vitals:
    """What a process costs."""
    directory = Path("/proc", str(pid))
    # The name of the program, in parentheses, may hold anything; behind it all is numbers.
    fields = (directory / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    status = dict(
        line.split(":", 1) for line in (directory / "status").read_text("utf-8").splitlines()
    )
    return Vitals(
        cpu_seconds=sum(map(int, fields[11:13])) / _TICKS_PER_SECOND,
        resident_bytes=int(status["VmRSS"].split()[0]) * _KIB,
        peak_bytes=int(status["VmHWM"].split()[0]) * _KIB,
    )


def read_family(pid: int) -> Vitals:
    """What a process and all that descend from it cost together."""
    family = [read_vitals(member) for member in _list_family(pid)]
    return Vitals(
        cpu_seconds=sum(each.cpu_seconds for each in family),
        resident_bytes=sum(each.resident_bytes for each in family),
        peak_bytes=sum(each.peak_bytes for each in family),
    )


def read_own() -> Vitals:
    """What this process costs."""
    return read_vitals(os.getpid())


def pid_of(process: Process) -> int:
    """The pid of a program of the rig, whose parent is its supervisor."""
    return _list_children(process.popen.pid)[0]


def server_cpu_seconds(plane: ControlPlane) -> float:
    """What the API server and its store have used together."""
    programs = (plane.processes["kube-apiserver"], plane.processes["etcd"])
    return sum(read_vitals(pid_of(each)).cpu_seconds for each in programs)


def count_requests(plane: ControlPlane) -> Requests:
    """The requests for whatever autoscalers read and write, that were answered until now."""
    return sum_requests(parse_requests(_read_metrics(plane)))


def count_open_watches(plane: ControlPlane) -> Counter[str]:
    """By resource the watches of whatever autoscalers read that are open now."""
    return pick_watches(parse_open(_read_metrics(plane)))


def parse_requests(text: str) -> Counter[tuple[str, str]]:
    """The counters of requests in the text of an API server's metrics, by verb and resource."""
    return _parse(_REQUEST, text)


def parse_open(text: str) -> Counter[tuple[str, str]]:
    """The requests that are not answered yet and go on for long, by verb and resource."""
    return _parse(_LONG_REQUEST, text)


def pick_watches(opened: Counter[tuple[str, str]]) -> Counter[str]:
    """By resource those that are watches of what autoscalers are about."""
    return Counter(
        {
            resource: count
            for (verb, resource), count in opened.items()
            if verb == _WATCH and resource in _WATCHED
        }
    )


def sum_requests(counted: Counter[tuple[str, str]]) -> Requests:
    """Reads and writes of what autoscalers are about."""
    kept = {key: count for key, count in counted.items() if key[1] in _WATCHED}
    return Requests(
        answers=_sum(count for (verb, _), count in kept.items() if verb in _READS),
        watches=_sum(count for (verb, _), count in kept.items() if verb == _WATCH),
        writes=_sum(count for (verb, _), count in kept.items() if verb not in {*_READS, _WATCH}),
    )


def _read_metrics(plane: ControlPlane) -> str:
    _, body = plane.request("GET", "/metrics", timeout_seconds=60)
    return body.decode()


def _parse(line: re.Pattern[str], text: str) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for labels, value in line.findall(text):
        named = dict(_LABEL.findall(labels))
        found[named["verb"], named["resource"]] += int(float(value))
    return found


def _list_family(pid: int) -> list[int]:
    return [pid, *(each for child in _list_children(pid) for each in _list_family(child))]


def _list_children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in listed.split()]


def _sum(counts: Iterable[int]) -> float:
    return float(sum(counts))
