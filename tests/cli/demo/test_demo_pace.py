from datetime import timedelta

import pytest

from trimtab.cli.demo.command import DemoPace


class Stopwatch:
    """Time that passes only while somebody waits, or while a step is worked on."""

    def __init__(self, work_seconds: float = 0.0) -> None:
        self.seconds = 100.0
        self.work_seconds = work_seconds

    def elapsed(self) -> timedelta:
        return timedelta(seconds=self.seconds)

    def wait(self, seconds: float) -> None:
        self.seconds += seconds

    def steps(self, pace: DemoPace) -> list[timedelta]:
        taken = []
        for step in pace.steps():
            self.seconds += self.work_seconds
            taken.append(step)
        return taken


def a_pace(stopwatch: Stopwatch, duration: float, speed: float) -> DemoPace:
    return DemoPace(duration, speed, stopwatch=stopwatch, wait=stopwatch.wait)


@pytest.mark.parametrize(
    ("duration", "speed"),
    [
        pytest.param(60.0, 1440.0, id="a day in a minute"),
        pytest.param(3.1, 1.0, id="as slow as life, with a short last step"),
        pytest.param(2.0, 100_000.0, id="so fast that steps are shorter than a frame"),
    ],
)
def test_as_much_passes_as_was_asked_for_in_the_time_that_was_asked_for(
    duration: float, speed: float
) -> None:
    stopwatch = Stopwatch()
    pace = a_pace(stopwatch, duration, speed)
    steps = stopwatch.steps(pace)

    assert sum(steps, timedelta()) == timedelta(seconds=duration * speed)
    assert pace.elapsed_seconds() == pytest.approx(duration, abs=0.001)
    assert max(steps) <= timedelta(minutes=10)


def test_work_that_takes_a_while_is_not_waited_for_twice() -> None:
    stopwatch = Stopwatch(work_seconds=0.1)
    pace = a_pace(stopwatch, 10.0, 1440.0)
    steps = stopwatch.steps(pace)

    assert sum(steps, timedelta()) == timedelta(hours=4)
    assert pace.elapsed_seconds() == pytest.approx(10.0, abs=0.001)


def test_a_machine_that_is_too_slow_ends_in_time_and_says_how_fast_it_was() -> None:
    stopwatch = Stopwatch(work_seconds=0.5)
    pace = a_pace(stopwatch, 10.0, 1440.0)
    steps = stopwatch.steps(pace)

    assert sum(steps, timedelta()) == timedelta(hours=2)
    assert pace.elapsed_seconds() == 10.0
    assert pace.describe() == "720 times as fast as life, 0 s left"
