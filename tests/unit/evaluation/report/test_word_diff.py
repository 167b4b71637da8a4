from __future__ import annotations

import random

import pytest

from airflow_provider_assistant.evaluation.report import word_diff
from airflow_provider_assistant.evaluation.report.word_diff import Side


def shown(side: Side) -> str:
    """Return the texts with differences in brackets."""
    return "".join(f"[{piece.text}]" if piece.differs else piece.text for piece in side.pieces)


@pytest.mark.parametrize(
    ("expected", "answer", "left", "right"),
    [
        ("paid in five days", "paid in ten days", "paid in [five] days", "paid in [ten] days"),
        ("You can get it.", "You can not get it.", "You can get it.", "You can [not] get it."),
        ("Yes.", "yes.", "Yes.", "yes."),
        ("", "new", "", "[new]"),
        ("gone", "", "[gone]", ""),
        ("a  b\nc", "a b c", "a  b\nc", "a b c"),
        ("返金は五日", "返金は十日", "返金は[五]日", "返金は[十]日"),
        ("คืนเงินห้าวัน", "คืนเงินสิบวัน", "คืนเงิน[ห้า]วัน", "คืนเงิน[สิบ]วัน"),
        ("Деньги вернут сразу", "Деньги вернут завтра", "Деньги вернут [сразу]", "Деньги вернут [завтра]"),
        ("नमस्ते दुनिया", "नमस्ते भारत", "नमस्ते [दुनिया]", "नमस्ते [भारत]"),
    ],
)
def test_only_the_differing_words_are_marked(expected: str, answer: str, left: str, right: str) -> None:
    sides = word_diff.compare(expected, answer)
    assert [shown(side) for side in sides] == [left, right]


@pytest.mark.parametrize("seed", range(5))
def test_no_character_is_lost_or_moved(seed: int) -> None:
    chance = random.Random(seed)
    texts = ["".join(chance.choices("ab .,\n é日本สวัสดี́‍👍", k=chance.randint(0, 200))) for _ in range(2)]
    for text, side in zip(texts, word_diff.compare(*texts), strict=True):
        assert "".join(piece.text for piece in side.pieces) == text
        assert "".join(word_diff.split(text)) == text
        assert side.left_out == 0


def test_a_long_text_is_cut_and_the_rest_is_counted() -> None:
    for text, kept in (("word " * 200_000, word_diff.MAX_CHARACTERS), ("あ" * 1000, word_diff.MAX_TOKENS)):
        expected, answer = word_diff.compare("short", text)
        assert len("".join(piece.text for piece in answer.pieces)) == kept
        assert (expected.left_out, answer.left_out) == (0, len(text) - kept)


def test_repetition_is_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bool] = []

    class Matcher(word_diff.SequenceMatcher[str]):
        def __init__(self, *arguments: object, autojunk: bool) -> None:
            looked.append(autojunk)
            super().__init__(*arguments, autojunk=autojunk)  # type: ignore[arg-type]

    monkeypatch.setattr(word_diff, "SequenceMatcher", Matcher)
    word_diff.compare("x y " * 300, "y x " * 300)
    word_diff.compare(
        "An ordinary sentence, of which there is one. " * 3, "Another sentence, of which there is one. " * 3
    )
    assert looked == [True, False]
