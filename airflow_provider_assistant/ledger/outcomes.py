"""Claims, their outcomes, and how an outcome changes an entry. Nothing here does I/O."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from airflow_provider_assistant.api.replies import ApiReply, CreatedDocument
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.document_groups import DocumentGroup
from airflow_provider_assistant.ledger.entries import LedgerEntry
from airflow_provider_assistant.ledger.schema import NOT_CREATED, Outcome
from airflow_provider_assistant.texts import storable


class Claim(NamedTuple):
    """
    Claim a key: its document is about to be sent.

    :param entry: Ledger entry of the key before the claim; None if it had none.
    :param group: None if the document has none.
    :param details: Values of the further columns of a chat request or rating.
    :param content_hash: Content hash of what is about to be sent; None if it does not matter.
    """

    key: str
    label: str
    entry: LedgerEntry | None
    group: DocumentGroup | None = None
    details: Sequence[Any] | None = None
    content_hash: str | None = None

    @property
    def sent_hash(self) -> str | None:
        """Content hash of the document if it exists after all; None if it may have other content."""
        return _sent_hash(self.entry, self.content_hash)


class ClaimOutcome(NamedTuple):
    """
    Hold the outcome of a claim.

    :param outcome: ``created``, ``ambiguous``, ``rejected`` by the service, or ``failed``.
    :param content_hash: Content hash of what was sent.
    :param created_id: Id of the new document or chat request; None if the service returned none.
    :param http_status: HTTP status of the last response; None if there was none.
    :param attempts: Number of requests sent.
    :param ambiguous: Number of those requests that may have created another document.
    :param status: Status word of a new document, see :func:`.status_word`; None if it has none.
    """

    claim: Claim
    outcome: Outcome
    content_hash: str
    created_id: str | None = None
    http_status: int | None = None
    attempts: int = 1
    ambiguous: int = 0
    error: str | None = None
    status: str | None = None


def outcome_of(error: AssistantError) -> Outcome:
    """
    Return the outcome of a request that failed.

    :return: ``ambiguous`` if the effect may have happened, ``rejected`` if the service rejected it, otherwise
        ``failed``.
    """
    if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
        return "ambiguous"
    if isinstance(error, AssistantBadRequestError):
        return "rejected"
    return "failed"


def outcome_of_reply(claim: Claim, content_hash: str, reply: ApiReply) -> ClaimOutcome:
    """Return the outcome of a successful request."""
    info = reply.call_info
    status = None
    if isinstance(reply, CreatedDocument):
        status = reply.status
    return ClaimOutcome(
        claim=claim,
        outcome="created",
        content_hash=content_hash,
        created_id=reply.created_id,
        http_status=info.status,
        attempts=info.attempts,
        ambiguous=info.ambiguous,
        status=status,
    )


def outcome_of_error(
    claim: Claim,
    content_hash: str,
    error: AssistantError,
    outcome: Outcome,
    ambiguous: int = 0,
) -> ClaimOutcome:
    """
    Return the outcome of a request that failed.

    :param outcome: See :func:`outcome_of`.
    :param ambiguous: Number of requests that may have created something. Default: that of one
        request.
    """
    if outcome == "ambiguous":
        ambiguous = max(1, ambiguous)
    return ClaimOutcome(
        claim=claim,
        outcome=outcome,
        content_hash=content_hash,
        # Not every error has an HTTP response.
        http_status=getattr(error, "status", None),
        ambiguous=ambiguous,
        error=str(error),
    )


class ChangedEntry(NamedTuple):
    """Values of an entry after an outcome was recorded."""

    outcome: Outcome
    content_hash: str | None
    created_id: str | None
    superseded: str | None
    sent_hash: str | None
    status: str | None


def changed_entry(new: ClaimOutcome) -> ChangedEntry:
    """
    Return the entry of a claim as its outcome changes it.

    If the document was not created, the entry keeps the previous document.
    """
    before = new.claim.entry
    if new.outcome == "created":
        return ChangedEntry(
            outcome="created",
            content_hash=new.content_hash,
            created_id=new.created_id,
            superseded=_superseded_after_creation(before),
            sent_hash=None,
            status=None if new.status is None else storable(new.status),
        )
    sent_hash = None
    if new.outcome == "ambiguous":
        sent_hash = _sent_hash(before, new.content_hash)
    if before is None:
        return ChangedEntry(
            outcome=new.outcome,
            content_hash=None,
            created_id=None,
            superseded=None,
            sent_hash=sent_hash,
            status=None,
        )
    outcome: Outcome = new.outcome
    if outcome in NOT_CREATED and before.state == "ambiguous":
        # An earlier attempt may have created the document although this one did not.
        outcome = "ambiguous"
        sent_hash = before.sent_hash
    elif outcome in NOT_CREATED and before.content_hash is not None:
        # The previous document is still on the site.
        outcome = "created"
    return ChangedEntry(
        outcome=outcome,
        content_hash=before.content_hash,
        created_id=before.created_id,
        superseded=before.superseded,
        sent_hash=sent_hash,
        status=before.status,
    )


def _sent_hash(before: LedgerEntry | None, content_hash: str | None) -> str | None:
    """
    Return the content hash of a document that a request may have created.

    :param before: Ledger entry before the request.
    :param content_hash: Content hash of the request.
    :return: None if an earlier request may have created a document with other content.
    """
    if before is None or before.state != "ambiguous" or before.sent_hash == content_hash:
        return content_hash
    return None


def _superseded_after_creation(before: LedgerEntry | None) -> str | None:
    """Return a key's superseded ids, as JSON, after a new document was created."""
    if before is None:
        return None
    if before.content_hash is None or before.created_id is None:
        # The site had no earlier document, or its id is not known.
        return before.superseded
    superseded_ids = json.loads(before.superseded or "[]")
    superseded_ids.append(before.created_id)
    return json.dumps(superseded_ids)
