"""Checkpoints: written in rotation, deleted when their autoscaler is gone.

A checkpoint never replaces a stored one that holds more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trimtab.api.kinds import checkpoint_extras
from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT
from trimtab.api.kinds.checkpoints import FINGERPRINT, Checkpoint
from trimtab.cluster.ports import Cluster
from trimtab.core.model import selectors
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.recommendation.conditions import ConditionType
from trimtab.core.usage import checkpoint_extras as usage_extras
from trimtab.core.usage import checkpoint_rotation
from trimtab.core.usage import checkpoints as usage_checkpoints
from trimtab.core.usage.checkpoint_rotation import Turn
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.recommender.reports import Step, TickReport
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import AutoscalerState, RecommenderState
from trimtab.recommender.writes import Writers


def draft_checkpoints(
    state: RecommenderState, names: Iterable[AutoscalerName], now: datetime
) -> list[Checkpoint]:
    """Return the checkpoints of some autoscalers, as they would be written now."""
    aggregates = usage_checkpoints.encode_checkpoints(state.usage, names, now)
    supplements = usage_extras.collect_supplements(
        state.usage, aggregates, state.pods.counted_kills, now
    )
    held = state.publications.held.save_each(aggregates)
    drafts = []
    for (name, container), aggregate in aggregates.items():
        subject = state.subjects[name]
        supplement = replace(
            supplements[name, container],
            is_relearning=container in subject.relearning,
            targets=held.get((name, container)),
        )
        annotations = {SUPPLEMENT: checkpoint_extras.encode_supplement(supplement, now)}
        if digest := selectors.fingerprint(subject.autoscaler.selector):
            annotations[FINGERPRINT] = digest
        drafts.append(Checkpoint(name.namespace, name.name, container, aggregate, annotations))
    return drafts


def holds_anything(draft: Checkpoint) -> bool:
    """True if the draft holds samples or memory needs that a restart would lose."""
    aggregate = draft.aggregate
    if aggregate.cpu_histogram.total_weight + aggregate.memory_histogram.total_weight > 0:
        return True
    supplement = draft.supplement
    return supplement is not None and supplement.knows_memory


def is_same(draft: Checkpoint, stored: Checkpoint) -> bool:
    """True if nothing was learned since the stored checkpoint was written."""
    ours, theirs = draft.aggregate, stored.aggregate
    # Compared last: accessing a supplement decodes it.
    return (
        ours.total_samples_count == theirs.total_samples_count
        and ours.version == theirs.version
        and draft.fingerprint == stored.fingerprint
        and ours.cpu_histogram == theirs.cpu_histogram
        and ours.memory_histogram == theirs.memory_histogram
        and draft.supplement == stored.supplement
    )


def note_stored(state: RecommenderState, checkpoints: Iterable[Checkpoint]) -> None:
    """Record which containers have a stored checkpoint."""
    for checkpoint in checkpoints:
        subject = state.subjects[owner_of(checkpoint)]
        if checkpoint.container_name not in subject.saved:
            subject.saved |= {checkpoint.container_name}


def key_of(checkpoint: Checkpoint) -> CheckpointKey:
    """Return the autoscaler and the container of a checkpoint."""
    return owner_of(checkpoint), checkpoint.container_name


def group_by_owner(
    checkpoints: Iterable[Checkpoint],
) -> Mapping[AutoscalerName, list[Checkpoint]]:
    """Group checkpoints by their autoscalers."""
    by_owner: defaultdict[AutoscalerName, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints:
        by_owner[owner_of(checkpoint)].append(checkpoint)
    return by_owner


def owner_of(checkpoint: Checkpoint) -> AutoscalerName:
    """Return the autoscaler of a checkpoint."""
    return AutoscalerName(checkpoint.namespace, checkpoint.autoscaler_name)


_STEP = Step.MAINTAIN_CHECKPOINTS
_PORTION: Final = 200
"""Number of autoscalers whose checkpoints are drafted at a time."""


@dataclass(slots=True)
class CheckpointKeeper:
    """Writes and deletes the checkpoints of the autoscalers that this recommender serves."""

    cluster: Cluster
    settings: RecommenderSettings
    has_orphans_left: bool = field(default=False, init=False)
    """True if time ran out before all orphans of the last search were deleted."""

    async def save_due(
        self, state: RecommenderState, writers: Writers, now: datetime
    ) -> TickReport:
        """Write the checkpoints of the autoscalers whose turn has come."""
        served, settings = state.served, self.settings
        due = checkpoint_rotation.list_due(
            {name: subject.turn for name, subject in served.items()},
            now,
            rotation=settings.checkpoint_rotation,
            tick=settings.interval,
            young={name for name, subject in served.items() if subject.is_young},
            quiet=state.publications.list_saved(settings.publishing.bound_move_fraction),
        )
        return await self._save_in_portions(state, due, writers, now)

    async def save_all(
        self, state: RecommenderState, writers: Writers, now: datetime
    ) -> TickReport:
        """Write all checkpoints, the greatest possible loss first."""
        served = state.served
        order = checkpoint_rotation.list_by_worth(
            {name: subject.turn for name, subject in served.items()},
            usage_checkpoints.count_samples(state.usage, served),
            {name for name, subject in served.items() if subject.is_young},
        )
        return await self._save_in_portions(state, order, writers, now)

    async def _save_in_portions(
        self,
        state: RecommenderState,
        order: Sequence[AutoscalerName],
        writers: Writers,
        now: datetime,
    ) -> TickReport:
        """Write checkpoints until the deadline.

        Drafting in portions lets writing begin at once, and keeps the event loop responsive.
        """
        report = TickReport()
        for begin in range(0, len(order), _PORTION):
            portion = order[begin : begin + _PORTION]
            if writers.is_late():
                known = [state.usage.links.learners[name].container_names for name in portion]
                report += TickReport(checkpoints_left=sum(map(len, known)))
            else:
                report += await self.save(state, portion, writers, now)
        return report

    async def save(
        self,
        state: RecommenderState,
        names: Iterable[AutoscalerName],
        writers: Writers,
        now: datetime,
    ) -> TickReport:
        """Write the checkpoints of some autoscalers that differ from the stored ones."""
        chosen = [name for name in names if not _fetches_history(state.subjects[name])]
        if not chosen:
            return TickReport()
        drafts = self._place(filter(holds_anything, draft_checkpoints(state, chosen, now)))
        changed = list(filter(self._is_news, drafts))
        # A young history must not overwrite one that another leader has learned (decision 0011).
        refused = self._poorer(state, changed)
        named = [
            (f"{draft.namespace}/{draft.written_name}", draft)
            for draft in changed
            if key_of(draft) not in refused
        ]
        written, problems = await writers.write(_STEP, named, self.cluster.save_checkpoint)
        missed = {key_of(draft) for _, draft in named} - {key_of(draft) for draft in written}
        note_stored(state, [draft for draft in drafts if key_of(draft) not in missed])
        news = {owner_of(draft) for draft in changed}
        ended = {
            name
            for name in set(chosen) - {name for name, _ in missed}
            if name in news or not checkpoint_rotation.awaits_news(state.subjects[name].turn, now)
        }
        self._end_turns(state, ended, drafts, now)
        return TickReport(
            checkpoints_written=len(written),
            checkpoints_refused=len(refused),
            checkpoints_left=len(named) - len(written) - len(problems),
            problems=tuple(problems),
        )

    def _place(self, drafts: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Return the drafts under names that no other checkpoint has or is about to get."""
        taken: dict[tuple[str, str], CheckpointKey] = {}
        placed = []
        for draft in drafts:
            is_free = self._is_free(draft, taken)
            one = draft if is_free else replace(draft, name=draft.spare_name)
            taken[one.namespace, one.written_name] = key_of(one)
            placed.append(one)
        return placed

    def _is_free(self, draft: Checkpoint, taken: Mapping[tuple[str, str], CheckpointKey]) -> bool:
        """Return True if a draft may have its usual name."""
        find, key = self.cluster.checkpoints.find, key_of(draft)
        # Once under its spare name, always: otherwise a container would have two checkpoints.
        spare = find(draft.namespace, draft.spare_name)
        if spare is not None and key_of(spare) == key:
            return False
        stored = find(draft.namespace, draft.usual_name)
        owners = [taken.get((draft.namespace, draft.usual_name)), stored and key_of(stored)]
        return all(owner in (None, key) for owner in owners)

    def _end_turns(
        self,
        state: RecommenderState,
        names: AbstractSet[AutoscalerName],
        drafts: Iterable[Checkpoint],
        now: datetime,
    ) -> None:
        samples: Counter[AutoscalerName] = Counter()
        for draft in drafts:
            samples[owner_of(draft)] += draft.aggregate.total_samples_count
        turns = {name: state.subjects[name].turn for name in names}
        new = sorted(
            name for name, turn in turns.items() if not turn.is_saved or turn.first_save_until
        )
        state.publications.note_saved(names)
        rotation, tick = self.settings.checkpoint_rotation, self.settings.interval
        since = checkpoint_rotation.spread_turns(new, now, rotation=rotation, tick=tick)
        for name in names:
            subject = state.subjects[name]
            subject.turn = Turn(since.get(name, now), is_saved=True, samples=samples[name])
            subject.is_about_others = False

    async def delete(self, ghosts: Iterable[CheckpointKey], writers: Writers) -> TickReport:
        """Delete the checkpoints of containers that autoscalers no longer have."""
        wanted = set(ghosts)
        chosen = [
            checkpoint
            for checkpoint in (self.cluster.checkpoints if wanted else ())
            if (owner_of(checkpoint), checkpoint.container_name) in wanted
        ]

        async def delete(checkpoint: Checkpoint) -> None:
            await self.cluster.delete_checkpoint(checkpoint.namespace, checkpoint.name)

        deleted, problems = await writers.write(_STEP, _with_names(chosen), delete)
        return TickReport(checkpoints_deleted=len(deleted), problems=tuple(problems))

    async def delete_orphans(self, writers: Writers) -> TickReport:
        """Delete the checkpoints of autoscalers that the API server no longer has.

        Each deletion asks the API server first: the store may lag behind a replaced autoscaler.
        """
        stored = {
            owner: checkpoints
            for owner, checkpoints in group_by_owner(self.cluster.checkpoints).items()
            if self.settings.covers(owner.namespace)
        }
        autoscalers = self.cluster.autoscalers
        existing = {autoscaler.identity for autoscaler in autoscalers}
        # An autoscaler that cannot be read still exists (decision 0008).
        hidden = {AutoscalerName(one.namespace, one.name) for one in autoscalers.unreadable}
        orphans = checkpoint_rotation.find_orphans(stored, existing, hidden)
        chosen = [each for owner in sorted(orphans) for each in stored[owner]]
        deleted = 0

        async def delete(checkpoint: Checkpoint) -> None:
            nonlocal deleted
            # Asked at the last moment: what is deleted cannot be learned again.
            if not await self.cluster.has_autoscaler(owner_of(checkpoint)):
                name, version = checkpoint.name, checkpoint.resource_version
                await self.cluster.delete_checkpoint(checkpoint.namespace, name, version)
                deleted += 1

        asked, problems = await writers.write(_STEP, _with_names(chosen), delete)
        self.has_orphans_left = len(asked) + len(problems) < len(chosen)
        return TickReport(checkpoints_deleted=deleted, problems=tuple(problems))

    def _is_news(self, draft: Checkpoint) -> bool:
        stored = self.cluster.checkpoints.find(draft.namespace, draft.written_name)
        return stored is None or not is_same(draft, stored)

    def _poorer(self, state: RecommenderState, drafts: Iterable[Checkpoint]) -> set[CheckpointKey]:
        """Return the drafts that hold less than the stored checkpoints of the same pods."""
        stored = {
            key_of(draft): found.aggregate
            for draft in drafts
            if (found := self.cluster.checkpoints.find(draft.namespace, draft.written_name))
            and found.fingerprint == draft.fingerprint
            and not state.subjects[owner_of(draft)].is_about_others
            and usage_checkpoints.is_lighter(draft.aggregate, found.aggregate, self.settings.usage)
        }
        if not stored:
            return set()
        # A checkpoint leaves out open windows, but memory still holds them.
        known = usage_checkpoints.encode_histories(state.usage, {name for name, _ in stored})
        return {
            key
            for key in stored
            if usage_checkpoints.is_lighter(known[key], stored[key], self.settings.usage)
        }


def _with_names(checkpoints: Iterable[Checkpoint]) -> list[tuple[str, Checkpoint]]:
    return [(f"{each.namespace}/{each.name}", each) for each in checkpoints]


def _fetches_history(subject: AutoscalerState) -> bool:
    """True if another recommender is still reading history, so that our state is incomplete.

    While this recommender reads history itself, checkpoints are saved: a restart would lose them.
    """
    return subject.fetches_history is None and any(
        condition.type == ConditionType.FETCHING_HISTORY and condition.status == "True"
        for condition in subject.autoscaler.conditions
    )
