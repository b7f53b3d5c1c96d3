"""What accounts ask of the API server, by its own audit log: who may do how much, and who does it.

Only ServiceAccounts are written down. The rig's own programs are administrators, and would fill
the log with what nobody looks for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rig.fake_node import Json

_LOG: Final = "audit.jsonl"
_POLICY: Final[Json] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # A watch is told when it begins, and not only when it ends; all else when it is answered.
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
_DECISION: Final = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """What an account asked for, in the words of roles."""

    verb: str
    group: str
    resource: str
    """With its subresource, as roles name it; empty if it is about no resource."""
    namespace: str
    """Empty where it is about all of them, or about what is in none."""
    name: str
    path: str
    is_allowed: bool


def prepare(directory: Path) -> list[str]:
    """The flags of an API server that writes such a log, and the policy that they name."""
    policy = directory / "audit-policy.json"
    policy.write_text(json.dumps(_POLICY), encoding="utf-8")
    return [f"--audit-policy-file={policy}", f"--audit-log-path={directory / _LOG}"]


def read(directory: Path, user: str) -> Iterator[Request]:
    """All that a user has asked for so far."""
    # Of a line that is being written there is no end yet.
    whole, _, _ = (directory / _LOG).read_text(encoding="utf-8").rpartition("\n")
    for line in whole.splitlines():
        entry = json.loads(line)
        if entry["user"]["username"] == user:
            yield decode(entry)


def decode(entry: Json) -> Request:
    """The request that an entry of the log is about."""
    about = entry.get("objectRef", {})
    parts = (about.get("resource", ""), about.get("subresource", ""))
    return Request(
        verb=entry["verb"],
        group=about.get("apiGroup", ""),
        resource="/".join(part for part in parts if part),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        path=entry["requestURI"].partition("?")[0],
        is_allowed=entry.get("annotations", {}).get(_DECISION) == "allow",
    )
