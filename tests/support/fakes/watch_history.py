"""A model of what an API server keeps of one kind: objects, versions, and a history that ends."""

import json
from collections.abc import Mapping
from typing import Any

from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import GoneError

Json = dict[str, Any]

BAD = -1
"""The value of an object that nobody can read."""


def gone() -> GoneError:
    return GoneError("GET /things", Status(code=410, reason="Expired"))


def decode_thing(data: bytes) -> int:
    value: int = json.loads(bytes(data))["value"]
    if value == BAD:
        raise DecodeError("value", "bad")
    return value


class History:
    def __init__(self, things: Mapping[str, int] | None = None) -> None:
        self.things = dict(things or {})
        self.version = 1
        self._events: list[tuple[int, Json]] = []
        self._oldest = 1
        self._snapshots: dict[int, dict[str, int]] = {}

    def put(self, name: str, value: int) -> None:
        kind = "MODIFIED" if name in self.things else "ADDED"
        self.things[name] = value
        self._remember(kind, name, value)

    def delete(self, name: str) -> None:
        if name in self.things:
            self._remember("DELETED", name, self.things.pop(name))

    def compact(self) -> None:
        """Forget everything but the present."""
        self._events, self._oldest, self._snapshots = [], self.version, {}

    def list_page(self, limit: int, token: str = "") -> Json:
        version, start = token.split("/") if token else (str(self.version), "0")
        if not token:
            self._snapshots[self.version] = dict(self.things)
        elif int(version) not in self._snapshots:
            raise gone()
        names = sorted(self._snapshots[int(version)])
        end = int(start) + limit
        page = [
            _thing(name, self._snapshots[int(version)][name], version)
            for name in names[int(start) : end]
        ]
        metadata = {"resourceVersion": version}
        if end < len(names):
            metadata["continue"] = f"{version}/{end}"
        return {"metadata": metadata, "items": page}

    def events_after(self, version: str) -> list[Json]:
        if int(version) < self._oldest:
            raise gone()
        return [event for at, event in self._events if at > int(version)]

    def bookmark(self) -> Json:
        return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}

    def _remember(self, kind: str, name: str, value: int) -> None:
        self.version += 1
        event = {"type": kind, "object": _thing(name, value, str(self.version))}
        self._events.append((self.version, event))


def _thing(name: str, value: int, version: str) -> Json:
    metadata = {"namespace": "default", "name": name, "resourceVersion": version}
    return {"metadata": metadata, "value": value}
