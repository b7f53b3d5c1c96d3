"""Signals of pressure: they show a need above measured usage, within bounds, and expire."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.makers.usage import World, moment

from trimtab.core.model.estimation import MEASURES, CostSettings, Estimator, Measure, PressureKind
from trimtab.core.model.recommendation import RecommendationSettings
from trimtab.core.model.resources import Resource
from trimtab.core.recommendation.cost import pressure
from trimtab.core.usage.containers import PodName
from trimtab.core.usage.pressure import PressureReading, PressureReadings
from trimtab.core.usage.sample_log import LoggedSamples

MIB = 1024**2
GIB = 1024**3
COST = CostSettings()
HELD = RecommendationSettings(estimator=Estimator.COST)


def a_sample(
    used: float, request: float, limit: float = np.nan, **strengths: float
) -> LoggedSamples:
    """One sample under the given strengths, by the names of measures."""
    row = [strengths.get(measure.value, 0.0) for measure in MEASURES]
    one = np.array
    return LoggedSamples(
        one([0]),
        one([float(used)]),
        one([0.0]),
        one([float(request)]),
        one([float(limit)]),
        one([1]),
        one([row]),
        one([False]),
    )


@pytest.mark.parametrize(
    ("sample", "counted", "kind"),
    [
        pytest.param(a_sample(700, 1000, 1000), 700, None, id="no signal: what was measured"),
        pytest.param(
            a_sample(960, 1000, 1000), 1200, PressureKind.CPU_AT_LIMIT, id="at the limit: 1.2 of it"
        ),
        pytest.param(
            a_sample(600, 1000, 1000, throttled=0.5),
            900,
            PressureKind.CPU_THROTTLED,
            id="throttled in half of the periods: half as much again",
        ),
        pytest.param(
            a_sample(900, 1000, 1000, throttled=0.9),
            1200,
            PressureKind.CPU_THROTTLED,
            id="throttling asks for 1.2 of the limit at most",
        ),
        pytest.param(
            a_sample(600, 1000, 1000, throttled=0.24), 600, None, id="a little throttling is normal"
        ),
        pytest.param(
            a_sample(600, 1000, throttled=0.9), 600, None, id="nothing throttles without a limit"
        ),
        pytest.param(
            a_sample(100, 1000, 1000, throttled=7.0),
            200,
            PressureKind.CPU_THROTTLED,
            id="an absurd strength doubles what was measured at most",
        ),
        pytest.param(
            a_sample(900, 1000, cpu_waiting=0.4),
            1260,
            PressureKind.CPU_PRESSURE,
            id="waits 40 % of the time while it uses its request",
        ),
        pytest.param(
            a_sample(900, 1000, cpu_waiting=0.95),
            1350,
            PressureKind.CPU_PRESSURE,
            id="waiting adds half at most",
        ),
        pytest.param(
            a_sample(700, 1000, cpu_waiting=0.9), 700, None, id="waiting far below the request"
        ),
        pytest.param(
            a_sample(900, 1000, 1000, throttled=0.3, cpu_waiting=0.5),
            1200,
            PressureKind.CPU_THROTTLED,
            id="of two signals the larger need counts, up to 1.2 of the limit",
        ),
    ],
)
def test_a_cpu_sample_shows_a_need(
    sample: LoggedSamples, counted: float, kind: PressureKind | None
) -> None:
    found = pressure.cpu_needs(sample, COST)
    assert found.counted[0] == pytest.approx(counted)
    said = found.signals.kinds[0]
    assert (None if said < 0 else pressure.KINDS[said]) is kind


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        pytest.param(a_sample(900, 1000, 1000), None, id="no signal"),
        pytest.param(
            a_sample(850, 1000, 1000, memory_waiting=0.1),
            PressureKind.MEMORY_PRESSURE,
            id="some processes wait close to the limit",
        ),
        pytest.param(
            a_sample(850, 1000, 1000, memory_stalled=0.06),
            PressureKind.MEMORY_PRESSURE,
            id="all processes stall close to the limit",
        ),
        pytest.param(
            a_sample(790, 1000, 1000, memory_waiting=0.9), None, id="far from the limit it is I/O"
        ),
        pytest.param(
            a_sample(900, 1000, memory_waiting=0.9), None, id="without a limit the node is short"
        ),
        pytest.param(
            a_sample(900, 1000, 1000, memory_waiting=0.09), None, id="a little waiting is normal"
        ),
        pytest.param(
            a_sample(900, 1000, 1000, memory_high=3.0),
            PressureKind.MEMORY_HIGH,
            id="allocations are throttled close to the limit",
        ),
        pytest.param(a_sample(500, 1000, 1000, memory_high=90.0), None, id="high by a file cache"),
    ],
)
def test_memory_signals_count_close_to_the_limit(
    sample: LoggedSamples, kind: PressureKind | None
) -> None:
    said = pressure.memory_signals(sample, COST).kinds[0]
    assert (None if said < 0 else pressure.KINDS[said]) is kind


amounts = st.floats(1, 1e6)
strengths = st.dictionaries(
    st.sampled_from([measure.value for measure in Measure]), st.floats(0, 1e9, allow_nan=False)
)


@given(amounts, amounts, st.one_of(amounts, st.just(np.nan)), strengths)
def test_no_signal_asks_for_more_than_twice_what_was_measured(
    used: float, request: float, limit: float, given_strengths: dict[str, float]
) -> None:
    # The kernel lets no container use more than its limit for long.
    used = min(used, limit) if np.isfinite(limit) else used
    found = pressure.cpu_needs(a_sample(used, request, limit, **given_strengths), COST)
    assert used <= found.counted[0] <= max(2 * used, used / 0.95 * 1.2) * (1 + 1e-9)
    assert found.shown[0] >= used


@dataclass
class Pressed:
    """A workload of one pod that is read each minute, with what a source says of it."""

    world: World = field(default_factory=lambda: World(HELD))
    minute: int = 0
    step: int = 1
    """Minutes between two readings."""

    def __post_init__(self) -> None:
        self.world.pod("web-0")
        self.world.publications.refresh()

    def request(self, cpu: float, memory: float, factor: float = 1) -> None:
        """The container has these requests, and limits that are a multiple of them."""
        amounts = {Resource.CPU: int(cpu), Resource.MEMORY: int(memory)}
        limits = {kind: int(factor * amount) for kind, amount in amounts.items()}
        name = PodName(self.world.autoscaler.namespace, "web-0")
        self.world.usage.note_requests(name, {"app": amounts}, {"app": limits})

    def use(self, cpu: float, memory: float, *, minutes: int, **said: float) -> None:
        """It uses this much, while a source says these strengths."""
        place = (self.world.autoscaler.namespace, "web-0", "app")
        for _ in range(minutes // self.step):
            if said:
                given = {Measure(name): value for name, value in said.items()}
                reading = PressureReading(moment(self.minute).timestamp(), given)
                self.world.usage.note_pressure(PressureReadings({place: reading}))
            self.world.cpu([cpu], [self.minute])
            self.world.memory([memory], [self.minute])
            self.world.publications.refresh()
            self.minute += self.step

    def target(self, resource: Resource) -> int:
        identity = self.world.autoscaler.identity
        (found,) = self.world.publications.recommendation(identity).containers
        return found.target[resource]

    def applied(self) -> list[PressureKind]:
        return [signal.kind for _, _, signal in self.world.publications.held.drain_signals()]


def test_a_throttled_container_gets_more_than_it_shows() -> None:
    with_signal, without = Pressed(), Pressed()
    for pressed in (with_signal, without):
        pressed.request(1000, GIB)
        pressed.use(850, 300 * MIB, minutes=30)
    with_signal.use(850, 300 * MIB, minutes=30, throttled=0.6)
    without.use(850, 300 * MIB, minutes=30)

    assert without.target(Resource.CPU) == 1000
    assert 1200 <= with_signal.target(Resource.CPU) <= 1320
    assert with_signal.applied() == [PressureKind.CPU_THROTTLED]


def test_throttling_at_the_limit_raises_the_target_after_ten_minutes() -> None:
    reached = []
    for said in ({"throttled": 0.9}, {}):
        pressed = Pressed(step=5)
        pressed.request(1000, GIB)
        pressed.use(600, 300 * MIB, minutes=24 * 60)
        pressed.request(pressed.target(Resource.CPU), GIB)
        pressed.step = 1
        pressed.use(500, 300 * MIB, minutes=5)
        before, begin = pressed.target(Resource.CPU), pressed.minute
        while pressed.target(Resource.CPU) < 2 * before:
            pressed.use(before, 300 * MIB, minutes=1, **said)
        reached.append(pressed.minute - begin)

    assert 10 <= reached[0] <= 16
    assert 30 <= reached[1] <= 36


def test_readings_from_before_a_step_do_not_count_after_it() -> None:
    pressed = Pressed()
    pressed.request(1000, GIB)
    pressed.use(850, 300 * MIB, minutes=30)
    while pressed.target(Resource.CPU) == 1000:
        pressed.use(850, 300 * MIB, minutes=1, throttled=0.6)
    raised = pressed.target(Resource.CPU)
    pressed.request(raised, GIB)
    # It has what it needs, and the source goes on for a while.
    pressed.use(1000, 300 * MIB, minutes=12, throttled=0.9)

    assert pressed.target(Resource.CPU) == raised


def test_memory_pressure_close_to_the_limit_counts_as_usage_at_the_limit() -> None:
    pressed = Pressed()
    pressed.request(100, 4 * GIB)
    pressed.use(50, 3.3 * GIB, minutes=20)
    assert pressed.target(Resource.MEMORY) == 4 * GIB
    pressed.use(50, 3.3 * GIB, minutes=4, memory_waiting=0.3)

    assert pressed.target(Resource.MEMORY) == int(4 * GIB * 1.15 + 40 * MIB)
    assert pressed.applied() == [PressureKind.MEMORY_PRESSURE]


def test_one_reading_of_memory_pressure_is_no_reason_yet() -> None:
    pressed = Pressed()
    pressed.request(100, 4 * GIB)
    pressed.use(50, 3.3 * GIB, minutes=20)
    pressed.use(50, 3.3 * GIB, minutes=1, memory_waiting=0.3)

    assert pressed.target(Resource.MEMORY) == 4 * GIB


def test_lasting_memory_pressure_does_not_ratchet() -> None:
    pressed = Pressed()
    pressed.request(100, 4 * GIB)
    pressed.use(50, 3.3 * GIB, minutes=20)
    for _ in range(40):
        pressed.use(50, 3.3 * GIB, minutes=10, memory_waiting=0.9, memory_stalled=0.9)
        # The pod always gets what is published.
        pressed.request(100, pressed.target(Resource.MEMORY))

    assert pressed.target(Resource.MEMORY) < 3.3 * GIB * 1.5


def test_memory_that_follows_its_limit_grows_to_a_bound_under_lasting_pressure() -> None:
    pressed = Pressed()
    pressed.request(100, GIB)
    pressed.use(50, 0.85 * GIB, minutes=20)
    sizes = []
    for _ in range(3 * 24):
        # A JVM with a share of its limit, on a node whose memory is short for days.
        pressed.use(50, 0.85 * pressed.target(Resource.MEMORY), minutes=60, memory_stalled=0.9)
        pressed.request(100, pressed.target(Resource.MEMORY))
        sizes.append(pressed.target(Resource.MEMORY))

    assert GIB < sizes[-1] <= 2 * 0.85 * GIB * 1.15 + 40 * MIB
    assert sizes[12:] == [sizes[-1]] * len(sizes[12:])


def test_a_new_series_of_memory_pressure_counts_from_the_usage_of_its_time() -> None:
    pressed, sizes = Pressed(), [GIB]
    for hours, stalled in ((12, 0.9), (30, 0.0), (12, 0.9)):
        for _ in range(hours):
            pressed.request(100, sizes[-1])
            pressed.use(50, 0.85 * sizes[-1], minutes=60, memory_stalled=stalled)
            sizes.append(pressed.target(Resource.MEMORY))

    after_first, after_quiet, after_second = sizes[12], sizes[42], sizes[54]
    assert after_first == after_quiet < after_second <= 2 * after_quiet


def test_lasting_throttling_does_not_ratchet() -> None:
    pressed = Pressed()
    pressed.request(1000, GIB)
    for _ in range(80):
        pressed.use(600, 300 * MIB, minutes=10, throttled=0.9)
        pressed.request(pressed.target(Resource.CPU), GIB)

    assert pressed.target(Resource.CPU) <= 2 * 600 * 1.1


def test_a_signal_expires_after_five_minutes() -> None:
    pressed = Pressed()
    pressed.request(1000, GIB)
    pressed.use(850, 300 * MIB, minutes=240)
    pressed.use(850, 300 * MIB, minutes=1, throttled=0.9)
    pressed.use(850, 300 * MIB, minutes=60)

    assert pressed.target(Resource.CPU) == 1000
    assert pressed.applied() == []


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.floats(1, 1500), st.floats(1e8, 4e9), st.integers(1, 12)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0.0, -1.0, np.nan, 0.01]),
)
def test_without_signals_every_number_is_equal(
    phases: list[tuple[float, float, int]], nothing: float
) -> None:
    silent, heard = Pressed(), Pressed()
    for pressed in (silent, heard):
        pressed.request(1000, 2 * GIB)
    for cpu, memory, minutes in phases:
        silent.use(cpu, memory, minutes=minutes)
        heard.use(cpu, memory, minutes=minutes, **{each.value: nothing for each in Measure})
        identity = silent.world.autoscaler.identity
        assert silent.world.publications.recommendation(
            identity
        ) == heard.world.publications.recommendation(identity)


@settings(max_examples=20)
@given(st.floats(1, 1500), st.floats(1e8, 4e9), strengths)
def test_percentiles_know_no_signals(
    cpu: float, memory: float, given_strengths: dict[str, float]
) -> None:
    silent, heard = Pressed(World()), Pressed(World())
    for pressed in (silent, heard):
        pressed.request(1000, 2 * GIB)
    silent.use(cpu, memory, minutes=5)
    heard.use(cpu, memory, minutes=5, **given_strengths)
    identity = silent.world.autoscaler.identity
    assert silent.world.publications.recommendation(
        identity
    ) == heard.world.publications.recommendation(identity)


def test_a_lowered_target_forgets_its_signal() -> None:
    pressed = Pressed()
    pressed.request(1000, GIB)
    pressed.use(850, 300 * MIB, minutes=15)
    pressed.use(850, 300 * MIB, minutes=30, throttled=0.6)
    name = pressed.world.autoscaler.identity
    assert len(list(pressed.world.publications.held.last_signals(name))) == 1
    # A day and a half after the change, at the earliest.
    pressed.step = 15
    pressed.use(100, 300 * MIB, minutes=40 * 60)

    assert pressed.target(Resource.CPU) < 1000
    assert list(pressed.world.publications.held.last_signals(name)) == []
