"""Words, queries and passages for the full-text search with SQLite."""

from __future__ import annotations

import re
import unicodedata

MAX_TERMS = 32

_STOP_WORDS = """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can could d did do does doing don down during each few for from further
    get give had has have having he her here hers him his how i if in into is it its itself just
    kindly know let like ll m many may me might more most much must my need no nor not now of off
    on once one only or other our out over own per please re s same shall she should so some such
    t tell than that the their them then there these they this those through to too under until
    up us use used using ve very want was way we were what when where which while who whom whose
    why will with within without won would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
# Words that refer to something in the previous message.
_REFERRING_WORDS = frozenset(
    "he her him it its one ones same she that their them there these they this those".split()  # noqa: SIM905
)
_FOLLOW_UP_START = re.compile(
    r"\s*(and|also|but|or|then|so|what about|how about|what if)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
# Scripts without spaces are indexed character by character; otherwise the tokenizer would see one long word.
_UNSPACED_CHARACTER = re.compile(r"([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001 (East Asian)


def indexable(text: str) -> str:
    """Compose the characters of a text, and put spaces between those of scripts without spaces."""
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    return _UNSPACED_CHARACTER.sub(r" \1 ", composed)


def terms(text: str) -> tuple[str, ...]:
    """Return the content words of a question in order, without repetitions."""
    words = _WORD.findall(indexable(text).lower())
    # A dict keeps the order and drops repetitions.
    content_words = dict.fromkeys(word.strip("_") for word in words if word not in STOP_WORDS)
    content_words.pop("", None)
    return tuple(content_words)[:MAX_TERMS]


def is_follow_up(message: str) -> bool:
    """Return whether a message such as ``and its default?`` continues the previous one."""
    words = _WORD.findall(message.lower())
    is_continuation = bool(_FOLLOW_UP_START.match(message))
    has_reference = not _REFERRING_WORDS.isdisjoint(words)
    # A message with many content words is a question of its own.
    return (is_continuation or has_reference) and len(terms(message)) <= 3


def query(words: tuple[str, ...]) -> str:
    """Return the full-text query that matches any of the words.

    The words are quoted, so that SQLite does not interpret ``NOT`` or ``NEAR`` as operators.
    """
    return " OR ".join(f'"{word}"' for word in words)


def passage(text: str, words: tuple[str, ...], limit: int = 500) -> str:
    """Return the sentences of a text that contain most of the words.

    :param limit: maximum number of characters of the passage.
    """
    sentences = [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]
    if not sentences:
        return text.strip()[:limit]
    stems = {_stem(word) for word in words}
    hit_counts = [_count_hits(stems, sentence) for sentence in sentences]
    # Of sentences with the same number of hits, index() returns the first one.
    best = hit_counts.index(max(hit_counts))
    chosen = sentences[best][:limit]
    # The next two sentences often explain the first one.
    for sentence in sentences[best + 1 : best + 3]:
        if len(chosen) + len(sentence) >= limit:
            break
        chosen = f"{chosen} {sentence}"
    return chosen


def _stem(word: str) -> str:
    """Return the beginning of a word: inflections differ in their endings."""
    if len(word) < 5:
        return word
    return word[: max(4, len(word) - 2)]


def _count_hits(stems: set[str], sentence: str) -> int:
    lower_sentence = sentence.lower()
    return sum(stem in lower_sentence for stem in stems)
