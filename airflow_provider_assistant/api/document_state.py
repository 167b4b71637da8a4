"""
Decide whether a document of the service is in use.

A service may keep a document that it does not use for answers: a draft, one that it still
processes, or one that it could not process. The API's specification does not show the fields of a
document, so the words and fields below are common ones, and a connection can add more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.api.json_objects import (
    document_id_of,
    first_text,
    is_acknowledgement,
    nested_objects,
    text_of,
)
from airflow_provider_assistant.texts import escaped

# "active": in use. "other": a status word that is not known. "unknown": no status at all.
DocumentState: TypeAlias = Literal["active", "draft", "processing", "failed", "other", "unknown"]

# Why a created document in one of these states needs attention.
NOT_IN_USE: dict[DocumentState, str] = {
    "draft": "the service stored it and does not use it",
    "failed": "the service stored it and could not process it",
    "other": "it is not known whether the service uses it",
}
# A document with several statuses has the first of these states.
WORST_FIRST: tuple[DocumentState, ...] = ("failed", "draft", "other", "processing", "active")
# Maximum length of a status word, because it is written to logs and to the ledger.
WORD_LENGTH = 100

STATUS_FIELDS = (
    *("document_status", "publication_status", "processing_status"),
    *("indexing_status", "index_status", "status", "state"),
)
# Fields of an object that is the value of one of STATUS_FIELDS.
WORD_FIELDS = ("value", "name", "status", "state", "code")
# Fields with the id of a document.
ID_FIELDS = ("document_id", "id", "uuid")


class _Flag(NamedTuple):
    """Hold the status words that a field with true or false stands for; None if it says nothing."""

    if_true: str
    if_false: str | None


_ACTIVE = _Flag("active", "inactive")
_READY = _Flag("ready", "not ready")
_DRAFT = _Flag("draft", "active")
# If false, the document may still be a draft.
_ARCHIVED = _Flag("archived", None)
_DISABLED = _Flag("disabled", None)
_FLAGS = {
    **dict.fromkeys(("active", "is_active", "enabled", "is_enabled"), _ACTIVE),
    **dict.fromkeys(("published", "is_published", "live", "is_live"), _ACTIVE),
    **dict.fromkeys(("ready", "is_ready", "processed", "is_processed"), _READY),
    **dict.fromkeys(("indexed", "is_indexed"), _READY),
    **dict.fromkeys(("draft", "is_draft"), _DRAFT),
    **dict.fromkeys(("archived", "is_archived"), _ARCHIVED),
    **dict.fromkeys(("disabled", "is_disabled"), _DISABLED),
}
# Words that acknowledge the request for a document, and do not describe it.
_RECEIPTS = frozenset(
    ("accepted", "added", "created", "done", "received", "saved", "stored", "updated"),
)


@dataclass(frozen=True, slots=True)
class DocumentWords:
    """
    Status words of documents, compared without regard to case, spaces, underscores and hyphens.

    :param active: Words for a document that is in use. Default: ``active``, ``published``,
        ``indexed``, ``ready`` and other common words.
    :param draft: Words for a document that is stored and not used. Default: ``draft``,
        ``inactive``, ``archived`` and other common words.
    :param processing: Words for a document that is not ready yet. Default: ``processing``,
        ``pending``, ``uploaded`` and other common words.
    :param failed: Words for a document that the service could not process. Default: ``failed``,
        ``error``, ``rejected`` and other common words.
    """

    active: frozenset[str] = frozenset(
        {
            *("active", "activated", "enabled", "live", "online", "on", "inuse", "published"),
            *("ready", "available", "complete", "completed", "finished", "succeeded"),
            *("embedded", "imported", "indexed", "ingested", "processed", "synced", "trained"),
        }
    )
    draft: frozenset[str] = frozenset(
        {
            *("draft", "drafted", "unpublished", "notpublished"),
            *("inreview", "pendingreview", "unapproved"),
            *("inactive", "notactive", "deactivated", "disabled", "off", "offline"),
            *("paused", "suspended", "archived", "hidden", "deleted", "removed", "trashed"),
        }
    )
    processing: frozenset[str] = frozenset(
        {
            *("processing", "inprogress", "running", "started", "preparing", "notready"),
            *("pending", "queued", "scheduled", "waiting", "uploaded", "uploading"),
            *("chunking", "crawling", "embedding", "importing", "indexing", "ingesting"),
            *("parsing", "reindexing", "syncing", "training"),
        }
    )
    failed: frozenset[str] = frozenset(
        {
            *("failed", "failure", "error", "errored", "timedout", "aborted"),
            *("cancelled", "canceled", "rejected", "invalid", "unsupported"),
            *("corrupt", "corrupted"),
        }
    )

    def extended(
        self,
        active: Iterable[str] = (),
        draft: Iterable[str] = (),
        processing: Iterable[str] = (),
        failed: Iterable[str] = (),
    ) -> DocumentWords:
        """
        Return these words with more added. A word of one set is removed from the others.

        :param active: Further words for a document that is in use. Default: none.
        :param draft: Further words for a document that is stored and not used. Default: none.
        :param processing: Further words for a document that is not ready yet. Default: none.
        :param failed: Further words for a document that the service could not process. Default:
            none.
        """
        more_active = _folded_words(active)
        more_draft = _folded_words(draft)
        more_processing = _folded_words(processing)
        more_failed = _folded_words(failed)
        more = more_active | more_draft | more_processing | more_failed
        return DocumentWords(
            active=(self.active - more) | more_active,
            draft=(self.draft - more) | more_draft,
            processing=(self.processing - more) | more_processing,
            failed=(self.failed - more) | more_failed,
        )

    def state(self, word: str) -> DocumentState:
        """
        Return the state that a status word means.

        :param word: The word as the service sent it.
        :return: ``other`` if it is not one of these words.
        """
        folded = _folded(word)
        if folded in self.active:
            return "active"
        if folded in self.draft:
            return "draft"
        if folded in self.processing:
            return "processing"
        if folded in self.failed:
            return "failed"
        return "other"


DEFAULT_WORDS = DocumentWords()


def document_state(
    record: Any,
    words: DocumentWords = DEFAULT_WORDS,
    status_field: str | None = None,
) -> DocumentState:
    """
    Return the state of a document.

    If it has several statuses, the worst counts: it is active if all say so.

    :param record: The reply that describes a created document, or an item of a list; any JSON.
    :param words: Status words. Default: common ones.
    :param status_field: The only field that counts. Default: common fields.
    """
    word = status_word(record, status_field, words)
    return words.state(word) if word else "unknown"


def status_word(
    record: Any,
    status_field: str | None = None,
    words: DocumentWords = DEFAULT_WORDS,
) -> str | None:
    """
    Return the status that decides on the state of a document; ``words.state`` returns the state.

    :param record: As for :func:`document_state`.
    :param status_field: As for :func:`document_state`.
    :param words: As for :func:`document_state`.
    :return: The word as the service sent it, printable and cut to WORD_LENGTH characters; for a
        field with true or false, a word such as ``inactive`` or ``not ready``. None if the state is
        ``unknown``.
    """
    objects = nested_objects(record)
    document_id = document_id_of(record)
    found: list[str] = []
    if document_id is not None:
        for json_object in objects:
            # The id may be in several objects.
            if _id_of(json_object) == document_id:
                found += _statuses(json_object, status_field)
    if not found:
        found = _statuses_without_id(objects, status_field)
    if len(found) > 1:
        found.sort(key=lambda word: WORST_FIRST.index(words.state(word)))
    return escaped(found[0]) if found else None


def status_fields(record: Any, words: DocumentWords = DEFAULT_WORDS) -> list[str]:
    """
    Return the fields of a document that :func:`status_word` reads without a given field.

    :param record: As for :func:`document_state`.
    :param words: As for :func:`document_state`.
    """
    fields = []
    for name in (*STATUS_FIELDS, *_FLAGS):
        word = status_word(record, name, words)
        if word and (name in _FLAGS or _describes_document(word)):
            fields.append(name)
    return fields


def needs_attention(status: str | None, words: DocumentWords = DEFAULT_WORDS) -> str | None:
    """
    Return why a created document needs attention, or None.

    :param status: Its status word; None if it has none.
    :param words: Status words. Default: common ones.
    """
    if status is None:
        return None
    reason = NOT_IN_USE.get(words.state(status))
    return f"created with the status {status!r}: {reason}" if reason else None


def _statuses_without_id(
    objects: list[Mapping[str, Any]],
    status_field: str | None,
) -> list[str]:
    """Return the statuses of the first object without an id; other ids are of other things."""
    for json_object in objects:
        if _id_of(json_object) is None:
            statuses = _statuses(json_object, status_field)
            if statuses:
                return statuses
    return []


def _id_of(json_object: Mapping[str, Any]) -> str | None:
    return first_text((json_object,), ID_FIELDS)


def _statuses(json_object: Mapping[str, Any], status_field: str | None) -> list[str]:
    """Return all status words of one object."""
    statuses: list[str] = []
    names = (status_field,) if status_field else STATUS_FIELDS
    for name in names:
        if name in json_object:
            word = _word(json_object[name])
            # A named field may hold any word; others may hold an acknowledgement or a number.
            if word and (status_field or _describes_document(word)):
                statuses.append(word)
    for name, value in json_object.items():
        if name in _FLAGS and status_field in (None, name):
            word = _word_of_flag(_FLAGS[name], value)
            if word:
                statuses.append(word)
    return statuses


def _word(value: Any) -> str | None:
    """Return the word of a status field. Its value may be an object that holds the word."""
    word = text_of(value)
    if isinstance(value, dict):
        word = first_text((value,), WORD_FIELDS)
    return word[:WORD_LENGTH] if word else None


def _describes_document(word: str) -> bool:
    if is_acknowledgement(word) or word.strip().isdecimal():
        return False
    return _folded(word) not in _RECEIPTS


def _word_of_flag(flag: _Flag, value: Any) -> str | None:
    if value in (True, 1) or value == "true":
        return flag.if_true
    if value in (False, 0) or value == "false":
        return flag.if_false
    return None


def _folded_words(words: Iterable[str]) -> set[str]:
    return {_folded(word) for word in words}


def _folded(word: str) -> str:
    return re.sub(r"[\s_-]+", "", word).casefold()
