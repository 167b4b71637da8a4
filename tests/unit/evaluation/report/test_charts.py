from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from airflow_provider_assistant.evaluation.report import charts, formats

COUNTS = [0, 3, *[1] * 17, 1200]


def line(*values: float | None, most: float = 1) -> str:
    return charts.line(values, [f"11-{day:02}" for day in range(1, len(values) + 1)], formats.score, most)


def drawn() -> list[str]:
    return [
        charts.histogram(COUNTS),
        charts.durations([0.5, 1, 2, 40], [("p50", 1.0), ("p99", 2.0)]),
        line(0.8, None, 0.9),
    ]


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("place", range(3))
def test_a_picture_has_no_colour_font_size_or_address_of_its_own(place: int) -> None:
    svg = drawn()[place]
    ElementTree.fromstring(svg)
    assert not re.search(r"#[0-9a-f]{6}\b|font:|<style|<metadata|<!--|<image|http", svg)
    assert "var(--bar)" in svg
    assert not re.search(r"<svg[^>]* (width|height)=", svg)
    assert drawn()[place] == svg


def test_a_picture_shows_its_numbers() -> None:
    histogram, durations, _ = drawn()
    assert histogram.count("fill: var(--bar)") == len(COUNTS)
    assert "1,200" in texts(histogram)
    assert {"p50", "p99"} <= set(texts(durations))
    parts = charts.proportions([(1, "good"), (0, "faint"), (3, "bad")])
    assert re.findall(r'width="([\d.]+)"[^>]*var\(--(\w+)\)', parts) == [
        ("80.0", "good"), ("0.0", "faint"), ("240.0", "bad"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ((0.5, 0.9), ["0.500", "0.900"]),
        ((0.7, None, 0.7), ["0.675", "0.725"]),  # small noise does not look like a large change
        ((0.999, 1.0), ["0.950", "1.000"]),  # the axis of a share ends at 1
        ((0.0, 0.002), ["0.000", "0.026"]),
    ],
)
def test_a_line_names_the_ends_of_its_scale(values: tuple[float | None, ...], written: list[str]) -> None:
    svg = line(*values)
    assert [text for text in texts(svg) if "." in text] == written
    assert texts(svg)[:2] == ["11-01", f"11-{len(values):02}"]


@pytest.mark.parametrize(
    ("longest", "expected"),
    [
        (0.0, ["0", "0.0002", "0.0004", "0.0006", "0.0008", "0.001"]),
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (8.0, ["0", "2", "4", "6", "8"]),
        (3600.0, ["0", "1000", "2000", "3000"]),
    ],
)
def test_durations_have_round_numbers_at_their_axis(longest: float, expected: list[str]) -> None:
    assert texts(charts.durations([longest], [("max", longest)]))[:-1] == expected


def test_a_run_without_the_figure_interrupts_the_line() -> None:
    assert line(0.8, 0.7, 0.9).count("stroke-width: 1.8") == 2
    assert line(0.8, None, 0.9).count("stroke-width: 1.8") == 0
    assert line(0.8, None, 0.9).count("<circle") == 2


def test_a_text_is_escaped() -> None:
    svg = charts.durations([1.0], [("<p50> & co", 1.0)])
    assert "&lt;p50&gt; &amp; co" in svg
    ElementTree.fromstring(svg)
