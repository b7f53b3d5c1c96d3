"""Accounts that may do exactly what the chart's lists of rules say, and what they did with it."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from support.stages.components import Json

from rig.audit import Request
from rig.controlplane import ControlPlane

COMPONENTS = ("recommender", "updater", "admission-controller", "roles")
_RBAC = "rbac.authorization.k8s.io"
_SCALE = "*/scale"
_REVIEWS = "selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb that an account was given for one resource."""

    verb: str
    group: str
    resource: str
    name: str
    """Empty for objects of any name."""
    namespace: str
    """Empty for all of them."""

    def covers(self, request: Request) -> bool:
        return (
            self.verb == request.verb
            and self.group in ("*", request.group)
            and self._means(request.resource)
            and self.name in ("", request.name)
            and self.namespace in ("", request.namespace)
        )

    def _means(self, resource: str) -> bool:
        return resource.endswith("/scale") if self.resource == _SCALE else resource == self.resource


def grants(rules: Iterable[Json], namespace: str = "") -> Iterator[Grant]:
    """Everything that the rules allow, one by one."""
    for rule in rules:
        names = rule.get("resourceNames", [""])
        for verb, group, resource, name in product(
            rule["verbs"], rule.get("apiGroups", []), rule.get("resources", []), names
        ):
            yield Grant(verb, group, resource, name, namespace)


class Account:
    """A ServiceAccount, what it was granted, and what it asked for."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.name = name
        self.grants: list[Grant] = []
        self.requests: set[Request] = set()
        self._roles: list[str] = []
        manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self._accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        plane.create(self._accounts, manifest)

    def allow_everywhere(self, rules: list[Json]) -> None:
        """Let it do that in all namespaces, and to what is in none."""
        name = f"{self.namespace}-{self.name}"
        self._roles += [f"clusterrolebindings/{name}", f"clusterroles/{name}"]
        self._bind("Cluster", name, "", rules)

    def allow_in(self, namespace: str, rules: list[Json]) -> None:
        """Let it do that in a namespace."""
        self._bind("", self.name, namespace, rules)

    def fetch_token(self) -> str:
        """A token of it."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        given = self.plane.create(f"{self._accounts}/{self.name}/token", asked)
        return str(given["status"]["token"])

    def write_kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig with a token of it."""
        document = json.loads(self.plane.kubeconfig.read_text(encoding="utf-8"))
        document["users"][0]["user"] = {"token": self.fetch_token()}
        path = folder / f"{self.name}.kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def note_requests(self) -> None:
        """Remember what it has asked for, but for what everybody may: discovery, and of itself."""
        user = f"system:serviceaccount:{self.namespace}:{self.name}"
        asked = self.plane.audited(user)
        self.requests = {one for one in asked if one.resource and one.resource != _REVIEWS}

    def refused(self) -> list[Request]:
        """What it asked for and was not allowed to do."""
        return [one for one in self.requests if not one.is_allowed]

    def unused(self) -> list[Grant]:
        """What it was granted and has not used."""
        return [grant for grant in self.grants if not any(map(grant.covers, self.requests))]

    def ask(self, method: str, path: str, body: bytes, content_type: str) -> int:
        """The status of the answer to a request of its own."""
        mine = replace(self.plane, token=self.fetch_token())
        return mine.request(method, path, body, content_type)[0]

    def leave(self) -> None:
        """Take away what does not go with its namespace."""
        for role in self._roles:
            self.plane.request("DELETE", f"/apis/{_RBAC}/v1/{role}")

    def become(self, role: str, namespace: str = "") -> None:
        """Let it have one of the cluster's own roles, in a namespace or everywhere."""
        name = f"{self.namespace}-{self.name}-{role}"
        if not namespace:
            self._roles.append(f"clusterrolebindings/{name}")
        self._give("" if namespace else "Cluster", name, namespace, ("ClusterRole", role))

    def _bind(self, prefix: str, name: str, namespace: str, rules: list[Json]) -> None:
        self.grants += grants(rules, namespace)
        role = {"apiVersion": f"{_RBAC}/v1", "kind": f"{prefix}Role", "metadata": {"name": name}}
        path = f"{_place(namespace)}/{prefix.lower()}roles"
        self.plane.create(path, {**role, "rules": rules})
        self._give(prefix, name, namespace, (f"{prefix}Role", name))

    def _give(self, prefix: str, name: str, namespace: str, role: tuple[str, str]) -> None:
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        binding = {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{prefix}RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _RBAC, "kind": role[0], "name": role[1]},
            "subjects": [subject],
        }
        self.plane.create(f"{_place(namespace)}/{prefix.lower()}rolebindings", binding)


def _place(namespace: str) -> str:
    return f"/apis/{_RBAC}/v1" + (f"/namespaces/{namespace}" if namespace else "")
