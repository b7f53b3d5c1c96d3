"""What a stored pod costs: memory held by a store of pods, fed page by page as from a server.

The pods are as large clusters have them: two containers with requests and limits, a status, labels
of their workload, annotations of others, ten pods to a workload. What counts is what Python's
allocator holds for the store once everything else is gone.

Writes `results/store.json` and the page of benchmarks; fails if a pod takes more than it may.
"""

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import SystemRandom
from typing import Final

from bench import page, scoring
from bench.telling import say
from trimtab.cluster.watch.interning import decode_thrifty_pod
from trimtab.cluster.watch.reflector import PAGE_SIZE, Feed, WatchedKind
from trimtab.cluster.watch.store import Reader, Writer, open_store
from trimtab.core.model.pods import Pod

RESULTS: Final = Path(__file__).parent / "results/store.json"
PODS: Final = 20_000
PODS_PER_WORKLOAD: Final = 10
LIMIT_BYTES: Final = 2048


class Clock:
    """The time, which does not matter here."""

    def now(self) -> datetime:
        """Any moment."""
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def sleep(self, span: timedelta) -> None:
        """Return when the span has passed."""
        await asyncio.sleep(span.total_seconds())


async def _silence() -> AsyncGenerator[bytes, None]:
    await asyncio.Event().wait()
    yield b""


class Server:
    """Serves pods in pages that were made beforehand."""

    def __init__(self) -> None:
        self.pages = [a_page(start) for start in range(0, PODS, PAGE_SIZE)]

    async def fetch(self, path: str, parameters: Mapping[str, str] | None = None) -> bytes:
        """One page of the list."""
        del path
        return self.pages[int((parameters or {}).get("continue", "0"))]

    async def stream(
        self, _path: str, _parameters: Mapping[str, str]
    ) -> AsyncGenerator[bytes, None]:
        """Nothing more."""
        return _silence()

    async def post(self, path: str, body: bytes) -> bytes:
        """Nothing: a store only reads."""
        raise NotImplementedError(f"POST {path} {body!r}")


def a_page(start: int) -> bytes:
    """One page of the list of pods."""
    end = start + PAGE_SIZE
    metadata = {"resourceVersion": "1"}
    if end < PODS:
        metadata["continue"] = str(end // PAGE_SIZE)
    items = [a_pod(number) for number in range(start, end)]
    return json.dumps({"metadata": metadata, "items": items}).encode()


def a_pod(number: int) -> dict[str, object]:
    """A pod as an API server shows it."""
    workload = number // PODS_PER_WORKLOAD
    names = ("app", "proxy")
    return {
        "metadata": _metadata(number, workload),
        "spec": {
            "nodeName": f"node-{number % 400}",
            "containers": [_container(name, workload) for name in names],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-08-01T00:00:05Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": f"2026-08-01T00:00:{9 + n}Z"}
                for n, kind in enumerate(("Initialized", "Ready", "PodScheduled"), start=1)
            ],
            "containerStatuses": [_status(name, workload) for name in names],
        },
    }


def _metadata(number: int, workload: int) -> dict[str, object]:
    team = f"team-{workload % 100}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{workload}-7d4b9c8f6d"}
    return {
        "name": f"web-{workload}-7d4b9c8f6d-{number:05x}",
        "namespace": team,
        "uid": f"0d7b7c1e-6c1c-4d59-8d8b-{number:012x}",
        "resourceVersion": str(10_000_000 + number),
        "creationTimestamp": "2026-08-01T00:00:00Z",
        "labels": {
            "app.kubernetes.io/name": f"web-{workload}",
            "app.kubernetes.io/instance": f"web-{workload}",
            "app.kubernetes.io/version": "1.2.3",
            "pod-template-hash": "7d4b9c8f6d",
            "team": team,
        },
        "annotations": {
            "checksum/config": f"{workload:064x}",
            "cni.example.com/containerID": f"{number:064x}",
            "vpaObservedContainers": "app, proxy",
            "vpaUpdates": f"Pod resources updated by web-{workload}: container 0: cpu request",
        },
        "ownerReferences": [
            {**owner, "uid": f"1d7b7c1e-6c1c-4d59-8d8b-{workload:012x}", "controller": True}
        ],
    }


def _container(name: str, workload: int) -> dict[str, object]:
    environment = [{"name": f"SETTING_{n}", "value": "x" * 30} for n in range(10)]
    image = "registry.example.com/team/app:1.2.3"
    return {"name": name, "image": image, "env": environment, "resources": _resources(workload)}


def _status(name: str, workload: int) -> dict[str, object]:
    state = {"running": {"startedAt": "2026-08-01T00:02:00Z"}}
    return {
        "name": name,
        "restartCount": 1,
        "state": state,
        "lastState": {
            "terminated": {
                "reason": "OOMKilled",
                "startedAt": "2026-08-01T00:00:07Z",
                "finishedAt": "2026-08-01T00:02:00Z",
            }
        },
        "resources": _resources(workload),
    }


def _resources(workload: int) -> dict[str, object]:
    return {
        "requests": {"cpu": f"{25 + workload % 900}m", "memory": f"{64 + workload % 512}Mi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }


async def fill(server: Server) -> Reader[Pod]:
    """A store that holds all pods of the server."""
    clock = Clock()
    writer: Writer[Pod]
    writer, reader = open_store(clock)
    kind = WatchedKind("/api/v1/pods", decode_thrifty_pod)
    running = asyncio.create_task(
        Feed(server, kind, writer, clock=clock, random=SystemRandom()).run()
    )
    await reader.synced()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return reader


def main() -> int:
    """Measure, print and write down; 1 if a pod takes more than it may."""
    say(f"{PODS} pods are listed twice")
    server = Server()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    reader = asyncio.run(fill(server))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(reader) == PODS
    began = time.process_time()
    asyncio.run(fill(server))
    result = {
        "pods": PODS,
        "wire_bytes_per_pod": round(sum(map(len, server.pages)) / PODS),
        "stored_bytes_per_pod": round(held / PODS),
        "limit_bytes_per_pod": LIMIT_BYTES,
        "cpu_seconds_to_fill": round(time.process_time() - began, 2),
    }
    print(json.dumps(result, indent=2))
    scoring.write_json(RESULTS, result)
    page.write()
    return 0 if result["stored_bytes_per_pod"] <= LIMIT_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
