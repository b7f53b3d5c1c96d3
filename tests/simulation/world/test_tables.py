from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.simulation.world.tables import LOG_KEPT, Table, TableChange, TableIndex, Versions


@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    colour: str = "red"
    namespace: str = "default"
    resource_version: str = ""


def stamp(record: Thing, version: str) -> Thing:
    return replace(record, resource_version=version)


def a_table() -> Table[Thing]:
    return Table(Versions(), stamp)


def test_what_was_put_is_found_in_its_newest_version() -> None:
    table = a_table()
    table.put(Thing("one"))
    stored = table.put(Thing("one", "blue"))

    assert table.find("default", "one") is stored
    assert stored == Thing("one", "blue", resource_version="2")
    assert list(table) == [stored]
    assert len(table) == 1


def test_all_tables_of_a_cluster_share_their_versions() -> None:
    versions = Versions()
    first, second = Table(versions, stamp), Table(versions, stamp)
    drawn = [table.put(Thing("one")).resource_version for table in (first, second, first)]

    assert drawn == ["1", "2", "3"]
    assert versions.latest == 3


def test_listeners_hear_of_every_change_with_what_was_before() -> None:
    table, heard = a_table(), list[TableChange[Thing]]()
    table.subscribe(heard.append)
    first = table.put(Thing("one"))
    second = table.put(Thing("one", "blue"))
    table.delete("default", "one")
    table.unsubscribe(heard.append)
    table.put(Thing("two"))

    assert [(change.before, change.after) for change in heard] == [
        (None, first),
        (first, second),
        (second, None),
    ]


def test_deleting_what_is_not_there_changes_nothing() -> None:
    table = a_table()
    table.delete("default", "one")

    assert table.after(0) == []


def test_the_log_tells_what_happened_after_a_version() -> None:
    table = a_table()
    for colour in ("red", "blue", "green"):
        table.put(Thing("one", colour))

    told = [change.after.colour for change in table.after(1) if change.after is not None]
    assert told == ["blue", "green"]


def test_a_log_that_is_full_says_how_far_back_it_reaches() -> None:
    table = a_table()
    for number in range(LOG_KEPT + 5):
        table.put(Thing("one", str(number)))

    assert table.forgotten == 5
    assert len(table.after(0)) == LOG_KEPT


def test_a_table_that_forgets_its_log_says_so() -> None:
    table = a_table()
    table.put(Thing("one"))
    table.compact()

    assert table.forgotten == 1
    assert table.after(0) == []


@pytest.mark.parametrize("is_there_first", [True, False])
def test_an_index_finds_what_came_before_and_after_it(*, is_there_first: bool) -> None:
    table = a_table()
    if is_there_first:
        table.put(Thing("one"))
    index = TableIndex(table, lambda thing: thing.colour)
    table.put(Thing("one"))
    table.put(Thing("two"))

    assert [thing.name for thing in index.under("red")] == ["one", "two"]
    assert index.count("red") == 2
    assert index.under("blue") == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("one", "two", "three")),
            st.sampled_from(("red", "blue", None)),
        )
    )
)
def test_an_index_always_agrees_with_its_table(steps: list[tuple[str, str | None]]) -> None:
    table = a_table()
    index = TableIndex(table, lambda thing: thing.colour)
    for name, colour in steps:
        if colour is None:
            table.delete("default", name)
        else:
            table.put(Thing(name, colour))

    for colour in ("red", "blue"):
        expected = {thing.name: thing for thing in table if thing.colour == colour}
        assert {thing.name: thing for thing in index.under(colour)} == expected
        assert index.count(colour) == len(expected)
