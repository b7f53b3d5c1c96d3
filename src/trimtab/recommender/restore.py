"""Restoring: load the checkpoints of autoscalers that are new to this process.

An unreadable checkpoint is skipped, and its container is learned from scratch. A checkpoint that
holds less than memory does is not needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.cluster.ports import Cluster
from trimtab.core.histogram import checkpoint as checkpoint_codec
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, AggregateContent, CheckpointError
from trimtab.core.recommendation import relearning
from trimtab.core.usage import checkpoint_extras, saved_targets
from trimtab.core.usage import checkpoints as usage_checkpoints
from trimtab.core.usage.checkpoint_rotation import Turn
from trimtab.core.usage.checkpoints import CheckpointKey
from trimtab.recommender.checkpoints import (
    draft_checkpoints,
    group_by_owner,
    key_of,
    note_stored,
    owner_of,
)
from trimtab.recommender.load_cluster import AutoscalerLoader, load_nodes, load_pods
from trimtab.recommender.reports import Problem, Step, TickReport
from trimtab.recommender.settings import RecommenderSettings
from trimtab.recommender.state import AutoscalerState, RecommenderState

FIRST_SAVE: Final = timedelta(minutes=2)
"""Time after a restore within which everything new is saved once, whatever the rotation."""
_NOTHING = AggregateCheckpoint()


class Checkpointed(Protocol):
    """Source of checkpoints."""

    @property
    def checkpoints(self) -> Iterable[Checkpoint]:
        """All stored checkpoints."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A checkpoint that is to be restored."""

    checkpoint: Checkpoint
    content: AggregateContent


@dataclass(slots=True)
class CheckpointRestorer:
    """Restores the checkpoints of autoscalers when they are first loaded."""

    cluster: Checkpointed
    settings: RecommenderSettings
    _start_from: list[Checkpoint] | None = field(default=None, init=False)
    """Checkpoints to restore instead of the stored ones."""

    def restore(self, state: RecommenderState, now: datetime) -> TickReport:
        """Restore the checkpoints of autoscalers that are new to this process."""
        report = TickReport()
        new = [subject for subject in state.subjects.values() if not subject.is_restored]
        if not new:
            self._start_from = None
            return report
        start_from = self.cluster.checkpoints if self._start_from is None else self._start_from
        stored = group_by_owner(start_from)
        known = usage_checkpoints.encode_histories(state.usage, [subject.name for subject in new])
        chosen: dict[CheckpointKey, _Chosen] = {}
        for subject in new:
            mine = stored.get(subject.name, ())
            report += self._choose(state, subject, mine, known=known, chosen=chosen)
            subject.is_restored = True
        # In one batch: one by one, it would take longer than the rest of the start.
        state.usage.restore_all({key: one.content for key, one in chosen.items()})
        for key, one in chosen.items():
            _take_over(state, key, one.checkpoint, now)
        # Two ticks at least, so that the first samples after the start are in the first save.
        until = now + max(FIRST_SAVE, 2 * self.settings.interval)
        for subject in new:
            if subject.turn.is_saved:
                subject.turn = replace(subject.turn, first_save_until=until)
        self._start_from = None
        return report

    def take_up_again(self, state: RecommenderState, now: datetime) -> bool:
        """Return True if all state must be rebuilt, because the stored checkpoints hold more.

        Another leader may have learned more: then its checkpoints include our samples and newer
        ones. For each container, the next restore uses the one that holds more, ours or the stored.
        """
        served = state.served
        stored = {
            key_of(each): each for each in self.cluster.checkpoints if owner_of(each) in served
        }
        # As they would be saved now: what this process learned before it lost the lease.
        ours = {key_of(draft): draft for draft in draft_checkpoints(state, served, now)}
        known = usage_checkpoints.encode_histories(state.usage, served)
        richer = {
            key: each
            for key, each in stored.items()
            if not served[key[0]].is_about_others
            and usage_checkpoints.is_lighter(
                known.get(key, _NOTHING), each.aggregate, self.settings.usage
            )
        }
        self._start_from = list((stored | ours | richer).values()) if richer else None
        return bool(richer)

    def _choose(
        self,
        state: RecommenderState,
        subject: AutoscalerState,
        stored: Iterable[Checkpoint],
        *,
        known: Mapping[CheckpointKey, AggregateCheckpoint],
        chosen: dict[CheckpointKey, _Chosen],
    ) -> TickReport:
        """Add the checkpoints of an autoscaler that are worth restoring to `chosen`."""
        report = TickReport()
        explained = {}
        incomplete: set[str] = set()
        for checkpoint in stored:
            if not usage_checkpoints.is_about_pods_of(
                subject.autoscaler.selector, checkpoint.fingerprint
            ):
                # Also kept in mind for saving: the stored checkpoint may then be replaced by a
                # lighter one.
                subject.is_about_others = True
                continue
            key = key_of(checkpoint)
            held = chosen[key].checkpoint.aggregate if key in chosen else known.get(key)
            # Otherwise memory already holds as much, from the same pods.
            if not held or usage_checkpoints.is_lighter(
                held, checkpoint.aggregate, self.settings.usage
            ):
                try:
                    chosen[key] = _Chosen(
                        checkpoint, checkpoint_codec.decode_aggregate(checkpoint.aggregate)
                    )
                except CheckpointError as error:
                    name = f"{checkpoint.namespace}/{checkpoint.written_name}"
                    report += TickReport(problems=(Problem(Step.LOAD_AUTOSCALERS, name, error),))
                    continue
            note_stored(state, [checkpoint])
            container, supplement = checkpoint.container_name, checkpoint.supplement
            explained[container] = relearning.list_explained(checkpoint.aggregate, supplement)
            if supplement is not None and supplement.is_relearning:
                incomplete.add(container)
        if not subject.is_about_others:
            subject.relearning = relearning.find_lost(subject.autoscaler, explained) | incomplete
        return report + TickReport(restored=len(explained))


def _take_over(
    state: RecommenderState, key: CheckpointKey, checkpoint: Checkpoint, now: datetime
) -> None:
    """Record what else follows from a restored checkpoint."""
    subject = state.subjects[key[0]]
    aggregate = checkpoint.aggregate
    samples = subject.turn.samples + aggregate.total_samples_count
    # The oldest save comes first, even if each process lives for one tick only.
    since = min(subject.turn.since, aggregate.last_update_time or subject.turn.since)
    subject.turn = Turn(since, is_saved=True, samples=samples)
    times = [one for one in (subject.counted_until, aggregate.last_update_time) if one]
    subject.counted_until = max(times, default=None)
    supplement = checkpoint.supplement
    if supplement is not None:
        checkpoint_extras.restore_supplement(state.usage, key, supplement, now)
        if supplement.targets is not None:
            targets = saved_targets.bring_to_past(supplement.targets, now.timestamp())
            state.publications.held.offer_saved(key, targets)
        for pod, remembered in supplement.containers.items():
            place = (checkpoint.namespace, pod, checkpoint.container_name)
            # `setdefault`: a kill that was counted since is newer than the one in the checkpoint.
            state.pods.counted_kills.setdefault(place, remembered.last_kill)


async def recall(
    cluster: Cluster, settings: RecommenderSettings, now: datetime
) -> RecommenderState:
    """Return a state with all existing autoscalers and pods, and their checkpoints restored."""
    state = RecommenderState(settings)
    await AutoscalerLoader(cluster.autoscalers, cluster.owners, settings).load(state, now)
    CheckpointRestorer(cluster, settings).restore(state, now)
    load_nodes(state, cluster.nodes, settings)
    load_pods(state, cluster.pods, settings, now)
    return state
