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
