"""
The plan of a load: its rows joined with the attempts of the ledger, in a temporary SQLite file.

Every check before the first request is a query of it. It holds the text of the rows that are to be sent, so the source
is read once, and a load of any size needs little memory.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger import Known, ScopeLedger
from airflow_provider_assistant.ledger.attempts import CHUNK, chunks
from airflow_provider_assistant.loading.decide import Action, PlannedRow, decide
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import RowBatch, Rows
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.texts import counted

LISTED = 5
# Actions after which another document is that of the row.
CHANGES: tuple[Action, ...] = ("send", "share", "revive", "twin")

_COLUMNS = ", ".join(PlannedRow._fields)


def _literal(value: object) -> str:
    """Return the default of a field for SQLite, which reads the other literals of Python."""
    return "NULL" if value is None else repr(value)


_SCHEMA = f"""
CREATE TABLE rows (
    number INTEGER PRIMARY KEY, key, content_hash, group_name,
    {", ".join(f"{name} DEFAULT {_literal(value)}" for name, value in PlannedRow._field_defaults.items())}
);
CREATE TABLE documents (key TEXT PRIMARY KEY, label, remote_id, group_name, sibling, is_known);
"""
_INSERT = f"INSERT INTO rows ({_COLUMNS}) VALUES ({', '.join('?' * len(PlannedRow._fields))})"  # noqa: S608
# All other columns have their defaults. Most rows of most loads are such rows.
_INSERT_UNCHANGED = "INSERT INTO rows (number, key, content_hash, group_name) VALUES (?, ?, ?, ?)"
_IN_SOURCE = "SELECT value FROM json_each(?) WHERE value IN (SELECT key FROM rows)"
# This needs only the index of the keys.
_REPEATED = "SELECT key FROM rows GROUP BY key HAVING count(*) > 1"
# Numbers of the rows, except the first one, that have the same value in a column.
_LATER = (
    "SELECT number FROM (SELECT number, row_number() OVER (PARTITION BY {} ORDER BY number) AS nth FROM rows WHERE {}) "
    "WHERE nth > 1"
)


class Document(NamedTuple):
    """A document of the source that the ledger knows, with the label and the group of its row."""

    key: str
    label: str
    remote_id: str | None
    group_name: str | None


class Plan:
    """
    Hold the plan of a load. Use it as a context manager.

    :param source: Name of the source.
    :ivar notes: What the source left out.
    """

    def __init__(self, source: str) -> None:
        self.notes: list[Note] = []
        self._source = source
        # SQLite deletes this file when it is closed, and at once on most systems.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    # -- make the plan -------------------------------------------------------------------------------

    def add(
        self,
        rows: Rows,
        ledger: ScopeLedger,
        options: LoadOptions,
        *,
        tick: Callable[[int], None] = lambda _: None,
    ) -> None:
        """
        Read all rows and decide about each.

        :param tick: Called after each batch with the number of rows read so far.
        :raises AssistantInputError: The source is empty and must not be, or rows with the same key have different
            content.
        """
        count = 0
        self._database.execute("BEGIN")
        for part in rows.batches():
            if isinstance(part, Note):
                self.notes.append(part)
                continue
            known = ledger.known([row.key for row in part.rows])
            self._insert(part, known, options)
            count += len(part.rows)
            tick(count)
        self._database.execute("CREATE INDEX rows_by_key ON rows (key)")
        self._database.execute("COMMIT")
        self._check_repeated()
        self._mark_repeated()
        if rows.can_share:
            self._share(ledger)

    def _insert(self, batch: RowBatch, known: Mapping[str, list[Known]], options: LoadOptions) -> None:
        """Add the rows of a batch, each with what to do with it."""
        source = self._source
        unchanged, others = [], []
        for row in batch.rows:
            attempts = known.get(row.key, ())
            if len(attempts) == 1 and not row.reason:
                only, content = attempts[0], row[:4]
                _number, key, content_hash, group = content
                expected = (key, only.number, source, "created", content_hash, only.remote_id, group, False, False)
                if only == expected:
                    unchanged.append(content)
                    continue
            others.append(self._decided(row, attempts, batch, options))
        self._database.executemany(_INSERT_UNCHANGED, unchanged)
        self._database.executemany(_INSERT, others)

    def _decided(self, row: PlannedRow, attempts: Sequence[Known], batch: RowBatch, options: LoadOptions) -> PlannedRow:
        given = row
        row = decide(row, attempts, self._source, on_change=options.on_change, on_ambiguous=options.on_ambiguous)
        own = [attempt for attempt in attempts if attempt.source == self._source and attempt.state == "created"]
        if own:
            # A load without groups says nothing about pages.
            group = row.group_name if batch.has_groups else own[-1].group_name
            has_moved = batch.has_groups and any(attempt.group_name != group for attempt in own)
            row = row._replace(group_name=group, is_back=has_moved or any(attempt.is_gone for attempt in own))
        if row.action == "unchanged" and not given.reason:
            return row
        said = batch.complete(given)
        row = row._replace(label=said.label, place=said.place, payload=said.payload)
        if said.reason:
            # Its document, if it has one, stays: the row is in the source.
            row = row._replace(action="rejected", reason=said.reason, remote_id=None, owner=None)
        return row

    def _check_repeated(self) -> None:
        """Refuse rows with the same key and different content."""
        conflicts = (
            f"SELECT key FROM rows WHERE key IN ({_REPEATED}) "  # noqa: S608
            "GROUP BY key HAVING count(DISTINCT content_hash) > 1"
        )
        count = self._value(f"SELECT count(*) FROM ({conflicts})")  # noqa: S608
        if not count:
            return
        examples = []
        for (key,) in self._rows(f"{conflicts} ORDER BY min(number) LIMIT {LISTED}"):
            named = self._rows("SELECT number, label, place FROM rows WHERE key = ? ORDER BY number", key)
            label = next((label for _number, label, _place in named if label), key)
            places = [place or f"row {number}" for number, _label, place in named[:LISTED]]
            examples.append(f"{label!r} in {', '.join(places)}")
        raise AssistantInputError(
            f"the source has {counted(count, 'key')} with rows of different content: {'; '.join(examples)}",
            safe=NOTHING_SENT,
            todo="Choose unique key columns, or drop the outdated rows.",
            field="key_columns",
        )

    def _mark_repeated(self) -> None:
        """Mark the rows that repeat an earlier one: nothing is sent for them."""
        repeated = _LATER.format("key", f"key IN ({_REPEATED})")
        self._database.execute(
            f"UPDATE rows SET action = 'repeated', payload = NULL WHERE number IN ({repeated})"  # noqa: S608
        )

    def _share(self, ledger: ScopeLedger) -> None:
        """Give rows of equal content one document: a service may refuse a second one, and it would add nothing."""
        to_send = "SELECT number, content_hash FROM rows WHERE action = 'send' AND number > ? ORDER BY number LIMIT ?"
        last = 0
        while chunk := self._rows(to_send, last, CHUNK):
            last = chunk[-1][0]
            found = ledger.with_content({content_hash for _number, content_hash in chunk})
            shared = [(found[content_hash], number) for number, content_hash in chunk if content_hash in found]
            self._database.executemany("UPDATE rows SET action = 'share', remote_id = ? WHERE number = ?", shared)
        equal = _LATER.format("content_hash", "action = 'send'")
        self._database.execute(f"UPDATE rows SET action = 'twin' WHERE number IN ({equal})")  # noqa: S608

    def add_documents(self, documents: Iterable[tuple[Any, ...]]) -> None:
        """
        Keep those documents of the source whose row is not in it.

        :param documents: Rows of :func:`~airflow_provider_assistant.ledger.queries.latest_documents`.
        """
        for chunk in chunks(documents):
            keys = json.dumps([document[0] for document in chunk])
            known = {key for (key,) in self._rows(_IN_SOURCE, keys)}
            self._database.executemany(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?, ?)",
                (document for document in chunk if document[0] not in known),
            )

    def has_document(self, key: str, content_hash: str | None, remote_id: str) -> None:
        """
        Change the decision about a row of which a document was found on the site.

        :param content_hash: Hash of what the document says. The row may have changed since.
        """
        self._database.execute(
            "UPDATE rows SET action = CASE WHEN content_hash = ?1 THEN 'unchanged' ELSE 'send' END, "
            "has_changed = content_hash <> ?1, remote_id = ?2 WHERE key = ?3 AND action IN ('send', 'ambiguous')",
            (content_hash, remote_id, key),
        )

    # -- ask the plan ------------------------------------------------------------------------------

    def actions(self) -> Counter[str]:
        """Return the number of rows by action."""
        return Counter(dict(self._rows("SELECT action, count(*) FROM rows GROUP BY action")))

    def rows(self, *actions: Action) -> Iterator[PlannedRow]:
        """Yield the rows with one of these actions, in their order."""
        query = f"SELECT {_COLUMNS} FROM rows WHERE action IN ({_marks(actions)}) ORDER BY number"  # noqa: S608
        yield from map(PlannedRow._make, self._database.execute(query, actions))

    def row_of(self, key: str) -> PlannedRow | None:
        """Return the first row with a key, or None."""
        query = f"SELECT {_COLUMNS} FROM rows WHERE key = ? ORDER BY number LIMIT 1"  # noqa: S608
        return next(map(PlannedRow._make, self._rows(query, key)), None)

    def numbers_of(self, keys: Collection[str]) -> dict[str, int]:
        """Return the number of the first row of each key that the source has."""
        numbers: dict[str, int] = {}
        for chunk in chunks(keys):
            query = f"SELECT key, min(number) FROM rows WHERE key IN ({_marks(chunk)}) GROUP BY key"  # noqa: S608
            numbers.update(self._rows(query, *chunk))
        return numbers

    def count_changed(self, *actions: Action) -> int:
        """Return the number of rows with these actions whose document the load would replace by other content."""
        return self._count(f"has_changed AND action IN ({_marks(actions)})", *actions)

    def count_without_key(self) -> int:
        """Return the number of rows whose key is not known."""
        return self._count("NOT has_key")

    def owners(self, action: Action) -> dict[str, int]:
        """Return the number of keys that this source has for the first time, by the name of the other source."""
        query = "SELECT owner, count(DISTINCT key) FROM rows WHERE owner IS NOT NULL AND action = ? "
        return dict(self._rows(f"{query} GROUP BY owner ORDER BY 2 DESC, 1", action))

    def back(self) -> list[tuple[str, str | None]]:
        """Return key and group of the rows that were gone, or have another group than the ledger knows."""
        return self._rows("SELECT key, group_name FROM rows WHERE is_back AND has_key")

    def groups(self) -> list[str]:
        """
        Return the groups of which the source has every row.

        A row without a key may be any row of its group, and a row without key and group any row at all.
        """
        if self._count("NOT has_key AND group_name IS NULL"):
            return []
        query = "SELECT DISTINCT group_name FROM rows WHERE group_name IS NOT NULL"
        incomplete = "SELECT group_name FROM rows WHERE NOT has_key"
        return [name for (name,) in self._rows(f"{query} AND group_name NOT IN ({incomplete})")]

    def gone(self) -> Iterator[Document]:
        """Yield the documents of the source whose row is gone."""
        query = "SELECT key, label, remote_id, group_name FROM documents WHERE sibling IS NULL"
        yield from map(Document._make, self._database.execute(query))

    def count_gone(self, *, is_known: bool | None = None) -> int:
        """
        Return the number of documents whose row is gone.

        :param is_known: Only those of which an earlier load has found it, or has not. Default: None, all.
        """
        query = "SELECT count(*) FROM documents WHERE sibling IS NULL AND is_known = ifnull(?, is_known)"
        return int(self._value(query, is_known))

    def check_siblings(self) -> None:
        """
        Refuse groups whose rows several mapped tasks of a run have: each would take those of the others for gone.

        :raises AssistantInputError: There are such groups.
        """
        found = self._rows(
            "SELECT group_name, min(sibling) FROM documents WHERE sibling IS NOT NULL GROUP BY group_name"
        )
        if not found:
            return
        group, map_index = found[0]
        raise AssistantInputError(
            f"{counted(len(found), 'group')} with rows in several mapped tasks of this run, such as {group!r}, of "
            f"which the task with map index {map_index} has loaded others",
            safe="The rows of this task are loaded, but stale rows of these groups are not known.",
            todo="Give all rows of a group to one task. If this run was cleared and its rows were divided differently, "
            "the next run finds the stale rows.",
            field="group_columns",
        )

    def _count(self, condition: str, *parameters: Any) -> int:
        return int(self._value(f"SELECT count(*) FROM rows WHERE {condition}", *parameters))  # noqa: S608

    def _value(self, query: str, *parameters: Any) -> Any:
        return self._database.execute(query, parameters).fetchone()[0]

    def _rows(self, query: str, *parameters: Any) -> list[Any]:
        return self._database.execute(query, parameters).fetchall()


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))
