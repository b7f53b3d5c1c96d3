"""The tables of the security page say exactly what the chart's lists of rules say."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "charts/trimtab/files/rbac"
PAGE = ROOT / "docs/security.md"


class Right(NamedTuple):
    """One verb for one resource, by the list that grants it."""

    where: str
    resource: str
    name: str
    verb: str


def listed() -> Iterator[Right]:
    for path in LISTS.glob("*.yaml"):
        for rule in yaml.safe_load(path.read_text(encoding="utf-8")):
            names = rule.get("resourceNames", [""])
            parts = product(rule["apiGroups"], rule["resources"], names, rule["verbs"])
            for group, resource, name, verb in parts:
                yield Right(path.stem, f"{resource}.{group}".rstrip("."), name, verb)


def told() -> Iterator[Right]:
    row = re.compile(r"^\| `([^`]+)` \| (.+?) \| (.+?) \| .+ \|$", re.MULTILINE)
    for where, resources, verbs in row.findall(PAGE.read_text("utf-8")):
        named = re.findall(r"`([^`]+)`(?: named `([^`]+)`)?", resources)
        for (resource, name), verb in product(named, verbs.split(", ")):
            yield Right(where, resource, name, verb)


def test_the_page_tells_every_right_and_no_other() -> None:
    assert sorted(told()) == sorted(listed())


def test_every_wildcard_is_one_that_the_page_explains() -> None:
    wide = {right.resource for right in listed() if "*" in right.resource or right.verb == "*"}

    assert wide == {"*/scale.*", "*.external.metrics.k8s.io"}


def test_nobody_may_write_workloads_or_read_secrets_of_others() -> None:
    reads = {"get", "list", "watch"}
    rights = [right for right in listed() if not right.where.startswith("people")]
    written = {right.resource for right in rights if right.verb not in reads}
    secrets = {(right.verb, right.name) for right in rights if right.resource == "secrets"}

    assert not any(resource.endswith((".apps", ".batch")) for resource in written)
    assert secrets == {
        ("create", ""),
        ("get", "trimtab-webhook-keys"),
        ("patch", "trimtab-webhook-keys"),
    }
