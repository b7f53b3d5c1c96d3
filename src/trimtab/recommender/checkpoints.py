"""Checkpoints: read when an autoscaler is met, written in rotation, deleted when nobody owns them.

What is stored is never made worse: a checkpoint that holds less than the stored one is not
written, and one that cannot be read is left to be learned anew.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.api.checkpoints import FINGERPRINT, Checkpoint
from trimtab.cluster.ports import Cluster
from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.checkpoint import CheckpointError
from trimtab.core.conditions import ConditionType
from trimtab.core.rotation import Turn, find_orphans, list_due
from trimtab.core.saving import (
    CheckpointKey,
    encode_checkpoints,
    encode_histories,
    is_about_pods_of,
    is_lighter,
)
from trimtab.core.selectors import fingerprint
from trimtab.recommender.acting import Writers
from trimtab.recommender.knowledge import Knowledge, Subject
from trimtab.recommender.reports import Problem, Step, TickReport
from trimtab.recommender.settings import RecommenderSettings

_STEP = Step.MAINTAIN_CHECKPOINTS


@dataclass(slots=True)
class CheckpointKeeper:
    """Reads, writes and deletes the checkpoints of the autoscalers that are ours."""

    cluster: Cluster
    settings: RecommenderSettings
    _orphans: frozenset[AutoscalerName] = field(default=frozenset(), init=False)
    """Those that had no autoscaler when it was last looked for them."""

    def restore(self, knowledge: Knowledge, subjects: Iterable[Subject]) -> TickReport:
        """Let autoscalers that are new to us know what their checkpoints hold."""
        new = {subject.autoscaler.identity: subject for subject in subjects}
        report = TickReport()
        for owner, stored in self._by_owner().items() if new else ():
            for checkpoint in stored if owner in new else ():
                report += self._restore_one(knowledge, new[owner], checkpoint)
        return report

    async def save_due(self, knowledge: Knowledge, writers: Writers, now: datetime) -> TickReport:
        """Write the checkpoints of those whose turn it is."""
        turns = {name: subject.turn for name, subject in knowledge.served.items()}
        settings = self.settings
        due = list_due(turns, now, rotation=settings.checkpoint_rotation, tick=settings.interval)
        return await self.save(knowledge, due, writers, now)

    async def save(
        self,
        knowledge: Knowledge,
        names: Iterable[AutoscalerName],
        writers: Writers,
        now: datetime,
    ) -> TickReport:
        """Write the checkpoints of some autoscalers, as far as they hold anything new."""
        chosen = [name for name in names if not _fetches_history(knowledge.subjects[name])]
        drafts = self._changed_drafts(knowledge, chosen, now)
        refused = self._poorer(knowledge, drafts)
        named = [
            (f"{draft.namespace}/{draft.written_name}", draft)
            for draft in drafts
            if _key(draft) not in refused
        ]
        written, problems = await writers.write(_STEP, named, self.cluster.save_checkpoint)
        unsaved = {_owner(draft) for _, draft in named} - {_owner(draft) for draft in written}
        failed = {problem.about for problem in problems}
        unsaved |= {_owner(draft) for name, draft in named if name in failed}
        for name in chosen:
            if name not in unsaved and name in knowledge.subjects:
                knowledge.subjects[name].turn = Turn(now, is_saved=True)
                knowledge.subjects[name].is_about_others = False
        return TickReport(
            checkpoints_written=len(written),
            checkpoints_refused=len(refused),
            problems=tuple(problems),
        )

    async def delete(self, ghosts: Iterable[CheckpointKey], writers: Writers) -> TickReport:
        """Delete the checkpoints of containers that autoscalers no longer have."""
        wanted = set(ghosts)
        chosen = [
            checkpoint
            for checkpoint in (self.cluster.checkpoints if wanted else ())
            if (_owner(checkpoint), checkpoint.container_name) in wanted
        ]
        return await self._delete(chosen, writers)

    async def delete_orphans(self, writers: Writers) -> TickReport:
        """Delete the checkpoints of autoscalers that were gone the last time too.

        Whoever replaces an object deletes it first: then its history is still wanted.
        """
        stored = {
            owner: checkpoints
            for owner, checkpoints in self._by_owner().items()
            if self.settings.covers(owner.namespace)
        }
        autoscalers = self.cluster.autoscalers
        existing = {autoscaler.identity for autoscaler in autoscalers}
        hidden = {AutoscalerName(one.namespace, one.name) for one in autoscalers.unreadable}
        orphans = frozenset(find_orphans(stored, existing, hidden))
        before, self._orphans = self._orphans, orphans
        chosen = [each for owner in sorted(orphans & before) for each in stored[owner]]
        return await self._delete(chosen, writers)

    async def _delete(self, checkpoints: Iterable[Checkpoint], writers: Writers) -> TickReport:
        async def delete(checkpoint: Checkpoint) -> None:
            name = checkpoint.name or checkpoint.written_name
            await self.cluster.delete_checkpoint(checkpoint.namespace, name)

        named = [
            (f"{each.namespace}/{each.name or each.written_name}", each) for each in checkpoints
        ]
        deleted, problems = await writers.write(_STEP, named, delete)
        return TickReport(checkpoints_deleted=len(deleted), problems=tuple(problems))

    def _by_owner(self) -> Mapping[AutoscalerName, list[Checkpoint]]:
        by_owner: defaultdict[AutoscalerName, list[Checkpoint]] = defaultdict(list)
        for checkpoint in self.cluster.checkpoints:
            by_owner[_owner(checkpoint)].append(checkpoint)
        return by_owner

    def _restore_one(
        self, knowledge: Knowledge, subject: Subject, checkpoint: Checkpoint
    ) -> TickReport:
        if not is_about_pods_of(subject.autoscaler.selector, checkpoint.fingerprint):
            subject.is_about_others = True
            return TickReport()
        try:
            knowledge.usage.restore(
                subject.autoscaler.identity, checkpoint.container_name, checkpoint.aggregate
            )
        except CheckpointError as error:
            name = f"{checkpoint.namespace}/{checkpoint.written_name}"
            return TickReport(problems=(Problem(Step.LOAD_AUTOSCALERS, name, error),))
        subject.turn = Turn(subject.turn.since, is_saved=True)
        return TickReport(restored=1)

    def _changed_drafts(
        self, knowledge: Knowledge, names: Iterable[AutoscalerName], now: datetime
    ) -> list[Checkpoint]:
        drafts = []
        for (name, container), aggregate in encode_checkpoints(knowledge.usage, names, now).items():
            digest = fingerprint(knowledge.subjects[name].autoscaler.selector)
            annotations = {} if digest is None else {FINGERPRINT: digest}
            draft = Checkpoint(name.namespace, name.name, container, aggregate, annotations)
            stored = self.cluster.checkpoints.find(draft.namespace, draft.written_name)
            if stored is None or not _is_same(draft, stored):
                drafts.append(draft)
        return drafts

    def _poorer(self, knowledge: Knowledge, drafts: Iterable[Checkpoint]) -> set[CheckpointKey]:
        """Those that hold less than what is stored of the same pods."""
        stored = {
            _key(draft): found.aggregate
            for draft in drafts
            if (found := self.cluster.checkpoints.find(draft.namespace, draft.written_name))
            and found.fingerprint == draft.fingerprint
            and not knowledge.subjects[_owner(draft)].is_about_others
            and is_lighter(draft.aggregate, found.aggregate, self.settings.usage)
        }
        # Open windows are left out of a checkpoint, but they are not forgotten.
        known = encode_histories(knowledge.usage, {name for name, _ in stored})
        return {key for key in stored if is_lighter(known[key], stored[key], self.settings.usage)}


def _key(checkpoint: Checkpoint) -> CheckpointKey:
    return _owner(checkpoint), checkpoint.container_name


def _owner(checkpoint: Checkpoint) -> AutoscalerName:
    return AutoscalerName(checkpoint.namespace, checkpoint.autoscaler_name)


def _fetches_history(subject: Subject) -> bool:
    """Whether somebody says that history is still on its way: what we know is not all there is."""
    return any(
        condition.type == ConditionType.FETCHING_HISTORY and condition.status == "True"
        for condition in subject.autoscaler.conditions
    )


def _is_same(draft: Checkpoint, stored: Checkpoint) -> bool:
    """Whether nothing was learned since the stored one was written."""
    ours, theirs = draft.aggregate, stored.aggregate
    return (
        draft.fingerprint == stored.fingerprint
        and ours.version == theirs.version
        and ours.total_samples_count == theirs.total_samples_count
        and ours.cpu_histogram == theirs.cpu_histogram
        and ours.memory_histogram == theirs.memory_histogram
    )
