"""What the order and the moments of evictions say of a side."""

from bench import evictions, workloads
from bench.evictions import Eviction
from bench.workloads import Workload

FLEET = [Workload(number) for number in range(100)]
BY_URGENCY = sorted(FLEET, key=workloads.urgency, reverse=True)


def evicted(order: list[Workload], *, per_second: float = 10.0) -> list[Eviction]:
    return [Eviction(place / per_second, workload) for place, workload in enumerate(order)]


def test_who_takes_the_most_urgent_first_has_all_of_them() -> None:
    assert evictions.share_of_most_urgent(evicted(BY_URGENCY), FLEET) == 1.0


def test_who_takes_the_most_urgent_last_has_none_of_them() -> None:
    assert evictions.share_of_most_urgent(evicted(BY_URGENCY[::-1]), FLEET) == 0.0


def test_the_order_within_the_first_tenth_does_not_matter() -> None:
    shuffled = [*BY_URGENCY[:10][::-1], *BY_URGENCY[10:]]

    assert evictions.share_of_most_urgent(evicted(shuffled), FLEET) == 1.0


def test_fewer_evictions_than_a_tenth_are_judged_by_as_many_of_the_most_urgent() -> None:
    assert evictions.share_of_most_urgent(evicted(BY_URGENCY[1:3]), FLEET) == 0.5


def test_only_the_first_minute_counts_for_the_first_minute() -> None:
    assert evictions.count_in_first_minute(evicted(FLEET, per_second=1.0)) == 61


def test_a_hundred_evictions_take_as_long_at_any_count() -> None:
    spans = [evictions.seconds_per_hundred(evicted(FLEET[:count])) for count in (3, 50)]

    assert [round(span, 6) for span in spans] == [10.0, 10.0]
