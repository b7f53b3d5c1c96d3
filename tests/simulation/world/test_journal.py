import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import pytest
from msgspec import structs
from simulation.toys import EvictEverything, Stage
from support.makers.records import MIB, a_container, a_pod, amounts, an_autoscaler

from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.events import Event, EventReason, about_pod
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.model.json_patch import Add, Remove
from trimtab.simulation.world.facts import (
    CheckpointDeleted,
    CheckpointSaved,
    ContainerKilled,
    EventEmitted,
    Fact,
    FaultBegan,
    FaultEnded,
    LeaseWritten,
    PodCreated,
    PodEvicted,
    PodGone,
    PodPatched,
    PodPressedOut,
    PodRefused,
    PodResized,
    ProcessCrashed,
    ProcessStarted,
    StatusPublished,
    UsageTold,
)
from trimtab.simulation.world.journal import Journal, encode_fact
from trimtab.simulation.world.virtual_time import START, run_virtually

POD = a_pod(a_container(requests=amounts(100, 100 * MIB)), labels={"b": "1", "a": "2"})
HISTOGRAM = HistogramCheckpoint(START, MappingProxyType({20: 10_000, 3: 5}), 0.1)
CHECKPOINT = Checkpoint("default", "web", "app", AggregateCheckpoint(HISTOGRAM, HISTOGRAM))
PATCH = (Add("/metadata/annotations", {"b": "1", "a": "2"}), Remove("/spec/x"))

FACTS: tuple[Fact, ...] = (
    PodCreated(START, POD, POD, PATCH, webhook_answered=True),
    PodRefused(START, POD, POD, "exceeded quota", ""),
    PodEvicted(START, "updater", POD),
    PodResized(START, "updater", POD, POD),
    PodPatched(START, "updater", POD, POD),
    PodGone(START, POD),
    ContainerKilled(START, POD, "app", 200 * MIB, 100 * MIB),
    PodPressedOut(START, POD, (MemoryEviction("default", "web-0", "app", 200 * MIB, START),)),
    UsageTold(START, "recommender", UsageColumns(("default",), ("web-0",), ("app",), (0.1,))),
    StatusPublished(START, "recommender", an_autoscaler(), an_autoscaler()),
    CheckpointSaved(START, "recommender", None, CHECKPOINT),
    CheckpointSaved(START, "recommender", CHECKPOINT, CHECKPOINT),
    CheckpointDeleted(START, "recommender", CHECKPOINT),
    LeaseWritten(START, "updater", Lease("default", "a", duration=timedelta(seconds=15))),
    EventEmitted(
        START, "updater", Event(about_pod(POD), EventReason.EVICTED_BY_VPA, "Evicted.", START)
    ),
    FaultBegan(START, "crash"),
    FaultEnded(START, "crash"),
    ProcessStarted(START, "updater"),
    ProcessCrashed(START, "updater", "evict default/web"),
)


def test_every_kind_of_fact_has_a_form_of_its_own() -> None:
    forms = {encode_fact(fact) for fact in FACTS}

    assert len(forms) == len(FACTS)
    assert {type(fact) for fact in FACTS} == set(Fact.__args__)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_the_moment_of_a_fact_is_part_of_its_form(fact: Fact) -> None:
    later = replace(fact, at=START + timedelta(microseconds=1))

    assert encode_fact(fact) != encode_fact(later)


def test_the_order_of_maps_plays_no_part() -> None:
    turned = structs.replace(POD, labels=dict(reversed(list(POD.labels.items()))))
    weights = dict(reversed(list(HISTOGRAM.bucket_weights.items())))
    aggregate = AggregateCheckpoint(replace(HISTOGRAM, bucket_weights=weights), HISTOGRAM)

    assert encode_fact(PodGone(START, turned)) == encode_fact(PodGone(START, POD))
    assert encode_fact(
        CheckpointDeleted(START, "a", replace(CHECKPOINT, aggregate=aggregate))
    ) == encode_fact(CheckpointDeleted(START, "a", CHECKPOINT))


def test_the_last_bit_of_a_float_counts() -> None:
    nearly = replace(HISTOGRAM, total_weight=0.1 + 2**-56)
    aggregate = AggregateCheckpoint(HISTOGRAM, nearly)
    changed = CheckpointDeleted(START, "a", replace(CHECKPOINT, aggregate=aggregate))

    assert encode_fact(changed) != encode_fact(CheckpointDeleted(START, "a", CHECKPOINT))


def test_a_fact_that_has_no_stable_form_is_refused() -> None:
    odd = structs.replace(POD, labels={"a": object()})

    with pytest.raises(NotImplementedError, match="object"):
        encode_fact(PodGone(START, odd))


async def play(pods: int) -> Journal:
    stage = Stage()
    journal = Journal(stage.world, kept=3)
    stage.put_pods(pods)
    await stage.play(EvictEverything())
    await stage.wait(timedelta(minutes=1))
    return journal


def test_a_journal_counts_and_keeps_the_latest_facts() -> None:
    journal = run_virtually(play(4))

    assert journal.counts() == {"ProcessStarted": 1, "PodEvicted": 4, "PodGone": 4}
    assert [type(fact) for fact in journal.recent()] == [PodGone] * 3


def test_the_same_work_has_the_same_hash_and_other_work_another() -> None:
    first, second, other = (run_virtually(play(pods)).digest() for pods in (3, 3, 4))

    assert first == second
    assert first != other


_PROGRAM = """
import sys; sys.path[:0] = {path!r}
from simulation.world.test_journal import play
from trimtab.simulation.world.virtual_time import run_virtually
print(run_virtually(play(5)).digest())
"""


def test_the_hash_does_not_depend_on_how_python_hashes() -> None:
    program = _PROGRAM.format(path=[path for path in sys.path if path])
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert digests == {f"{run_virtually(play(5)).digest()}\n"}
