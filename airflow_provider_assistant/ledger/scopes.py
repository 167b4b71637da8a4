"""
Scopes of the ledger: what a key is unique within.

The fields of a scope are columns of its entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class DocumentScope:
    """
    Identify the documents of one site and endpoint.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    :param endpoint: ``documents/qa``, ``documents/text`` or ``documents``, which is the kind of document.
    :param namespace: Separates loads whose keys overlap.
    """

    site_url: str
    endpoint: str
    namespace: str | None = None

    def __str__(self) -> str:
        if self.namespace is None:
            return f"{self.site_url}/{self.endpoint}"
        return f"{self.site_url}/{self.endpoint}#{self.namespace}"


@dataclass(frozen=True, slots=True)
class ChatScope:
    """
    Identify the chat requests of one chat batch, or all single chat requests of a site.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    :param mode: ``async`` or ``sync``.
    :param batch: Name that identifies the chat batch; None for single requests.
    """

    site_url: str
    mode: str = "async"
    batch: str | None = None

    def __str__(self) -> str:
        if self.batch is None:
            return f"{self.site_url}/chat?{self.mode}"
        return f"{self.site_url}/chat?{self.mode}={self.batch}"


@dataclass(frozen=True, slots=True)
class RatingScope:
    """
    Identify the ratings of one site.

    :param site_url: URL of the site, see :meth:`AssistantHook.site_url`.
    """

    site_url: str

    def __str__(self) -> str:
        return f"{self.site_url}/chat/feedback"


Scope: TypeAlias = DocumentScope | ChatScope | RatingScope
