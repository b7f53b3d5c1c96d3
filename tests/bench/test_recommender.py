"""What is measured of the recommenders, and under which conditions."""

import pytest

from bench import recommender, recommender_tables
from bench.contestants import Limits
from bench.scoring import Entry, Side
from bench.workloads import Swing


@pytest.mark.parametrize("limits", Limits)
@pytest.mark.parametrize("swing", Swing)
def test_the_conditions_of_a_turn_can_be_read_from_its_name(limits: Limits, swing: Swing) -> None:
    group = recommender_tables.join_group(limits, swing)

    assert recommender_tables.split_group(group) == (limits, swing)


def test_figures_of_steady_usage_keep_the_name_that_they_had() -> None:
    assert recommender_tables.join_group(Limits.LIFTED, Swing.NARROW) == "lifted"


def test_usage_that_swings_is_measured_apart_up_to_a_size() -> None:
    turns = recommender.plan([100, 1000, 3000], 1, [Limits.LIFTED], list(Swing))
    cases = {(turn.size, recommender_tables.split_group(turn.group)[1]) for turn in turns}

    assert cases == {
        *((size, Swing.NARROW) for size in (100, 1000, 3000)),
        *((size, Swing.WIDE) for size in (100, 1000)),
    }


def test_figures_that_were_measured_in_an_older_way_are_named() -> None:
    older = [Entry("lifted", 100, 1, side, {"settled_cpu": 1.0}) for side in Side]
    newer = [
        Entry("lifted", 1000, 1, side, {"settled_cpu": 1.0, "settled_caused_cpu": 1.0})
        for side in Side
    ]

    assert "*Older figures* are those of 100 lifted." in "".join(
        recommender_tables.tell(older + newer)
    )
    assert "Older figures" not in "".join(recommender_tables.tell(newer))
