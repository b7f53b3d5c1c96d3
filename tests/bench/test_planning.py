"""What plans cost: told of some rounds by their medians."""

from bench.planning import Costs, Line, take_medians


def line(autoscalers: int, first: float, again: float) -> Line:
    return Line(autoscalers, "all", "plan", Costs(first, again, rewritten=0))


def test_each_cost_of_each_line_is_the_median_of_all_rounds() -> None:
    rounds = [
        [line(100, first=1, again=30), line(1000, first=10, again=5)],
        [line(100, first=3, again=20), line(1000, first=90, again=5)],
        [line(100, first=2, again=10), line(1000, first=20, again=5)],
    ]

    assert list(take_medians(rounds)) == [
        line(100, first=2, again=20),
        line(1000, first=20, again=5),
    ]
