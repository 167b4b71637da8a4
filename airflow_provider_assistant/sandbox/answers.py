"""Answers: the stored document that has the most words of the question."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter

from airflow_provider_assistant.sandbox.store import Document

_FUNCTION_WORDS = """
    a about an and any are as at be been by can could did do does for from get had has have he her his how i if in is
    it its me my no not of on or our she should so that the their them there they this to was we were what when where
    which who why will with would you your
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
# A message such as "And its price?" belongs to the earlier ones of the conversation.
_FOLLOW_UP = re.compile(
    r"^(and|but|or|so|what about|how about)\b|\b(it|its|they|their|them|those|that)\b", re.IGNORECASE
)
# Scripts without spaces have words of one character.
_WORD = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W_\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_MIN_SHARE = 0.3
_UNKNOWN_BY_LANGUAGE = {
    "en": "I don't know. None of the documents I was given says anything about that.",
    "de": "Das weiß ich nicht. Keines meiner Dokumente sagt etwas dazu.",
}


@functools.lru_cache(maxsize=100_000)
def words_of(text: str) -> frozenset[str]:
    """Return the content words of a text, without most endings."""
    words = set(_WORD.findall(text.lower())) - _STOP_WORDS
    return frozenset(_stem(word) for word in words)


def _stem(word: str) -> str:
    """Return the beginning of a word: inflections differ in their endings."""
    if len(word) < 5:
        return word
    return word[: max(4, len(word) - 2)]


def best_document(message: str, documents: list[Document]) -> tuple[Document | None, float]:
    """Return the document with the most words of a message, and the share of words that it has.

    Rare words count more, those of a title or a question twice. Of equal documents, the shortest counts.
    """
    question = words_of(message)
    candidates = []
    for document in documents:
        head = words_of(f"{document.title} {document.question or ''}")
        words = head | words_of(document.content)
        if len(question & words) >= _MIN_SHARE * max(1, len(question)):
            candidates.append((document, head, words))
    frequency = Counter(word for _, _, words in candidates for word in question & words)
    ranked = []
    for document, head, words in candidates:
        weights = [1 / frequency[word] for word in question & words]
        weights += [1 / frequency[word] for word in question & head]
        weight = math.fsum(weights)
        ranked.append((weight, -len(words), document))
    if not ranked:
        return None, 0.0
    _, _, best = max(ranked, key=lambda rank: rank[:2])
    found = words_of(f"{best.title} {best.question or ''}") | words_of(best.content)
    return best, round(len(question & found) / len(question), 4)


def is_follow_up(message: str) -> bool:
    """Return whether a message refers to an earlier one."""
    return _FOLLOW_UP.search(message) is not None


def passage(document: Document, message: str, limit: int = 500) -> str:
    """Return the answer that a document has: that of a question, or its sentences from the best one on."""
    sentences = [sentence for sentence in _SENTENCE_END.split(document.content.strip()) if sentence]
    if document.kind == "qa" or not sentences:
        return document.content or document.title
    hits = [len(words_of(message) & words_of(sentence)) for sentence in sentences]
    first = hits.index(max(hits))
    return " ".join(sentences[first : first + 3])[:limit]


def unknown(language: str | None) -> str:
    """Return the answer to a question that no document answers; in English by default."""
    return _UNKNOWN_BY_LANGUAGE.get((language or "en")[:2].lower(), _UNKNOWN_BY_LANGUAGE["en"])
