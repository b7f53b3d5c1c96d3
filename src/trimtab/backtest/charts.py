"""Charts: lines and points as SVG that needs no script and no network."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 14, 34
_TICKS: Final = 4
_NAME_WIDTH: Final = 110
_NAME_HEIGHT: Final = 12
_MANY: Final = 100
"""Fractions are not shown from this value on."""
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class ChartLine:
    """Values over time, in steps from point to point or straight; NaN where there is none."""

    name: str
    values: Sequence[float]
    look: str
    """The class that styles it."""
    is_stepped: bool = True


@dataclass(frozen=True, slots=True)
class Dot:
    """One point with a name."""

    name: str
    x: float
    y: float
    look: str


@dataclass(frozen=True, slots=True)
class Axes:
    """Titles of the two axes, and the largest value on each; both begin at zero."""

    x_title: str
    y_title: str
    x_most: float
    y_most: float

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        room = WIDTH - _LEFT - _RIGHT
        return _LEFT + room * (value / self.x_most if self.x_most else 0.0)

    def y(self, value: float) -> float:
        """Return the vertical position of a value, counted from the top."""
        room = HEIGHT - _TOP - _BOTTOM
        return HEIGHT - _BOTTOM - room * (value / self.y_most if self.y_most else 0.0)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lines over the same days, with marks where something happened."""

    title: str
    unit: str
    days: float
    lines: Sequence[ChartLine]
    marks: Sequence[float] = ()
    """Positions, as shares of the days."""


def draw_timeline(timeline: Timeline) -> str:
    """Draw the chart of some lines over time."""
    highest = max(
        (value for line in timeline.lines for value in line.values if value >= 0), default=0
    )
    axes = Axes("days", timeline.unit, timeline.days, _round_up(highest))
    marks = (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>'
        for x in (axes.x(share * timeline.days) for share in timeline.marks)
    )
    lines = (_draw_line(line, axes) for line in timeline.lines)
    return _chart(timeline.title, axes, [*marks, *lines])


def draw_dots(title: str, axes: Axes, dots: Sequence[Dot]) -> str:
    """Draw the chart of some points, each with its name."""
    rows = _label_rows(axes, dots)
    drawn = [_draw_dot(dot, axes, row) for dot, row in zip(dots, rows, strict=True)]
    return _chart(title, axes, drawn)


def axes_around(x_title: str, y_title: str, dots: Sequence[Dot]) -> Axes:
    """Return axes on which all points fit."""
    x_most, y_most = (
        _round_up(max(values, default=0.0))
        for values in ([dot.x for dot in dots], [dot.y for dot in dots])
    )
    return Axes(x_title, y_title, x_most, y_most)


def _chart(title: str, axes: Axes, content: Iterable[str]) -> str:
    body = "\n".join([*_draw_axes(axes), *content])
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n{body}\n</svg>"
    )


def _draw_axes(axes: Axes) -> Iterator[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    for number in range(_TICKS + 1):
        value = axes.y_most * number / _TICKS
        y = axes.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="y" x="{_LEFT - 6}" y="{y + 4:.1f}">{_short(value)}</text>'
        value = axes.x_most * number / _TICKS
        yield f'<text class="x" x="{axes.x(value):.1f}" y="{bottom + 14}">{_short(value)}</text>'
    yield f'<text class="x" x="{(_LEFT + right) / 2:.0f}" y="{HEIGHT - 4}">{axes.x_title}</text>'
    yield f'<text class="unit" x="{_LEFT + 4}" y="{_TOP + 9}">{axes.y_title}</text>'


def _draw_line(line: ChartLine, axes: Axes) -> str:
    width = axes.x_most / max(len(line.values), 1)
    path: list[str] = []
    pen_up = True
    for place, value in enumerate(line.values):
        if math.isnan(value):
            pen_up = True
            continue
        x, y = axes.x(place * width), axes.y(value)
        path.append(
            f"M{x:.1f},{y:.1f}"
            if pen_up
            else f"{'V' if line.is_stepped else 'L'}{_point(x, y, line)}"
        )
        if line.is_stepped:
            path.append(f"H{axes.x((place + 1) * width):.1f}")
        pen_up = False
    return (
        f'<path class="{line.look}" d="{"".join(path)}"><title>{escape(line.name)}</title></path>'
    )


def _point(x: float, y: float, line: ChartLine) -> str:
    return f"{y:.1f}" if line.is_stepped else f"{x:.1f},{y:.1f}"


def _label_rows(axes: Axes, dots: Sequence[Dot]) -> list[int]:
    """Return by how many lines to raise each name, so that no name covers another."""
    taken: list[tuple[float, float]] = []
    rows = []
    for dot in dots:
        x, y, row = axes.x(dot.x), axes.y(dot.y), 0
        while any(
            abs(x - left) < _NAME_WIDTH and abs(y - top) < _NAME_HEIGHT for left, top in taken
        ):
            y, row = y - _NAME_HEIGHT, row + 1
        taken.append((x, y))
        rows.append(row)
    return rows


def _draw_dot(dot: Dot, axes: Axes, row: int) -> str:
    x, y = axes.x(dot.x), axes.y(dot.y)
    is_far = x > WIDTH * 0.7
    side = f'x="{x - 8:.1f}" class="before"' if is_far else f'x="{x + 8:.1f}"'
    name = escape(dot.name)
    return (
        f'<circle class="{dot.look}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        f'<text {side} y="{y + 4 - row * _NAME_HEIGHT:.1f}">{name}</text>'
    )


def _round_up(value: float) -> float:
    """Return the next larger round number."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * nice for nice in _NICE if value <= size * nice * (1 + 1e-9))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= _MANY else f"{value:.3g}"
