"""Scopes of the ledger: what a key is unique within, for documents and for questions of chat batches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """
    Identify the documents of one site and endpoint.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    :param endpoint: ``documents/qa``, ``documents/text`` or ``documents``, which is the kind of document.
    :param namespace: Separates loads whose keys overlap. Default: none.
    """

    site_url: str
    endpoint: str
    namespace: str | None = None

    def columns(self) -> dict[str, str | None]:
        """Return the values of the scope's columns in the ledger."""
        return asdict(self)

    def __str__(self) -> str:
        namespace = "" if self.namespace is None else f"#{self.namespace}"
        return f"{self.site_url}/{self.endpoint}{namespace}"


@dataclass(frozen=True, slots=True)
class QuestionScope:
    """
    Identify the questions of one chat batch.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    :param mode: ``async`` or ``sync``.
    :param batch: Name that identifies the chat batch.
    """

    site_url: str
    mode: str
    batch: str

    def columns(self) -> dict[str, str | None]:
        """Return the values of the scope's columns in the ledger."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.site_url}/chat?{self.mode}={self.batch}"


BatchScope: TypeAlias = DocumentScope | QuestionScope


def parse_document_scope(text: str) -> DocumentScope | None:
    """
    Return the scope of documents that was written as a text, as schema versions before 6 only had it.

    :param text: The scope as text.
    :return: The scope; None if the text has another form.
    """
    url, _, namespace = text.partition("#")
    for endpoint in ("documents/qa", "documents/text", "documents"):
        if url.endswith(f"/{endpoint}"):
            return DocumentScope(url.removesuffix(f"/{endpoint}"), endpoint, namespace or None)
    return None


def parse_question_scope(text: str) -> QuestionScope | None:
    """
    Return the scope of questions that was written as a text, as schema versions before 6 only had it.

    :param text: The scope as text.
    :return: The scope; None if the text has another form.
    """
    site_url, separator, batch = text.partition("/chat?")
    mode, equals, name = batch.partition("=")
    return QuestionScope(site_url, mode, name) if separator and equals else None
