# ruff: noqa: RUF001, RUF002
"""
Normalise texts before scorers compare them.

For Latin script this is the normalisation of the SQuAD v1.1 evaluation: lower case, no ASCII punctuation, no articles
(a, an, the), single spaces. These extensions make it work for other scripts:

- NFKC normalisation makes equivalent characters equal, and case is folded instead of lowered: ``ß`` becomes ``ss``,
  and ``İ`` becomes ``i``. Digits of all scripts become ASCII digits.
- Signs without a sound of their own make no difference: vowel signs of Arabic and Hebrew, the Arabic tatweel and the
  hamza on an alef. Nor do the Persian forms of Arabic letters, ``™`` and ``®``.
- Punctuation is the Unicode category P. Combining marks, symbols and emoji stay. Em dashes separate words.
- Articles are removed only as whole words. As in SQuAD, they are removed in every language: the word ``a`` of another
  language is removed from both texts.
- A text that consists only of articles or punctuation is kept: ``A`` and ``The``, or ``?`` and ``!``, are different
  answers. Only in this case do ASCII texts score differently than in SQuAD, where they are an exact match with F1 0.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

_ARTICLES = frozenset(("a", "an", "the"))
# Soft hyphen, zero-width characters, joiners, direction marks, variants of emoji; trademarks.
_INVISIBLE = dict.fromkeys(
    map(
        ord,
        "\u00ad\u034f\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff\ufe0e\ufe0f"
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2122\u2120\u00ae",
    )
)
# An accent that stands for an apostrophe, of which NFKC would make a space
_ACUTE = "\u00b4"
# Arabic and Hebrew letters that are written with and without their signs
_LETTERS = (
    dict.fromkeys((0x0640, 0x0670, *range(0x0610, 0x061B), *range(0x064B, 0x0660), *range(0x06D6, 0x06EE)))
    | dict.fromkeys((0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7, *range(0x0591, 0x05BE)))
    | str.maketrans("\u0622\u0623\u0625\u0671\u0649\u06cc\u06a9", "\u0627\u0627\u0627\u0627\u064a\u064a\u0643")
)
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_EM_DASHES = re.compile("[\u2014\u2015]")
# Scripts without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Chinese and Japanese.
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u303c\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
)


@lru_cache(maxsize=32)
def normalise(text: str) -> str:
    """Return a text in folded case without punctuation, English articles and extra spaces. Blank text becomes empty."""
    folded = fold(text)
    words = _without_punctuation(folded).split()
    content = [word for word in words if word not in _ARTICLES]
    # A text that consists only of articles or of punctuation is kept.
    return " ".join(content or words or folded.split())


def tokens(text: str) -> list[str]:
    """
    Return the words of the normalised text.

    In scripts without spaces between words, each character with its combining marks is a word.
    """
    normal = normalise(text)
    words = normal.split()
    if not UNSPACED.search(normal):
        return words
    parts: list[str] = []
    for word in words:
        parts += _split_unspaced(word)
    return parts


def fold(text: str) -> str:
    """Return a text in folded case and NFKC form, with ASCII digits and without invisible characters."""
    if text.isascii():
        return text.lower()
    folded = clean(text).casefold().replace("i\u0307", "i")
    return unicodedata.normalize("NFKC", folded).translate(_LETTERS)


def clean(text: str) -> str:
    """Return a text in NFKC form, with ASCII digits and without invisible characters."""
    if text.isascii():
        return text
    visible = unicodedata.normalize("NFKC", text.replace(_ACUTE, "'").translate(_INVISIBLE))
    return _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), visible)


def has_turkish_capitals(texts: str) -> bool:
    """Return whether a capital ``I`` in texts that are compared may be the Turkish one of ``ı``, not that of ``i``."""
    return "ı" in texts and "I" in texts


def turkish(text: str) -> str:
    """Return a text with small letters instead of the Turkish capital letters ``I`` and ``İ``."""
    return unicodedata.normalize("NFC", text).replace("İ", "i").replace("I", "ı")


def _without_punctuation(folded: str) -> str:
    text = folded.translate(_ASCII_PUNCTUATION)
    if text.isascii():
        return text
    text = _EM_DASHES.sub(" ", text)
    return "".join([char for char in text if not _is_in_category(char, "P")])


def _split_unspaced(word: str) -> list[str]:
    """Split a word before and after each character of a script without spaces."""
    parts: list[str] = []
    for char in word:
        is_mark = _is_in_category(char, "M")
        if parts and (is_mark or not UNSPACED.search(parts[-1][0] + char)):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def _is_in_category(char: str, category: str) -> bool:
    """Return whether a character is in a category of Unicode: ``M`` mark, ``P`` punctuation."""
    return unicodedata.category(char)[0] == category
