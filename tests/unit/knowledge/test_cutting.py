"""Cuts of a long text."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest

from airflow_provider_assistant.knowledge.cutting import cut

# Each is one character for people.
CHARACTERS = [
    "e\u0301", "क्षि", "नी", "ก็", "น้ำ", "각", "\u1100\u1161\u11a8", "👩‍👩‍👧", "👍🏽", "🇩🇪", "1\ufe0f\u20e3", "か\u3099",
    "漢", "x", "\u0628\u064e", "\U0001f3f4\U000e0067\U000e0062\U000e007f", "ﾊﾟ",
]  # fmt: skip
SENTENCES = [
    "J. Smith opens at 9 a.m. every day.",
    "Really?",
    "これは文です。",
    "Yes: see [A. B](https://x.org/a.b)!",
    "¿Sí?",
    "“Done.”",
    "कार्यालय खुला है।",
    "هل المكتب مفتوح؟",
]


@pytest.mark.parametrize("size", [5, 8, 11])
def test_no_cut_is_inside_a_character(size):
    dice = random.Random(size)
    for character in CHARACTERS:
        characters = dice.choices([character, *CHARACTERS], k=40)
        pieces = list(cut("".join(characters), lambda text: len(text) <= size))
        assert "".join(pieces) == "".join(characters)
        assert max(map(len, pieces)) <= size
        ends = set(accumulate(map(len, characters)))
        assert set(accumulate(map(len, pieces))) <= ends


@pytest.mark.parametrize("size", [40, 100])
def test_sentences_are_whole(size):
    dice = random.Random(size)
    sentences = dice.choices(SENTENCES, k=100)
    pieces = list(cut(" ".join(sentences), lambda text: len(text) <= size))
    assert " ".join(pieces) == " ".join(sentences)
    assert max(map(len, pieces)) <= size
    assert all(piece.endswith(tuple(SENTENCES)) for piece in pieces)
    assert all(len(one) + len(other) >= size - 40 for one, other in pairwise(pieces))


def test_a_long_sentence_is_cut_at_lines_then_words_then_anywhere():
    def fits(text: str) -> bool:
        return len(text) <= 12

    assert list(cut("Monday 9 - 5\nTuesday 9 - 5\nx", fits)) == ["Monday 9 - 5", "Tuesday 9 -", "5\nx"]
    assert list(cut("see [a b](c) and `d e f`", fits)) == ["see [a b](c)", "and `d e f`"]
    assert list(cut("abcdefghijklmnopqrstuvwxyz", fits)) == ["abcdefghijkl", "mnopqrstuvwx", "yz"]
    assert list(cut("a. b\nc. d\ne. f", lambda text: len(text) <= 9, by_lines=True)) == ["a. b\nc. d", "e. f"]


def test_the_end_without_words_stays_with_words():
    assert list(cut("one two three four )))", lambda text: len(text) <= 18)) == ["one two three", "four )))"]


def test_a_piece_that_never_fits_ends():
    assert list(cut("ab c", lambda text: False)) == ["a", "b", "c"]
