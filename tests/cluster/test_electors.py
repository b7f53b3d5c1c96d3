"""Electors that run, on a virtual clock, over links that stall."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes.clocks import LoopClock, run_virtually
from support.fakes.lease_server import LEASE, Candidate, LeaseServer, Link, Stall, wait_for
from support.makers.records import NOW

from trimtab.api.kinds.leases import Lease
from trimtab.api.wire.codec import DecodeError
from trimtab.api.wire.status_errors import Status
from trimtab.cluster.errors import ConflictError, ForbiddenError, RivalError, UnreachableError
from trimtab.cluster.live.leader_election import ElectionSettings, Elector

MINE = Lease(*LEASE, holder="me", duration=timedelta(seconds=15), transitions=3)
THEIRS = replace(MINE, holder="them")


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


def test_a_leader_renews_its_lease_without_a_look_at_it() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        await asyncio.sleep(60)

        assert server.looks == 1
        assert len(server.writes) >= 29
        assert candidate.reigns == 1
        await candidate.stop()

    run_virtually(scenario())


def test_a_leader_looks_at_its_lease_after_an_answer_was_lost() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        candidate.link.stalls = [Stall(is_lost=True)]
        await asyncio.sleep(20)

        assert server.looks == 2
        assert candidate.reigns == 1
        assert candidate.elector.problem is None
        await candidate.stop()

    run_virtually(scenario())


def test_a_leader_whose_lease_was_deleted_makes_it_anew_at_its_next_turn() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        candidate = Candidate(server, "one")
        candidate.start()
        await wait_for(lambda: candidate.is_acting)
        server.lease = None
        await asyncio.sleep(3)

        assert server.lease is not None
        assert candidate.reigns == 1
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


def test_f42_a_lease_that_something_else_renews_is_never_taken_and_it_is_said_whose() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        server.lease = replace(THEIRS, resource_version="0")
        candidate = Candidate(server, "one")
        candidate.start()
        for number in range(60):
            await asyncio.sleep(2)
            renewed_at = NOW + timedelta(seconds=2 * number)
            server.write(replace(server.lease, renewed_at=renewed_at))

            assert isinstance(candidate.elector.problem, RivalError)
            assert "kube-system/vpa-updater is held by them" in str(candidate.elector.problem)
        assert candidate.reigns == 0

        # It has left for good, and its lease with it.
        await wait_for(lambda: candidate.is_acting)
        assert candidate.elector.problem is None
        await candidate.stop()

    run_virtually(scenario())


def test_those_who_wait_for_one_of_us_have_no_problem() -> None:
    async def scenario() -> None:
        server = LeaseServer()
        one, two = Candidate(server, "one"), Candidate(server, "two")
        one.start()
        await wait_for(lambda: one.is_acting)
        two.start()
        await asyncio.sleep(10)

        assert two.elector.problem is None
        await one.stop()
        await asyncio.sleep(1)
        assert two.elector.problem is None
        await two.stop()

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
        elector = Elector(
            Link(server), ElectionSettings(*LEASE, "me"), clock=clock, elapsed=clock.elapsed
        )
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
            candidate.clock.skew = timedelta(seconds=1_000 * (number - 15))
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


@pytest.mark.parametrize("hang", [12, 14, 20, 60])
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
        assert two.is_acting is (hang > 14)
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
