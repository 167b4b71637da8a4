# ruff: noqa: RUF001
from __future__ import annotations

import pytest

from airflow_provider_assistant.evaluation.report import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.98765, "98.8\u202f%"),
        (1.0, "100.0\u202f%"),
        (0.9999, "99.9\u202f%"),
        (0.0001, "0.1\u202f%"),
        (0.0, "0.0\u202f%"),
    ],
)
def test_nearly_all_is_not_all_and_hardly_any_is_not_none(value: float, text: str) -> None:
    assert formats.percent(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.500"), (1.0, "1.000"), (0.99999, "0.999"), (None, "–")])
def test_scores_have_three_digits_and_only_a_full_one_is_1(value: float | None, text: str) -> None:
    assert formats.score(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.1234, "0.12\u202fs"), (12.34, "12.3\u202fs"), (1234.5, "1,234\u202fs"), (None, "–")]
)
def test_seconds_have_as_many_digits_as_are_of_use(value: float | None, text: str) -> None:
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.02, "+0.020"), (-0.02, "−0.020"), (-0.0001, "0.000"), (0.0, "0.000"), (None, "–")]
)
def test_differences_have_a_sign_unless_they_are_nothing(value: float | None, text: str) -> None:
    assert formats.signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.6, "0.6000"), (0.82446, "0.8245"), (0.599996, "0.59999600"), (-0.037, "−0.0370"), (None, "–")],
)
def test_a_value_beside_the_limit_is_seen_to_be_beside_it(value: float | None, text: str) -> None:
    assert formats.exact(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-11-20T00:03:12+00:00", "2026-11-20 00:03 UTC"),
        ("2026-11-20T00:03:12Z", "2026-11-20 00:03 UTC"),
        ("2026-11-20T01:03:12+02:00", "2026-11-19 23:03 UTC"),
        ("2026-11-20T00:03:12", "2026-11-20 00:03 UTC"),
        ("yesterday", "yesterday"),
        (None, "–"),
    ],
)
def test_times_are_in_utc(value: str | None, text: str) -> None:
    assert formats.moment(value) == text


def test_an_axis_has_room_for_a_day() -> None:
    assert formats.day("2026-11-20T00:03:12+00:00") == "11-20"
    assert formats.day("yesterday") == formats.day(None) == ""


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert formats.legible("a\x00b\x1b[31m\x7f\x85") == "a␀b␛[31m␡\N{REPLACEMENT CHARACTER}"
    assert formats.legible("\ud800\uffff") == 2 * "\N{REPLACEMENT CHARACTER}"
    assert formats.legible("\N{RIGHT-TO-LEFT OVERRIDE}x\N{POP DIRECTIONAL ISOLATE}") == "[U+202E]x[U+2069]"


@pytest.mark.parametrize("text", ["line\n\tline", "שלום", "नमस्ते", "🇩🇪👩‍👩‍👧", "a\N{RIGHT-TO-LEFT MARK}b"])
def test_what_can_be_read_stays_as_it_is(text: str) -> None:
    assert formats.legible(text) == text
