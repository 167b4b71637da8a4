"""Claims and outcomes of one scope, recorded in groups of many rows."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantError,
    AssistantLedgerError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import stream, transaction
from airflow_provider_assistant.ledger.document_groups import DocumentGroup
from airflow_provider_assistant.ledger.entries import EntryReader, LedgerEntry
from airflow_provider_assistant.ledger.group_sql import claim_again_statement, group_sql
from airflow_provider_assistant.ledger.leases import Lease, LeaseSettings
from airflow_provider_assistant.ledger.schema import NOT_CREATED, Outcome, RunRef, chat_requests, encoded_id
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.texts import storable

log = logging.getLogger(__name__)


class Claim(NamedTuple):
    """
    Claim a key: its document is about to be sent.

    :param entry: Ledger entry of the key before the claim; None if it had none.
    :param group: None if the document has none.
    :param details: Values of the further columns of a chat request or rating.
    """

    key: str
    label: str
    entry: LedgerEntry | None
    group: DocumentGroup | None = None
    details: Sequence[Any] | None = None


class ClaimOutcome(NamedTuple):
    """
    Hold the outcome of a claim.

    :param outcome: ``created``, ``ambiguous``, ``rejected`` by the service, or ``failed``.
    :param content_hash: Content hash of what was sent.
    :param created_id: Id of the new document or chat request; None if the service returned none.
    :param http_status: HTTP status of the last response; None if there was none.
    :param attempts: Number of requests sent.
    :param ambiguous: Number of those requests that may have created another document.
    """

    claim: Claim
    outcome: Outcome
    content_hash: str
    created_id: str | None = None
    http_status: int | None = None
    attempts: int = 1
    ambiguous: int = 0
    error: str | None = None


def key_of(*parts: str | None) -> str:
    """
    Return the key of an effect.

    :param parts: Values that identify the effect across retries.
    :return: Digest of the values, 32 hexadecimal digits.
    """
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def outcome_of(error: AssistantError) -> Outcome:
    """
    Return the outcome of a request that failed.

    :return: ``ambiguous`` if the effect may have happened, ``rejected`` if the service rejected it, otherwise
        ``failed``.
    """
    if isinstance(error, AssistantAmbiguousError | AssistantResponseError):
        return "ambiguous"
    return "rejected" if isinstance(error, AssistantBadRequestError) else "failed"


class ScopeLedger(EntryReader):
    """
    Keep the ledger of one scope for one try of one task: read its entries, claim keys, and record outcomes.

    :param site_id: Id of the site.

    The other parameters are those of :class:`.EntryReader`.
    """

    def __init__(
        self,
        engine: sa.Engine,
        table: sa.Table,
        *,
        scope: Scope,
        site_id: str,
        source: str,
        run: RunRef,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings = LeaseSettings(),  # noqa: B008 (immutable)
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(engine, table, scope=scope, source=source, run=run, now=now, leases=leases, details=details)
        self._lease = Lease(engine, self._token, run, leases)
        # Values that all claims of this try have.
        shared = {
            "scope": self._scope,
            **asdict(scope),
            "site_id": site_id,
            "source": self.source,
            "claim": self._token,
            **run.columns(),
        }
        self._shared = _storable(shared.values())
        self._details = tuple(details)
        self._group = group_sql(self._connection, table, (*shared, "claimed_at"), self._details)
        self._stored_id = encoded_id if table is chat_requests else storable
        self._claim_again = claim_again_statement(table, self._details)
        # Outcomes that could not be written yet.
        self._unwritten: list[ClaimOutcome] = []

    def commit_and_claim(
        self,
        outcomes: Collection[ClaimOutcome],
        claims: Collection[Claim],
        *,
        on_taken_over: Callable[[ClaimOutcome], None] = lambda _: None,
    ) -> set[str]:
        """
        Record outcomes and claim keys in one transaction.

        The first claims begin the lease of this task, which :meth:`release` and :meth:`close` end.

        :param on_taken_over: Called with each outcome that was not recorded, because the lease had expired and another
            run has taken the key over.
        :return: The keys that were claimed. The missing ones have been claimed by another task.
        :raises AssistantLedgerError: The database cannot be written; the transaction was rolled back.
        """
        if not (outcomes or claims):
            return set()
        if claims:
            self._lease.begin()
        new = {claim.key: claim for claim in claims if claim.entry is None}
        if new and any(one.claim.key in new for one in outcomes):
            # The source has changed since the preflight and repeats a key, which one statement cannot write twice.
            self.commit_and_claim(outcomes, (), on_taken_over=on_taken_over)
            outcomes = ()
        again = [claim for claim in claims if claim.entry is not None]

        def write(_: sa.Connection) -> tuple[list[ClaimOutcome], set[str]]:
            return self._write_group(outcomes, new, again)

        is_one = not again and self._group.is_one_statement(len(outcomes), len(new))
        taken_over, won = transaction(self._connection, write, writes=True, autocommit=is_one)
        for outcome in taken_over:
            on_taken_over(outcome)
        return won

    def release(self) -> None:
        """End the lease of this task. Claims without an outcome become ambiguous; later claims begin a new lease."""
        self._lease.release()

    def record(self, outcome: ClaimOutcome) -> None:
        """
        Record the outcome of one claim.

        If the database cannot be written, the outcome is kept in memory and written when the
        ledger is closed, so that the task does not lose the service's answer.
        """
        try:
            self.commit_and_claim([outcome], ())
        except AssistantLedgerError as error:
            log.warning(
                "The ledger cannot be written; the service has answered, and the outcome will be recorded when the "
                "task ends: %s",
                error,
            )
            self._unwritten.append(outcome)

    def close(self) -> None:
        """Write the outcomes that could not be written before, end the lease, and return the connection."""
        unwritten, self._unwritten = self._unwritten, []
        try:
            self.commit_and_claim(unwritten, ())
        except AssistantLedgerError:
            listed = ", ".join(outcome.claim.label for outcome in unwritten)
            log.exception("An effect is not recorded, and a retry of this task sends it again: %s", listed)
        try:
            self.release()
        finally:
            super().close()

    def adopt(self, is_seen: Callable[[str], bool]) -> int:
        """Assign this source the keys of others that it contains, and return their number."""
        c = self._table.c
        foreign = sa.select(c.key).where(c.scope == self._scope, c.source != self.source)
        keys = [key for (key,) in stream(self._connection, foreign) if is_seen(key)]
        self._change(keys, sa.update(self._table).values(source=self.source))
        return len(keys)

    def set_groups(self, groups: Mapping[str, DocumentGroup]) -> None:
        """
        Record the groups of documents of this source.

        :param groups: Group by key of the document. Keys of other sources, and keys without an entry, are ignored.
        """
        c = self._table.c
        is_own = (c.scope == self._scope, c.key == sa.bindparam("k"), c.source == self.source)
        change = (
            sa.update(self._table).where(*is_own).values(group_key=sa.bindparam("g"), group_label=sa.bindparam("l"))
        )
        # Tasks that change the same keys lock them in the same order, which avoids deadlocks.
        rows = [{"k": key, "g": group.key, "l": group.label} for key, group in sorted(groups.items())]
        if rows:
            transaction(self._connection, lambda connection: connection.execute(change, rows), writes=True)

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Apply one update to the entries of these keys in one transaction."""
        c, ordered = self._table.c, sorted(keys)

        def write(connection: sa.Connection) -> None:
            for start in range(0, len(ordered), PARAMETERS - 5):
                some = ordered[start : start + PARAMETERS - 5]
                connection.execute(change.where(c.scope == self._scope, c.key.in_(some)))

        transaction(self._connection, write, writes=True)

    def _write_group(
        self, outcomes: Collection[ClaimOutcome], new: Mapping[str, Claim], again: Collection[Claim]
    ) -> tuple[list[ClaimOutcome], set[str]]:
        """Return the outcomes whose keys another run has taken over, and the keys that were claimed."""
        now = self._now()
        moment = self._bulk.moment(now)
        rows = [self._row(outcome) for outcome in outcomes]
        fresh = [self._claim_row(claim) for claim in new.values()]
        is_complete = self._group.write((*self._shared, moment), moment, rows, fresh) == len(rows) + len(fresh)
        if again:
            self._connection.execute(self._claim_again, self._values_again(again, now))
        elif is_complete:
            return [], set(new)
        won = self._held([*new, *(claim.key for claim in again)], self._table.c.outcome == "claimed")
        if is_complete:
            return [], won
        recorded = self._held([one.claim.key for one in outcomes])
        return [one for one in outcomes if one.claim.key not in recorded], won

    def _row(self, outcome: ClaimOutcome) -> list[Any]:
        recorded = _recorded(outcome)
        row = self._claim_row(outcome.claim)
        row += [outcome.attempts, outcome.ambiguous, recorded.outcome]
        row += [recorded.content_hash, recorded.superseded, outcome.http_status]
        row += [outcome.error and storable(outcome.error), recorded.sent_hash]
        if self._created_id:
            row.append(recorded.created_id and self._stored_id(recorded.created_id))
        return row

    def _claim_row(self, claim: Claim) -> list[Any]:
        return [claim.key, storable(claim.label), *self._details_of(claim)]

    def _details_of(self, claim: Claim) -> Sequence[Any]:
        if not self._details:
            return ()
        return _storable(claim.group or claim.details or (None,) * len(self._details))

    def _values_again(self, claims: Collection[Claim], now: datetime) -> list[dict[str, Any]]:
        values = {
            "outcome": "claimed",
            "claim": self._token,
            # The preflight has checked that this source may own the key.
            "source": self.source,
            **self._run.columns(),
            "claimed_at": now,
        }
        found = []
        # Tasks that claim the same keys lock them in the same order, which avoids deadlocks.
        for claim in sorted(claims, key=lambda claim: claim.key):
            if claim.entry is None:
                continue
            same = {"s": self._scope, "k": claim.key, "c": claim.entry.claim, "o": claim.entry.outcome}
            details = dict(zip(self._details, self._details_of(claim), strict=True))
            found.append({**same, **values, **details})
        return found

    def _held(self, keys: Collection[str], *conditions: sa.ColumnElement[bool]) -> set[str]:
        """Return those of the keys whose latest claim belongs to this task, and that meet the conditions."""
        c = self._table.c
        mine = sa.select(c.key).where(c.scope == self._scope, c.key.in_(keys), c.claim == self._token, *conditions)
        return set(self._connection.scalars(mine)) if keys else set()


class _Recorded(NamedTuple):
    """What an outcome makes of its entry."""

    outcome: Outcome
    content_hash: str | None
    created_id: str | None
    superseded: str | None
    sent_hash: str | None


def _recorded(new: ClaimOutcome) -> _Recorded:
    """
    Return what an outcome makes of its entry.

    If the document was not created, the entry keeps the previous document. ``sent_hash`` is None if an earlier attempt
    made the entry ambiguous, because that attempt may have sent other content.
    """
    before = new.claim.entry
    if new.outcome == "created":
        return _Recorded("created", new.content_hash, new.created_id, _superseded(before), None)
    sent_hash = new.content_hash if new.outcome == "ambiguous" else None
    if before is None:
        return _Recorded(new.outcome, None, None, None, sent_hash)
    outcome: Outcome = new.outcome
    if outcome in NOT_CREATED and before.state == "ambiguous":
        outcome = "ambiguous"
    elif outcome in NOT_CREATED and before.content_hash is not None:
        outcome = "created"
    return _Recorded(outcome, before.content_hash, before.created_id, before.superseded, sent_hash)


def _superseded(before: LedgerEntry | None) -> str | None:
    """Return the ids of the superseded documents of a key after a new document was created."""
    if before is None or before.content_hash is None or before.created_id is None:
        return before and before.superseded
    return json.dumps([*json.loads(before.superseded or "[]"), before.created_id])


def _storable(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([storable(value) if isinstance(value, str) else value for value in values])
