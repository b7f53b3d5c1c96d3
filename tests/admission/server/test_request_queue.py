"""Room for requests that wait: no namespace takes up that of another."""

from trimtab.admission.server.request_queue import QueueShare, WaitingRoom

KIB = 1024
TENANT = QueueShare("verticalpodautoscalers", "tenant")
OTHER = QueueShare("verticalpodautoscalers", "other")


def a_room(places: int = 4) -> WaitingRoom[str]:
    """Return a room for so many small requests."""
    return WaitingRoom(places * 64 * KIB)


def fill(room: WaitingRoom[str], share: QueueShare = TENANT, count: int = 4) -> None:
    for number in range(count):
        assert room.enter(f"{share.namespace}-{number}", share, 100) == []


def test_one_namespace_may_take_up_all_of_the_room() -> None:
    room = a_room()
    fill(room)

    assert len(room) == 4
    assert room.enter("one more", TENANT, 100) is None
    assert "one more" not in room


def test_the_largest_share_makes_room_for_a_smaller_one_the_oldest_first() -> None:
    room = a_room()
    fill(room)

    assert room.enter("a", OTHER, 100) == ["tenant-0"]
    assert room.enter("b", OTHER, 100) == ["tenant-1"]
    assert room.enter("c", OTHER, 100) is None
    assert len(room) == 4


def test_pods_and_autoscalers_of_a_namespace_have_shares_of_their_own() -> None:
    room = a_room()
    fill(room, QueueShare("pods", "tenant"))

    assert room.enter("a", TENANT, 100) == ["tenant-0"]


def test_a_large_request_counts_by_its_size() -> None:
    room = a_room(16)
    fill(room, count=16)

    assert room.enter("large", OTHER, 5 * 64 * KIB) == [f"tenant-{number}" for number in range(5)]
    assert room.enter("larger", QueueShare("pods", "x"), 12 * 64 * KIB) is None
    assert len(room) == 12


def test_those_that_leave_leave_their_room() -> None:
    room = a_room()
    fill(room)
    for number in range(4):
        room.leave(f"tenant-{number}")
    room.leave("tenant-0")

    assert len(room) == 0
    fill(room, OTHER)
