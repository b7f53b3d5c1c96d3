from datetime import timedelta

import pytest
from msgspec import structs
from support.makers.plans import WEB
from support.makers.records import MIB, NOW, a_container, a_pod, amounts, minutes

from trimtab.core.guards import standing_changes
from trimtab.core.guards.convergence import Expectation, Suspect
from trimtab.core.guards.standing_changes import StandingChange
from trimtab.core.model.autoscalers import AutoscalerName
from trimtab.core.model.pods import Pod

SMALL, LARGE = amounts(100, 100 * MIB), amounts(500, 500 * MIB)
EXPECTED = Expectation(
    WEB,
    AutoscalerName("default", "web"),
    "gone",
    before={"app": SMALL},
    wanted={"app": LARGE},
    since=NOW,
    known=frozenset({"gone"}),
)


def a_successor(millicores: int) -> Pod:
    container = a_container("app", requests=amounts(millicores, 500 * MIB))
    return a_pod(containers=(container,))


def judge(pods: list[Pod], after: timedelta) -> tuple[bool, list[timedelta | None]]:
    """Return True if the change still stands, and for how long those stood that were undone."""
    change = StandingChange(EXPECTED, a_successor(500).uid, NOW)
    standing, undone = standing_changes.review([change], pods, NOW + after)
    assert {each.suspect for each in undone} <= {Suspect.OTHER_MANAGER}
    return bool(standing), [each.stood for each in undone]


@pytest.mark.parametrize(
    ("pods", "after", "expected"),
    [
        pytest.param([a_successor(500)], minutes(5), (True, []), id="as it came"),
        pytest.param([a_successor(400)], minutes(5), (True, []), id="still nearer"),
        pytest.param([a_successor(100)], minutes(5), (False, [minutes(5)]), id="undone"),
        pytest.param([], minutes(5), (False, []), id="gone"),
        pytest.param(
            [structs.replace(a_successor(100), is_deleting=True)],
            minutes(5),
            (False, []),
            id="about to go",
        ),
    ],
)
def test_a_change_stands_until_it_is_undone(
    pods: list[Pod], after: timedelta, expected: tuple[bool, list[timedelta]]
) -> None:
    assert judge(pods, after) == expected
