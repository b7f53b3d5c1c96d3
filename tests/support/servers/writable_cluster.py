"""A small cluster on loopback that keeps what is written: enough for objects that nobody runs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from support.servers.api_server import Asked, Response, ok, refused
from support.servers.read_only_cluster import Json, ReadOnlyCluster

_REVIEW = "accessreviews"


@dataclass(slots=True)
class WritableCluster(ReadOnlyCluster):
    """Objects can be created, replaced, deleted and asked for by name."""

    namespaces: set[str] = field(default_factory=lambda: {"shop", "other"})
    may: Callable[[Json], bool] = lambda _: True
    """Whether somebody may do what the spec of a review asks."""
    refuses: set[tuple[str, str]] = field(default_factory=set)
    """Methods and names of objects that fail, though trials of them do not."""
    loses: set[str] = field(default_factory=set)
    """Names of objects that are created, though the answer says that this failed."""
    tried: Callable[[Json], object] = lambda _: None
    """What is done to an object that is only tried."""
    extra: dict[str, object] = field(default_factory=dict)
    """Answers by path."""

    def answer(self, asked: Asked) -> Response:
        if asked.path in self.extra:
            return ok(self.extra[asked.path])
        if asked.path.endswith(_REVIEW):
            return ok({"status": {"allowed": self.may(asked.json["spec"])}})
        *_, before, last = asked.path.split("/")
        if before == "namespaces":
            return ok({}) if last in self.namespaces else refused(404, reason="NotFound")
        if asked.method == "POST":
            return self._create(asked, last)
        if before in self.objects:
            return self._treat(asked, before, last)
        return ReadOnlyCluster.answer(self, asked)

    def _create(self, asked: Asked, resource: str) -> Response:
        made: Json = asked.json
        if f"create {resource}" in self.forbidden:
            message = f'cannot create resource "{resource}" in API group ""'
            return refused(403, reason="Forbidden", message=message)
        if asked.query:
            self.tried(made)
        if ("POST", made["metadata"].get("name")) in self.refuses and not asked.query:
            return refused(500, message="the disk is full")
        if not asked.query:
            made["metadata"]["resourceVersion"] = "1"
            self.objects[resource].append(made)
            if made["metadata"].get("name") in self.loses:
                return refused(500, message="the request timed out")
        return ok(made)

    def _treat(self, asked: Asked, resource: str, name: str) -> Response:
        found = self.find(resource, _namespace(asked), name)
        if found is None:
            return refused(404, reason="NotFound")
        if asked.method == "DELETE" and not asked.query:
            self.objects[resource].remove(found)
        if asked.method == "PUT":
            given = asked.json
            version = found["metadata"]["resourceVersion"]
            if given["metadata"].get("resourceVersion") != version:
                return refused(409, reason="Conflict")
            if not asked.query:
                given["metadata"]["resourceVersion"] = f"{int(version) + 1}"
                self.objects[resource][self.objects[resource].index(found)] = given
            return ok(given)
        return ok(found)

    def find(self, resource: str, namespace: str, name: str) -> Any:
        for each in self.objects[resource]:
            metadata = each["metadata"]
            if (metadata.get("namespace", ""), metadata["name"]) == (namespace, name):
                return each
        return None

    def stored(self) -> list[Json]:
        """All checkpoints, without what a cluster writes on them."""
        documents = json.loads(json.dumps(self.objects["verticalpodautoscalercheckpoints"]))
        for document in documents:
            document["metadata"].pop("resourceVersion", None)
        return sorted(documents, key=lambda one: json.dumps(one["metadata"], sort_keys=True))


def _namespace(asked: Asked) -> str:
    parts = asked.path.split("/")
    return parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
