"""`trimtab explain`: the reasons of a recommendation, and of what the updater does with pods."""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, Final, Literal, TypeAlias, assert_never

import msgspec
from cyclopts import Parameter

from trimtab.api.explain import document
from trimtab.api.explain.document import Explanation
from trimtab.api.wire import codec
from trimtab.api.wire.codec import JSON
from trimtab.api.wire.lists import Unreadable
from trimtab.cli.commands import read_cluster
from trimtab.cli.commands.read_cluster import ViewFlags
from trimtab.cli.errors import FailedError, UsageError
from trimtab.cli.explain import offline
from trimtab.cli.explain.offline import ObservedCluster
from trimtab.cli.explain.remote import (
    USUAL_PLACE,
    Answers,
    ExplainQuery,
    ask_addresses,
    ask_through_server,
    check_addresses,
)
from trimtab.cli.explain.text import write_text
from trimtab.cli.flags import types
from trimtab.cli.flags.common import LogFlags
from trimtab.cli.flags.types import Text
from trimtab.cli.output import documents, empty_results
from trimtab.cli.output.formats import OUTPUT, Format
from trimtab.cli.runtime import cluster_connection, logs
from trimtab.cluster.auth.credentials import Connection
from trimtab.cluster.clock import RealClock
from trimtab.cluster.http.client import Client
from trimtab.cluster.live import page_reviews
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName

_PATIENCE: Final = timedelta(seconds=30)
_KINDS: Final = {
    "vpa": False,
    "verticalpodautoscaler": False,
    "verticalpodautoscalers": False,
    "autoscaler": False,
    "po": True,
    "pod": True,
    "pods": True,
}
"""Kinds that a name may start with, and True for those of a pod."""


_Format: TypeAlias = Literal[Format.TEXT, Format.JSON, Format.YAML]


@dataclass(frozen=True, slots=True)
class _Subject:
    """The autoscaler or pod to explain."""

    name: str
    is_pod: bool = False


@types.flag_group("Components", order=8)
@dataclass(frozen=True, slots=True)
class SourceFlags:
    """Flags for the components to ask."""

    sources: Annotated[Sequence[str], Parameter(name="--from", negative="")] = ()
    """Addresses of components to ask, such as https://localhost:8942; else those in the cluster are
    asked through its API server."""
    components_namespace: Text = ""
    """The only namespace in which components are asked; else they are looked for everywhere, as
    doctor does."""
    offline: Annotated[bool, Parameter(negative="")] = False
    """Ask no component: only what the cluster stores."""


_VIEW: Final = ViewFlags()
_SOURCES: Final = SourceFlags()


def explain(
    name: str,
    /,
    *,
    output: Annotated[_Format, OUTPUT] = Format.TEXT,
    container: Annotated[str, Parameter(name=["--container", "-c"])] = "",
    asked: SourceFlags = _SOURCES,
    view: ViewFlags = _VIEW,
) -> int:
    """Print the explanation of an autoscaler or a pod: 0.

    Args:
        name: The autoscaler, or a pod as pod/NAME.
        output: How it is written.
        container: Explain only this container.
        asked: Which components are asked.
        view: Which cluster is looked at.
    """
    subject = _parse(name)
    check_addresses(asked.sources)
    if view.all_namespaces:
        raise UsageError("--all-namespaces: one autoscaler or pod of one namespace is explained")
    logs.set_up(LogFlags(v=0))
    clock = RealClock()
    connection = cluster_connection.choose_connection(
        view.kubeconfig, clock, os.environ, view.context
    )
    desk = _Desk(connection, clock, read_cluster.namespace_of(view, connection), asked)
    explanation = _narrow(asyncio.run(desk.explain(subject)), container)
    _write(explanation, output, clock)
    return 0


@dataclass(frozen=True, slots=True)
class _Desk:
    """Explains autoscalers and pods of one namespace, from components or from the cluster."""

    connection: Connection
    clock: RealClock
    namespace: str
    asked: SourceFlags

    async def explain(self, subject: _Subject) -> Explanation:
        """Explain an autoscaler or a pod; a FailedError if it does not exist."""
        scope = offline.scope_of(self.namespace)
        async with (
            read_cluster.joined(self.connection, self.clock) as client,
            read_cluster.looking(client, scope, self.clock, _PATIENCE) as sight,
        ):
            around = await offline.survey(sight, self.clock, self.connection.server)
            autoscaler = await self._find(subject, around, client)
            pod = subject.name if subject.is_pod else ""
            question = ExplainQuery(self.namespace, autoscaler.name, pod)
            answers = await self._ask(client, question)
            numbers = answers.numbers
            if numbers is None and not subject.is_pod:
                numbers = await offline.explain_numbers(around, autoscaler)
        plan = answers.pods
        if plan is None or not plan.pods:
            # The updater's last plan lacks pods that are younger than it.
            plan = offline.explain_pods(around, question)
        rivals = [] if subject.is_pod else around.rivals(autoscaler.identity)
        obeyed = [
            f"its pods obey {each.name}: the oldest that acts on pods is in charge"
            for each in rivals
        ]
        plan = msgspec.structs.replace(plan, remarks=[*plan.remarks, *answers.remarks, *obeyed])
        return Explanation(
            autoscaler=document.show_autoscaler(autoscaler),
            numbers=None if subject.is_pod else numbers,
            plan=plan,
        )

    async def _ask(self, client: Client, question: ExplainQuery) -> Answers:
        if self.asked.sources:
            place = self.asked.components_namespace or USUAL_PLACE
            fetch_token = partial(page_reviews.fetch_pages_token, client, place)
            return await ask_addresses(self.asked.sources, question, fetch_token)
        if self.asked.offline:
            return Answers()
        return await ask_through_server(client, self.asked.components_namespace, question)

    async def _find(self, subject: _Subject, around: ObservedCluster, client: Client) -> Autoscaler:
        if not subject.is_pod:
            found = around.autoscaler(AutoscalerName(self.namespace, subject.name))
            if found is None:
                _require_readable("autoscaler", around.cluster.autoscalers.unreadable, subject.name)
                await empty_results.require_namespace(client, self.namespace)
                raise FailedError(f"there is no autoscaler {subject.name} in {self.namespace}")
            return found
        if not around.has_pod(self.namespace, subject.name):
            _require_readable("pod", around.cluster.pods.unreadable, subject.name)
            await empty_results.require_namespace(client, self.namespace)
            raise FailedError(f"there is no pod {subject.name} in {self.namespace}")
        governor = around.governor(self.namespace, subject.name)
        if governor is None:
            hidden = around.cluster.autoscalers.unreadable
            more = "".join(
                f"; {empty_results.describe_unreadable('autoscaler', one)}" for one in hidden[:1]
            )
            raise FailedError(f"no autoscaler is for pod {subject.name}{more}")
        return governor


def _require_readable(kind: str, unreadable: Sequence[Unreadable], name: str) -> None:
    """Raise a FailedError if an object of that name exists, and cannot be decoded."""
    for one in unreadable:
        if one.name == name:
            raise FailedError(
                f"{empty_results.describe_unreadable(kind, one)}; nothing is done for it"
            )


def _parse(text: str) -> _Subject:
    kind, slash, name = text.partition("/")
    if not slash:
        return _Subject(text)
    if kind.lower() not in _KINDS or not name:
        raise UsageError(f"{text!r} is neither the name of an autoscaler nor pod/NAME")
    return _Subject(name, is_pod=_KINDS[kind.lower()])


def _narrow(explanation: Explanation, container: str) -> Explanation:
    if not container:
        return explanation
    known = document.container_names(explanation)
    if container not in known:
        others = ", ".join(sorted(known)) or "none"
        raise FailedError(f"there is no container {container}; there are: {others}")
    return document.only_container(explanation, container)


def _write(explanation: Explanation, output: _Format, clock: RealClock) -> None:
    match output:
        case Format.TEXT:
            write_text(explanation, clock.now())
        case Format.JSON:
            sys.stdout.write(documents.format_json(_to_record(explanation)))
        case Format.YAML:
            sys.stdout.write(documents.format_yaml(_to_record(explanation)))
        case _:
            assert_never(output)


def _to_record(explanation: Explanation) -> JSON:
    record: JSON = msgspec.json.decode(codec.encode(explanation))
    return record
