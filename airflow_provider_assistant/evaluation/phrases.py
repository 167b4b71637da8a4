# ruff: noqa: RUF001
"""Find phrases in answers: whole words, numbers by value, alternatives and regular expressions."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, TypeAlias

from airflow_provider_assistant.evaluation.affixes import OTHER_ARABIC_SCRIPT, has_particles, is_with_particles
from airflow_provider_assistant.evaluation.numbers import NUMBER, readings, with_plain_numbers
from airflow_provider_assistant.evaluation.text import UNSPACED, clean, fold, has_turkish_capitals, turkish

# Separates alternatives, of which one is enough.
ANY_OF = " || "
_ANY_OF = re.compile(r"\|\|+")
# Begins a regular expression.
REGEX = "regex:"
# A word, or the values that a number can have
Word: TypeAlias = str | frozenset[str]

_PLAIN = str.maketrans(
    {
        # Apostrophes, quotation marks and dashes
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bb\u02bc\u2032\u2039\u203a\u05f3", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u05f4", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212", "-"),
        # Fractions; Arabic signs of numbers
        "\u2044": "/",
        "\u066a": "%",
        "\u066b": ".",
        "\u066c": "'",
        # Markdown markup of emphasis and code
        **dict.fromkeys("*`"),
    }
)
# NFKC would make 102 of 10², and 11/2 of 1½.
_RAISED = re.compile("(?<=\\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u2079])")
_FRACTION = re.compile("(?<=\\d)(?=[\u00bc-\u00be\u2150-\u215e])")
# A half space in Persian, which some write as a space and some not at all
_HALF_SPACE = re.compile("(?<=[\u0600-\u06ff])\u200c(?=[\u0600-\u06ff])")
# Scripts without capital letters, whose words do not contain digits
_CASELESS = "\u0590-\u109f\u1100-\u137f\u1780-\u18af\ua800-\ua8ff\ua960-\ua97f\uac00-\ud7ff\ufb1d-\ufdff\ufe70-\ufeff"
_CASELESS_START = re.compile(f"[{_CASELESS}]|{UNSPACED.pattern}")

_CURRENCIES = {"eur": "€", "usd": "$", "gbp": "£"}
# A long text with all kinds of characters
_SAMPLE = (string.printable + "\ue000") * 50
_DIGITS = frozenset(string.digits)
_NUMBER_START = _DIGITS | {"-"}
_DOLLAR = re.compile(r"(?<!\w)us(?=\$)")
# Currencies whose code is not a word, as TRY and ALL are
_CODES = (
    *("aed", "aud", "brl", "cad", "chf", "cny", "czk", "dkk", "egp", "eur", "gbp", "hkd", "huf", "idr", "inr", "jpy"),
    *("krw", "mxn", "myr", "nok", "nzd", "pln", "qar", "rub", "sar", "sek", "sgd", "thb", "twd", "uah", "usd", "vnd"),
)
# Digits belong to a word, but not to a currency: EUR5.
_CODE_BEFORE_NUMBER = rf"(?:{'|'.join(_CODES)})(?=\d)"
_ASCII_WORD = re.compile(rf"{_CODE_BEFORE_NUMBER}|[a-z][a-z0-9]*(?:'t\b)?|{NUMBER}|\S")
_BEFORE_NUMBERS = frozenset((*"%$€£¥₩₹₽₺₴₪₫฿₦₱₲₵₸₼₾¢﷼", *_CODES))
_UNITS = frozenset(
    (
        *_BEFORE_NUMBERS,
        *("°", "kg", "g", "mg", "lb", "oz", "km", "m", "cm", "mm", "ft", "l", "ml", "cl", "h", "min", "ms"),
        *("kwh", "kw", "am", "pm", "gb", "mb", "kb", "tb", "px", "кг", "г", "км", "м", "см", "мм", "л", "мл"),
        *("ч", "мин", "руб", "гб", "мб"),
    )
)


@dataclass(frozen=True, slots=True)
class _Text:
    """
    A text as words, numbers, punctuation marks and symbols.

    :param joined: For each word, whether it follows the word before it without a space.
    :param allows_particles: Whether words may have particles: not in Persian and Urdu.
    """

    words: Sequence[Word]
    joined: Sequence[bool]
    allows_particles: bool

    def is_boundary(self, position: int) -> bool:
        """Return whether a word or number ends before a position."""
        if position in {0, len(self.words)} or not self.joined[position]:
            return True
        before, after = self.words[position - 1], self.words[position]
        if isinstance(before, frozenset):
            # Only units and words of scripts without capital letters may follow a number without a space.
            return after in _UNITS or not _is_cased(after)
        if isinstance(after, frozenset):
            return not _is_cased(before)
        if UNSPACED.match(before) or UNSPACED.match(after):
            return True
        # In Korean, a Latin word may have particles: "API를".
        return _is_cased(before) != _is_cased(after) or not (before[0].isalnum() and after[0].isalnum())


def has_phrase(text: str, phrase: str) -> bool:
    """
    Return whether a text has a phrase.

    :param phrase: One or several phrases with ``||`` between them, of which one is enough; or ``regex:`` and a regular
        expression, which ignores case.
    """
    pattern = regular_expression(phrase)
    if pattern is not None:
        return _matches(pattern, text)
    return any(includes(text, alternative) for alternative in alternatives(phrase))


def alternatives(phrase: str) -> list[str]:
    """Return the phrases of which one is enough."""
    return [part.strip() for part in _ANY_OF.split(phrase) if part.strip()]


def regular_expression(phrase: str) -> str | None:
    """Return the regular expression of a phrase, or None if the phrase is plain text."""
    if phrase[: len(REGEX)].lower() != REGEX:
        return None
    return phrase[len(REGEX) :].strip()


def fault(phrase: str) -> str | None:
    """Return why a phrase can never decide anything, or None."""
    pattern = regular_expression(phrase)
    if pattern is None:
        is_hidden = REGEX in phrase.lower() and any(map(regular_expression, alternatives(phrase)))
        return f"{REGEX} must be at the beginning, and not after ||" if is_hidden else None
    try:
        # A pattern that is in both texts is in every text.
        is_everywhere = _matches(pattern, "") and _matches(pattern, _SAMPLE)
    except ValueError as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        return f"the regular expression {pattern!r} is invalid for RE2, which knows no look-around: {reason}"
    return f"the regular expression {pattern!r} matches every text" if is_everywhere else None


def includes(text: str, phrase: str) -> bool:
    """
    Return whether a text contains a phrase as whole words.

    The comparison ignores case, width, spaces, the kind of quotation marks and dashes, and Markdown emphasis. It
    respects other punctuation: ``5 %`` is not ``5``. A match inside a longer word or number does not count: ``can`` is
    not in ``can't``, and ``5`` is not in ``3.5``. Numbers are equal if their values are: ``1000`` is in ``1,000``.
    Words may have the particles of :mod:`affixes`. In scripts without spaces, which do not mark the end of a word, any
    match counts.
    """
    if _has(text, phrase):
        return True
    if text.isascii() and phrase.isascii():
        return False
    return any(_has(*spellings) for spellings in _other_spellings(text, phrase))


def _other_spellings(text: str, phrase: str) -> Iterator[tuple[str, str]]:
    if has_turkish_capitals(text + phrase):
        yield turkish(text), turkish(phrase)
    if "\u200c" in text or "\u200c" in phrase:
        yield _HALF_SPACE.sub(" ", text), _HALF_SPACE.sub(" ", phrase)


def _has(text: str, phrase: str) -> bool:
    folded = _folded(text)
    # Most phrases are not in a text: it is not split into words.
    for part in _required(phrase):
        if part not in folded:
            return False
    read_phrase = _read(phrase)
    if not read_phrase.words:
        # The phrase is only markup or space.
        return phrase in text
    return _is_in(_read(text), read_phrase)


@lru_cache(maxsize=512)
def _required(phrase: str) -> list[str]:
    """Return parts of a phrase without which no text has it."""
    words = [word for word in _read(phrase).words if isinstance(word, str) and word not in _CURRENCIES.values()]
    # In Arabic, the first or last letter may change.
    return [word[1:-1] if len(word) > 2 and has_particles(word) else word for word in words]


def _is_in(text: _Text, phrase: _Text) -> bool:
    allows_particles = text.allows_particles and phrase.allows_particles
    first = phrase.words[0]
    size = len(phrase.words)
    if isinstance(first, str) and not has_particles(first):
        starts = [start for start, word in enumerate(text.words) if word == first]
    else:
        starts = [start for start, word in enumerate(text.words) if _is_same(word, first, allows_particles)]
    for start in starts:
        end = start + size
        pairs = zip(text.words[start:end], phrase.words, strict=False)
        if (
            end <= len(text.words)
            and all(_is_same(*pair, allows_particles) for pair in pairs)
            and text.is_boundary(start)
            and text.is_boundary(end)
        ):
            return True
    return False


def _is_same(word: Word, wanted: Word, allows_particles: bool) -> bool:
    if word == wanted:
        return True
    if isinstance(word, str) and isinstance(wanted, str):
        return allows_particles and has_particles(wanted) and is_with_particles(word, wanted)
    if isinstance(word, frozenset) and isinstance(wanted, frozenset):
        return not word.isdisjoint(wanted)
    return False


def _is_cased(word: Word) -> bool:
    return isinstance(word, str) and word[0].isalpha() and not _CASELESS_START.match(word)


@lru_cache(maxsize=512)
def _read(text: str) -> _Text:
    folded = _folded(text)
    is_ascii = folded.isascii()
    pattern = _ASCII_WORD if is_ascii else _word()
    words: list[Any] = []
    joined: list[bool] = []
    for chunk in folded.split():
        if chunk.isalpha() and (is_ascii or chunk.isascii()):
            words.append(chunk)
            joined.append(False)
        else:
            parts = pattern.findall(chunk)
            words += parts
            joined += [False] + [True] * (len(parts) - 1)
    if any(currency in folded for currency in _CURRENCIES):
        words = [_CURRENCIES.get(word, word) for word in words]
    numbers = [position for position, word in enumerate(words) if word[-1] in _DIGITS and word[0] in _NUMBER_START]
    for position in numbers:
        _read_number(words, joined, position)
    return _Text(words, joined, allows_particles=is_ascii or not OTHER_ARABIC_SCRIPT.search(text))


def _read_number(words: list[Any], joined: list[bool], position: int) -> None:
    """Replace the text of a number by its values, and put a currency before it behind it."""
    before = words[position - 1] if position else ""
    after = words[position + 1] if position + 1 < len(words) else ""
    words[position] = readings(words[position], before in _BEFORE_NUMBERS or after in _UNITS)
    if before in _BEFORE_NUMBERS and not _belongs_to_word_before(words, joined, position - 1):
        words[position - 1], words[position] = words[position], before
        joined[position] = True


def _belongs_to_word_before(words: Sequence[Word], joined: Sequence[bool], currency: int) -> bool:
    """Return whether a currency belongs to the word before it, as in ``5 €`` and ``C$``."""
    before = words[currency - 1] if currency else ""
    return isinstance(before, frozenset) or (joined[currency] and before[0].isalnum())


@cache
def _word() -> re.Pattern[str]:
    """Return the pattern of a word, number or other character in any script."""
    characters = map(chr, range(0x300, 0x1F000))
    marks = "".join([char for char in characters if unicodedata.category(char).startswith("M")])
    without_capitals = _CASELESS_START.pattern
    cased_word = rf"(?!{without_capitals})[^\W\d_](?:(?!{without_capitals}|_)\w|[{marks}])*(?:'t\b)?"
    caseless_word = rf"(?:(?=[{_CASELESS}])(?!{UNSPACED.pattern})[^\W\d_]|[{marks}])+"
    return re.compile(rf"{_CODE_BEFORE_NUMBER}|{cased_word}|{NUMBER}|{caseless_word}|\S[{marks}]*")


@lru_cache(maxsize=512)
def _folded(text: str) -> str:
    """Return a text in folded case, with plain quotation marks, dashes and numbers."""
    if text.isascii():
        folded = text.lower().replace("*", "").replace("`", "")
    else:
        text = _FRACTION.sub(" ", _RAISED.sub("^", text))
        folded = fold(text).translate(_PLAIN)
    if "us$" in folded:
        folded = _DOLLAR.sub("", folded)
    return with_plain_numbers(folded)


def _matches(pattern: str, text: str) -> bool:
    """
    Return whether a regular expression is in a text. RE2 takes linear time for every pattern.

    :raises ValueError: The regular expression is invalid.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = clean(text).translate(_PLAIN)
    return bool(pc.match_substring_regex(pa.scalar(plain), pattern, ignore_case=True).as_py())
