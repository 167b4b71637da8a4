"""Texts of unknown origin are safe to show and to store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.texts import did_you_mean, escaped, shortened, storable

ANY = st.text(st.characters(categories=None, codec=None))


@pytest.mark.parametrize("text", ["", "plain", "naïve 5\u00a0€, 日本語, 👩\u200d💻", "back\\slash"])
def test_what_does_not_steer_stays(text):
    assert escaped(text) == text
    assert escaped(escaped(text + "\n")) == escaped(text + "\n")


def test_what_is_kept_stays():
    assert escaped("a\tb\nc\r", kept="\n\t") == "a\tb\nc\\r"


@given(ANY)
def test_an_escaped_text_is_one_line(text):
    assert len(escaped(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "stored"),
    [("a\0b", "a\\x00b"), ("half \ud83d", "half \\ud83d"), ("ü\0\udcff", "ü\\x00\\udcff")],
)
def test_what_cannot_be_stored_is_escaped(text, stored):
    assert storable(text) == stored


@given(ANY)
def test_every_text_can_be_stored_and_stays_the_same_afterwards(text):
    stored = storable(text)
    assert "\0" not in stored.encode().decode()
    assert storable(stored) == stored


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("a\n b ", "a b"),
        ("0123456789", "0123456789"),
        ("0123456789a", "012345678…"),
        ("01234567 9a", "01234567…"),
        ("a" * 10**6, "aaaaaaaaa…"),
    ],
)
def test_a_shortened_text_fits_in_a_line(text, short):
    assert shortened(text, 10) == short


@pytest.mark.parametrize(
    "name", ["ID", "Id", " id", "id ", "\ufeffid", "\ufeff\ufeffID", "i\u200bd", "'id'", "id\u00a0", "_id"]
)
def test_a_name_that_looks_like_another_one_is_meant(name):
    assert did_you_mean("id", ["title", name]) == f"; did you mean {name!r}?"
    assert did_you_mean("id", ["title", "colour"]) == ""
