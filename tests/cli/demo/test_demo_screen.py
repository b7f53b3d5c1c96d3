from dataclasses import replace

import pytest
from cli.demo_pictures import CORES, MEMORY, a_picture, a_row, some_news
from rich.console import Console

from trimtab.cli.demo.screen import SCREEN_LINES, draw_screen
from trimtab.core.model.resources import Resource
from trimtab.simulation.demo.picture import Gauge, Picture


def lines(picture: Picture, *, news: int = 4) -> list[str]:
    """What a terminal of 80 columns shows."""
    console = Console(width=80)
    with console.capture() as capture:
        console.print(draw_screen(picture, [some_news()] * news, pace="1440 times as fast"))
    return [line.rstrip() for line in capture.get().splitlines()]


def bar(gauge: Gauge) -> str:
    """The bar of a gauge."""
    row = a_row(gauges={Resource.CPU: gauge, Resource.MEMORY: gauge})
    line = next(
        line for line in lines(replace(a_picture(), rows=(row,))) if line.startswith("web x3")
    )
    return line[19 : 19 + 22].rstrip()


def test_a_screen_fits_a_small_terminal_with_room_for_news() -> None:
    shown = lines(a_picture())

    assert len(shown) == SCREEN_LINES + 4 == 24
    assert max(map(len, shown)) <= 80
    assert not any("…" in line for line in shown)


@pytest.mark.parametrize(
    ("gauge", "drawn"),
    [
        pytest.param(CORES, "██" + "░░" + "·" * 18, id="much was saved"),
        pytest.param(MEMORY, "█" * 22, id="more is used than requested"),
        pytest.param(
            replace(CORES, used=0, requested=1000), "░" * 22, id="all is set aside and not used"
        ),
        pytest.param(Gauge(None, None, None, None, None, None), "", id="there is no pod"),
    ],
)
def test_a_bar_shows_what_is_used_what_is_spare_and_what_was_saved(
    gauge: Gauge, drawn: str
) -> None:
    assert bar(gauge) == drawn


def test_a_range_is_told_only_where_something_is_recommended() -> None:
    shown = lines(a_picture(rows=1))
    cores, memory = (next(line for line in shown if unit in line) for unit in (" cores ", " GiB "))

    assert cores.endswith("0.10     0.20   0.20 0.15-123")
    assert memory.endswith("2.00     1.00      -")


def test_a_workload_that_starts_with_a_boost_says_so() -> None:
    boosted = replace(a_picture(), rows=(a_row(is_boosted=True),))

    assert any(line.startswith("boosted to start") for line in lines(boosted))


def test_the_totals_tell_what_is_saved_now_and_so_far() -> None:
    shown = "\n".join(lines(a_picture()))

    assert "Requested: 3.74 of 16 cores and 9.00 of 24 GiB" in shown
    assert "Saved: 13 cores, 15 GiB now; 250 core-hours, 300 GiB-hours so far." in shown
    assert "boosts 123, OOM kills 123." in shown
