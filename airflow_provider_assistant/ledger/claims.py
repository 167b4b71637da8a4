"""Claims and outcomes of one scope, recorded in groups of many rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.database import ledger_errors, stream, transaction
from airflow_provider_assistant.ledger.document_changes import DocumentChanges
from airflow_provider_assistant.ledger.document_groups import DocumentGroup
from airflow_provider_assistant.ledger.entries import EntryReader
from airflow_provider_assistant.ledger.group_sql import claim_again_statement, group_sql
from airflow_provider_assistant.ledger.leases import Lease, LeaseSettings
from airflow_provider_assistant.ledger.open_file import OpenFile
from airflow_provider_assistant.ledger.outcomes import Claim, ClaimOutcome, changed_entry
from airflow_provider_assistant.ledger.schema import RunRef, chat_requests, encoded_id
from airflow_provider_assistant.ledger.scopes import Scope
from airflow_provider_assistant.texts import storable, storable_value

log = logging.getLogger(__name__)


class ScopeLedger(EntryReader):
    """
    Keep the ledger of one scope for one try of one task: read its entries, claim keys, and record outcomes.

    The parameters are those of :class:`.EntryReader`.
    """

    def __init__(
        self,
        engine: sa.Engine,
        table: sa.Table,
        *,
        scope: Scope,
        source: str,
        run: RunRef,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        leases: LeaseSettings = LeaseSettings(),  # noqa: B008 (immutable)
        details: Sequence[str] = (),
    ) -> None:
        super().__init__(engine, table, scope=scope, source=source, run=run, now=now, leases=leases, details=details)
        self._file = OpenFile(engine)
        self._lease = Lease(engine, self._token, run, leases)
        # Columns whose values are the same in all claims of this try.
        shared_values = {
            "scope": self._scope,
            **scope.site.recorded(),
            **scope.columns(),
            "source": self.source,
            "claim": self._token,
            **run.columns(),
        }
        self._shared_values = tuple(map(storable_value, shared_values.values()))
        self._detail_columns = tuple(details)
        shared_columns = (*shared_values, "claimed_at")
        self._group_sql = group_sql(self._connection, table, shared_columns, self._detail_columns)
        # Converts an id that the service returned to the form in which the table stores it.
        self._stored_id = encoded_id if table is chat_requests else storable
        self._claim_again = claim_again_statement(table, self._detail_columns)
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
        self._file.check()
        if claims:
            self._lease.begin()
        new_claims = {claim.key: claim for claim in claims if claim.entry is None}
        if new_claims and any(outcome.claim.key in new_claims for outcome in outcomes):
            # The source has changed since the preflight and repeats a key, which one statement cannot write twice.
            self.commit_and_claim(outcomes, (), on_taken_over=on_taken_over)
            outcomes = ()
        repeated_claims = [claim for claim in claims if claim.entry is not None]

        def write(_: sa.Connection) -> tuple[list[ClaimOutcome], set[str]]:
            return self._write_group(outcomes, new_claims, repeated_claims)

        # A single statement commits itself. Repeated claims need another one.
        is_one_statement = not repeated_claims and self._group_sql.is_one_statement(
            outcomes=len(outcomes),
            claims=len(new_claims),
        )
        taken_over, claimed_keys = transaction(
            self._connection,
            write,
            writes=True,
            autocommit=is_one_statement,
        )
        for outcome in taken_over:
            on_taken_over(outcome)
        return claimed_keys

    def recorded(self, keys: Collection[str]) -> set[str]:
        """
        Return those of the keys that this try has claimed and whose outcome is recorded, read once without retries.

        :raises AssistantLedgerError: The ledger cannot be read; it is read even without keys.
        """
        self._file.check()
        c = self._table.c
        is_own = (c.scope == self._scope, c.claim == self._token)
        query = sa.select(c.key).where(*is_own, c.key.in_(keys), c.outcome != "claimed")
        with ledger_errors(self.engine, "cannot be read"), self.engine.connect() as connection:
            return set(connection.scalars(query))

    def release(self) -> float:
        """
        End the lease of this task. Claims without an outcome become ambiguous; later claims begin a new lease.

        :return: Seconds for which other runs skip these claims, because the lease could not be ended. 0 if it has.
        """
        return self._lease.release()

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

    def changes(self) -> DocumentChanges:
        """Return the ledger of changes of this source's documents on the site."""
        return DocumentChanges(
            self.engine, self._site, scope=self._scope, source=self.source, run=self._run, now=self._now
        )

    def created_ids(self) -> list[str]:
        """Return the ids of the documents that this try of the load has created."""
        return self.changes().created_by(self._token)

    def close(self) -> None:
        """Write the outcomes that could not be written before, end the lease, and return the connection."""
        unwritten = self._unwritten
        self._unwritten = []
        try:
            self.commit_and_claim(unwritten, ())
        except AssistantLedgerError as error:
            listed = ", ".join(outcome.claim.label for outcome in unwritten)
            # Without its traceback, which shows nothing but the statement.
            log.error(  # noqa: TRY400
                "What the service has answered is not recorded, and a retry of this task sends it again: %s. %s",
                listed,
                error,
            )
        try:
            self.release()
        finally:
            super().close()

    def adopt(self, is_seen: Callable[[str], bool]) -> int:
        """Assign this source the keys of others that it contains, and return their number."""
        c = self._table.c
        keys_of_others = sa.select(c.key).where(c.scope == self._scope, c.source != self.source)
        keys = []
        for (key,) in stream(self._connection, keys_of_others):
            if is_seen(key):
                keys.append(key)
        self._change(keys, sa.update(self._table).values(source=self.source))
        return len(keys)

    def mark_stale(self, keys: Collection[str]) -> None:
        """Record that the rows of documents are gone from their source."""
        self._change(keys, sa.update(self._table).values(stale_at=self._now()))

    def mark_seen(self, is_seen: Callable[[str], bool]) -> None:
        """Record that rows which were gone are in their source again."""
        c = self._table.c
        if "stale_at" not in c:
            # The questions of a chat batch leave no documents.
            return
        query = sa.select(c.key).where(c.scope == self._scope, c.stale_at.is_not(None))
        keys = [key for (key,) in stream(self._connection, query) if is_seen(key)]
        self._change(keys, sa.update(self._table).values(stale_at=None))

    def set_groups(self, groups: Mapping[str, DocumentGroup]) -> None:
        """
        Record the groups of documents of this source.

        :param groups: Group by key of the document. Keys of other sources, and keys without an entry, are ignored.
        """
        c = self._table.c
        has_key = c.key == sa.bindparam("entry_key")
        change = (
            sa.update(self._table)
            .where(c.scope == self._scope, has_key, c.source == self.source)
            .values(group_key=sa.bindparam("new_key"), group_label=sa.bindparam("new_label"))
        )
        parameters = []
        # Tasks that change the same keys lock them in the same order, which avoids deadlocks.
        for key, group in sorted(groups.items()):
            parameters.append({"entry_key": key, "new_key": group.key, "new_label": group.label})
        if not parameters:
            return

        def write(connection: sa.Connection) -> None:
            connection.execute(change, parameters)

        transaction(self._connection, write, writes=True)

    def _change(self, keys: Collection[str], change: sa.Update) -> None:
        """Apply one update to the entries of these keys in one transaction."""
        if not keys:
            return
        c = self._table.c
        # Tasks that change the same keys lock them in the same order, which avoids deadlocks.
        ordered_keys = sorted(keys)
        # Up to five parameters are not keys: the scope, and the values of the change.
        keys_per_statement = PARAMETERS - 5

        def write(connection: sa.Connection) -> None:
            for start in range(0, len(ordered_keys), keys_per_statement):
                statement_keys = ordered_keys[start : start + keys_per_statement]
                connection.execute(change.where(c.scope == self._scope, c.key.in_(statement_keys)))

        transaction(self._connection, write, writes=True)

    def _write_group(
        self,
        outcomes: Collection[ClaimOutcome],
        new_claims: Mapping[str, Claim],
        repeated_claims: Collection[Claim],
    ) -> tuple[list[ClaimOutcome], set[str]]:
        """
        Record outcomes and claim keys.

        :param new_claims: Claims of keys without an entry, by key.
        :param repeated_claims: Claims of keys that have an entry.
        :return: The outcomes whose keys another run has taken over, and the keys that were claimed.
        """
        now = self._now()
        stored_now = self._bulk.moment(now)
        outcome_rows = [self._outcome_row(outcome) for outcome in outcomes]
        claim_rows = [[*self._claim_row(claim), claim.sent_hash] for claim in new_claims.values()]
        # The last shared column is claimed_at.
        shared_values = (*self._shared_values, stored_now)
        written = self._group_sql.write(shared_values, stored_now, outcome_rows, claim_rows)
        is_complete = written == len(outcome_rows) + len(claim_rows)
        if is_complete and not repeated_claims:
            return [], set(new_claims)
        if repeated_claims:
            parameters = self._parameters_again(repeated_claims, now)
            self._connection.execute(self._claim_again, parameters)
        keys = [*new_claims, *(claim.key for claim in repeated_claims)]
        claimed_keys = self._own_keys(keys, self._table.c.outcome == "claimed")
        if is_complete:
            return [], claimed_keys
        recorded_keys = self._own_keys([outcome.claim.key for outcome in outcomes])
        taken_over = [outcome for outcome in outcomes if outcome.claim.key not in recorded_keys]
        return taken_over, claimed_keys

    def _outcome_row(self, outcome: ClaimOutcome) -> list[Any]:
        """Return the values of an outcome, in the order of :attr:`.GroupSql.columns`."""
        changed = changed_entry(outcome)
        error = outcome.error
        if error is not None:
            error = storable(error)
        row = self._claim_row(outcome.claim)
        row += [
            outcome.attempts,
            outcome.ambiguous,
            changed.outcome,
            changed.sent_hash,
            changed.content_hash,
            changed.superseded,
            outcome.http_status,
            error,
        ]
        # A table without this column is that of the ratings.
        if self._created_id:
            created_id = changed.created_id
            if created_id is not None:
                created_id = self._stored_id(created_id)
            row.append(created_id)
        if self._has_status:
            row.append(changed.status)
        return row

    def _claim_row(self, claim: Claim) -> list[Any]:
        return [claim.key, storable(claim.label), *self._details_of(claim)]

    def _details_of(self, claim: Claim) -> Sequence[Any]:
        """Return the values of the further columns of a claim."""
        if not self._detail_columns:
            return ()
        if claim.group is not None:
            return tuple(map(storable_value, claim.group))
        if claim.details:
            return tuple(map(storable_value, claim.details))
        return (None,) * len(self._detail_columns)

    def _parameters_again(self, claims: Collection[Claim], now: datetime) -> list[dict[str, Any]]:
        """Return the parameters of :func:`claim_again_statement`, one mapping per claim."""
        new_values = {
            "outcome": "claimed",
            "claim": self._token,
            # The preflight has checked that this source may own the key.
            "source": self.source,
            **self._run.columns(),
            "claimed_at": now,
        }
        parameters = []
        # Tasks that claim the same keys lock them in the same order, which avoids deadlocks.
        for claim in sorted(claims, key=lambda claim: claim.key):
            if claim.entry is None:
                continue
            existing_entry = {
                "entry_scope": self._scope,
                "entry_key": claim.key,
                "entry_claim": claim.entry.claim,
                "entry_outcome": claim.entry.outcome,
            }
            details = dict(zip(self._detail_columns, self._details_of(claim), strict=True))
            new_values["sent_hash"] = claim.sent_hash
            parameters.append({**existing_entry, **new_values, **details})
        return parameters

    def _own_keys(self, keys: Collection[str], *conditions: sa.ColumnElement[bool]) -> set[str]:
        """Return those of the keys whose latest claim belongs to this task, and that meet the conditions."""
        if not keys:
            return set()
        c = self._table.c
        is_own = (c.scope == self._scope, c.key.in_(keys), c.claim == self._token)
        return set(self._connection.scalars(sa.select(c.key).where(*is_own, *conditions)))
