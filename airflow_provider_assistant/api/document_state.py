"""
Decide whether a document of the service is in use.

A service may keep a document that it does not use for answers: a draft, one that it still processes, or one that it
could not process. The API's specification does not show the fields of a document, so a connection can name the field
of the status, and add words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from airflow_provider_assistant.api.fields import ENVELOPES, find, find_as, is_acknowledgement, layers, text_of
from airflow_provider_assistant.api.status import Words, folded
from airflow_provider_assistant.texts import escaped

# "active": in use. "other": a status word that is not known. "unknown": no status at all.
DocumentState: TypeAlias = Literal["active", "draft", "processing", "failed", "other", "unknown"]

# Why a created document in one of these states needs attention.
NOT_IN_USE: dict[DocumentState, str] = {
    "draft": "the service stored it and does not use it",
    "failed": "the service stored it and could not process it",
    "other": "it is not known whether the service uses it",
}
# Maximum length of a status word, because it is written to logs and to the ledger.
WORD_LENGTH = 100
# Envelopes of the reply to a create, and of an item of a list.
DOCUMENT_ENVELOPES, ITEM_ENVELOPES = ("document", *ENVELOPES), ("document", "attributes")
# A field with true or false, such as the last two, means active or draft.
STATUS_FIELDS = ("document_status", "status", "state", "active", "is_active")
# Words that acknowledge the request for a document, and do not describe it.
_RECEIPTS = frozenset({"accepted", "added", "created", "done", "received", "saved", "stored", "updated"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class DocumentWords(Words):
    """Status words of documents: in use, stored and not used, not ready yet, and not processable."""

    active: frozenset[str] = _words(
        "active activated enabled live online published ready available complete completed finished succeeded "
        "embedded imported indexed ingested processed synced trained"
    )
    draft: frozenset[str] = _words(
        "draft drafted unpublished notpublished inreview pendingreview unapproved inactive notactive deactivated "
        "disabled off offline paused suspended archived hidden deleted removed trashed"
    )
    processing: frozenset[str] = _words(
        "processing inprogress running started preparing notready pending queued scheduled waiting uploaded uploading "
        "chunking crawling embedding importing indexing ingesting parsing reindexing syncing training"
    )
    failed: frozenset[str] = _words(
        "failed failure error errored timedout timeout aborted cancelled canceled rejected expired invalid unsupported "
        "corrupt corrupted"
    )

    def state(self, word: str) -> DocumentState:
        """Return the state that a status word means; ``other`` if it is not one of these words."""
        return cast("DocumentState", self.meaning(word) or "other")


DEFAULT_WORDS = DocumentWords()


def document_id_of(record: Any, envelopes: tuple[str, ...] = DOCUMENT_ENVELOPES) -> str | None:
    """Return the id of the document that a reply to a create, or an item of a list, describes; None if it has none."""
    document_id = find(record, "document_id", "documentId", envelopes=envelopes)
    for json_object in layers(record, envelopes):
        document_id = document_id or find(json_object, "id", "uuid", "_id", envelopes=())
    return document_id


def status_word(
    record: Any, status_field: str | None = None, envelopes: tuple[str, ...] = DOCUMENT_ENVELOPES
) -> str | None:
    """
    Return the status of the document that a reply or an item of a list describes; None if it has none.

    The word is as the service sent it, printable and cut. A field with true or false is ``active`` or ``inactive``.

    :param status_field: The field with the status. Default: the usual fields.
    """
    if status_field:
        found = find_as(_word, record, status_field, envelopes=envelopes)
    else:
        found = find_as(_describing, record, *STATUS_FIELDS, envelopes=envelopes)
    return escaped(found[:WORD_LENGTH]) if found else None


def needs_attention(status: str | None, words: DocumentWords = DEFAULT_WORDS) -> str | None:
    """Return why a created document with this status needs attention, or None."""
    if status is None:
        return None
    reason = NOT_IN_USE.get(words.state(status))
    return f"created with the status {status!r}: {reason}" if reason else None


def _word(value: Any) -> str | None:
    if isinstance(value, bool):
        return "active" if value else "inactive"
    return text_of(value)


def _describing(value: Any) -> str | None:
    """Return a word that describes a document, and does not only acknowledge the request."""
    word = _word(value)
    if word is None or is_acknowledgement(word) or word.strip().isdecimal() or folded(word) in _RECEIPTS:
        return None
    return word
