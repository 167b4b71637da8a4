"""
Draw the charts of the report as inline SVG.

The charts use the colours and fonts of the page, so they support dark mode. Their only text is numbers and dates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Size of a chart and its margins, in CSS pixels at its natural size.
WIDTH, TOP, RIGHT, BOTTOM = 320, 16, 12, 20
BINS = 30
MAX_TICKS = 6

Anchor = Literal["start", "middle", "end"]


def histogram(counts: Sequence[int]) -> str:
    """
    Draw the histogram of scores between 0 and 1 as SVG.

    :param counts: Number of scores per bin. The bins have equal width.
    """
    chart = _Chart(height=110, x=(0, 1), y=(0, 1.02 * max(1, *counts)))
    chart.bars(counts, 1 / len(counts))
    for tick in (0, 0.25, 0.5, 0.75, 1):
        chart.tick(tick, f"{tick:g}")
    highest = max(range(len(counts)), key=lambda number: counts[number])
    chart.text((highest + 0.43) / len(counts), counts[highest], f"{counts[highest]:,}", "muted", up=3)
    return chart.svg()


def durations(values: Sequence[float], marks: Sequence[tuple[str, float]]) -> str:
    """
    Draw the histogram of durations as SVG.

    :param values: Durations in seconds, at least one.
    :param marks: Label and position in seconds of each vertical line. The chart ends just after the last line.
    """
    last = max((position for _, position in marks), default=max(values))
    end = max(1.05 * last, 1e-3)
    counts = [0] * BINS
    for value in values:
        if value <= end:
            counts[min(int(BINS * value / end), BINS - 1)] += 1
    top = 1.02 * max(1, *counts)
    chart = _Chart(height=150, x=(0, end), y=(0, 1.5 * top))
    chart.bars(counts, end / BINS)
    for tick in _ticks(end):
        chart.tick(tick, f"{tick:g}")
    for number, (name, position) in enumerate(marks):
        height = top * (1.48 - 0.16 * number)
        chart.line([(position, 0), (position, height)], "ink", width=1)
        chart.text(position, height, name, "ink", "end", right=-4, up=-9)
    return chart.svg()


def line(values: Sequence[float | None], dates: Sequence[str], write: Callable[[float], str], most: float) -> str:
    """
    Draw the trend of a figure over the runs as SVG.

    :param values: One value per run; None if the run does not have the figure.
    :param dates: One date per run. The axis shows the first and the last.
    :param write: Formats the values at the axis.
    :param most: Upper limit of the figure. The lower limit is 0.
    """
    points = [(number, value) for number, value in enumerate(values) if value is not None]
    low, high = _scale([value for _, value in points], most)
    margin = 0.1 * (high - low)
    chart = _Chart(height=110, left=46, x=(-0.4, len(values) - 0.6), y=(low - margin, high + margin))
    chart.tick(0, dates[0], "start")
    chart.tick(len(values) - 1, dates[-1], "end")
    for value in (low, high):
        chart.line([(-0.4, value), (len(values) - 0.6, value)], "faint", width=1)
        chart.text(-0.4, value, write(value), "muted", "end", right=-6, up=-4)
    for before, after in pairwise(points):
        # A run without the figure interrupts the line.
        if after[0] == before[0] + 1:
            chart.line([before, after], "bar", width=1.8)
    for point in points[:-1]:
        chart.dot(point, "bar", radius=1.8)
    chart.dot(points[-1], "ink", radius=3)
    return chart.svg()


def proportions(parts: Sequence[tuple[int, str]]) -> str:
    """
    Draw counts as the parts of one bar, as SVG.

    :param parts: Count and colour of each part, from left to right. At least one count is not 0.
    """
    total, left, shapes = sum(count for count, _ in parts), 0.0, []
    for count, colour in parts:
        width = WIDTH * count / total
        shapes.append(f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="4" style="fill: var(--{colour})"/>')
        left += width
    return f'<svg viewBox="0 0 {WIDTH} 4" aria-hidden="true" focusable="false">{"".join(shapes)}</svg>'


def _scale(values: Sequence[float], most: float) -> tuple[float, float]:
    """Return the ends of an axis, with a minimum range, so that small noise does not look like a large change."""
    low, high = min(values), max(values)
    span = max(high - low, 0.05, 0.04 * abs(high))
    high = min((low + high + span) / 2, max(high, most))
    return max(high - span, min(low, 0.0)), high


def _ticks(end: float) -> list[float]:
    """Return round positions from 0 to the end of an axis."""
    power = 10.0 ** math.floor(math.log10(end / MAX_TICKS))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if end / step <= MAX_TICKS)
    return [round(number * step, 12) for number in range(int(end / step) + 1)]


@dataclass
class _Chart:
    """
    A chart under construction: a plot area with a horizontal axis, and shapes at positions in the units of the data.

    :param height: Height of the chart, in pixels.
    :param left: Left margin, in pixels.
    """

    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 6
    _shapes: list[str] = field(default_factory=list)

    def bars(self, counts: Sequence[int], width: float) -> None:
        for number, count in enumerate(counts):
            left, top = self._at(number * width, count)
            right, bottom = self._at((number + 0.86) * width, 0)
            self._shapes.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
                'style="fill: var(--bar)"/>'
            )

    def line(self, points: Sequence[tuple[float, float]], colour: str, *, width: float) -> None:
        places = [self._at(*point) for point in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = f"fill: none; stroke: var(--{colour}); stroke-width: {width:g}; stroke-linecap: round"
        self._shapes.append(f'<polyline points="{path}" style="{style}"/>')

    def dot(self, point: tuple[float, float], colour: str, *, radius: float) -> None:
        x, y = self._at(*point)
        self._shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" style="fill: var(--{colour})"/>')

    def tick(self, position: float, label: str, anchor: Anchor = "middle") -> None:
        self.text(position, self.y[0], label, "muted", anchor, up=-14)

    def text(
        self, x: float, y: float, text: str, colour: str, anchor: Anchor = "middle", *, right: float = 0, up: float = 0
    ) -> None:
        """Write a text at a position, moved by some pixels."""
        left, top = self._at(x, y)
        style = f"fill: var(--{colour}); text-anchor: {anchor}"
        self._shapes.append(f'<text x="{left + right:.1f}" y="{top - up:.1f}" style="{style}">{escape(text)}</text>')

    def svg(self) -> str:
        axis, end = self.height - BOTTOM, WIDTH - RIGHT
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" aria-hidden="true" focusable="false">'
            f'<path d="M{self.left} {axis}H{end}" style="stroke: var(--faint)"/>{"".join(self._shapes)}</svg>'
        )

    def _at(self, x: float, y: float) -> tuple[float, float]:
        width, height = WIDTH - RIGHT - self.left, self.height - TOP - BOTTOM
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return self.left + width * across, TOP + height * (1 - up)
