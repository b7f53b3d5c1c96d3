"""Whether a component is alive, and what keeps it from its work."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
import structlog
from structlog.typing import EventDict
from support.fakes.clocks import LoopClock, run_virtually
from support.makers.records import NOW

from trimtab.api.wire.status_errors import Status
from trimtab.cli.runtime.health import (
    HALF_BLIND,
    NOT_READY,
    OLDEST_VIEW,
    Heartbeat,
    ObstacleReport,
    ReadWatchdog,
    list_obstacles,
    list_shortcomings,
    wait_for_flaws,
    watch_obstacles,
)
from trimtab.cluster.errors import ForbiddenError, NotFoundError, RivalError, UnreachableError
from trimtab.cluster.live.cluster import RequiredRead

MINUTE = timedelta(minutes=1)
NO_RIGHT = 'pods is forbidden: User "x" cannot list resource "pods" in API group "metrics.k8s.io"'
QUOTA = "exceeded quota: small"


def forbidden(message: str) -> ForbiddenError:
    return ForbiddenError("GET /x", Status(code=403, message=message))


@dataclass
class Watch:
    """A clock that goes when it is told to."""

    time: timedelta = timedelta()

    def elapsed(self) -> timedelta:
        return self.time


@dataclass
class View:
    """A cluster as readiness sees it."""

    its_age: timedelta | None = timedelta()
    its_problems: Mapping[str, Exception] = field(default_factory=dict)

    def age(self) -> timedelta | None:
        return self.its_age

    def problems(self) -> Mapping[str, Exception]:
        return self.its_problems


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def heartbeat(watch: Watch) -> Heartbeat:
    return Heartbeat(watch.elapsed, 5 * MINUTE)


def test_a_loop_that_is_not_expected_to_beat_is_healthy(watch: Watch, heartbeat: Heartbeat) -> None:
    watch.time += 60 * MINUTE

    assert heartbeat.flaws() == []


def test_a_loop_that_is_silent_for_too_long_is_not_healthy(
    watch: Watch, heartbeat: Heartbeat
) -> None:
    with heartbeat.expected():
        watch.time += 5 * MINUTE
        just_in_time = heartbeat.flaws()
        watch.time += MINUTE
        too_late = heartbeat.flaws()

    assert just_in_time == []
    assert too_late == ["no tick succeeded for 360 s"]


def test_each_beat_counts_anew(watch: Watch, heartbeat: Heartbeat) -> None:
    with heartbeat.expected():
        watch.time += 5 * MINUTE
        heartbeat.beat()
        watch.time += 5 * MINUTE

        assert heartbeat.flaws() == []


def test_nothing_is_expected_of_a_loop_that_has_lost_its_lease(
    watch: Watch, heartbeat: Heartbeat
) -> None:
    with heartbeat.expected():
        heartbeat.beat()
    watch.time += 60 * MINUTE

    assert heartbeat.flaws() == []


@pytest.mark.parametrize(
    ("view", "others", "told"),
    [
        pytest.param(View(), [], [], id="all is well"),
        pytest.param(View(OLDEST_VIEW), [], [], id="a quiet day"),
        pytest.param(
            View(None, {"/api/v1/pods": ValueError("404")}),
            [],
            ["not everything has been listed yet", "/api/v1/pods: 404"],
            id="before everything was listed, with what is in the way",
        ),
        pytest.param(
            View(OLDEST_VIEW + MINUTE),
            [],
            ["no answer from the cluster for 360 s"],
            id="a view that is too old",
        ),
        pytest.param(
            View(its_problems={"/api/v1/pods": UnreachableError("GET /x", "cut")}),
            [],
            [],
            id="a watch that was cut just now",
        ),
        pytest.param(
            View(its_problems={"save checkpoint": forbidden(NO_RIGHT)}),
            [],
            ["missing right: list pods.metrics.k8s.io"],
            id="an act that lacks a right",
        ),
        pytest.param(
            View(),
            [forbidden(NO_RIGHT), forbidden(NO_RIGHT)],
            ["missing right: list pods.metrics.k8s.io"],
            id="a right that is missing twice is told once",
        ),
        pytest.param(View(), [forbidden(QUOTA)], [], id="a full quota is no missing right"),
        pytest.param(
            View(), [RivalError("a/b", "gke")], [str(RivalError("a/b", "gke"))], id="a rival"
        ),
        pytest.param(View(), [ValueError("passes")], [], id="a failure that passes by itself"),
    ],
)
def test_readiness_names_what_is_in_the_way(
    view: View, others: list[Exception], told: list[str]
) -> None:
    assert list_obstacles(view, others) == told


def test_a_right_that_is_missing_is_named_among_shortcomings_too() -> None:
    found = {"/api/v1/nodes": forbidden(NO_RIGHT), "/x": UnreachableError("GET /x", "cut")}

    told = list_shortcomings(found)

    assert told == ["missing right: list pods.metrics.k8s.io", "/x: GET /x: cut"]


@pytest.mark.parametrize(
    "news",
    [pytest.param(NOT_READY, id="obstacles"), pytest.param(HALF_BLIND, id="shortcomings")],
)
def test_what_is_in_the_way_is_logged_once_and_its_end_too(news: ObstacleReport) -> None:
    seen = iter([[], ["no right"], ["no right"], ["no right", "no list"], [], []])

    async def scenario() -> list[EventDict]:
        with structlog.testing.capture_logs() as told, suppress(StopIteration, RuntimeError):
            await watch_obstacles(lambda: next(seen), LoopClock(), news)
        return list(told)

    told = run_virtually(scenario())

    assert [(one["event"], one.get("obstacles")) for one in told] == [
        (news.begins, ["no right"]),
        (news.begins, ["no right", "no list"]),
        (news.ends, None),
    ]


def test_where_the_crds_are_missing_it_is_said_how_to_get_them() -> None:
    missing = NotFoundError("GET /x", Status(code=404, message="page not found"))
    own = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
    _, crds, other = list_obstacles(View(None, {own: missing, "/apis/batch/v1/jobs": missing}))

    remedy = "trimtab crds | kubectl apply --server-side --force-conflicts -f -"
    assert crds == f"{own}: the CRDs are missing: {remedy}"
    assert other == f"/apis/batch/v1/jobs: {missing}"


@dataclass
class Reads:
    """The last read of pods, and a watchdog that looks at it."""

    watch: Watch
    current_at: datetime | None = NOW
    problem: Exception | None = None
    timeout: timedelta = 15 * MINUTE

    def __post_init__(self) -> None:
        self.watchdog = ReadWatchdog(self.look, self.watch.elapsed, self.timeout)

    def look(self) -> list[RequiredRead]:
        return [RequiredRead("/api/v1/pods", self.current_at, self.problem)]

    def flaws_after(self, span: timedelta) -> list[str]:
        self.watch.time += span
        return self.watchdog.flaws()


def test_a_kind_that_is_not_read_for_too_long_is_a_flaw_with_its_cause(watch: Watch) -> None:
    reads = Reads(watch)
    first = reads.flaws_after(timedelta())
    reads.problem = UnreachableError("GET /api/v1/pods", "no route")
    in_time = reads.flaws_after(15 * MINUTE)
    late = reads.flaws_after(MINUTE)
    reads.current_at, reads.problem = NOW + MINUTE, None
    again = reads.flaws_after(MINUTE)

    assert (first, in_time, again) == ([], [], [])
    assert late == [
        "/api/v1/pods could not be read for 960 s: GET /api/v1/pods: no route",
    ]


def test_a_kind_that_was_never_read_is_a_flaw_in_time(watch: Watch) -> None:
    reads = Reads(watch, current_at=None)

    assert reads.flaws_after(15 * MINUTE) == []
    assert reads.flaws_after(MINUTE) == ["/api/v1/pods could not be read for 960 s"]


def test_a_wall_clock_that_jumps_makes_no_flaw(watch: Watch) -> None:
    reads = Reads(watch)
    reads.watchdog.flaws()
    reads.current_at = NOW + 600 * MINUTE
    reads.flaws_after(MINUTE)
    reads.current_at = NOW

    assert reads.flaws_after(MINUTE) == []


@pytest.mark.parametrize(
    "problem", [forbidden(NO_RIGHT), NotFoundError("GET /x", Status(code=404))]
)
def test_a_server_that_says_no_is_no_reason_for_another_process(
    watch: Watch, problem: Exception
) -> None:
    reads = Reads(watch, current_at=None, problem=problem)
    refused = reads.flaws_after(60 * MINUTE)
    reads.problem = UnreachableError("GET /x", "no route")
    silent = reads.flaws_after(MINUTE)

    assert (refused, silent) == ([], [])


def test_a_timeout_of_zero_means_never(watch: Watch) -> None:
    assert Reads(watch, current_at=None, timeout=timedelta()).flaws_after(9000 * MINUTE) == []


def test_flaws_are_waited_for_until_there_are_any() -> None:
    async def scenario() -> tuple[list[str], timedelta]:
        clock = LoopClock()
        flaws = await wait_for_flaws(lambda: ["x"] if clock.elapsed() > MINUTE else [], clock)
        return flaws, clock.elapsed()

    flaws, elapsed = run_virtually(scenario())
    assert flaws == ["x"]
    assert MINUTE <= elapsed <= 2 * MINUTE
