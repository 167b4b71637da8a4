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
    highest_count = max(1, *counts)
    chart = _Chart(height=110, x=(0, 1), y=(0, 1.02 * highest_count))
    chart.bars(counts, 1 / len(counts))
    for tick in (0, 0.25, 0.5, 0.75, 1):
        chart.tick(tick, f"{tick:g}")
    # Write the count above the highest bar. A bar is 0.86 bins wide, so 0.43 is its middle.
    count = max(counts)
    middle = (counts.index(count) + 0.43) / len(counts)
    chart.text(middle, count, f"{count:,}", "muted", up=3)
    return chart.svg()


def durations(values: Sequence[float], marks: Sequence[tuple[str, float]]) -> str:
    """
    Draw the histogram of durations as SVG.

    :param values: Durations in seconds, at least one.
    :param marks: Label and position in seconds of each vertical line. The chart ends just after the last line.
    """
    last = max((position for _, position in marks), default=max(values))
    # Durations may all be 0, but an axis needs a length.
    end = max(1.05 * last, 1e-3)
    counts = [0] * BINS
    for value in values:
        if value <= end:
            bin_number = int(BINS * value / end)
            # A value at the end of the axis belongs to the last bin.
            counts[min(bin_number, BINS - 1)] += 1
    highest_count = max(1, *counts)
    top = 1.02 * highest_count
    # The space above the bars is for the labels of the lines.
    chart = _Chart(height=150, x=(0, end), y=(0, 1.5 * top))
    chart.bars(counts, end / BINS)
    for tick in _ticks(end):
        chart.tick(tick, f"{tick:g}")
    height = 1.48 * top
    for label, position in marks:
        chart.line([(position, 0), (position, height)], "ink", width=1)
        chart.text(position, height, label, "ink", "end", right=-4, up=-9)
        # Each label is lower than the one before, so that they do not overlap.
        height -= 0.16 * top
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
        run_before, _ = before
        run_after, _ = after
        # A run without the figure interrupts the line.
        if run_after == run_before + 1:
            chart.line([before, after], "bar", width=1.8)
    *earlier, latest = points
    for point in earlier:
        chart.dot(point, "bar", radius=1.8)
    chart.dot(latest, "ink", radius=3)
    return chart.svg()


def proportions(parts: Sequence[tuple[int, str]]) -> str:
    """
    Draw counts as the parts of one bar, as SVG.

    :param parts: Count and colour of each part, from left to right. At least one count is not 0.
    """
    total = sum(count for count, _ in parts)
    left = 0.0
    shapes = ""
    for count, colour in parts:
        width = WIDTH * count / total
        shapes += f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="4" style="fill: var(--{colour})"/>'
        left += width
    return f'<svg viewBox="0 0 {WIDTH} 4" aria-hidden="true" focusable="false">{shapes}</svg>'


def _scale(values: Sequence[float], most: float) -> tuple[float, float]:
    """Return the ends of an axis, with a minimum range, so that small noise does not look like a large change."""
    lowest, highest = min(values), max(values)
    span = max(highest - lowest, 0.05, 0.04 * abs(highest))
    # Put the values in the middle of the axis, but show nothing beyond the limits of the figure.
    end = (lowest + highest + span) / 2
    end = min(end, max(highest, most))
    start = max(end - span, min(lowest, 0.0))
    return start, end


def _ticks(end: float) -> list[float]:
    """Return round positions from 0 to the end of an axis."""
    # The smallest step of 1, 2, 5 or 10 times a power of ten that needs at most MAX_TICKS steps.
    power = 10.0 ** math.floor(math.log10(end / MAX_TICKS))
    step = power
    for factor in (1, 2, 5, 10):
        step = factor * power
        if end / step <= MAX_TICKS:
            break
    number_of_steps = int(end / step)
    # Rounding removes the error of binary fractions, such as 3 * 0.1.
    return [round(number * step, 12) for number in range(number_of_steps + 1)]


@dataclass
class _Chart:
    """
    A chart under construction: a plot area with a horizontal axis, and shapes at positions in the units of the data.

    :param height: Height of the chart, in pixels.
    :param x: First and last value on the horizontal axis.
    :param y: First and last value on the vertical axis.
    :param left: Left margin, in pixels.
    """

    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 6
    _shapes: list[str] = field(default_factory=list)

    def bars(self, counts: Sequence[int], width: float) -> None:
        for number, count in enumerate(counts):
            left, top = self._pixels(number * width, count)
            # A gap of 0.14 separates the bars.
            right, bottom = self._pixels((number + 0.86) * width, 0)
            bar_width, bar_height = right - left, bottom - top
            self._shapes.append(
                f'<rect x="{left:.1f}" y="{top:.1f}" '
                f'width="{bar_width:.1f}" height="{bar_height:.1f}" style="fill: var(--bar)"/>'
            )

    def line(self, points: Sequence[tuple[float, float]], colour: str, *, width: float) -> None:
        corners = []
        for x, y in points:
            left, top = self._pixels(x, y)
            corners.append(f"{left:.1f},{top:.1f}")
        path = " ".join(corners)
        stroke = f"stroke: var(--{colour}); stroke-width: {width:g}; stroke-linecap: round"
        self._shapes.append(f'<polyline points="{path}" style="fill: none; {stroke}"/>')

    def dot(self, point: tuple[float, float], colour: str, *, radius: float) -> None:
        x, y = point
        left, top = self._pixels(x, y)
        self._shapes.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{radius:g}" style="fill: var(--{colour})"/>')

    def tick(self, position: float, label: str, anchor: Anchor = "middle") -> None:
        axis, _ = self.y
        self.text(position, axis, label, "muted", anchor, up=-14)

    def text(
        self, x: float, y: float, text: str, colour: str, anchor: Anchor = "middle", *, right: float = 0, up: float = 0
    ) -> None:
        """Write a text at a position, moved by some pixels."""
        left, top = self._pixels(x, y)
        left, top = left + right, top - up
        style = f"fill: var(--{colour}); text-anchor: {anchor}"
        self._shapes.append(f'<text x="{left:.1f}" y="{top:.1f}" style="{style}">{escape(text)}</text>')

    def svg(self) -> str:
        axis = self.height - BOTTOM
        end = WIDTH - RIGHT
        shapes = "".join(self._shapes)
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" aria-hidden="true" focusable="false">'
            f'<path d="M{self.left} {axis}H{end}" style="stroke: var(--faint)"/>{shapes}</svg>'
        )

    def _pixels(self, x: float, y: float) -> tuple[float, float]:
        """Return the distances of a position from the left and the top edge of the chart."""
        width = WIDTH - RIGHT - self.left
        height = self.height - TOP - BOTTOM
        x_start, x_end = self.x
        y_start, y_end = self.y
        x_share = (x - x_start) / (x_end - x_start)
        y_share = (y - y_start) / (y_end - y_start)
        # In SVG, y grows downwards.
        return self.left + width * x_share, TOP + height * (1 - y_share)
