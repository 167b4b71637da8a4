"""
Texts as scorers compare them.

``normalise`` and ``tokens`` are those of the SQuAD v1.1 evaluation, extended to Unicode. ``has_phrase`` finds whole
words, alternatives and regular expressions. Everything else is written into the golden set as an alternative.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache
from urllib.parse import unquote

REGEX = "regex:"
ALTERNATIVE = "||"
# Scripts without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Chinese and Japanese.
UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u303c\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# A letter or a digit of a script with spaces, and what shows before and after a phrase that it is only a part.
_LETTER = re.compile(rf"[^\W{UNSPACED}]")
_ENDING = re.compile(rf"[^\W{UNSPACED}]|'t(?!\w)")
_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(r"\d[.,]\Z"), re.compile(r"[.,]\d")
# A character with its marks in a script without spaces, a word in others.
_TOKEN = re.compile(rf"[{UNSPACED}][^\w\s]*|[^\s{UNSPACED}]+")
_ARTICLES = frozenset(("a", "an", "the"))
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
# One spelling of apostrophes, quotation marks and dashes, and no Markdown emphasis or code.
_SPELLINGS = {
    **dict.fromkeys(map(ord, "\u2018\u2019\u201a\u201b\u00b4\u02bc\u2032"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e\u201f\u00ab\u00bb"), '"'),
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"),
    **dict.fromkeys(map(ord, "*`"), ""),
}
# Underscores at the edges of words, which are Markdown emphasis, too. Inside of a word they belong to its name.
_EMPHASIS = re.compile(r"\b_+|(?<!_)_+\b")
# A long text with all kinds of characters.
_SAMPLE = (string.printable + "\ue000") * 50
# What separates an address from the text around it, also in Markdown and HTML, and the punctuation around it.
_SEPARATORS = re.compile(r"[\s<>\"`|\[\]\\^{}]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_AROUND = "'.,;:!?*_~()\u2018\u201c\u2026\u2019\u201d\u00ab\u00bb\u3002\u3001\uff0c\uff1a\uff1b\uff01\uff1f\uff08\uff09"
# Browsers and servers refuse longer addresses.
_MAX_ADDRESS = 4096


@lru_cache(maxsize=32)
def folded(text: str) -> str:
    """Return a text in NFKC form and folded case, without invisible characters."""
    if text.isascii():
        return text.lower()
    # Variation selectors of emoji are marks; the other invisible characters are of the category of formats.
    visible = [char for char in text if char not in "\ufe0e\ufe0f" and unicodedata.category(char) != "Cf"]
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", "".join(visible)).casefold())


@lru_cache(maxsize=32)
def normalise(text: str) -> str:
    """Return a text in folded case without punctuation, English articles and extra spaces."""
    lower = folded(text)
    content = lower.translate(_ASCII_PUNCTUATION)
    if not content.isascii():
        content = re.sub("[\u2014\u2015]", " ", content)
        content = "".join([char for char in content if unicodedata.category(char)[0] != "P"])
    words = content.split()
    without_articles = [word for word in words if word not in _ARTICLES]
    # "A" and "The", or "?" and "!", are different answers.
    return " ".join(without_articles or words or lower.split())


def tokens(text: str) -> list[str]:
    """Return the words of the normalised text; in scripts without spaces, each character with its marks is a word."""
    return _TOKEN.findall(normalise(text))


def has_phrase(text: str, phrase: str) -> bool:
    """
    Return whether a text contains a phrase as whole words, or one of several alternatives ``a || b``.

    Case, width, kinds of quotation marks and dashes, extra spaces and Markdown emphasis make no difference. A part of a
    word or of a number is not a match: ``1.5`` is not in ``1.500``. A phrase that begins with ``regex:`` is a regular
    expression.
    """
    pattern = regular_expression(phrase)
    if pattern is not None:
        return _matches(pattern, text)
    spelled = _spelled(text)
    return any(_includes(spelled, _spelled(part)) for part in phrase.split(ALTERNATIVE))


def regular_expression(phrase: str) -> str | None:
    """Return the regular expression of a phrase, or None if the phrase is plain text."""
    return phrase[len(REGEX) :].strip() if phrase[: len(REGEX)].lower() == REGEX else None


def fault(phrase: str) -> str | None:
    """Return why a phrase can never decide anything, or None."""
    pattern = regular_expression(phrase)
    if pattern is None:
        parts = phrase.split(ALTERNATIVE)
        if any(regular_expression(part.strip()) is not None for part in parts):
            return f"{REGEX} must be at the beginning, and not after {ALTERNATIVE}"
        if not all(_spelled(part) for part in parts):
            return f"there is no text before or after {ALTERNATIVE}" if len(parts) > 1 else "it has no text to find"
        if "|" in phrase.replace(ALTERNATIVE, ""):
            return "write a phrase per line, and alternatives as 'a || b', instead of a single |"
        return None
    try:
        is_everywhere = _matches(pattern, "") and _matches(pattern, _SAMPLE)
    except ValueError as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        return f"the regular expression {pattern!r} is invalid for RE2, which knows no look-around: {reason}"
    return f"the regular expression {pattern!r} matches every text" if is_everywhere else None


@lru_cache(maxsize=32)
def _spelled(text: str) -> str:
    return " ".join(_EMPHASIS.sub("", folded(text)).translate(_SPELLINGS).split())


def _includes(text: str, phrase: str) -> bool:
    """Return whether a text has a phrase that is not a part of a word or of a number."""
    start = text.find(phrase)
    while phrase and start >= 0:
        end = start + len(phrase)
        before, after = text[max(0, start - 2) : start], text[end : end + 3]
        starts_inside = (_LETTER.match(phrase[0]) and _LETTER.match(before[-1:])) or (
            phrase[0].isdigit() and _NUMBER_BEFORE.search(before)
        )
        ends_inside = (_LETTER.match(phrase[-1]) and _ENDING.match(after)) or (
            phrase[-1].isdigit() and _NUMBER_AFTER.match(after)
        )
        if not (starts_inside or ends_inside):
            return True
        start = text.find(phrase, start + 1)
    return False


def _matches(pattern: str, text: str) -> bool:
    """Return whether a regular expression is in a text. RE2 takes linear time for every pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = unicodedata.normalize("NFKC", text)
    # The pattern may want the underscores, as in "__init__".
    spelled = [" ".join(one.translate(_SPELLINGS).split()) for one in (plain, _EMPHASIS.sub("", plain))]
    return bool(pc.any(pc.match_substring_regex(pa.array(spelled), pattern, ignore_case=True)).as_py())


def address(url: str) -> str:
    """Return an address without scheme, fragment, case of the host, percent encoding and a slash at its end."""
    without_fragment = _SCHEME.sub("", url.strip(), count=1).partition("#")[0]
    host_and_path, _, query = without_fragment.partition("?")
    host, _, path = host_and_path.partition("/")
    page = f"{host.lower()}/{unquote(path)}".rstrip("/")
    return f"{page}?{query}" if query else page


def addresses_in(text: str) -> set[str]:
    """Return the addresses in a text, also in Markdown and HTML, with or without scheme."""
    addresses = set()
    for word in _SEPARATORS.split(text):
        if 3 < len(word) <= _MAX_ADDRESS:
            scheme = re.search(r"https?://", word, re.IGNORECASE)
            # "see:https://…", and languages without spaces.
            trimmed = (word[scheme.start() :] if scheme else word).strip(_AROUND)
            # The parenthesis of "example.com/a_(b)" belongs to the address.
            if trimmed.count("(") > trimmed.count(")"):
                trimmed += ")"
            if is_address(trimmed):
                addresses.add(address(trimmed))
    return addresses


def is_address(text: str) -> bool:
    """Return whether a text can be an address: one word with a scheme or a dot."""
    is_word = len(text) <= _MAX_ADDRESS and not _SEPARATORS.search(text)
    return is_word and ("." in text or "://" in text)
