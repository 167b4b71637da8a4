"""The identity of a row: values, whatever the types."""

from __future__ import annotations

import datetime
import pathlib
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, key_names, key_text

BERLIN = datetime.timezone(datetime.timedelta(hours=1))
NAIVE = datetime.datetime(2026, 1, 31)  # noqa: DTZ001
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", [7, 7.0, "7", " 7\n", "7.0", "7.00", Decimal(7), Decimal("7.00"), np.int8(7), np.uint64(7), b"7",
               np.float32(7), np.float64(7), np.str_("7"), pd.Series([7], dtype="Int64")[0]]),
        ("0", [0, -0.0, "0.0", "-0.0", Decimal("-0"), Decimal("0E+3")]),
        ("1000", [Decimal("1E+3"), 1e3, 1000]),
        ("0.5", [0.5, Decimal("0.50"), np.float64(0.5), "0.5"]),
        ("0.0000001", [1e-7, Decimal("1E-7")]),
        ("9007199254740993", [2**53 + 1, str(2**53 + 1), Decimal(2**53 + 1), np.int64(2**53 + 1)]),
        ("true", [True, np.bool_(True), "True", "true"]),
        ("false", [False, np.bool_(False), "False"]),
        ("2026-01-31", [datetime.date(2026, 1, 31), NAIVE, pd.Timestamp("2026-01-31"),
                        np.datetime64("2026-01-31"), np.datetime64("2026-01-31", "ns"), "2026-01-31"]),
        ("2026-01-31 08:30:00", [NAIVE.replace(hour=8, minute=30), pd.Timestamp("2026-01-31 08:30"),
                                 np.datetime64("2026-01-31T08:30:00")]),
        ("2026-01-31 08:30:00+00:00", [datetime.datetime(2026, 1, 31, 9, 30, tzinfo=BERLIN),
                                       pd.Timestamp("2026-01-31 09:30", tz="Europe/Berlin")]),
        (str(ID), [ID, str(ID)]),
        ("08:30:00", [datetime.time(8, 30), "08:30:00", "08:30:00.000", "08:30:00.000000000"]),
        ("1 day, 0:00:05", [datetime.timedelta(1, 5), pd.Timedelta("1 days 00:00:05"), np.timedelta64(86_405, "s"),
                            np.timedelta64(86_405 * 10**9, "ns")]),
        ("a/ü.md", [pathlib.PurePosixPath("a/ü.md"), "a/ü.md"]),
        ("ä🕘", ["ä🕘", " ä🕘", "ä🕘".encode(), np.str_("ä🕘\n")]),
    ],
)  # fmt: skip
def test_the_same_value_is_the_same_key(text, values):
    assert [key_text(value) for value in values] == [text] * len(values)


@pytest.mark.parametrize(
    "missing",
    [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"),
     Decimal("sNaN"), "", " ", "\t\n", b"", np.str_(" ")],
)  # fmt: skip
def test_what_is_missing_is_not_a_key(missing):
    assert key_text(missing) is None


def spellings(moment, zone):
    """Return how programs write a moment: with T or a space, and as many digits as each has."""
    seconds = moment.isoformat(" ", "seconds")
    fraction = f"{moment:%f}".rstrip("0")
    texts = []
    for count in range(len(fraction), 10):
        point = "." if count else ""
        texts += [f"{seconds}{point}{fraction.ljust(count, '0')}{end}" for end in zone]
    if seconds.endswith(":00") and not fraction:
        texts += [f"{seconds[:-3]}{end}" for end in zone if end in {"", "Z"} or ":" in end]
    return [*texts, *(text.replace(" ", "T", 1) for text in texts)]


ZONES = {
    None: [""],
    0: ["Z", " Z", "UTC", " UTC", "+00", "+0000", "+00:00", "-00:00", " +0000"],
    90: ["+01:30", "+0130", " +0130"],
    -480: ["-08", "-08:00", "-0800", " -0800"],
}


FIRST = datetime.datetime(1, 1, 3)  # noqa: DTZ001
UNITS = ["days", "minutes", "seconds", "milliseconds", "microseconds"]


@settings(max_examples=50)
@given(st.integers(0, 3_000_000 * 86_400 * 10**6), st.sampled_from(sorted(ZONES, key=str)), st.sampled_from(UNITS))
def test_a_timestamp_is_one_key_however_it_is_written(microseconds, offset, unit):
    unit_length = datetime.timedelta(**{unit: 1})
    moment = FIRST + datetime.timedelta(microseconds=microseconds) // unit_length * unit_length
    value = moment
    if offset is not None:
        value = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=offset)))
    texts = spellings(moment, ZONES[offset])
    assert {key_text(text) for text in [value, pd.Timestamp(value), *texts]} == {key_text(value)}
    assert key_column(texts)[0] == [key_text(value)] * len(texts)


def test_nanoseconds_are_not_lost():
    for text in ("2026-01-31 08:30:00.000000001", "2026-01-31 08:30:00.123456789"):
        values = [pd.Timestamp(text), np.datetime64(text), text.replace(" ", "T"), f"{text}000"]
        assert {key_text(value) for value in values} == {text}


def test_texts_that_look_like_a_timestamp_are_not():
    texts = [
        "2026-02-30 08:30:00", "2026-01-31 24:00:00", "2026-01-31 08:30:60", "2026-01-31 08:60", "2026-01-31 08:30-12",
        "2026-01-31 08:30:00+24:00", "0001-01-01 00:00:00+05:00", "2026-01-31  08:30:00", "2026-01-31 08:30:00 CET",
        "31.01.2026 08:30:00", "2026-1-31 08:30:00", "20260131T083000Z", "2026-01-31 8:30:00", "2026-01-31 08:30:00.",
        "x2026-01-31 08:30:00", "٢٠٢٦-01-31 08:30:00",
    ]  # fmt: skip
    assert [key_text(text) for text in texts] == texts
    assert key_column(texts) == (texts, {})


def test_texts_that_differ_are_different_keys():
    texts = ["007", "7", "7.5", "7.50", "1.1", "1.10", "1e3", "a", "A", "NaN", "None", "null", "+7", "a b", "7.", ".7"]
    assert [key_text(text) for text in texts] == texts


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_whole_numbers_of_every_type_are_one_key(number):
    spelled = {
        number,
        float(number),
        Decimal(number),
        str(number),
        str(float(number)) if abs(number) < 10**15 else number,
    }
    assert {key_text(value) for value in spelled} == {str(number)}
    assert {key_text(value) for value in pd.Series([number, None])[:1]} == {str(number)}


@given(st.text())
def test_a_text_is_its_own_key_once(text):
    key = key_text(text)
    assert key is None or key_text(key) == key


TEXTS = st.one_of(st.text(), st.sampled_from(["7.0", "7.00", "1.10", "-0", "True", " x ", "", " ", "10", "0.5", "0"]))


@given(st.lists(TEXTS), st.lists(st.one_of(TEXTS, st.integers(), st.none()), max_size=2))
def test_a_column_is_converted_as_its_values_are(texts, others):
    column = [*texts, *others]
    assert key_column(column) == ([key_text(value) for value in column], {})


@pytest.mark.parametrize(
    "value",
    [[1], {"a": 1}, {1}, object(), np.array([1, 2]), float("inf"), Decimal("Infinity"), 2.0**53, 1e300,
     Decimal("1E+1000000")],
)  # fmt: skip
def test_what_cannot_identify_a_row_says_why(value):
    texts, problems = key_column(["a", value, None])
    assert texts == ["a", None, None]
    assert list(problems) == [1]
    assert problems[1]


def test_labels():
    assert key_label(["id"], ["7"]) == "7"
    assert key_label(["id"], [None]) == ""
    assert key_label(["id", "lang"], ["7", None]) == "id=7, lang="


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("id", ["id"]),
        (" id ", ["id"]),
        (["id", "lang", "id"], ["id", "lang"]),
        (("id",), ["id"]),
        ("['id', 'lang']", ["id", "lang"]),
        ('["id"]', ["id"]),
        ("[odd", ["[odd"]),
        ("[odd]", ["[odd]"]),
        ("a, b", ["a, b"]),
        ("", []),
        (None, []),
        ((), []),
    ],
)
def test_names_of_key_columns(given, names):
    assert key_names(given) == names


@pytest.mark.parametrize("given", [5, [5], [None], [["id"]], [""]])
def test_what_does_not_name_key_columns(given):
    with pytest.raises(AssistantInputError, match="key_columns must be"):
        key_names(given)
