"""Find the permissions, as the chart's rules name them, that callers and components lack."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.resources import files
from typing import Final, TypeAlias, cast

import yaml

from trimtab.api.kinds import access_reviews
from trimtab.api.kinds.access_reviews import Question
from trimtab.cluster.http.client import Client
from trimtab.cluster.live import diagnosis
from trimtab.core.diagnosis.api_server import Rights
from trimtab.core.diagnosis.components import Component, Installed
from trimtab.core.diagnosis.findings import Unseen

_Rules: TypeAlias = Sequence[Mapping[str, Sequence[str]]]

_LIST: Final = ("list", "watch")
_READS: Final[_Rules] = (
    {
        "apiGroups": ("",),
        "resources": ("pods", "limitranges", "resourcequotas", "replicationcontrollers"),
        "verbs": _LIST,
    },
    {
        "apiGroups": ("apps",),
        "resources": ("daemonsets", "deployments", "replicasets", "statefulsets"),
        "verbs": _LIST,
    },
    {"apiGroups": ("batch",), "resources": ("cronjobs", "jobs"), "verbs": _LIST},
    {"apiGroups": ("autoscaling",), "resources": ("horizontalpodautoscalers",), "verbs": ("list",)},
)
"""Reads that Kubernetes' own role `view` allows."""
_GOOD_TO_HAVE: Final = frozenset(
    {
        "recommender-cluster",
        "admission-controller-cluster",
        "admission-controller-keys",
        "admission-controller-registration",
        "pages",
    }
)
"""Optional rules: without them a component works less well, or with keys made by others."""


def read_rules(name: str) -> _Rules:
    """Read the rules of one of the chart's roles."""
    text = (files("trimtab") / "rbac" / f"{name}.yaml").read_text(encoding="utf-8")
    return cast("_Rules", yaml.safe_load(text))


async def ask_own_rights(client: Client, namespace: str, patience: timedelta) -> Rights:
    """Return the permissions that the caller lacks for a complete diagnosis."""
    questions = [
        *access_reviews.list_questions((*_READS, *read_rules("people-view")), namespace),
        *access_reviews.list_questions(read_rules("people-doctor")),
    ]
    missing = await diagnosis.attempt(
        diagnosis.fetch_missing(client, questions), "your own rights", patience
    )
    return Rights("you", "a look at everything", missing, is_optional=True)


async def ask_component_rights(
    client: Client, installed: Sequence[Installed] | Unseen, patience: timedelta
) -> list[Rights]:
    """Return the permissions that the ServiceAccounts of our components lack."""
    if isinstance(installed, Unseen):
        return [Rights("components", "their work", installed)]
    ours = [one for one in installed if one.is_ours]
    if not ours:
        unseen = Unseen(
            "no Deployment here runs a component of Trimtab, so no service account can be checked"
        )
        return [Rights("components", "their work", unseen)]
    found = []
    for one in ours:
        account = (one.namespace, one.account)
        for file, questions in _questions(one):
            fetch = diagnosis.fetch_missing(client, questions, account)
            missing = await diagnosis.attempt(fetch, f"rights of {'/'.join(account)}", patience)
            purpose = f"the work of the {one.component} ({file})"
            found.append(Rights("/".join(account), purpose, missing, file in _GOOD_TO_HAVE))
    return found


def _questions(one: Installed) -> Iterator[tuple[str, Sequence[Question]]]:
    """Yield the permissions that a component needs, by the chart's file of rules."""
    name = one.component.value
    yield name, list(access_reviews.list_questions(read_rules(name), one.watched))
    yield (
        f"{name}-own",
        list(access_reviews.list_questions(read_rules(f"{name}-own"), one.namespace)),
    )
    # An installation for one namespace has no permissions for cluster-scoped objects.
    if one.component is not Component.ROLES and not one.watched:
        yield f"{name}-cluster", list(access_reviews.list_questions(read_rules(f"{name}-cluster")))
    if one.component is Component.UPDATER and one.watched:
        yield (
            f"{name}-namespace",
            list(access_reviews.list_questions(read_rules(f"{name}-namespace"), one.watched)),
        )
    if one.is_secure:
        yield "pages", list(access_reviews.list_questions(read_rules("pages")))
    if one.component is Component.ADMISSION:
        yield (
            f"{name}-keys",
            list(access_reviews.list_questions(read_rules(f"{name}-keys"), one.namespace)),
        )
    if one.component is Component.ADMISSION and not one.watched:
        yield (
            f"{name}-registration",
            list(access_reviews.list_questions(read_rules(f"{name}-registration"))),
        )
