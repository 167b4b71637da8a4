"""Exact match and token F1 equal those of the published SQuAD v1.1 evaluation."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.evaluation.scorers import exact_match, token_f1
from tests.unit.evaluation.squad import exact_match_score, f1_score, normalize_answer

PAIRS = [
    ("Denver Broncos", "Denver Broncos"),
    ("The Denver Broncos!", "denver broncos"),
    ("a cat and an owl in the theatre", "the cat and owl"),
    ("Santa Clara, California", "Levi's Stadium in Santa Clara"),
    ("1,000", "1000"),
    ("3.5", "35"),
    ("U.S.A.", "USA"),
    ("well-known", "well known"),
    ("can't", "cant"),
    ("can get a refund", "can not get a refund"),
    ("no no no yes", "no yes yes"),
    ("", "something"),
    ("something", ""),
    ("?!", "something"),
    ("the", "the cat"),
    ("a the an cat", "cat a"),
    ("a-the", "athe"),
    ("Curaçao, Æon, Łódź", "curaçao æon łódź"),
    ("São Tomé e Príncipe", "Sao Tomé"),
    ("naïve Übermut", "ÜBERMUT"),
    ("the\u00a0end", "end"),
    ("$5 + $6 = $11", "5 6 11"),
    ("a\x1cthe\x0bb", "b"),
]
# Letters that neither fold nor decompose: for them, both implementations must agree.
LATIN = "".join(
    char
    for char in map(chr, range(0xC0, 0x250))
    if char.isalpha()
    and char.casefold() == char.lower()
    and unicodedata.normalize("NFKC", char.lower()) == char.lower()
    and unicodedata.normalize("NFKC", char) == char
)
CHARACTERS = st.sampled_from(string.printable + "\x1c\x1d\x1e\x1f" + LATIN)


def agree(answer, expected):
    assert exact_match(answer, expected) == exact_match_score(answer, expected)
    assert token_f1(answer, expected) == pytest.approx(f1_score(answer, expected), abs=1e-9, rel=0)


@pytest.mark.promise("evaluation", "exact_match and token_f1 are those of SQuAD 1.1.")
@pytest.mark.parametrize(("answer", "expected"), PAIRS)
def test_agrees_on_cases_made_to_differ(answer, expected):
    agree(answer, expected)
    agree(expected, answer)


@settings(max_examples=80, deadline=None)
@example("a-", "a -")
@given(st.text(CHARACTERS), st.text(CHARACTERS))
def test_agrees_on_latin_text(answer, expected):
    assume(normalize_answer(answer) or normalize_answer(expected))
    agree(answer, expected)


@pytest.mark.parametrize(("answer", "expected"), [("A", "A"), ("?!", "?!")])
def test_differs_where_both_have_no_words(answer, expected):
    assert (exact_match_score(answer, expected), f1_score(answer, expected)) == (True, 0)
    assert (exact_match(answer, expected), token_f1(answer, expected)) == (True, 1.0)


@pytest.mark.parametrize(("answer", "expected"), [("A", "The"), ("?", "!")])
def test_answers_without_words_can_differ(answer, expected):
    assert exact_match_score(answer, expected)
    assert not exact_match(answer, expected)
