"""Drafts: checkpoints as they would be written now, and whose a checkpoint is."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from trimtab.api.checkpoints import FINGERPRINT, Checkpoint
from trimtab.api.supplements import SUPPLEMENT, encode_supplement
from trimtab.core.autoscalers import AutoscalerName
from trimtab.core.saving import CheckpointKey, encode_checkpoints
from trimtab.core.selectors import fingerprint
from trimtab.core.supplements import collect_supplements
from trimtab.recommender.knowledge import Knowledge


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


def holds_anything(draft: Checkpoint) -> bool:
    """Whether anything is lost without it; a container that was only seen has taught nothing."""
    aggregate = draft.aggregate
    if aggregate.cpu_histogram.total_weight + aggregate.memory_histogram.total_weight > 0:
        return True
    supplement = draft.supplement
    return supplement is not None and supplement.knows_memory


def is_same(draft: Checkpoint, stored: Checkpoint) -> bool:
    """Whether nothing was learned since the stored one was written."""
    ours, theirs = draft.aggregate, stored.aggregate
    # Supplements come last: to compare them is to read them.
    return (
        ours.total_samples_count == theirs.total_samples_count
        and ours.version == theirs.version
        and draft.fingerprint == stored.fingerprint
        and ours.cpu_histogram == theirs.cpu_histogram
        and ours.memory_histogram == theirs.memory_histogram
        and draft.supplement == stored.supplement
    )


def note_stored(knowledge: Knowledge, checkpoints: Iterable[Checkpoint]) -> None:
    """Know of which containers something is stored."""
    for checkpoint in checkpoints:
        subject = knowledge.subjects[owner_of(checkpoint)]
        if checkpoint.container_name not in subject.saved:
            subject.saved |= {checkpoint.container_name}


def key_of(checkpoint: Checkpoint) -> CheckpointKey:
    """The autoscaler and the container that a checkpoint is of."""
    return owner_of(checkpoint), checkpoint.container_name


def group_by_owner(
    checkpoints: Iterable[Checkpoint],
) -> Mapping[AutoscalerName, list[Checkpoint]]:
    """Checkpoints by the autoscalers that they are of."""
    by_owner: defaultdict[AutoscalerName, list[Checkpoint]] = defaultdict(list)
    for checkpoint in checkpoints:
        by_owner[owner_of(checkpoint)].append(checkpoint)
    return by_owner


def owner_of(checkpoint: Checkpoint) -> AutoscalerName:
    """The autoscaler that a checkpoint is of."""
    return AutoscalerName(checkpoint.namespace, checkpoint.autoscaler_name)
