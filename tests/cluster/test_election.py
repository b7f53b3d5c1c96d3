import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import NOW
from virtual_time import LoopClock, run_virtually

from trimtab.api.decoding import DecodeError
from trimtab.api.leases import Lease
from trimtab.api.statuses import Status
from trimtab.cluster.election import (
    ElectionSettings,
    Elector,
    Leading,
    State,
    Wait,
    Waiting,
    Write,
    gain,
    leads,
    release,
    step,
)
from trimtab.cluster.errors import ConflictError, ForbiddenError, UnreachableError

ME = ElectionSettings("kube-system", "vpa-updater", "me")
FREE = Lease("kube-system", "vpa-updater", "4", holder="", transitions=3)
MINE = Lease(
    "kube-system",
    "vpa-updater",
    "5",
    holder="me",
    duration=timedelta(seconds=15),
    acquired_at=NOW,
    renewed_at=NOW,
    transitions=3,
)
THEIRS = replace(MINE, holder="them")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def decide(state: State, seen: Lease | None, at: float) -> tuple[State, Write | Wait]:
    return step(ME, state, seen, now=seconds(at), wall_time=NOW + seconds(at))


def test_the_spans_are_those_of_the_original() -> None:
    assert (ME.lease_duration, ME.renew_deadline, ME.retry_period) == (
        seconds(15),
        seconds(10),
        seconds(2),
    )


@pytest.mark.parametrize(
    ("retry", "deadline", "duration"),
    [
        pytest.param(2, 15, 15, id="a leader that outlasts its lease"),
        pytest.param(10, 10, 15, id="no time to renew"),
        pytest.param(0, 10, 15, id="no time to breathe"),
    ],
)
def test_spans_that_would_allow_two_leaders_are_refused(
    retry: int, deadline: int, duration: int
) -> None:
    with pytest.raises(ValueError, match="renew deadline"):
        ElectionSettings(
            "n",
            "l",
            "me",
            lease_duration=seconds(duration),
            renew_deadline=seconds(deadline),
            retry_period=seconds(retry),
        )


def test_a_lease_that_was_never_there_is_created_at_once() -> None:
    state, action = decide(Waiting(), None, 100)

    assert state == Waiting()
    assert action == Write(
        Lease(
            "kube-system",
            "vpa-updater",
            holder="me",
            duration=seconds(15),
            acquired_at=NOW + seconds(100),
            renewed_at=NOW + seconds(100),
            transitions=0,
        )
    )


def test_a_lease_that_nobody_holds_is_taken_at_once_and_the_change_is_counted() -> None:
    _, action = decide(Waiting(), FREE, 100)

    assert isinstance(action, Write)
    assert (action.lease.holder, action.lease.transitions) == ("me", 4)
    assert action.lease.resource_version == "4"
    assert action.lease.duration == seconds(15)


@pytest.mark.parametrize(
    ("seen", "since", "now", "is_taken"),
    [
        pytest.param(THEIRS, 100, 114.9, False, id="not before its duration has passed"),
        pytest.param(THEIRS, 100, 115, True, id="as soon as its duration has passed"),
        pytest.param(
            replace(THEIRS, duration=seconds(60)), 100, 159, False, id="a longer promise counts"
        ),
        pytest.param(
            replace(THEIRS, duration=seconds(1)), 100, 114, False, id="a shorter one does not"
        ),
        pytest.param(
            replace(THEIRS, duration=None), 100, 115, True, id="no promise is as good as ours"
        ),
    ],
)
def test_a_lease_of_another_is_taken_only_after_it_stood_still_long_enough(
    seen: Lease, since: float, now: float, *, is_taken: bool
) -> None:
    state, action = decide(Waiting(seen, seconds(since)), seen, now)

    assert isinstance(action, Write) is is_taken
    assert state == Waiting(seen, seconds(since))


def test_any_change_of_the_lease_starts_the_wait_anew() -> None:
    renewed = replace(THEIRS, resource_version="6")

    assert decide(Waiting(THEIRS, seconds(100)), renewed, 114) == (
        Waiting(renewed, seconds(114)),
        Wait(),
    )


def test_the_times_in_a_lease_play_no_part() -> None:
    ancient = replace(THEIRS, renewed_at=NOW - timedelta(days=365))

    assert decide(Waiting(), ancient, 100)[1] == Wait()


def test_a_lease_that_is_deleted_under_its_holder_is_not_made_anew_too_early() -> None:
    state, action = decide(Waiting(THEIRS, seconds(100)), None, 101)
    assert action == Wait()

    assert decide(state, None, 115.9)[1] == Wait()
    assert isinstance(decide(state, None, 116)[1], Write)


def test_a_leader_renews_what_is_its_own() -> None:
    state, action = decide(Leading(MINE, seconds(110)), MINE, 102)

    assert state == Leading(MINE, seconds(110))
    assert action == Write(replace(MINE, renewed_at=NOW + seconds(102)))


def test_a_leader_goes_on_from_a_renewal_of_which_it_never_heard_the_answer() -> None:
    later = replace(MINE, resource_version="6")

    state, action = decide(Leading(MINE, seconds(110)), later, 102)

    assert leads(state, seconds(109))
    assert isinstance(action, Write)
    assert action.lease.resource_version == "6"


def test_a_leader_whose_lease_was_deleted_makes_it_anew() -> None:
    state, action = decide(Leading(MINE, seconds(110)), None, 102)

    assert leads(state, seconds(102))
    assert isinstance(action, Write)
    assert (action.lease.holder, action.lease.resource_version) == ("me", "")


def test_a_leader_that_sees_another_in_its_place_waits() -> None:
    state, action = decide(Leading(MINE, seconds(110)), THEIRS, 102)

    assert (state, action) == (Waiting(THEIRS, seconds(102)), Wait())


def test_a_leader_after_its_deadline_has_to_win_the_lease_again() -> None:
    state, action = decide(Leading(MINE, seconds(110)), MINE, 110)

    assert not leads(state, seconds(110))
    assert isinstance(action, Write)


def test_one_leads_from_the_moment_of_sending_and_not_after_the_deadline() -> None:
    state = gain(ME, MINE, sent_at=seconds(100))

    assert leads(state, seconds(100))
    assert leads(state, seconds(109.9))
    assert not leads(state, seconds(110))
    assert not leads(Waiting(), seconds(0))


def test_a_released_lease_is_free_for_anybody() -> None:
    state, action = decide(Waiting(), release(THEIRS), 100)

    assert isinstance(action, Write)
    assert not leads(state, seconds(100))


@dataclass(frozen=True)
class Stall:
    """How one request fares: when it reaches the server, when the answer is back, if at all."""

    before: float = 0.01
    after: float = 0.01
    is_lost: bool = False


class LeaseServer:
    """One lease."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.writes: list[Lease] = []
        self.error: Exception | None = None

    def read(self) -> Lease | None:
        if self.error:
            raise self.error
        return self.lease

    def write(self, lease: Lease) -> Lease:
        present = self.read()
        if lease.resource_version != (present.resource_version if present else ""):
            raise ConflictError("PUT lease", Status(code=409))
        self.lease = replace(lease, resource_version=str(len(self.writes) + 1))
        self.writes.append(self.lease)
        return self.lease


class Link:
    """The way to the server: it may take its time, lose answers, or hang."""

    def __init__(self, server: LeaseServer, stalls: Iterable[Stall] = ()) -> None:
        self._server = server
        self.stalls = list(stalls)
        self.hangs_until = 0.0
        self._under_way: set[asyncio.Task[Lease]] = set()

    async def fetch_lease(self, namespace: str, name: str) -> Lease | None:
        assert (namespace, name) == ("kube-system", "vpa-updater")
        stall = self._next_stall()
        await self._travel(stall)
        lease = self._server.read()
        await self._answer(stall)
        return lease

    async def write_lease(self, lease: Lease) -> Lease:
        stall = self._next_stall()
        # Once sent, a request is out of our hands: it arrives even if nobody waits any more.
        arrival = asyncio.create_task(self._arrive(lease, stall))
        self._under_way.add(arrival)
        arrival.add_done_callback(_ignore)
        written = await asyncio.shield(arrival)
        await self._answer(stall)
        return written

    async def _arrive(self, lease: Lease, stall: Stall) -> Lease:
        await self._travel(stall)
        return self._server.write(lease)

    async def _travel(self, stall: Stall) -> None:
        hanging = self.hangs_until - asyncio.get_running_loop().time()
        await asyncio.sleep(max(stall.before, hanging))

    async def _answer(self, stall: Stall) -> None:
        await asyncio.sleep(stall.after)
        if stall.is_lost:
            raise UnreachableError("PUT lease", "connection reset")

    def _next_stall(self) -> Stall:
        return self.stalls.pop(0) if self.stalls else Stall()


def _ignore(task: asyncio.Task[Lease]) -> None:
    if not task.cancelled():
        task.exception()


class Candidate:
    """A process that takes part in the election, and notes when it acts."""

    def __init__(self, server: LeaseServer, identity: str, stalls: Iterable[Stall] = ()) -> None:
        self.clock = LoopClock()
        self.link = Link(server, stalls)
        self.is_acting = False
        self.reigns = 0
        self.elector = Elector(
            self.link,
            replace(ME, identity=identity),
            clock=self.clock,
            elapsed=self.clock.elapsed,
        )
        self.running: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.running is None:
            self.running = asyncio.create_task(self.elector.run(self._act))

    async def stop(self) -> None:
        running, self.running = self.running, None
        if running is not None:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    async def _act(self) -> None:
        self.is_acting = True
        self.reigns += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_acting = False


async def wait_for(condition: Callable[[], bool], limit: float = 60) -> float:
    """How many seconds it took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began < limit
        await asyncio.sleep(0.05)
    return loop.time() - began


def test_the_first_leads_and_the_second_takes_over_at_once_when_it_is_released() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        one, two = Candidate(server, "one"), Candidate(server, "two")
        one.start()
        await wait_for(one.elector.leads)
        two.start()
        await asyncio.sleep(120)
        assert (one.is_acting, two.is_acting) == (True, False)
        assert (one.reigns, two.reigns) == (1, 0)

        await one.stop()
        assert not one.is_acting
        assert server.lease is not None
        assert server.lease.holder == ""
        took = await wait_for(lambda: two.is_acting)

        assert took <= 2.2
        assert two.elector.leads()
        await two.stop()

    run_virtually(scenario())


def test_a_leader_that_dies_is_followed_after_the_duration_of_its_lease() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        server.lease = replace(THEIRS, resource_version="0")
        candidate = Candidate(server, "one")
        candidate.start()
        took = await wait_for(lambda: candidate.is_acting)

        assert 15 <= took <= 17.2
        assert server.lease is not None
        assert server.lease.transitions == 4
        await candidate.stop()

    run_virtually(scenario())


def test_a_stalled_server_stops_the_leader_by_its_own_clock_and_later_it_leads_again() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        candidate.link.stalls = [Stall(before=60) for _ in range(6)]

        stopped = await wait_for(lambda: not candidate.is_acting)
        assert not candidate.elector.leads()
        assert isinstance(candidate.elector.problem, TimeoutError)
        resumed = await wait_for(lambda: candidate.is_acting, limit=120)

        assert stopped <= 10.1
        assert resumed > 10
        assert candidate.reigns == 2
        assert candidate.elector.problem is None
        await candidate.stop()

    run_virtually(scenario())


def test_a_leader_that_finds_another_in_its_place_stops_at_its_next_look() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        assert server.lease is not None
        server.write(replace(server.lease, holder="them"))
        took = await wait_for(lambda: not candidate.is_acting)

        assert took <= 2.2
        assert not candidate.elector.leads()
        await candidate.stop()
        assert server.lease.holder == "them"

    run_virtually(scenario())


def test_a_short_failure_of_the_server_costs_nobody_the_lease() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        server.error = UnreachableError("GET lease", "connection refused")
        await asyncio.sleep(7)
        assert isinstance(candidate.elector.problem, UnreachableError)
        server.error = None
        await asyncio.sleep(30)

        assert candidate.is_acting
        assert candidate.reigns == 1
        await candidate.stop()

    run_virtually(scenario())


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ForbiddenError("GET lease", Status(code=403)), id="f43 a missing right"),
        pytest.param(DecodeError("spec", "no object"), id="a lease that makes no sense"),
    ],
)
def test_whoever_cannot_use_the_lease_waits_and_says_why(error: Exception) -> None:
    async def scenario() -> None:
        server = LeaseServer()
        server.error = error
        candidate = Candidate(server, "one")
        candidate.start()
        await asyncio.sleep(60)

        assert candidate.reigns == 0
        assert candidate.elector.problem is error
        await candidate.stop()

    run_virtually(scenario())


def test_a_release_that_fails_keeps_nobody_from_stopping() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        server.error = UnreachableError("PUT lease", "connection refused")
        await candidate.stop()

        assert candidate.elector.problem is server.error
        assert not candidate.elector.leads()

    run_virtually(scenario())


def test_whoever_never_led_releases_nothing() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        server.lease = THEIRS
        candidate = Candidate(server, "one")
        candidate.start()
        await asyncio.sleep(5)
        await candidate.stop()

        assert server.writes == []

    run_virtually(scenario())


def test_what_fails_while_leading_is_not_hidden_and_the_lease_is_released() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    async def scenario() -> LeaseServer:
        server = LeaseServer()
        clock = LoopClock()
        elector = Elector(Link(server), ME, clock=clock, elapsed=clock.elapsed)
        with pytest.raises(ExceptionGroup) as caught:
            await elector.run(fail)
        assert caught.value.subgroup(ZeroDivisionError)
        return server

    server = run_virtually(scenario())
    assert server.lease is not None
    assert server.lease.holder == ""


STALLS = st.lists(
    st.builds(
        Stall,
        before=st.one_of(st.floats(0, 1), st.floats(0, 70)),
        after=st.one_of(st.floats(0, 1), st.floats(0, 20)),
        is_lost=st.booleans(),
    ),
    max_size=15,
)
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["hang", "hang", "stop", "skew", "stall"]), st.booleans(), st.floats(0, 40)
    ),
    max_size=8,
)


async def disturb(candidate: Candidate, deed: str, number: float) -> None:
    match deed:
        case "hang":
            candidate.link.hangs_until = asyncio.get_running_loop().time() + number
        case "stop":
            await candidate.stop()
        case "skew":
            candidate.clock.skew = seconds(1_000 * (number - 15))
        case _:
            candidate.link.stalls = [Stall(before=number / 4, after=number / 8)] * 5


async def watch_closely(candidates: list[Candidate]) -> None:
    while True:
        assert sum(candidate.elector.leads() for candidate in candidates) <= 1
        assert sum(candidate.is_acting for candidate in candidates) <= 1
        await asyncio.sleep(0.25)


@settings(max_examples=150)
@given(stalls=STALLS, deeds=DEEDS)
def test_there_are_never_two_leaders_whatever_stalls(
    stalls: list[Stall], deeds: list[tuple[str, bool, float]]
) -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidates = [Candidate(server, "one", stalls), Candidate(server, "two")]
        watching = asyncio.create_task(watch_closely(candidates))
        for deed, is_leader, number in deeds:
            for candidate in candidates:
                candidate.start()
            await asyncio.sleep(number / 4)
            candidates.sort(key=lambda each: each.elector.leads() is is_leader, reverse=True)
            await disturb(candidates[0], deed, number)
            await asyncio.sleep(number)
        for candidate in candidates:
            candidate.start()
        await wait_for(lambda: any(each.is_acting for each in candidates), limit=240)
        assert not watching.done()
        watching.cancel()
        for candidate in candidates:
            await candidate.stop()

    run_virtually(scenario())


@pytest.mark.parametrize("hang", [12, 16, 20, 60])
def test_a_leader_that_is_cut_off_stops_before_another_one_begins(hang: float) -> None:
    async def scenario() -> None:
        server = LeaseServer()
        one, two = Candidate(server, "one"), Candidate(server, "two")
        one.start()
        await wait_for(lambda: one.is_acting)
        two.start()
        await asyncio.sleep(7.5)
        watching = asyncio.create_task(watch_closely([one, two]))
        one.link.hangs_until = asyncio.get_running_loop().time() + hang
        await wait_for(lambda: two.is_acting or one.reigns == 2, limit=40)
        await asyncio.sleep(60)

        assert not watching.done()
        assert one.is_acting is not two.is_acting
        assert two.is_acting is (hang > 16)
        watching.cancel()
        await one.stop()
        await two.stop()

    run_virtually(scenario())


def test_a_renewal_that_arrives_late_finds_another_version_and_fails() -> None:
    server = LeaseServer()
    server.write(replace(MINE, resource_version=""))
    server.write(replace(THEIRS, resource_version="1"))

    with pytest.raises(ConflictError):
        server.write(replace(MINE, resource_version="1"))
