"""One screen of the demo, made of rich's pieces: a table, totals, and the latest news."""

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimtab.cli.demo_words import UNIT_NAMES, format_moment, format_news, format_number
from trimtab.core.resources import BOTH, Resource
from trimtab.simulation.demo_news import Kind, News
from trimtab.simulation.demo_picture import Gauge, Picture, Row

WIDTH: Final = 80
"""What is shown fits into so many columns, and no more are used."""
INTRODUCTION: Final = """\
The real components on a simulated cluster: they learn what each pod uses, and
make it request just that. What a pod requests is set aside for it on its node."""
_BAR_WIDTH: Final = 22
_USED, _SPARE, _SAVED = "█", "░", "·"
_STYLES: Final = {
    Kind.KILLED: "bold red",
    Kind.EVICTED: "yellow",
    Kind.RESIZED: "green",
    Kind.SIZED: "green",
    Kind.BOOSTED: "magenta",
    Kind.UNBOOSTED: "magenta",
}


SCREEN_LINES: Final = 20
"""How many lines a screen has without any news."""


def draw_screen(picture: Picture, news: Sequence[News], *, pace: str) -> RenderableType:
    """Everything there is to see."""
    return Group(
        Text(f"Trimtab demo   {format_moment(picture.now)}   {pace}", style="bold"),
        Text(INTRODUCTION),
        draw_table(picture),
        draw_totals(picture),
        Text("What happened", style="bold"),
        *(draw_news(each) for each in news),
    )


def draw_table(picture: Picture) -> Table:
    """What every workload uses, requests, and should request."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("For each pod", width=18, no_wrap=True)
    table.add_column(f"{_USED} used {_SPARE} spare {_SAVED} saved", width=_BAR_WIDTH, no_wrap=True)
    for heading, width in (("", 5), ("uses", 5), ("requests", 8), ("should", 6)):
        table.add_column(heading, width=width, justify="right", no_wrap=True)
    table.add_column("(between)", width=10, no_wrap=True)
    for row in picture.rows:
        for name, resource in zip(_names(row), BOTH, strict=True):
            table.add_row(name, *_cells(row.gauges[resource], resource))
    return table


def draw_totals(picture: Picture) -> Text:
    """What all pods request together, what that saves, and what was done for it."""
    return Text("\n".join((_requested(picture), _saved(picture), _done(picture))))


def draw_news(news: News) -> Text:
    """One line for something that happened."""
    style = _STYLES.get(news.kind, "")
    return Text(format_news(news), style=style, no_wrap=True, overflow="ellipsis")


def _names(row: Row) -> tuple[Text, Text]:
    name = Text(f"{row.title} x{row.pods}", style="bold")
    return name, Text("boosted to start" if row.is_boosted else row.habit)


def _cells(gauge: Gauge, resource: Resource) -> Sequence[Text | str]:
    low, high = (format_number(resource, bound) for bound in (gauge.lower_bound, gauge.upper_bound))
    return (
        _bar(gauge),
        UNIT_NAMES[resource],
        format_number(resource, gauge.used),
        format_number(resource, gauge.requested),
        format_number(resource, gauge.target),
        "" if gauge.target is None else f"{low}-{high}",
    )


def _bar(gauge: Gauge) -> Text:
    used, requested, asked = gauge.used or 0, gauge.requested or 0, gauge.asked or 0
    whole = max(used, requested, asked, 1)
    used_until, requested_until, end = (
        round(_BAR_WIDTH * amount / whole)
        for amount in (used, max(used, requested), max(used, requested, asked))
    )
    bar = Text(_USED * used_until, style="cyan")
    bar.append(_SPARE * (requested_until - used_until), style="cyan")
    return bar.append(_SAVED * (end - requested_until), style="green")


def _requested(picture: Picture) -> str:
    parts = (
        f"{format_number(each, picture.requested[each])} of "
        f"{format_number(each, picture.asked[each])} {UNIT_NAMES[each]}"
        for each in BOTH
    )
    return f"Requested: {' and '.join(parts)} that the owners asked for."


def _saved(picture: Picture) -> str:
    now = {each: picture.asked[each] - picture.requested[each] for each in BOTH}
    cores, memory = (format_number(each, now[each]) for each in BOTH)
    core_hours, memory_hours = (format_number(each, picture.saved_hours[each]) for each in BOTH)
    return (
        f"Saved: {cores} cores, {memory} GiB now; "
        f"{core_hours} core-hours, {memory_hours} GiB-hours so far."
    )


def _done(picture: Picture) -> str:
    counts = picture.counts
    return (
        f"Resizes {counts[Kind.RESIZED]}, evictions {counts[Kind.EVICTED]}, "
        f"new pods sized {counts[Kind.SIZED]}, boosts {counts[Kind.BOOSTED]}, "
        f"OOM kills {counts[Kind.KILLED]}."
    )
