"""
Draw the charts of the report as inline SVG.

The charts use the colours and fonts of the page, so they support dark mode. Their only text is numbers and dates.
"""

from __future__ import annotations

import io
import re
from threading import Lock
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.extra import require_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

WIDTH = 320  # in points; one point is one pixel at the natural size of the chart
# Placeholders that are replaced by CSS variables of the page.
BAR, INK, FAINT, AXIS = "#010101", "#020202", "#030303", "#040404"
_COLOURS = {BAR: "--bar", INK: "--ink", FAINT: "--faint", AXIS: "--muted"}
# matplotlib settings are global to the process, so they are restored after drawing.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "assistant", "text.parse_math": False, "axes.unicode_minus": False}
_lock = Lock()


def histogram(counts: Sequence[int]) -> str:
    """
    Draw the histogram of scores between 0 and 1.

    :param counts: Number of scores per bin. The bins have equal width.
    :return: The chart as SVG.
    """

    def draw(axes: Axes) -> None:
        _bars(axes, counts, 1 / len(counts))
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
        most = max(range(len(counts)), key=lambda part: counts[part])
        axes.text((most + 0.43) / len(counts), counts[most], f"{counts[most]:,}", color=AXIS, ha="center", va="bottom")

    return _picture(draw, height=110)


def durations(values: Sequence[float], marks: Sequence[tuple[str, float]]) -> str:
    """
    Draw the histogram of durations.

    :param values: Durations in seconds, at least one.
    :param marks: Label and position in seconds of each vertical line. The chart ends just after the last line.
    :return: The chart as SVG.
    """
    parts = 30
    end = max(1.05 * max((place for _, place in marks), default=max(values)), 1e-3)
    counts = [0] * parts
    for value in values:
        if value <= end:
            counts[min(int(parts * value / end), parts - 1)] += 1

    def draw(axes: Axes) -> None:
        _bars(axes, counts, end / parts)
        axes.set_xlim(0, end)
        top = axes.get_ylim()[1]
        axes.set_ylim(0, 1.5 * top)
        for number, (name, place) in enumerate(marks):
            height = top * (1.48 - 0.16 * number)
            axes.plot([place, place], [0, height], color=INK, linewidth=1, clip_on=False)
            axes.text(place - 0.012 * end, height, name, color=INK, ha="right", va="top")
        axes.locator_params(axis="x", nbins=6)

    return _picture(draw, height=150)


def line(values: Sequence[float | None], dates: Sequence[str], write: Callable[[float], str], most: float) -> str:
    """
    Draw the trend of a figure over the runs.

    :param values: One value per run; None if the run does not have the figure.
    :param dates: One date per run. The axis shows the first and the last.
    :param write: Formats the values at the axis.
    :param most: Upper limit of the figure. The lower limit is 0.
    :return: The chart as SVG.
    """
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    # Use a minimum range, so that small noise does not look like a large change.
    span = max(high - low, 0.05, 0.04 * abs(high))
    high = min((low + high + span) / 2, max(high, most))
    low = max(high - span, min(low, 0.0))
    places = range(len(values))

    def draw(axes: Axes) -> None:
        axes.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
        axes.set_xlim(-0.4, len(values) - 0.6)
        heights = [float("nan") if value is None else value for value in values]
        axes.plot(places, heights, color=BAR, linewidth=1.8, marker="o", markersize=3.5, clip_on=False)
        last = max(place for place in places if values[place] is not None)
        axes.plot([last], [heights[last]], color=INK, marker="o", markersize=6, clip_on=False)
        axes.set_yticks([low, high], [write(low), write(high)])
        axes.grid(visible=True, axis="y", color=FAINT, linewidth=1)
        axes.set_xticks([0, len(values) - 1], [dates[0], dates[-1]])
        axes.get_xticklabels()[0].set_horizontalalignment("left")
        axes.get_xticklabels()[1].set_horizontalalignment("right")

    return _picture(draw, height=110, left=46)


def _bars(axes: Axes, counts: Sequence[int], width: float) -> None:
    places = [width * place for place in range(len(counts))]
    axes.bar(places, counts, width=0.86 * width, align="edge", color=BAR, clip_on=False)
    axes.set_ylim(0, 1.02 * max(1, *counts))
    axes.set_yticks([])


def _picture(draw: Callable[[Axes], None], *, height: int, left: int = 6) -> str:
    matplotlib = require_extra("matplotlib")
    defaults = {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}
    with _lock, matplotlib.rc_context({**defaults, **_SETTINGS}):
        figure = require_extra("matplotlib.figure").Figure(figsize=(WIDTH / 72, height / 72))
        axes = figure.add_axes((left / WIDTH, 20 / height, 1 - (left + 12) / WIDTH, 1 - 36 / height))
        figure.patch.set_visible(False)
        axes.patch.set_visible(False)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(FAINT)
        axes.tick_params(length=0, labelsize=11, labelcolor=AXIS)
        draw(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _inlined(file.getvalue())


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _inlined(svg: str) -> str:
    """Return an SVG file as inline SVG: without a size, and without ids that could clash with other charts."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', svg)
    svg = svg.replace(
        svg[: svg.index(">") + 1], f'<svg {box[0] if box else ""} aria-hidden="true" focusable="false">', 1
    )
    svg = re.sub(r"font: [^;\"]*;?\s*", "", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _rounded, tag[0]), svg)
    for stand_in, name in _COLOURS.items():
        svg = svg.replace(stand_in, f"var({name})")
    used = set(re.findall(r"#(\w+)", svg))
    svg = re.sub(r' id="(\w+)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r"<defs>\s*</defs>", "", svg)
    return re.sub(r">\s+<", "><", svg).strip()
