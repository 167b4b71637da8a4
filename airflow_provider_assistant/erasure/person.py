"""What identifies the rows of a person."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_assistant.api.privacy import unescaped, user_label

if TYPE_CHECKING:
    import pyarrow as pa

# Columns with ids from which more rows of the person are found.
SESSION, REQUEST = "session_id", "request_id"
# Column of findings with a list of ids, which are those of requests if the finding is of a chat batch or of ratings.
DOCUMENTS = "document_ids"


class Person:
    """
    One or several people.

    The rows that are found say which further sessions and requests are theirs, see :meth:`learn`.

    :param sessions: Ids of sessions.
    :param emails: E-mail addresses, in any case.
    """

    def __init__(self, sessions: Iterable[str] = (), emails: Iterable[str] = ()) -> None:
        addresses = {unescaped(email).strip() for email in emails}
        self._names = addresses | {user_label(address) for address in addresses}
        self.sessions = set(sessions)
        self.requests: set[str] = set()

    @property
    def size(self) -> int:
        """Number of ids that are known, which grows while rows are read."""
        return len(self.sessions) + len(self.requests)

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the sessions and requests of rows that are the person's."""
        for row in rows:
            self.sessions.update(filter(None, [row.get(SESSION)]))
            self.requests.update(filter(None, [row.get(REQUEST)]))

    def mask(self, table: pa.Table, columns: Collection[str]) -> pa.ChunkedArray:
        """
        Return which rows of a table are the person's.

        :param columns: Columns that may name a person.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        mask = pa.chunked_array([pa.array([False] * table.num_rows, pa.bool_())])
        for name in table.column_names:
            if name == DOCUMENTS and pa.types.is_list(table.schema.field(name).type):
                is_named = [not self.requests.isdisjoint(ids or ()) for ids in table[name].to_pylist()]
                mask = pc.or_(mask, pa.chunked_array([pa.array(is_named, pa.bool_())]))
            if not pa.types.is_string(table.schema.field(name).type):
                continue
            if name in columns:
                lower = pc.utf8_lower(pc.utf8_trim_whitespace(table[name]))
                for values, known in ((table[name], self.sessions), (lower, self._names)):
                    mask = pc.or_(mask, pc.is_in(values, pa.array(sorted(known), pa.string())))
            if name == REQUEST:
                mask = pc.or_(mask, pc.is_in(table[name], pa.array(sorted(self.requests), pa.string())))
        return mask

    def condition(
        self, table: sa.FromClause, columns: Collection[str], request: str = REQUEST
    ) -> sa.ColumnElement[bool]:
        """
        Return the condition for the rows of a table of a database that are the person's.

        :param columns: Columns that may name a person.
        :param request: Column with the id of a request.
        """
        conditions: list[sa.ColumnElement[bool]] = [sa.false()]
        for name in columns:
            column = table.c[name]
            conditions.append(column.in_(self.sessions))
            conditions.append(sa.func.lower(sa.func.trim(column)).in_(self._names))
        if request in table.c:
            conditions.append(table.c[request].in_(self.requests))
        return sa.or_(*conditions)
