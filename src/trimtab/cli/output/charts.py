"""Charts: positions of lines and points, which the template `chart.svg` draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 14, 34
_TICKS: Final = 4
_NAME_WIDTH: Final = 110
_NAME_HEIGHT: Final = 12
_NAME_GAP: Final = 8
_FAR: Final = 0.7
"""Share of the width from which on names stand left of their points."""
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


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: its position and its label."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """A line as the path of an SVG."""

    name: str
    path: str
    look: str


@dataclass(frozen=True, slots=True)
class DrawnDot:
    """A point and its name, by their positions."""

    name: str
    x: float
    y: float
    look: str
    label_x: float
    label_y: float
    is_before: bool
    """True if the name ends left of the point."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that the template `chart.svg` draws, by positions."""

    title: str
    x_title: str
    y_title: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    marks: Sequence[float] = ()
    lines: Sequence[DrawnLine] = ()
    dots: Sequence[DrawnDot] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    top: int = _TOP
    bottom: int = HEIGHT - _BOTTOM


def lay_out_timeline(timeline: Timeline) -> Chart:
    """Return the chart of some lines over time."""
    highest = max(
        (value for line in timeline.lines for value in line.values if value >= 0), default=0
    )
    axes = Axes("days", timeline.unit, timeline.days, _round_up(highest))
    return replace(
        _empty_chart(timeline.title, axes),
        marks=[axes.x(share * timeline.days) for share in timeline.marks],
        lines=[DrawnLine(line.name, _draw_path(line, axes), line.look) for line in timeline.lines],
    )


def lay_out_dots(title: str, axes: Axes, dots: Sequence[Dot]) -> Chart:
    """Return the chart of some points, each with its name."""
    rows = _label_rows(axes, dots)
    drawn = [_draw_dot(dot, axes, row) for dot, row in zip(dots, rows, strict=True)]
    return replace(_empty_chart(title, axes), dots=drawn)


def axes_around(x_title: str, y_title: str, dots: Sequence[Dot]) -> Axes:
    """Return axes on which all points fit."""
    x_most, y_most = (
        _round_up(max(values, default=0.0))
        for values in ([dot.x for dot in dots], [dot.y for dot in dots])
    )
    return Axes(x_title, y_title, x_most, y_most)


def _empty_chart(title: str, axes: Axes) -> Chart:
    shares = [number / _TICKS for number in range(_TICKS + 1)]
    across, upwards = ([most * share for share in shares] for most in (axes.x_most, axes.y_most))
    return Chart(
        title,
        axes.x_title,
        axes.y_title,
        x_ticks=[Tick(axes.x(value), _short(value)) for value in across],
        y_ticks=[Tick(axes.y(value), _short(value)) for value in upwards],
    )


def _draw_path(line: ChartLine, axes: Axes) -> str:
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
    return "".join(path)


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


def _draw_dot(dot: Dot, axes: Axes, row: int) -> DrawnDot:
    x, y = axes.x(dot.x), axes.y(dot.y)
    is_before = x > WIDTH * _FAR
    return DrawnDot(
        dot.name,
        x,
        y,
        dot.look,
        label_x=x - _NAME_GAP if is_before else x + _NAME_GAP,
        label_y=y + 4 - row * _NAME_HEIGHT,
        is_before=is_before,
    )


def _round_up(value: float) -> float:
    """Return the next larger round number."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * nice for nice in _NICE if value <= size * nice * (1 + 1e-9))


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= _MANY else f"{value:.3g}"
