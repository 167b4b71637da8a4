"""
Normalise texts before scorers compare them.

For Latin script this is the normalisation of the SQuAD v1.1 evaluation: lower case, no ASCII punctuation, no articles
(a, an, the), single spaces. These extensions make it work for other scripts:

- NFKC normalisation makes equivalent characters equal, and case is folded instead of lowered: ``ß`` becomes ``ss``.
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
# Invisible characters: soft hyphen, zero-width space and no-break space, direction marks, variants of emoji.
_INVISIBLE = dict.fromkeys(
    map(ord, "\u00ad\u200b\u200e\u200f\u2060\ufeff\ufe0e\ufe0f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
)
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_EM_DASHES = re.compile("[\u2014\u2015]")
_JOINERS = "\u200c\u200d"
# Variants of apostrophes, quotation marks and hyphens.
_PLAIN = str.maketrans(
    {**dict.fromkeys("\u2018\u2019\u02bc", "'"), **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"')}
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-")
    # Markdown markup of emphasis and code.
    | dict.fromkeys("*`")
)
# Marks inside a word or number: "3.5", "1,000", "can't"; but not in "l'eau" or "Ann's".
_MARK_INSIDE_WORD = re.compile(r"\d[.,]\d|[^\W\d]'t\b")
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


def includes(text: str, phrase: str) -> bool:
    """
    Return whether a text contains a phrase as whole words.

    The comparison ignores case, width, spaces, the kind of quotation marks and hyphens, and Markdown emphasis. It
    respects other punctuation: ``5 %`` is not ``5``. A match inside a longer word or number does not count: ``can`` is
    not in ``can't``, and ``5`` is not in ``3.5``. In scripts without spaces, which do not mark the end of a word, any
    match counts.
    """
    plain_text = _plain(text)
    plain_phrase = _plain(phrase)
    if not plain_phrase:
        # The phrase is only markup or space.
        return phrase in text
    start = plain_text.find(plain_phrase)
    while start >= 0:
        end = start + len(plain_phrase)
        is_part_of_word = _continues(plain_text, start) or _continues(plain_text, end)
        if not is_part_of_word:
            return True
        start = plain_text.find(plain_phrase, start + 1)
    return False


def fold(text: str) -> str:
    """Return a text in folded case and NFKC form, without invisible characters."""
    if text.isascii():
        return text.lower()
    visible = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    return unicodedata.normalize("NFKC", visible.casefold())


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
        is_mark = _is_in_category(char, "M") or char in _JOINERS
        if parts and (is_mark or not UNSPACED.search(parts[-1][0] + char)):
            parts[-1] += char
        else:
            parts.append(char)
    return parts


@lru_cache(maxsize=512)
def _plain(text: str) -> str:
    return " ".join(fold(text).translate(_PLAIN).split())


def _continues(text: str, position: int) -> bool:
    """Return whether a word or number continues across a position."""
    if position in {0, len(text)}:
        return False
    before, after = text[position - 1], text[position]
    if _is_in_category(after, "M"):
        # A combining mark belongs to the character before it.
        return True
    if UNSPACED.match(before) or UNSPACED.match(after):
        return False
    if _is_word(before) and _is_word(after):
        return True
    # A mark inside a word may be directly before or directly after the position.
    starts = [start for start in (position - 2, position - 1) if start >= 0]
    return any(_MARK_INSIDE_WORD.match(text, start) for start in starts)


def _is_word(char: str) -> bool:
    return char.isalnum() or _is_in_category(char, "M")


def _is_in_category(char: str, category: str) -> bool:
    """Return whether a character is in a category of Unicode: ``M`` mark, ``P`` punctuation."""
    return unicodedata.category(char)[0] == category
