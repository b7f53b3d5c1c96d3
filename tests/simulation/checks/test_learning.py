"""Every checker of what is learned objects to its sin, and has nothing against the honest twin."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from msgspec import structs
from simulation.toys import (
    ActWhenElected,
    PublishTo,
    SaveCheckpoints,
    Scene,
    Stage,
    Toy,
    delete_checkpoints,
    halve_checkpoints,
    judge,
)
from support.makers.records import MIB, a_recommendation, amounts

from trimtab.api.kinds.checkpoint_extras import SUPPLEMENT, encode_supplement
from trimtab.api.kinds.checkpoints import Checkpoint
from trimtab.api.kinds.evictions import MemoryEviction
from trimtab.api.kinds.leases import Lease
from trimtab.api.usage.pod_metrics import UsageColumns
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.lists import Unreadable
from trimtab.core.histogram.bank import HistogramBank
from trimtab.core.histogram.buckets import CPU_BUCKETS, MEMORY_BUCKETS
from trimtab.core.histogram.checkpoint import AggregateCheckpoint, HistogramCheckpoint
from trimtab.core.histogram.oom_floors import OomLevel
from trimtab.core.model.autoscalers import ContainerPolicy, ContainerRecommendation
from trimtab.core.model.resources import Resources
from trimtab.core.usage.aggregates import CPU_WEIGHT
from trimtab.core.usage.checkpoint_extras import SavedContainer, Supplement
from trimtab.core.usage.containers import ContainerMemory
from trimtab.simulation.checks.base import Checker
from trimtab.simulation.checks.counting import KillsCountedOnce, SamplesCountedOnce
from trimtab.simulation.checks.histories import Histories, KeptCheckpoints, SteadyRestarts
from trimtab.simulation.checks.recommendations import SoundRecommendations
from trimtab.simulation.processes import ProcessSurroundings
from trimtab.simulation.world.facts import ContainerKilled, FaultBegan, PodPressedOut, UsageTold
from trimtab.simulation.world.virtual_time import START

DAY = timedelta(days=1)
CHECKPOINT = Checkpoint("default", "web", "app", AggregateCheckpoint())


def histogram(cores: float = 0.2, *, weight: float = 10.0) -> HistogramCheckpoint:
    """CPU samples at the beginning of time, as they are saved."""
    bank = HistogramBank(CPU_BUCKETS, DAY, (0.9,))
    row = int(bank.allocate(1)[0])
    bank.add([row], [cores], weight, START.timestamp())
    return bank.encode(row)


def memory_histogram(used: int, *others: int) -> HistogramCheckpoint:
    bank = HistogramBank(MEMORY_BUCKETS, DAY, (0.9,))
    row = int(bank.allocate(1)[0])
    for each in (used, *others):
        bank.add([row], [float(each)], 1.0, START.timestamp())
    return bank.encode(row)


WHOLE = AggregateCheckpoint(
    histogram(),
    memory_histogram(100 * MIB),
    first_sample_start=START,
    last_sample_start=START + DAY,
    total_samples_count=100,
    last_update_time=START,
)

MIXED = replace(WHOLE, memory_histogram=memory_histogram(*[100 * MIB] * 17, *[400 * MIB] * 3))
"""The target is explained by the larger ones, unless much is new."""


def after_decay(aggregate: AggregateCheckpoint) -> AggregateCheckpoint:
    """The same history, as it is told a half-life later."""
    cpu = aggregate.cpu_histogram
    assert cpu.reference_time is not None
    later = HistogramCheckpoint(cpu.reference_time + DAY, cpu.bucket_weights, cpu.total_weight / 2)
    return replace(aggregate, cpu_histogram=later)


def saved(*aggregates: AggregateCheckpoint) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        await stage.play(SaveCheckpoints(aggregates))

    return scene


def saved_late(
    *aggregates: AggregateCheckpoint, wait: timedelta, told: int = 10, is_killed: bool = False
) -> Scene:
    """So many readings are told early, or a kill shows; what is saved later may be less."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        pod = stage.put_pods(1)[0]
        for minute in range(told):
            usage = reading(START + timedelta(minutes=minute))
            stage.tell(UsageTold(stage.world.now(), "recommender", usage))
        if is_killed:
            stage.tell(ContainerKilled(stage.world.now(), pod, "app", 300 * MIB, 200 * MIB))
        for aggregate in aggregates:
            await stage.play(SaveCheckpoints((aggregate,)))
            await stage.wait(wait)

    return scene


def saved_for_another_target(*aggregates: AggregateCheckpoint) -> Scene:
    async def scene(stage: Stage) -> None:
        for number, aggregate in enumerate(aggregates):
            stage.put_autoscaler(uid=f"uid-{number}")
            await stage.play(SaveCheckpoints((aggregate,)))

    return scene


def restarted_as(recommender: Toy) -> Scene:
    """A recommender starts on what another one has saved."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        await stage.play(SaveCheckpoints((WHOLE,)))
        await stage.play(recommender, "recommender")

    return scene


def relabelled(*, relabel: bool) -> Scene:
    """The memory weight falls after a pod has got other labels, or for no reason."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        pod = stage.put_pods(1)[0]
        less = replace(WHOLE.memory_histogram, total_weight=0.5)
        await stage.play(SaveCheckpoints((WHOLE,)))
        if relabel:
            stage.world.pods.put(structs.replace(pod, labels={**pod.labels, "role": "leader"}))
        await stage.play(SaveCheckpoints((replace(WHOLE, memory_histogram=less),)))

    return scene


def collected(*, autoscaler: str) -> Scene:
    """All checkpoints are deleted while their autoscaler is there, unreadable, new or gone."""

    async def scene(stage: Stage) -> None:
        found = stage.put_autoscaler(created_at=START)
        await stage.play(SaveCheckpoints((WHOLE,)))
        await stage.wait(timedelta(hours=1))
        match autoscaler:
            case "unreadable":
                error = DecodeError("spec", "bad")
                stage.world.autoscalers.spoil(Unreadable("default", "web", error))
            case "gone":
                stage.world.autoscalers.delete("default", "web")
            case "new":
                stage.world.autoscalers.put(replace(found, created_at=stage.world.now()))
            case _:
                pass
        await stage.play(delete_checkpoints)

    return scene


def counted(samples: int, *, weight: float = 0.0, told: int = 10) -> Scene:
    """So many samples are saved of those that were told, each reading twice."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        stage.put_pods(1)
        for number in range(told):
            usage = reading(START + timedelta(minutes=number))
            stage.tell(UsageTold(stage.world.now(), "recommender", usage))
            stage.tell(UsageTold(stage.world.now(), "other", usage))
        cpu = histogram(weight=weight or samples * CPU_WEIGHT)
        aggregate = AggregateCheckpoint(cpu, total_samples_count=samples)
        await stage.play(SaveCheckpoints((aggregate,)))

    return scene


def reading(at: datetime, memory: int = 100 * MIB, pod: str = "web-1-0") -> UsageColumns:
    return UsageColumns(
        ("default",), (pod,), ("app",), (at.timestamp(),), (100,), (memory,), (True,), (True,)
    )


def pressed_out(*, target: int) -> Scene:
    """A container is blamed for using 250Mi, and a target follows."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        pod, now = stage.put_pods(1)[0], stage.world.now()
        blamed = (MemoryEviction("default", pod.name, "app", 250 * MIB, now),)
        stage.tell(PodPressedOut(now, pod, blamed))
        await stage.play(PublishTo((a_recommendation(target=amounts(100, target)),)))

    return scene


def killed(*, target: int, older: bool = False) -> Scene:
    """A container that requests 200Mi is killed once, and a target follows."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler()
        if older:
            stage.world.checkpoints.put(replace(CHECKPOINT, name="web-app"))
        pod = stage.put_pods(1)[0]
        spec = structs.replace(pod.containers[0].spec, requests=amounts(100, 200 * MIB))
        pod = structs.replace(pod, containers=(structs.replace(pod.containers[0], spec=spec),))
        now = stage.world.now()
        stage.tell(UsageTold(now, "recommender", reading(now)))
        stage.tell(ContainerKilled(now, pod, "app", 300 * MIB, 200 * MIB))
        await stage.play(PublishTo((a_recommendation(target=amounts(100, target)),)))

    return scene


def published(
    target: Resources, lower: Resources | None = None, upper: Resources | None = None
) -> Scene:
    async def scene(stage: Stage) -> None:
        policy = ContainerPolicy("*", min_allowed=amounts(50), max_allowed=amounts(400))
        stage.put_autoscaler(policies=(policy,))
        entry = a_recommendation(target=target, lower=lower, upper=upper)
        await stage.play(PublishTo((entry,)))

    return scene


def said_after_a_start(
    *entries: ContainerRecommendation,
    max_millicores: int | None = None,
    aggregate: AggregateCheckpoint | None = WHOLE,
    supplement: Supplement | None = None,
    told: int = 0,
) -> Scene:
    """A recommender starts, with a target of 240m and a checkpoint that explains it.

    Of what was told it has heard so many readings since then, one a second.
    """

    async def scene(stage: Stage) -> None:
        policies = (ContainerPolicy("*", max_allowed=amounts(max_millicores)),)
        said = a_recommendation(target=amounts(240, 800 * MIB))
        stage.put_autoscaler(said, policies=policies)
        stage.put_pods(1)
        if aggregate is not None:
            beside = (
                {} if supplement is None else {SUPPLEMENT: encode_supplement(supplement, START)}
            )
            saved = replace(CHECKPOINT, aggregate=aggregate, annotations=beside, name="web-app")
            stage.world.checkpoints.put(saved)
        for second in range(told):
            usage = reading(START + DAY + timedelta(seconds=1 + second))
            stage.tell(UsageTold(stage.world.now(), "recommender", usage))
        await stage.play(PublishTo(entries), "recommender")

    return scene


def said_after_roles(*roles: str) -> Scene:
    """A recommender starts and says less than before; its pod was read once in each role since."""
    return said_after_looks([{"labels": {"app": "web", "role": role}} for role in roles])


def said_after_successors(*uids: str) -> Scene:
    """The same, but each reading is of another pod of that name."""
    return said_after_looks([{"uid": uid} for uid in uids])


def said_by_a_fast_clock(*faults: str) -> Scene:
    """Other pods were read since the checkpoint was saved, by a clock that seems a minute ahead."""
    ahead = replace(MIXED, last_update_time=START + DAY + timedelta(minutes=1))
    looks = [{"uid": uid} for uid in ("first", "second", "third")]

    async def scene(stage: Stage) -> None:
        for fault in faults:
            stage.tell(FaultBegan(stage.world.now(), fault))
        await said_after_looks(looks, ahead)(stage)

    return scene


def said_after_looks(
    looks: Sequence[Mapping[str, object]], saved: AggregateCheckpoint = MIXED
) -> Scene:
    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(a_recommendation(target=amounts(240, 500 * MIB)))
        stage.world.checkpoints.put(replace(CHECKPOINT, aggregate=saved, name="web-app"))
        for second, look in enumerate(looks):
            stage.put_pods(1, **look)
            usage = reading(START + DAY + timedelta(seconds=1 + second))
            stage.tell(UsageTold(stage.world.now(), "recommender", usage))
        less = a_recommendation(target=amounts(240, 300 * MIB))
        await stage.play(PublishTo((less,)), "recommender")

    return scene


def said_after_lost_readings(*, is_told: bool) -> Scene:
    """Readings are lost in a crash; the next recommender is perhaps told others, half a day later.

    Windows that begin with the later readings end half a day later, and weigh more.
    """
    first = START + DAY + timedelta(seconds=1)

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(a_recommendation(target=amounts(240, 500 * MIB)))
        stage.world.checkpoints.put(replace(CHECKPOINT, aggregate=MIXED, name="web-app"))
        pods = stage.put_pods(2)

        def tell(at: datetime) -> None:
            for pod in pods:
                usage = reading(at, pod=pod.name)
                stage.tell(UsageTold(stage.world.now(), "recommender", usage))

        async def recommend(surroundings: ProcessSurroundings) -> None:
            await surroundings.clock.sleep(timedelta(seconds=1))
            if is_told:
                tell(first + DAY / 2)
            less = a_recommendation(target=amounts(240, 300 * MIB))
            await PublishTo((less,))(surroundings)

        tell(first)
        if not is_told:
            tell(first + DAY / 2)
        await stage.play(recommend, "recommender")

    return scene


def said_by_a_new_leader(target: int) -> Scene:
    """A copy that has waited for an hour takes the lease, and publishes something."""

    async def scene(stage: Stage) -> None:
        stage.put_autoscaler(a_recommendation(target=amounts(230)))
        stage.world.checkpoints.put(replace(CHECKPOINT, aggregate=WHOLE, name="web-app"))
        stage.serving.write_lease("old", Lease("kube-system", "leader", holder="old"))
        wait = timedelta(hours=1)
        stage.start(ActWhenElected(wait, (timedelta(seconds=3600 + target),)), "new")
        await stage.wait(wait * 2)

    return scene


HALF_THE_SAMPLES = replace(WHOLE, total_samples_count=50)
FORGETFUL = replace(WHOLE, last_sample_start=START)
YOUNGER = replace(WHOLE, first_sample_start=START + DAY)
UNSAMPLED = replace(WHOLE, first_sample_start=None, last_sample_start=None)
UNDATED = AggregateCheckpoint(memory_histogram=WHOLE.memory_histogram)
AGED = AggregateCheckpoint(memory_histogram=replace(WHOLE.memory_histogram, total_weight=0.98))
EMPTY = AggregateCheckpoint(total_samples_count=100)
DAMAGED = replace(WHOLE, cpu_histogram=replace(WHOLE.cpu_histogram, bucket_weights={-1: 1}))
OPEN_WINDOW = ContainerMemory(
    last_memory=START.timestamp(), window_end=(START + DAY).timestamp(), usage_peak=300.0 * MIB
)
KILLED = Supplement((OomLevel(300 * MIB, START.timestamp()),))

SINS = [
    pytest.param(
        Histories,
        restarted_as(halve_checkpoints),
        restarted_as(SaveCheckpoints((WHOLE,))),
        id="f1 half of the weight is lost in a restart",
    ),
    pytest.param(
        Histories,
        saved(WHOLE, replace(after_decay(WHOLE), cpu_histogram=histogram(weight=5.0))),
        saved(WHOLE, after_decay(WHOLE), after_decay(after_decay(WHOLE))),
        id="weight is lost without decay",
    ),
    pytest.param(
        Histories,
        saved(WHOLE, replace(WHOLE, cpu_histogram=HistogramCheckpoint())),
        saved(replace(WHOLE, cpu_histogram=HistogramCheckpoint()), WHOLE),
        id="f1 a checkpoint is wiped",
    ),
    pytest.param(
        Histories, saved(WHOLE, HALF_THE_SAMPLES), saved(HALF_THE_SAMPLES, WHOLE), id="samples lost"
    ),
    pytest.param(
        Histories, saved(WHOLE, FORGETFUL), saved(FORGETFUL, WHOLE), id="the last sample is lost"
    ),
    pytest.param(
        Histories,
        saved(WHOLE, FORGETFUL),
        saved(WHOLE, replace(FORGETFUL, total_samples_count=101)),
        id="the last sample is lost, and no other leader had counted more",
    ),
    pytest.param(
        Histories, saved(WHOLE, YOUNGER), saved(YOUNGER, WHOLE), id="the first sample is lost"
    ),
    pytest.param(
        Histories, saved(WHOLE, UNSAMPLED), saved(UNSAMPLED, WHOLE), id="all samples are lost"
    ),
    pytest.param(
        Histories,
        saved(WHOLE, EMPTY),
        saved_for_another_target(WHOLE, EMPTY),
        id="a history lost though its subject is the same",
    ),
    pytest.param(
        Histories,
        relabelled(relabel=False),
        relabelled(relabel=True),
        id="memory weight lost though no window moved",
    ),
    pytest.param(
        Histories,
        saved_late(UNDATED, AGED, wait=DAY * 7),
        saved_late(UNDATED, AGED, wait=DAY * 8 + timedelta(minutes=10)),
        id="memory weight lost that is not old enough to be forgotten",
    ),
    pytest.param(
        Histories,
        saved_late(UNDATED, AGED, wait=DAY * 9, told=0),
        saved_late(UNDATED, AGED, wait=DAY * 9, told=0, is_killed=True),
        id="memory weight lost that nobody has told long ago",
    ),
    pytest.param(
        Histories,
        saved_late(WHOLE, replace(WHOLE, cpu_histogram=histogram(weight=8.9)), wait=DAY * 9),
        saved_late(WHOLE, replace(WHOLE, cpu_histogram=histogram(weight=9.1)), wait=DAY * 9),
        id="more CPU weight lost than was told long ago",
    ),
    pytest.param(
        Histories,
        saved_late(WHOLE, replace(WHOLE, total_samples_count=90), wait=DAY * 7),
        saved_late(WHOLE, replace(WHOLE, total_samples_count=90), wait=DAY * 9),
        id="samples lost that are not old enough to be forgotten",
    ),
    pytest.param(
        Histories,
        saved_late(WHOLE, replace(WHOLE, total_samples_count=89), wait=DAY * 9),
        saved_late(WHOLE, replace(WHOLE, total_samples_count=90), wait=DAY * 9),
        id="more samples lost than were told long ago",
    ),
    pytest.param(
        KeptCheckpoints,
        collected(autoscaler="there"),
        collected(autoscaler="gone"),
        id="f1 a checkpoint of a living autoscaler is deleted",
    ),
    pytest.param(
        KeptCheckpoints,
        collected(autoscaler="unreadable"),
        collected(autoscaler="new"),
        id="f28 a checkpoint of an unreadable autoscaler is deleted",
    ),
    pytest.param(SamplesCountedOnce, counted(20), counted(10), id="every sample is counted twice"),
    pytest.param(SamplesCountedOnce, counted(11), counted(10), id="one sample is counted twice"),
    pytest.param(
        SamplesCountedOnce,
        counted(10, weight=20 * CPU_WEIGHT),
        counted(10, weight=10 * CPU_WEIGHT),
        id="every sample weighs twice",
    ),
    pytest.param(
        KillsCountedOnce,
        killed(target=int(400 * MIB * 1.15)),
        killed(target=int(300 * MIB * 1.15)),
        id="a kill is counted twice",
    ),
    pytest.param(
        KillsCountedOnce,
        pressed_out(target=int(400 * MIB * 1.15)),
        pressed_out(target=int(350 * MIB * 1.15)),
        id="a container that was evicted for want of memory is counted twice",
    ),
    pytest.param(
        KillsCountedOnce,
        killed(target=int(400 * MIB * 1.15)),
        killed(target=int(400 * MIB * 1.15), older=True),
        id="a target that no older history explains",
    ),
    pytest.param(
        SoundRecommendations, published(amounts(0)), published(amounts(50)), id="f4 a target of 0"
    ),
    pytest.param(
        SoundRecommendations,
        published(amounts(100), lower=amounts(150)),
        published(amounts(100), lower=amounts(100)),
        id="a lower bound above the target",
    ),
    pytest.param(
        SoundRecommendations,
        published(amounts(100), upper=amounts(50)),
        published(amounts(100), upper=amounts(100)),
        id="an upper bound below the target",
    ),
    pytest.param(
        SoundRecommendations,
        published(amounts(500)),
        published(amounts(400)),
        id="a target above maxAllowed",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(239, 400 * MIB))),
        said_after_a_start(a_recommendation(target=amounts(240, 400 * MIB))),
        id="f1 CPU falls after a start",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(239, 400 * MIB)), told=100),
        said_after_a_start(a_recommendation(target=amounts(239, 400 * MIB)), told=500),
        id="f2 CPU falls though little is new",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(240, 120 * MIB))),
        said_after_a_start(a_recommendation(target=amounts(240, 121 * MIB))),
        id="memory falls below what was saved",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(
            a_recommendation(target=amounts(240, 130 * MIB)),
            supplement=Supplement(containers={"web-1-0": SavedContainer(OPEN_WINDOW)}),
        ),
        said_after_a_start(
            a_recommendation(target=amounts(240, 130 * MIB)),
            supplement=Supplement(
                containers={"web-1-0": SavedContainer(replace(OPEN_WINDOW, is_saved=True))}
            ),
        ),
        id="memory falls below the peak of a window that was open",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_roles("leader"),
        said_after_roles("leader", "follower", "former leader"),
        id="s25a memory falls though no window of another role is new",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_successors("first"),
        said_after_successors("first", "second", "third"),
        id="memory falls though no pod has taken the place of another",
    ),
    pytest.param(
        SteadyRestarts,
        said_by_a_fast_clock(),
        said_by_a_fast_clock("clock skew recommender at 0:00:00"),
        id="memory falls though all clocks are right",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_lost_readings(is_told=False),
        said_after_lost_readings(is_told=True),
        id="memory falls though no window begins after the start",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(240, 299 * MIB)), supplement=KILLED),
        said_after_a_start(a_recommendation(target=amounts(240, 300 * MIB)), supplement=KILLED),
        id="memory falls below what a kill has shown to be needed",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(100, 400 * MIB))),
        said_after_a_start(a_recommendation(target=amounts(100, 400 * MIB)), max_millicores=100),
        id="CPU falls though the policy allows it",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(a_recommendation(target=amounts(100, 400 * MIB))),
        said_after_a_start(a_recommendation(target=amounts(100, 400 * MIB)), aggregate=DAMAGED),
        id="f4 CPU falls though the checkpoint can be read",
    ),
    pytest.param(
        SteadyRestarts,
        said_by_a_new_leader(100),
        said_by_a_new_leader(230),
        id="f41 CPU falls when another one leads",
    ),
    pytest.param(
        SteadyRestarts,
        said_after_a_start(),
        said_after_a_start(aggregate=None),
        id="nothing is recommended though a history was saved",
    ),
]


@pytest.mark.parametrize(("checker", "sin", "_"), SINS)
def test_each_checker_objects_to_its_sin(checker: type[Checker], sin: Scene, _: Scene) -> None:
    assert judge(checker, sin)


@pytest.mark.parametrize(("checker", "_", "twin"), SINS)
def test_each_checker_has_nothing_against_the_honest_twin(
    checker: type[Checker], _: Scene, twin: Scene
) -> None:
    assert judge(checker, twin) == []
