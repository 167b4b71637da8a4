"""The identity of a row: values, whatever the types."""

from __future__ import annotations

import datetime
import pathlib
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, key_names, key_text

BERLIN = datetime.timezone(datetime.timedelta(hours=1))
NAIVE = datetime.datetime(2026, 1, 31)  # noqa: DTZ001
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("7", [7, 7.0, "7", " 7\n", "7.0", "7.00", Decimal(7), Decimal("7.00"), np.int8(7), np.uint64(7),
               np.float32(7), np.float64(7), np.str_("7"), pd.Series([7], dtype="Int64")[0]]),
        ("0", [0, -0.0, "0.0", "-0.0", Decimal("-0"), Decimal("0E+3")]),
        ("1000", [Decimal("1E+3"), 1e3, 1000]),
        ("0.5", [0.5, Decimal("0.50"), np.float64(0.5), "0.5"]),
        ("0.0000001", [1e-7, Decimal("1E-7")]),
        ("9007199254740993", [2**53 + 1, str(2**53 + 1), Decimal(2**53 + 1), np.int64(2**53 + 1)]),
        ("true", [True, np.bool_(True), "True", "true"]),
        ("false", [False, np.bool_(False), "False"]),
        ("2026-01-31", [datetime.date(2026, 1, 31), NAIVE, pd.Timestamp("2026-01-31"), "2026-01-31"]),
        ("2026-01-31 08:30:00", [NAIVE.replace(hour=8, minute=30), pd.Timestamp("2026-01-31 08:30")]),
        ("2026-01-31 08:30:00.5", [NAIVE.replace(hour=8, minute=30, microsecond=500_000),
                                   pd.Timestamp("2026-01-31 08:30:00.500")]),
        ("2026-01-31 08:30:00.000000001", [pd.Timestamp("2026-01-31 08:30:00.000000001")]),
        ("2026-01-31 08:30:00+00:00", [datetime.datetime(2026, 1, 31, 9, 30, tzinfo=BERLIN),
                                       pd.Timestamp("2026-01-31 09:30", tz="Europe/Berlin")]),
        (str(ID), [ID, str(ID)]),
        ("08:30:00", [datetime.time(8, 30), "08:30:00"]),
        ("a/ü.md", [pathlib.PurePosixPath("a/ü.md"), "a/ü.md"]),
        ("ä🕘", ["ä🕘", " ä🕘", np.str_("ä🕘\n")]),
    ],
)  # fmt: skip
def test_the_same_value_is_the_same_key(text, values):
    assert [key_text(value) for value in values] == [text] * len(values)


@pytest.mark.parametrize(
    "missing",
    [None, float("nan"), np.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), Decimal("sNaN"), "", " ", "\t\n",
     np.str_(" ")],
)  # fmt: skip
def test_what_is_missing_is_not_a_key(missing):
    assert key_text(missing) is None


TIMES = st.datetimes(datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 28))  # noqa: DTZ001
ZONES = st.sampled_from([datetime.UTC, BERLIN, datetime.timezone(-datetime.timedelta(hours=8))])


@given(TIMES, ZONES, ZONES)
def test_a_time_is_one_key_in_every_zone(moment, zone, other):
    value = moment.replace(tzinfo=zone)
    assert key_text(value) == key_text(value.astimezone(other)) == key_text(pd.Timestamp(value))
    assert key_text(value).endswith("+00:00")
    assert key_text(moment) == key_text(pd.Timestamp(moment)) != key_text(value)


def test_a_text_is_never_taken_for_a_time():
    texts = ["2026-01-31T08:30:00Z", "2026-01-31 08:30:00.000", "08:30:00.0", "2026-01-31 00:00:00", "31.01.2026"]
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
     Decimal("1E+1000000"), 1j, b"a", datetime.timedelta(1), np.datetime64("2026-01-31"),
     datetime.datetime.min.replace(tzinfo=BERLIN)],
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
