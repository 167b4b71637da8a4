from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest

from airflow_provider_assistant.evaluation.report import charts, formats
from airflow_provider_assistant.exceptions import AssistantInputError

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
    ElementTree.fromstring(svg.replace("xlink:href", "href"))
    assert not re.search(r"#[0-9a-f]{6}\b|font:|<style|<metadata|<!--|<image|http", svg)
    assert "var(--bar)" in svg
    assert not re.search(r"<svg[^>]* (width|height)=", svg)
    assert len(svg) < 8_000


def test_the_same_numbers_give_the_same_bytes_whatever_the_settings() -> None:
    import matplotlib

    plain = drawn()
    with matplotlib.rc_context(
        {"axes.facecolor": "red", "lines.linewidth": 9, "font.size": 30, "svg.fonttype": "path"}
    ):
        assert drawn() == plain
        assert matplotlib.rcParams["font.size"] == 30
        assert matplotlib.rcParams["svg.fonttype"] == "path"


def test_threads_do_not_disturb_each_other() -> None:
    with ThreadPoolExecutor(4) as threads:
        assert len({tuple(found) for found in threads.map(lambda _: drawn(), range(4))}) == 1


def test_a_histogram_has_a_bar_for_each_part_and_names_the_highest() -> None:
    svg = charts.histogram(COUNTS)
    assert svg.count("fill: var(--bar)") == len(COUNTS)
    assert texts(svg) == ["0", "0.25", "0.5", "0.75", "1", "1,200"]


def test_durations_end_after_the_last_mark() -> None:
    svg = charts.durations([0.5, 1, 2, 40], [("p50", 1.0), ("p99", 2.0)])
    assert {"p50", "p99"} <= set(texts(svg))
    assert "40" not in texts(svg)


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


def test_without_matplotlib_there_is_a_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[evaluation\]'"):
        charts.histogram(COUNTS)
