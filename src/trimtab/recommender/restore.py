"""Restoring: what autoscalers that are new to us know from their checkpoints.

One that cannot be read is left to be learned anew; one that holds less than what we have seen
ourselves is not needed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.cluster.ports import Cluster
from trimtab.core.histogram.checkpoint import (
    AggregateCheckpoint,
    AggregateContent,
    CheckpointError,
    decode_aggregate,
)
from trimtab.core.recommendation.relearning import find_lost, list_explained
from trimtab.core.usage import checkpoint_extras
from trimtab.core.usage.checkpoint_rotation import Turn
from trimtab.core.usage.checkpoints import (
    CheckpointKey,
    encode_histories,
    is_about_pods_of,
    is_lighter,
)
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
"""Within this time after a restore everything new is saved once, whatever the rotation."""
_NOTHING = AggregateCheckpoint()


class Checkpointed(Protocol):
    """Whatever shows checkpoints."""

    @property
    def checkpoints(self) -> Iterable[Checkpoint]:
        """All that are stored."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A checkpoint that is restored."""

    checkpoint: Checkpoint
    content: AggregateContent


@dataclass(slots=True)
class CheckpointRestorer:
    """Reads the checkpoints of autoscalers when they are met."""

    cluster: Checkpointed
    settings: RecommenderSettings
    _start_from: list[Checkpoint] | None = field(default=None, init=False)
    """What is restored instead of what is stored."""

    def restore(self, knowledge: RecommenderState, now: datetime) -> TickReport:
        """Let autoscalers that are new to us know what their checkpoints hold."""
        report = TickReport()
        new = [subject for subject in knowledge.subjects.values() if not subject.is_restored]
        if not new:
            self._start_from = None
            return report
        start_from = self.cluster.checkpoints if self._start_from is None else self._start_from
        stored = group_by_owner(start_from)
        known = encode_histories(knowledge.usage, [subject.name for subject in new])
        chosen: dict[CheckpointKey, _Chosen] = {}
        for subject in new:
            mine = stored.get(subject.name, ())
            report += self._choose(knowledge, subject, mine, known=known, chosen=chosen)
            subject.is_restored = True
        # All at once: one by one it would take longer than everything else at a start.
        knowledge.usage.restore_all({key: one.content for key, one in chosen.items()})
        for key, one in chosen.items():
            _take_over(knowledge, key, one.checkpoint, now)
        until = now + max(FIRST_SAVE, 2 * self.settings.interval)
        for subject in new:
            if subject.turn.is_saved:
                subject.turn = replace(subject.turn, first_save_until=until)
        self._start_from = None
        return report

    def take_up_again(self, knowledge: RecommenderState, now: datetime) -> bool:
        """Whether to start anew, because others have learned more than we know.

        While we did not lead somebody else may have: then the stored checkpoints hold what we
        knew and more. Of each container the one is restored that holds more, ours or the stored.
        """
        served = knowledge.served
        stored = {
            key_of(each): each for each in self.cluster.checkpoints if owner_of(each) in served
        }
        ours = {key_of(draft): draft for draft in draft_checkpoints(knowledge, served, now)}
        known = encode_histories(knowledge.usage, served)
        richer = {
            key: each
            for key, each in stored.items()
            if not served[key[0]].is_about_others
            and is_lighter(known.get(key, _NOTHING), each.aggregate, self.settings.usage)
        }
        self._start_from = list((stored | ours | richer).values()) if richer else None
        return bool(richer)

    def _choose(
        self,
        knowledge: RecommenderState,
        subject: AutoscalerState,
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
            key = key_of(checkpoint)
            held = chosen[key].checkpoint.aggregate if key in chosen else known.get(key)
            # Else we saw its pods all the time, and have learned as much already.
            if not held or is_lighter(held, checkpoint.aggregate, self.settings.usage):
                try:
                    chosen[key] = _Chosen(checkpoint, decode_aggregate(checkpoint.aggregate))
                except CheckpointError as error:
                    name = f"{checkpoint.namespace}/{checkpoint.written_name}"
                    report += TickReport(problems=(Problem(Step.LOAD_AUTOSCALERS, name, error),))
                    continue
            note_stored(knowledge, [checkpoint])
            container, supplement = checkpoint.container_name, checkpoint.supplement
            explained[container] = list_explained(checkpoint.aggregate, supplement)
            if supplement is not None and supplement.is_relearning:
                relearning.add(container)
        if not subject.is_about_others:
            subject.relearning = find_lost(subject.autoscaler, explained) | relearning
        return report + TickReport(restored=len(explained))


def _take_over(
    knowledge: RecommenderState, key: CheckpointKey, checkpoint: Checkpoint, now: datetime
) -> None:
    """Note what else follows from a checkpoint that was restored."""
    subject = knowledge.subjects[key[0]]
    aggregate = checkpoint.aggregate
    samples = subject.turn.samples + aggregate.total_samples_count
    # What was saved longest ago comes first, also if each process lives for one tick only.
    since = min(subject.turn.since, aggregate.last_update_time or subject.turn.since)
    subject.turn = Turn(since, is_saved=True, samples=samples)
    times = [one for one in (subject.counted_until, aggregate.last_update_time) if one]
    subject.counted_until = max(times, default=None)
    supplement = checkpoint.supplement
    if supplement is not None:
        checkpoint_extras.restore_supplement(knowledge.usage, key, supplement, now)
        for pod, remembered in supplement.containers.items():
            place = (checkpoint.namespace, pod, checkpoint.container_name)
            knowledge.pods.counted_kills.setdefault(place, remembered.last_kill)


async def recall(
    cluster: Cluster, settings: RecommenderSettings, now: datetime
) -> RecommenderState:
    """All autoscalers and pods in sight, with what checkpoints hold of them."""
    knowledge = RecommenderState(settings)
    await AutoscalerLoader(cluster.autoscalers, cluster.owners, settings).load(knowledge, now)
    CheckpointRestorer(cluster, settings).restore(knowledge, now)
    load_nodes(knowledge, cluster.nodes, settings)
    load_pods(knowledge, cluster.pods, settings, now)
    return knowledge
