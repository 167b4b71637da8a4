"""Cuts of a long text: at sentences, lines or words, and never inside a character that people see as one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from airflow_provider_assistant.texts import has_words

Fits = Callable[[str], bool]

_CLOSING = "\"'”’»)\\]*_」』）】》"  # noqa: RUF001
# Punctuation of scripts that put no space behind it.
_WIDE = "。！？｡．、，；："  # noqa: RUF001
# A word with the space behind it. A link, or code in a line, is one word.
_WORD = re.compile(rf"(?>\[[^\[\]]{{1,300}}\]\([^()\s]*\)|`[^`]{{1,300}}`|[^\s{_WIDE}])*[{_WIDE}]*[{_CLOSING}]*\s*")
_BLANK = re.compile(r"\S+\s*|\s+")
_SENTENCE_END = tuple(".!?…。！？｡．।॥؟۔።։។៕။")  # noqa: RUF001
_ZERO_WIDTH_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me"})
# Of other categories, and still part of the character before them: signs of Thai, Lao and halfwidth Japanese, skin
# tones, tags of flags, joiners.
_EXTENDING = re.compile("[\u0e33\u0eb3\u200c\u200d\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_HANGUL_LEADING = re.compile("[\u1100-\u115f\ua960-\ua97c]")
_HANGUL_FOLLOWING = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff]")
_HANGUL = re.compile("[\u1100-\u11ff\ua960-\ua97c\uac00-\ud7ff]")
_VIRAMA = 9
# Parts at the end of a text that may have no words, such as brackets that close.
_SHORT_REST = 20


def cut(text: str, fits: Fits, *, by_lines: bool = False) -> Iterator[str]:
    """
    Cut a text into pieces that fit, each as long as possible.

    :param fits: Whether a piece is short enough.
    :param by_lines: Whether lines are a better place for a cut than sentences. Default: sentences, then lines.
    """
    parts = _parts(text, fits, by_lines=by_lines)

    def fit(some: Sequence[str]) -> bool:
        return fits("".join(some).strip())

    start = 0
    while start < len(parts):
        count = with_words_after(parts, start, most(parts, start, fit))
        piece = "".join(parts[start : start + count]).strip()
        start += count
        if piece:
            yield piece


def most(parts: Any, start: int, fit: Callable[[Any], bool]) -> int:
    """
    Return how many parts of a sequence fit, with few calls.

    :param start: Number of the first one.
    :param fit: Whether a part of the sequence fits. With more parts, it must not become shorter.
    :return: May be 0.
    """
    left = len(parts) - start
    fitting, too_many = 0, 1
    while too_many <= left and fit(parts[start : start + too_many]):
        fitting, too_many = too_many, 2 * too_many
    too_many = min(too_many, left + 1)
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        if fit(parts[start : start + middle]):
            fitting = middle
        else:
            too_many = middle
    return fitting


def with_words_after(parts: Sequence[str], start: int, count: int) -> int:
    """
    Return how many parts from a start on a piece takes: at least one, and so few that the rest has words.

    :param count: Number of parts that fit.
    """
    count = max(1, count)
    rest = len(parts) - start - count
    if rest <= _SHORT_REST:
        while count > 1 and rest and not any(map(has_words, parts[start + count :])):
            count -= 1
    return count


def _parts(text: str, fits: Fits, *, by_lines: bool) -> list[str]:
    """Return the sentences of a text with the space behind them; of one that is too long, its lines, then its words."""
    parts = [text]
    first = _lines if by_lines else _sentences
    for split in (first, _lines, _words, _BLANK.findall, lambda part: _pieces_of_word(part, fits)):
        smaller: list[str] = []
        for part in parts:
            if fits(part.strip()):
                smaller.append(part)
            else:
                smaller += split(part)
        parts = smaller
    return parts


def _sentences(text: str) -> list[str]:
    words = _words(text)
    sentences = []
    start = 0
    for number, word in enumerate(words, 1):
        following = words[number] if number < len(words) else ""
        if not following or _ends_sentence(word, following):
            sentences.append("".join(words[start:number]))
            start = number
    return sentences


def _ends_sentence(word: str, following: str) -> bool:
    text = word.rstrip().rstrip(_CLOSING)
    if not text.endswith(_SENTENCE_END) or following[0].islower():
        return False
    # "1." and "A." begin a list or a name.
    return text[-1] in _WIDE or len(text) > 2


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _pieces_of_word(word: str, fits: Fits) -> list[str]:
    pieces = []
    start = 0
    while start < len(word):
        longest_end = start + max(1, most(word, start, fits))
        end = longest_end
        while start < end < len(word) and _is_inside_character(word, end):
            end -= 1
        if end == start:
            # A letter with this number of marks is not text: cut it anywhere.
            end = longest_end
        pieces.append(word[start:end])
        start = end
    return pieces


def _is_inside_character(text: str, position: int) -> bool:
    """Return whether what is before and what is behind a position belong to one character, as Unicode defines it."""
    before, behind = text[position - 1], text[position]
    if behind.isascii():
        return False
    if unicodedata.category(behind) in _MARKS or _EXTENDING.match(behind) or before == _ZERO_WIDTH_JOINER:
        return True
    if unicodedata.combining(before) == _VIRAMA and behind.isalpha():
        return True
    if _FLAG_LETTER.match(behind):
        start = position
        while start and _FLAG_LETTER.match(text[start - 1]):
            start -= 1
        return (position - start) % 2 == 1
    if _HANGUL_FOLLOWING.match(behind):
        return _HANGUL.match(before) is not None
    return _HANGUL_LEADING.match(before) is not None and _HANGUL.match(behind) is not None
