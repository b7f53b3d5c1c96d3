import io
from datetime import timedelta

from cli.demo_pictures import a_picture, some_news
from rich.console import Console

from trimtab.cli.demo.screen import open_console, open_view, show_end
from trimtab.simulation.demo.news import DemoEventKind


def test_without_a_terminal_news_are_lines_and_the_table_comes_now_and_then() -> None:
    output = io.StringIO()
    with open_view(open_console(output)) as show:
        for hour in range(1, 8):
            show(a_picture(some_news(times=1), elapsed=timedelta(hours=hour)), "")
    lines = output.getvalue().splitlines()

    assert sum(line.startswith("Sat 12:00  db leader") for line in lines) == 7
    assert sum(line.startswith("For each pod") for line in lines) == 1
    assert "\x1b" not in output.getvalue()


def test_news_that_wait_to_be_gathered_are_told_at_the_end_at_the_latest() -> None:
    output = io.StringIO()
    with open_view(open_console(output)) as show:
        for minute in range(1, 4):
            show(a_picture(some_news(times=1), elapsed=timedelta(minutes=minute)), "")
    lines = [line for line in output.getvalue().splitlines() if "resized" in line]

    assert len(lines) == 2
    assert lines[1].endswith("2x")


def test_a_terminal_shows_one_screen_with_the_latest_news() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=24)
    kinds = list(DemoEventKind)
    with open_view(console) as show:
        show(a_picture(*(some_news(kind) for kind in kinds)), "1440 times as fast as life")
    shown = output.getvalue()

    assert "1440 times as fast as life" in shown
    assert "database-0 is the leader now" in shown
    assert "first recommendation" not in shown


def test_the_end_stays_and_has_everything_but_news() -> None:
    output = io.StringIO()
    show_end(open_console(output), a_picture(some_news()))
    shown = output.getvalue()

    assert shown.startswith("Sat 12:00, the end:\n")
    assert "part-5 x3" in shown
    assert "Saved:" in shown
    assert "resized in place" not in shown


def test_a_stream_that_knows_only_ascii_is_no_reason_to_fail() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    show_end(open_console(output), a_picture())
    output.flush()

    assert b"part-5 x3" in raw.getvalue()
