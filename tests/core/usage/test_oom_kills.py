from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from support.makers.records import MIB, a_container, a_pod, amounts, minutes

from trimtab.core.model.pods import Allocation, Container, Termination
from trimtab.core.usage.oom_kills import OomKill, find_oom_kills, list_oom_kills

START = datetime(2026, 8, 22, tzinfo=UTC)


def killed(minute: float, reason: str = "OOMKilled") -> Termination:
    return Termination(reason, finished_at=START + minutes(minute))


RUNNING = a_container(requests=amounts(100, 128 * MIB), is_running=True)
DOWN = structs.replace(RUNNING, is_running=False, termination=killed(1))
WAITING = structs.replace(RUNNING, is_running=False, last_termination=killed(1), restart_count=1)
AGAIN = structs.replace(WAITING, is_running=True)
CRASHED = structs.replace(RUNNING, is_running=False, termination=killed(1, "Error"))


def kills_seen(*looks: Container) -> list[OomKill]:
    """All kills found by looking at a pod again and again."""
    pods = [a_pod(look) for look in looks]
    return [kill for before, after in pairwise(pods) for kill in find_oom_kills(before, after)]


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        pytest.param((RUNNING, RUNNING), 0, id="nothing happened"),
        pytest.param((RUNNING, DOWN), 1, id="restartPolicy Never leaves it terminated"),
        pytest.param((RUNNING, DOWN, DOWN), 1, id="seen terminated twice"),
        pytest.param((RUNNING, DOWN, WAITING, AGAIN), 1, id="every state of a crash loop seen"),
        pytest.param((RUNNING, WAITING, AGAIN), 1, id="the terminated state missed"),
        pytest.param((RUNNING, AGAIN), 1, id="only the restart seen"),
        pytest.param((WAITING, AGAIN), 0, id="waiting to running is no new kill"),
        pytest.param((RUNNING, CRASHED), 0, id="another reason to end"),
        pytest.param(
            (RUNNING, AGAIN, structs.replace(AGAIN, last_termination=killed(9), restart_count=2)),
            2,
            id="killed again later",
        ),
        pytest.param(
            (RUNNING, structs.replace(AGAIN, termination=killed(9))),
            2,
            id="two kills between two looks",
        ),
        pytest.param(
            (RUNNING, structs.replace(DOWN, termination=Termination("OOMKilled"))),
            0,
            id="a kill without a time cannot be told from others",
        ),
    ],
)
def test_f7_a_kill_is_counted_exactly_once(looks: tuple[Container, ...], expected: int) -> None:
    assert len(kills_seen(*looks)) == expected


def test_a_kill_tells_the_request_that_was_not_enough() -> None:
    larger = structs.replace(AGAIN, spec=Allocation(amounts(100, 512 * MIB)))

    assert kills_seen(RUNNING, DOWN) == [OomKill("app", 128 * MIB, START + minutes(1))]
    assert kills_seen(RUNNING, larger) == [OomKill("app", 128 * MIB, START + minutes(1))]


def test_what_the_kubelet_says_counts_more_than_the_spec() -> None:
    resized = structs.replace(DOWN, status=Allocation(amounts(100, 256 * MIB)))

    assert kills_seen(RUNNING, resized)[0].memory_bytes == 256 * MIB


@pytest.mark.parametrize(
    ("after", "counts"),
    [
        pytest.param(256, 128, id="it grew, perhaps because of the kill"),
        pytest.param(64, 64, id="it shrank, and the kill may have followed from that"),
    ],
)
def test_a_kill_between_two_looks_counts_with_the_lesser_size(after: int, counts: int) -> None:
    resized = structs.replace(AGAIN, spec=Allocation(amounts(100, after * MIB)))

    assert kills_seen(RUNNING, resized)[0].memory_bytes == counts * MIB


def test_a_container_without_a_request_was_killed_with_nothing() -> None:
    bare = a_container(is_running=True)
    (kill,) = kills_seen(bare, structs.replace(bare, termination=killed(3), is_running=False))

    assert kill.memory_bytes == 0


def test_a_container_that_was_not_there_before_tells_nothing() -> None:
    assert find_oom_kills(a_pod(RUNNING), a_pod(RUNNING, structs.replace(DOWN, name="new"))) == ()


states = st.builds(
    lambda down, last, count, running: structs.replace(
        RUNNING,
        is_running=running,
        termination=None if down is None else killed(down),
        last_termination=None if last is None else killed(last),
        restart_count=count,
    ),
    st.none() | st.integers(0, 5),
    st.none() | st.integers(0, 5),
    st.integers(0, 3),
    st.booleans(),
)


@given(st.lists(states, min_size=2, max_size=6))
def test_no_look_shows_a_kill_that_the_one_before_already_showed(looks: list[Container]) -> None:
    pods = [a_pod(look) for look in looks]
    for before, after in pairwise(pods):
        times = {kill.time for kill in find_oom_kills(before, after)}

        assert find_oom_kills(after, after) == ()
        assert all(START <= time <= START + timedelta(minutes=5) for time in times)


@pytest.mark.parametrize(
    ("look", "minutes_of_kills"),
    [
        pytest.param(RUNNING, [], id="it runs as it always did"),
        pytest.param(DOWN, [1], id="it lies dead"),
        pytest.param(AGAIN, [1], id="it runs again"),
        pytest.param(CRASHED, [], id="it ended for another reason"),
        pytest.param(
            structs.replace(AGAIN, termination=killed(9)), [1, 9], id="it was killed twice"
        ),
    ],
)
def test_a_pod_never_seen_before_shows_all_its_kills(
    look: Container, minutes_of_kills: list[float]
) -> None:
    kills = list_oom_kills(a_pod(look))

    assert [kill.time for kill in kills] == [START + minutes(at) for at in minutes_of_kills]
    assert {kill.memory_bytes for kill in kills} <= {128 * MIB}


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        pytest.param(AGAIN, 0, id="it runs again, perhaps with more because of that kill"),
        pytest.param(WAITING, 0, id="it is about to run again"),
        pytest.param(DOWN, 1, id="it still has what it was killed with"),
        pytest.param(
            structs.replace(WAITING, termination=killed(2, "Error")), 0, id="the resize restarts it"
        ),
    ],
)
def test_at_first_sight_of_a_pod_that_was_resized_only_what_is_down_counts(
    look: Container, expected: int
) -> None:
    noted = a_pod(look, annotations={"vpaInPlaceUpdated": "true"}, generation=1)
    counted = a_pod(look, generation=2)

    assert len(list_oom_kills(noted)) == expected
    assert len(list_oom_kills(counted)) == expected


@pytest.mark.parametrize(
    ("generation", "is_deleting", "expected"),
    [
        pytest.param(0, False, 1, id="the API server does not count"),
        pytest.param(1, False, 1, id="never changed"),
        pytest.param(2, True, 1, id="the deletion counts as a change"),
        pytest.param(2, False, 0, id="changed"),
        pytest.param(3, True, 0, id="changed, and then deleted"),
    ],
)
def test_the_generation_shows_a_resize_whose_annotation_was_lost(
    generation: int, expected: int, *, is_deleting: bool
) -> None:
    pod = a_pod(AGAIN, generation=generation, is_deleting=is_deleting)

    assert len(list_oom_kills(pod)) == expected
