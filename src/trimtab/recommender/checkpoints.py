"""Checkpoints: read when an autoscaler is met, written in rotation, deleted when nobody owns them.

What is stored is never made worse: a checkpoint that holds less than the stored one is not
written, and one that cannot be read is left to be learned anew.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.api.checkpoints import FINGERPRINT, Checkpoint
from trimtab.api.supplements import SUPPLEMENT, encode_supplement
from trimtab.cluster.ports import Cluster
from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.checkpoint import (
    AggregateCheckpoint,
    AggregateContent,
    CheckpointError,
    decode_aggregate,
)
from trimtab.core.conditions import ConditionType
from trimtab.core.relearning import find_lost, list_explained
from trimtab.core.rotation import (
    Turn,
    find_orphans,
    list_by_worth,
    list_due,
    spread_turns,
)
from trimtab.core.saving import (
    CheckpointKey,
    count_samples,
    encode_checkpoints,
    encode_histories,
    is_about_pods_of,
    is_lighter,
)
from trimtab.core.selectors import fingerprint
from trimtab.core.supplements import collect_supplements, restore_supplement
from trimtab.recommender.acting import Writers
from trimtab.recommender.knowledge import Knowledge, Subject
from trimtab.recommender.reports import Problem, Step, TickReport
from trimtab.recommender.settings import RecommenderSettings

_STEP = Step.MAINTAIN_CHECKPOINTS
_NOTHING = AggregateCheckpoint()
_PORTION: Final = 200
"""So many autoscalers are drafted at a time when all of them are saved."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A checkpoint that is restored."""

    checkpoint: Checkpoint
    content: AggregateContent


@dataclass(slots=True)
class CheckpointKeeper:
    """Reads, writes and deletes the checkpoints of the autoscalers that are ours."""

    cluster: Cluster
    settings: RecommenderSettings
    _orphans: frozenset[AutoscalerName] = field(default=frozenset(), init=False)
    """Those that had no autoscaler when it was last looked for them."""
    _start_from: list[Checkpoint] | None = field(default=None, init=False)
    """What is restored instead of what is stored."""

    def restore(self, knowledge: Knowledge) -> TickReport:
        """Let autoscalers that are new to us know what their checkpoints hold."""
        report = TickReport()
        new = [subject for subject in knowledge.subjects.values() if not subject.is_restored]
        start_from = self.cluster.checkpoints if self._start_from is None else self._start_from
        stored = _by_owner(start_from) if new else {}
        known = encode_histories(knowledge.usage, [subject.name for subject in new])
        chosen: dict[CheckpointKey, _Chosen] = {}
        for subject in new:
            mine = stored.get(subject.name, ())
            report += self._choose(knowledge, subject, mine, known=known, chosen=chosen)
            subject.is_restored = True
        # All at once: one by one it would take longer than everything else at a start.
        knowledge.usage.restore_all({key: one.content for key, one in chosen.items()})
        for key, one in chosen.items():
            _take_over(knowledge, key, one.checkpoint)
        self._part_ways([subject for subject in new if subject.turn.is_saved])
        self._start_from = None
        return report

    def take_up_again(self, knowledge: Knowledge, now: datetime) -> bool:
        """Whether to start anew, because others have learned more than we know.

        While we did not lead somebody else may have: then the stored checkpoints hold what we
        knew and more. Of each container the one is restored that holds more, ours or the stored.
        """
        served = knowledge.served
        stored = {_key(each): each for each in self.cluster.checkpoints if _owner(each) in served}
        ours = {_key(draft): draft for draft in draft_checkpoints(knowledge, served, now)}
        known = encode_histories(knowledge.usage, served)
        richer = {
            key: each
            for key, each in stored.items()
            if not served[key[0]].is_about_others
            and is_lighter(known.get(key, _NOTHING), each.aggregate, self.settings.usage)
        }
        self._start_from = list((stored | ours | richer).values()) if richer else None
        return bool(richer)

    async def save_due(self, knowledge: Knowledge, writers: Writers, now: datetime) -> TickReport:
        """Write the checkpoints of those whose turn it is."""
        served, settings = knowledge.served, self.settings
        due = list_due(
            {name: subject.turn for name, subject in served.items()},
            now,
            rotation=settings.checkpoint_rotation,
            tick=settings.interval,
            young={name for name, subject in served.items() if subject.is_young},
        )
        return await self.save(knowledge, due, writers, now)

    async def save_all(self, knowledge: Knowledge, writers: Writers, now: datetime) -> TickReport:
        """Write all checkpoints, those first whose loss would be the greatest.

        They are drafted in portions, so that writing begins at once and nothing stands still.
        """
        served = knowledge.served
        order = list_by_worth(
            {name: subject.turn for name, subject in served.items()},
            count_samples(knowledge.usage, served),
            {name for name, subject in served.items() if subject.is_young},
        )
        report = TickReport()
        for begin in range(0, len(order), _PORTION):
            portion = order[begin : begin + _PORTION]
            if writers.is_late():
                known = [knowledge.usage.links.learners[name].container_names for name in portion]
                report += TickReport(checkpoints_left=sum(map(len, known)))
            else:
                report += await self.save(knowledge, portion, writers, now)
        return report

    async def save(
        self,
        knowledge: Knowledge,
        names: Iterable[AutoscalerName],
        writers: Writers,
        now: datetime,
    ) -> TickReport:
        """Write the checkpoints of some autoscalers, as far as they hold anything new."""
        chosen = [name for name in names if not _fetches_history(knowledge.subjects[name])]
        if not chosen:
            return TickReport()
        drafts = list(filter(_holds_anything, draft_checkpoints(knowledge, chosen, now)))
        changed = list(filter(self._is_news, drafts))
        refused = self._poorer(knowledge, changed)
        named = [
            (f"{draft.namespace}/{draft.written_name}", draft)
            for draft in changed
            if _key(draft) not in refused
        ]
        written, problems = await writers.write(_STEP, named, self.cluster.save_checkpoint)
        missed = {_key(draft) for _, draft in named} - {_key(draft) for draft in written}
        _note_stored(knowledge, [draft for draft in drafts if _key(draft) not in missed])
        self._end_turns(knowledge, set(chosen) - {name for name, _ in missed}, drafts, now)
        return TickReport(
            checkpoints_written=len(written),
            checkpoints_refused=len(refused),
            checkpoints_left=len(named) - len(written) - len(problems),
            problems=tuple(problems),
        )

    def _end_turns(
        self,
        knowledge: Knowledge,
        names: AbstractSet[AutoscalerName],
        drafts: Iterable[Checkpoint],
        now: datetime,
    ) -> None:
        samples: Counter[AutoscalerName] = Counter()
        for draft in drafts:
            samples[_owner(draft)] += draft.aggregate.total_samples_count
        new = sorted(name for name in names if not knowledge.subjects[name].turn.is_saved)
        since = self._spread(new, now)
        for name in names:
            subject = knowledge.subjects[name]
            subject.turn = Turn(since.get(name, now), is_saved=True, samples=samples[name])
            subject.is_about_others = False

    def _part_ways(self, subjects: Sequence[Subject]) -> None:
        """Let those that were met at once not be saved at once from then on."""
        if not subjects:
            return
        names = sorted(subject.name for subject in subjects)
        met_at = max(subject.turn.since for subject in subjects)
        since = self._spread(names, met_at)
        for subject in subjects:
            subject.turn = replace(subject.turn, since=since[subject.name])

    def _spread(
        self, names: Sequence[AutoscalerName], now: datetime
    ) -> dict[AutoscalerName, datetime]:
        settings = self.settings
        return spread_turns(
            names, now, rotation=settings.checkpoint_rotation, tick=settings.interval
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
            for owner, checkpoints in _by_owner(self.cluster.checkpoints).items()
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

    def _choose(
        self,
        knowledge: Knowledge,
        subject: Subject,
        stored: Iterable[Checkpoint],
        *,
        known: Mapping[CheckpointKey, AggregateCheckpoint],
        chosen: dict[CheckpointKey, _Chosen],
    ) -> TickReport:
        """Add the checkpoints of an autoscaler that are worth restoring to those chosen."""
        report = TickReport()
        explained = {}
        relearning: set[str] = set()
        for checkpoint in stored:
            if not is_about_pods_of(subject.autoscaler.selector, checkpoint.fingerprint):
                subject.is_about_others = True
                continue
            key = _key(checkpoint)
            held = chosen[key].checkpoint.aggregate if key in chosen else known.get(key)
            # Else we saw its pods all the time, and have learned as much already.
            if not held or is_lighter(held, checkpoint.aggregate, self.settings.usage):
                try:
                    chosen[key] = _Chosen(checkpoint, decode_aggregate(checkpoint.aggregate))
                except CheckpointError as error:
                    name = f"{checkpoint.namespace}/{checkpoint.written_name}"
                    report += TickReport(problems=(Problem(Step.LOAD_AUTOSCALERS, name, error),))
                    continue
            _note_stored(knowledge, [checkpoint])
            container, supplement = checkpoint.container_name, checkpoint.supplement
            explained[container] = list_explained(checkpoint.aggregate, supplement)
            if supplement is not None and supplement.is_relearning:
                relearning.add(container)
        if not subject.is_about_others:
            subject.relearning = find_lost(subject.autoscaler, explained) | relearning
        return report + TickReport(restored=len(explained))

    def _is_news(self, draft: Checkpoint) -> bool:
        stored = self.cluster.checkpoints.find(draft.namespace, draft.written_name)
        return stored is None or not _is_same(draft, stored)

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


def draft_checkpoints(
    knowledge: Knowledge, names: Iterable[AutoscalerName], now: datetime
) -> list[Checkpoint]:
    """The checkpoints of some autoscalers, as they would be written now."""
    aggregates = encode_checkpoints(knowledge.usage, names, now)
    supplements = collect_supplements(
        knowledge.usage, aggregates, knowledge.pods.counted_kills, now
    )
    drafts = []
    for (name, container), aggregate in aggregates.items():
        subject = knowledge.subjects[name]
        supplement = replace(
            supplements[name, container], is_relearning=container in subject.relearning
        )
        annotations = {SUPPLEMENT: encode_supplement(supplement, now)}
        if digest := fingerprint(subject.autoscaler.selector):
            annotations[FINGERPRINT] = digest
        drafts.append(Checkpoint(name.namespace, name.name, container, aggregate, annotations))
    return drafts


def _take_over(knowledge: Knowledge, key: CheckpointKey, checkpoint: Checkpoint) -> None:
    """Note what else follows from a checkpoint that was restored."""
    subject = knowledge.subjects[key[0]]
    samples = subject.turn.samples + checkpoint.aggregate.total_samples_count
    subject.turn = Turn(subject.turn.since, is_saved=True, samples=samples)
    times = [one for one in (subject.counted_until, checkpoint.aggregate.last_update_time) if one]
    subject.counted_until = max(times, default=None)
    supplement = checkpoint.supplement
    if supplement is not None:
        restore_supplement(knowledge.usage, key, supplement)
        for pod, remembered in supplement.containers.items():
            place = (checkpoint.namespace, pod, checkpoint.container_name)
            knowledge.pods.expected[place] = key
            knowledge.pods.counted_kills.setdefault(place, remembered.last_kill)


def _note_stored(knowledge: Knowledge, checkpoints: Iterable[Checkpoint]) -> None:
    for checkpoint in checkpoints:
        subject = knowledge.subjects[_owner(checkpoint)]
        if checkpoint.container_name not in subject.saved:
            subject.saved |= {checkpoint.container_name}


def _holds_anything(draft: Checkpoint) -> bool:
    """Whether anything is lost without it; a container that was only seen has taught nothing."""
    aggregate, supplement = draft.aggregate, draft.supplement
    weight = aggregate.cpu_histogram.total_weight + aggregate.memory_histogram.total_weight
    return weight > 0 or (supplement is not None and supplement.knows_memory)


def _key(checkpoint: Checkpoint) -> CheckpointKey:
    return _owner(checkpoint), checkpoint.container_name


def _by_owner(checkpoints: Iterable[Checkpoint]) -> Mapping[AutoscalerName, list[Checkpoint]]:
    by_owner: defaultdict[AutoscalerName, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints:
        by_owner[_owner(checkpoint)].append(checkpoint)
    return by_owner


def _owner(checkpoint: Checkpoint) -> AutoscalerName:
    return AutoscalerName(checkpoint.namespace, checkpoint.autoscaler_name)


def _fetches_history(subject: Subject) -> bool:
    """Whether somebody else is still reading history: what we know is not all there is.

    While we read it ourselves what is learned meanwhile is saved, or a restart would lose it.
    """
    return subject.fetches_history is None and any(
        condition.type == ConditionType.FETCHING_HISTORY and condition.status == "True"
        for condition in subject.autoscaler.conditions
    )


def _is_same(draft: Checkpoint, stored: Checkpoint) -> bool:
    """Whether nothing was learned since the stored one was written."""
    ours, theirs = draft.aggregate, stored.aggregate
    return (
        draft.fingerprint == stored.fingerprint
        and draft.supplement == stored.supplement
        and ours.version == theirs.version
        and ours.total_samples_count == theirs.total_samples_count
        and ours.cpu_histogram == theirs.cpu_histogram
        and ours.memory_histogram == theirs.memory_histogram
    )
