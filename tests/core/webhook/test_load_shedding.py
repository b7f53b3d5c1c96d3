"""Who makes room where too many are connected."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.webhook.load_shedding import find_longest_awaited


@dataclass(frozen=True, slots=True)
class Somebody:
    name: int
    awaited_since: float | None


CROWDS = st.lists(st.none() | st.integers(0, 5).map(float)).map(
    lambda times: [Somebody(name, since) for name, since in enumerate(times)]
)


@given(crowd=CROWDS)
def test_nobody_was_awaited_longer_than_who_makes_room(crowd: list[Somebody]) -> None:
    found = find_longest_awaited(crowd)

    awaited = [(each.awaited_since, each.name) for each in crowd if each.awaited_since is not None]
    assert (found and (found.awaited_since, found.name)) == min(awaited, default=None)
