from dataclasses import replace
from datetime import timedelta

import pytest
from support.makers.records import NOW

from trimtab.api.kinds.leases import Lease
from trimtab.cluster.live.leader_election import (
    ElectionSettings,
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

ME = ElectionSettings("kube-system", "vpa-updater", "me")
FREE = Lease("kube-system", "vpa-updater", "4", holder="", transitions=3)
MINE = Lease(
    "kube-system",
    "vpa-updater",
    "5",
    holder="me_trimtab",
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
            holder="me_trimtab",
            duration=seconds(15),
            acquired_at=NOW + seconds(100),
            renewed_at=NOW + seconds(100),
            transitions=0,
        )
    )


def test_a_lease_that_nobody_holds_is_taken_at_once_and_the_change_is_counted() -> None:
    _, action = decide(Waiting(), FREE, 100)

    assert isinstance(action, Write)
    assert (action.lease.holder, action.lease.transitions) == ("me_trimtab", 4)
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
    assert (action.lease.holder, action.lease.resource_version) == ("me_trimtab", "")


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
