"""Rounds are written down as they are complete, and what got worse is not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.makers.scores import SECTION, rounds

from bench import scoring
from bench.recording import Record
from bench.scoring import Entry


@pytest.fixture
def read(tmp_path: Path) -> Callable[[], list[Entry]]:
    """What is written down now; at first ten times the CPU at 100, and at 1 000."""
    recorded = rounds((1, 10), (1, 10)) + rounds((1, 10), size=1000)
    scoring.write_entries(SECTION.path(tmp_path), recorded)
    return lambda: scoring.read_entries(SECTION.path(tmp_path))


def a_record(
    folder: Path,
    *,
    is_trial: bool = False,
    accepts_worse: bool = False,
    pages: list[str] | None = None,
) -> Record:
    written = [] if pages is None else pages
    return Record(
        SECTION,
        folder=folder,
        is_trial=is_trial,
        accepts_worse=accepts_worse,
        renew_page=lambda: written.append("page"),
    )


def test_a_round_is_written_as_soon_as_both_sides_are_through(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record, before = a_record(tmp_path), read()
    ours, original = rounds((1, 12))
    record.add([ours])
    halfway = read()
    record.add([original])

    assert halfway == before
    assert read() == [ours, original, *rounds((1, 10), size=1000)]


def test_a_round_that_was_interrupted_leaves_the_complete_one_alone(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record = a_record(tmp_path)
    first, second = rounds((1, 12)), rounds((1, 12), (1, 13))[2:]
    record.add(first)
    record.add(second[:1])

    assert read() == [*first, *rounds((1, 10), size=1000)]


def test_the_page_is_renewed_with_every_round_and_only_then(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    assert read()
    pages: list[str] = []
    record = a_record(tmp_path, pages=pages)
    for entry in rounds((1, 12), (1, 13)):
        record.add([entry])

    assert len(pages) == 2


def test_what_got_worse_is_not_written_and_the_rest_is(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record, before = a_record(tmp_path), read()
    record.add(rounds((1, 5)))
    better = rounds((1, 20), size=1000)
    record.add(better)

    assert read() == [*before[:4], *better]
    assert record.close() == 1


def test_what_got_worse_than_before_the_run_is_written_if_accepted_and_still_fails(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record = a_record(tmp_path, accepts_worse=True)
    worse = rounds((1, 5))
    record.add(worse)

    assert read()[:2] == worse
    assert record.close() == 1


def test_a_later_round_can_show_that_it_did_not_get_worse(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record = a_record(tmp_path)
    both = rounds((1, 5), (1, 10))
    record.add(both[:2])
    first = read()
    record.add(both[2:])

    assert first[:2] == rounds((1, 10))
    assert read()[:4] == both
    assert record.close() == 0


def test_a_trial_writes_and_proves_nothing(tmp_path: Path, read: Callable[[], list[Entry]]) -> None:
    record, before = a_record(tmp_path, is_trial=True), read()
    record.add(rounds((1, 1)))

    assert read() == before
    assert record.close() == 0


def test_at_the_end_it_is_said_what_was_kept_and_what_was_not(
    tmp_path: Path, read: Callable[[], list[Entry]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert read()
    record = a_record(tmp_path)
    record.add(rounds((1, 12), (1, 13))[:3])
    record.close()
    told = capsys.readouterr()

    assert "| CPU per tick | 100 | lifted | 1.00 s | 12.0 s | **12** |" in told.out
    assert "not kept, since their round was not complete: 1 of 3" in told.err
    assert "rounds written down: 1 of everything" in told.err


def test_every_entry_says_on_what_it_was_measured(tmp_path: Path) -> None:
    record = Record(SECTION, folder=tmp_path, machine="2 cores", renew_page=lambda: None)
    record.add(rounds((1, 12)))
    written = scoring.read_entries(SECTION.path(tmp_path))

    assert {entry.machine for entry in written} == {"2 cores"}
    assert "of everything. On 2 cores." in "".join(SECTION.tell(written))


def test_what_is_written_down_names_the_state_of_the_code(
    tmp_path: Path, read: Callable[[], list[Entry]]
) -> None:
    record = Record(SECTION, folder=tmp_path, commit="0123456", renew_page=lambda: None)
    record.add(rounds((1, 12)))

    assert {(entry.size, entry.commit) for entry in read()} == {(100, "0123456"), (1000, "")}
    assert scoring.describe_commit().removesuffix("-dirty").isalnum()
