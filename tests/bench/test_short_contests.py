"""Short contests of both sides on a real API server: each measures all that its tables tell."""

from collections.abc import Callable, Sequence

import pytest

from bench import admission, recommender, stack, updater
from bench.contests import Contest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("contest", "hold"),
    [
        pytest.param(recommender.CONTEST, recommender.main, id="recommenders"),
        pytest.param(updater.CONTEST, updater.main, id="updaters"),
        pytest.param(admission.CONTEST, admission.main, id="webhooks"),
        pytest.param(stack.CONTEST, stack.main, id="whole stacks"),
    ],
)
def test_a_short_contest_tells_every_measure_of_both_sides(
    contest: Contest,
    hold: Callable[[Sequence[str]], int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = hold(["--short"])
    told = capsys.readouterr().out

    assert code == 0
    for table in contest.section.tables:
        for measure in table.measures:
            assert f"| {measure.title} | {contest.short_size} |" in told
