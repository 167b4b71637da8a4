"""The assistant: answers questions with passages of the documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox import search

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from airflow_provider_assistant.sandbox.chats import Chats
    from airflow_provider_assistant.sandbox.documents import Documents
    from airflow_provider_assistant.sandbox.faults import Faults

_CANDIDATES = 8
_SOURCES = 3
_UNKNOWN_BY_LANGUAGE = {
    "en": "I don't know. None of the documents I was given says anything about that.",
    "de": "Das weiß ich nicht. Keines meiner Dokumente sagt etwas dazu.",
    "es": "No lo sé. Ninguno de mis documentos dice nada al respecto.",
    "fr": "Je ne sais pas. Aucun de mes documents n'en parle.",
    "ru": "Я не знаю. Ни один из моих документов об этом не говорит.",  # noqa: RUF001
}


_FAILURE = {"code": "answer_failed", "message": "The assistant could not answer this message."}


@dataclass(frozen=True, slots=True)
class _FoundDocument:
    kind: str
    content: str
    score: float
    source: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and the documents that it is based on, best first."""

    text: str
    sources: list[dict[str, Any]]


class Assistant:
    """Answer questions from the documents, with the topic of the session as context."""

    def __init__(
        self,
        documents: Documents,
        chats: Chats,
        faults: Faults,
        clock: Callable[[], float],
    ) -> None:
        self._documents = documents
        self._chats = chats
        self._faults = faults
        self._clock = clock

    def finish(self, request: sqlite3.Row, seconds: float = 0.0) -> None:
        """Answer a chat request, or let it fail, and record the result.

        :param seconds: time until the answer is complete.
        """
        completed_at = self._clock() + seconds
        if self._faults.fails(request["message"]):
            self._chats.fail(request["id"], _FAILURE, completed_at)
            return
        answer = self.reply(
            site=request["site"],
            session_id=request["session_id"],
            message=request["message"],
            language=request["language"],
        )
        text = self._faults.cut(answer.text)
        self._chats.complete(request["id"], text, answer.sources, completed_at)

    def reply(self, site: str, session_id: str, message: str, language: str) -> Answer:
        """Answer a message in its session."""
        words = search.terms(message)
        documents = self._search(site, words)
        if not documents and search.is_follow_up(message):
            topic = self._chats.topic(site, session_id)
            without_repetitions = dict.fromkeys([*topic, *words])
            words = tuple(without_repetitions)[: search.MAX_TERMS]
            documents = self._search(site, words)
        if not documents:
            # The language may name a region, such as pt-BR.
            short_language = language[:2].lower()
            text = _UNKNOWN_BY_LANGUAGE.get(short_language, _UNKNOWN_BY_LANGUAGE["en"])
            return Answer(text, [])
        self._chats.set_topic(site, session_id, words)
        best = documents[0]
        text = best.content
        if best.kind != "qa":
            text = search.passage(best.content, words)
        return Answer(text, [document.source for document in documents[:_SOURCES]])

    def _search(self, site: str, words: tuple[str, ...]) -> list[_FoundDocument]:
        """Return the relevant documents, best first.

        A document's score is the share of the words that it contains, times its BM25 relative to the best document's.
        So rare words count more, and so do documents that cover the whole question.
        """
        if not words:
            return []
        rows = self._documents.find(site, words, _CANDIDATES, self._clock())
        relevant = []
        for row in rows:
            contained = sum(self._documents.holds(row["n"], word) for word in words)
            share = contained / len(words)
            if share < self._faults.settings.min_relevance:
                continue
            best_bm25 = rows[0]["bm25"]  # the rows are in this order
            score = round(share * row["bm25"] / best_bm25, 4)
            document = _FoundDocument(
                kind=row["kind"],
                content=row["content"],
                score=score,
                source={"document_id": row["id"], "title": row["title"], "score": score},
            )
            relevant.append(document)
        return sorted(relevant, key=lambda document: document.score, reverse=True)
