"""Functions of the pages' modules that draw nothing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import trend_models as trends
from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m.number(12345.678)", "12,345.68"),
        ("m.number(null)", "\u2013"),
        ("m.percent(0.8242)", "82.4%"),
        ("m.plural(1, 'row')", "1 row"),
        ("m.plural(0, 'entry', 'entries')", "0 entries"),
        ("m.total(10000, true)", "10,000+"),
        ("[m.age(0), m.age(59), m.age(3600), m.age(200000)]", ["0 seconds", "59 seconds", "1 hour", "2 days"]),
        (
            "[m.duration(0.4249), m.duration(59.9), m.duration(280.5), m.duration(7500), m.duration(null)]",
            ["0.425 s", "59.9 s", "4 min 40 s", "2 h 5 min", "\u2013"],
        ),
        ("[m.brief('a\\nb'), m.brief('abcdef', 3), m.brief(null)]", ["a", "abc \u2026", ""]),
        ("m.day('2026-11-22')", "Nov 22"),
        ("m.utc('2026-11-22T06:30:00+01:00')", "2026-11-22 05:30:00 UTC"),
        (
            "[m.ticks(0, 1), m.ticks(0, 0), m.ticks(0, 97), m.ticks(-3, 7)]",
            [[0, 0.25, 0.5, 0.75, 1], [0, 0.25], [0, 25, 50, 75, 100], [-5, -2.5, 0, 2.5, 5, 7.5]],
        ),
        ("m.widths([9999, 1, 0], 100)", [96, 4, 0]),
        ("m.widths([0, 0], 100)", [0, 0]),
    ],
)
def test_format(pages: StubPages, expression: str, expected: Any) -> None:
    assert pages.module("format.mjs", expression) == expected


def judged(pages: StubPages, rows: list[trends.Evaluation]) -> tuple[str, str]:
    """The answer about last week, and its first line."""
    reply = trends.Evaluations(problem=None, names=[], rows=rows).model_dump(mode="json")
    answer = pages.module("answers.mjs", "m.worseAnswer(a[0])", reply)
    return answer["word"], f"{answer['items'][0]['text']}. {answer['items'][0]['detail']}"


def test_worse_than_last_week(pages: StubPages) -> None:
    def good(number: int, rate: float | None, **changes: Any) -> trends.Evaluation:
        return data.evaluation(number, pass_rate=rate, verdict="passed", worse=[], **changes)

    assert judged(pages, [good(8, 0.9), good(3, 0.5), good(1, 0.91)]) == (
        "No",
        "golden_set: 91% passed, 90% a week before. ",
    )
    word, text = judged(pages, [good(7, 0.9), good(0, 0.89)])
    assert word == "No"
    assert "Chance explains" in text
    assert judged(pages, [good(7, 0.9), good(0, 0.8)])[0] == "Yes"
    assert judged(pages, [good(7, 0.9, questions=20), good(0, 0.8, questions=20)])[0] == "No"
    assert judged(pages, [good(2, 0.9), good(0, 0.9)])[0] == "No comparison"
    assert judged(pages, [good(7, None), good(0, None, coverage=0.5)])[0] == "Yes"
    assert judged(pages, [good(7, 0.9), data.evaluation(0, pass_rate=0.9, verdict="failed")])[0] == "Yes"
    assert (
        judged(pages, [good(7, 0.9), data.evaluation(0, pass_rate=0.9, verdict="passed", worse=["rouge_l"])])[0]
        == "Perhaps"
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "Yes"),
        ({"outcome": "succeeded with findings"}, "With findings"),
        ({"outcome": "unfinished"}, "No"),
        ({"outcome": "running"}, "Still running"),
        ({"outcome": "deferred"}, "Still running"),
    ],
)
def test_did_the_loads_work(pages: StubPages, changes: dict[str, Any], word: str) -> None:
    reply = data.summary(sources=[m.SourceState(load=data.load(**changes), due=False)]).model_dump(mode="json")

    assert pages.module("answers.mjs", "m.loadAnswer(a[0])", reply)["word"] == word


def test_a_task_that_failed_before_its_load_is_not_a_success(pages: StubPages) -> None:
    reply = data.summary(sources=[m.SourceState(load=data.load(), due=False)]).model_dump(mode="json")
    reply["sources"][0]["failed_since"] = data.task(run_id="later").model_dump(mode="json")
    answer = pages.module("answers.mjs", "m.loadAnswer(a[0])", reply)
    needs = pages.module("answers.mjs", "m.needsAnswer(a[0])", reply)

    assert (answer["word"], answer["text"]) == ("No", "The source did not load.")
    assert answer["items"][0]["text"] == "kb.load_faq failed before it began to load"
    assert answer["items"][0]["task"]["run_id"] == "later"
    assert needs["items"][0]["text"] == "1 source to load again"


def test_a_load_that_did_not_run_is_not_a_success(pages: StubPages) -> None:
    reply = data.summary(sources=[m.SourceState(load=data.load(2), due=True)]).model_dump(mode="json")
    answer = pages.module("answers.mjs", "m.loadAnswer(a[0])", reply)

    assert (answer["word"], answer["items"][0]["text"]) == ("Not all of it", "kb.load_faq last ran 2 days ago")


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("/assistant/reports/a", "assistant/reports/a"),
        ("https://example.com/x", "https://example.com/x"),
        ("javascript:alert(1)", None),
        ("//example.com", None),
        ("file:///etc/passwd", None),
        (None, None),
    ],
)
def test_links_of_the_server(pages: StubPages, href: str | None, url: str | None) -> None:
    expected = f"{pages.host.url}{url}" if url and url.startswith("assistant") else url

    assert pages.module("core.mjs", "m.linkUrl(a[0])", href) == expected
