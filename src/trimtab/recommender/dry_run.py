"""The bystander: learns and recommends as the recommender would, and writes nothing.

It consists of the recommender's own steps, without those that write. Its autoscalers may be virtual
(`core/report/virtual_autoscalers.py`). Its inputs do not change while it learns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.lists import Unreadable
from trimtab.cluster.ports import Clock, HistorySource, Owners
from trimtab.core.model.autoscalers import Autoscaler, AutoscalerName
from trimtab.core.model.nodes import Node
from trimtab.core.model.pods import Pod, PodHead, WorkloadName
from trimtab.core.model.workloads import Lookup, PeekedOwner, PeekedWorkload, Workload
from trimtab.core.report import virtual_autoscalers
from trimtab.core.report.sizes import Learned
from trimtab.core.report.virtual_autoscalers import Group
from trimtab.recommender.load_cluster import AutoscalerLoader, load_nodes, load_pods
from trimtab.recommender.load_history import HistoryKeeper
from trimtab.recommender.load_usage import count_oom_kills, take_in_usage
from trimtab.recommender.reports import TickReport
from trimtab.recommender.restore import CheckpointRestorer
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import RecommenderState


@dataclass(frozen=True, slots=True)
class DryRunInputs:
    """Autoscalers with their pods, owners, nodes and checkpoints, as the bystander reads them."""

    groups: Sequence[Group]
    owners: Owners
    nodes: Sequence[Node] = ()
    checkpoints: Sequence[Checkpoint] = ()


@dataclass(frozen=True, slots=True)
class HistoryProgress:
    """Progress of reading history, in namespaces."""

    done: int
    all: int
    problems: Mapping[str, str]
    """Latest read errors, by namespace."""

    @property
    def is_over(self) -> bool:
        """True if every namespace was either read or has failed."""
        return self.done + len(self.problems) >= self.all


class Bystander:
    """Computes what all autoscalers, virtual ones included, would recommend."""

    def __init__(
        self,
        inputs: DryRunInputs,
        settings: RecommenderSettings,
        clock: Clock,
        history: HistorySource | None = None,
    ) -> None:
        self._inputs = inputs
        self._settings = settings
        self._clock = clock
        self._state = RecommenderState(settings)
        self.history = None if history is None else HistoryKeeper(history, clock, settings.history)
        """Reads history while its `run` runs; None without a source."""

    async def begin(self) -> None:
        """Load all autoscalers with their checkpoints, and all pods with their OOM kills."""
        now, inputs, state = self._clock.now(), self._inputs, self._state
        groups = {group.autoscaler.identity: group.autoscaler for group in inputs.groups}
        # The bystander serves every autoscaler, whatever recommender it names.
        autoscalers = _Shown([replace(each, recommenders=()) for each in groups.values()])
        owners = _VirtualOwners(
            inputs.owners, virtual_autoscalers.list_virtual_workloads(inputs.groups)
        )
        await AutoscalerLoader(autoscalers, owners, self._settings).load(state, now)
        CheckpointRestorer(inputs, self._settings).restore(state, now)
        load_nodes(state, inputs.nodes, self._settings)
        pods = [pod for group in inputs.groups for pod in group.pods]
        load_pods(state, pods, self._settings, now)
        count_oom_kills(state, state.oom_watch.drain(), self._settings, now)

    def take_in(self, usage: UsageColumns) -> TickReport:
        """Add the latest usage samples."""
        return take_in_usage(self._state.usage, usage, self._clock.now())

    async def advance_history(self) -> HistoryProgress:
        """Request the history of all autoscalers, and return the progress."""
        assert self.history is not None
        await self.history.load(self._state)
        subjects = self._state.subjects.values()
        all_of_them = {subject.name.namespace for subject in subjects}
        outstanding = {each.name.namespace for each in subjects if each.fetches_history}
        problems = {
            each.name.namespace: each.history_problem
            for each in subjects
            if each.fetches_history and each.history_problem
        }
        return HistoryProgress(len(all_of_them - outstanding), len(all_of_them), problems)

    def conclude(self) -> Iterator[tuple[Group, Autoscaler, Mapping[str, Learned]]]:
        """Yield each group, its autoscaler with recommendations, and the samples of each container.

        Recommendations that an autoscaler of the cluster has published stay.
        """
        self._state.publications.refresh()
        for group in self._inputs.groups:
            name = group.autoscaler.identity
            learned = self._state.publications.recommendation(name).containers
            published = group.autoscaler.recommendation or ()
            known = {each.container_name for each in published}
            recommended = (
                *published,
                *(each for each in learned if each.container_name not in known),
            )
            yield group, replace(group.autoscaler, recommendation=recommended), self._learned(name)

    def _learned(self, name: AutoscalerName) -> dict[str, Learned]:
        learner = self._state.usage.links.learners[name]
        aggregates = self._state.usage.aggregates
        found = {}
        for container in sorted(learner.container_names):
            rows = np.array(learner.rows(container), np.int64)
            count = int(aggregates.ints("count")[rows].sum())
            first = aggregates.floats("first")[rows].min()
            last = aggregates.floats("last")[rows].max()
            span = timedelta(seconds=max(float(last - first), 0.0)) if count else timedelta(0)
            found[container] = Learned(count, span)
        return found


@dataclass(frozen=True, slots=True)
class _Shown:
    """Autoscalers that can all be read."""

    autoscalers: Sequence[Autoscaler]
    unreadable: tuple[Unreadable, ...] = ()

    def __iter__(self) -> Iterator[Autoscaler]:
        return iter(self.autoscalers)


@dataclass(frozen=True, slots=True)
class _VirtualOwners:
    """Owners that answer with the workloads that virtual autoscalers are for."""

    owners: Owners
    virtual: Mapping[WorkloadName, Workload]

    async def topmost(self, owned: Pod | Workload) -> WorkloadName | None:
        if isinstance(owned, Workload) and owned.name in self.virtual:
            return owned.name
        return await self.owners.topmost(owned)

    async def workload(self, name: WorkloadName, api_version: str = "") -> Workload | None:
        return self.virtual.get(name) or await self.owners.workload(name, api_version)

    def known(self, name: WorkloadName) -> Workload | None:
        return self.virtual.get(name) or self.owners.known(name)

    async def look_up(self, lookup: Lookup) -> None:
        await self.owners.look_up(lookup)

    def peek(self, owned: Pod | PodHead | Workload) -> PeekedOwner:
        if isinstance(owned, Workload) and owned.name in self.virtual:
            return PeekedOwner(owned.name)
        return self.owners.peek(owned)

    def peek_workload(self, name: WorkloadName, api_version: str = "") -> PeekedWorkload:
        virtual = self.virtual.get(name)
        if virtual is not None:
            return PeekedWorkload(virtual)
        return self.owners.peek_workload(name, api_version)
