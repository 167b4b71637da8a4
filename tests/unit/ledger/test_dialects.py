"""How many statements a group of outcomes and claims is, and which indexes there are, in each dialect."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.group_sql import group_sql
from airflow_provider_assistant.ledger.schema import chat_requests, documents, metadata


class Recorder:
    """A connection that records statements instead of executing them."""

    def __init__(self, dialect) -> None:
        self.dialect = dialect
        self.statements = []

    def exec_driver_sql(self, statement, parameters):
        self.statements.append((statement, parameters))
        return self

    rowcount = 0


SHARED = ("scope", "claim", "claimed_at")
CREATED = ("k", "label", 1, 0, "created", None, "hash", None, 201, None, "doc")
# By table: documents have a status as well.
OUTCOMES = {documents.name: (*CREATED, "draft"), chat_requests.name: CREATED}
CLAIMS = [("l", "label", "sent"), ("m", "label", None)]


def written(dialect, *, outcomes=1, claims=CLAIMS, table=documents):
    """Return the statements of a group, with their parameters."""
    connection = Recorder(dialect)
    rows = [OUTCOMES[table.name]] * outcomes
    group_sql(connection, table, SHARED).write(("s", "t", "now"), "then", rows, list(claims))
    return connection.statements


def test_a_group_on_postgresql_is_one_statement_that_locks_keys_in_their_order():
    ((statement, (once, entries)),) = written(postgresql.dialect(), claims=[("z", "label", "x"), ("a", "label", None)])
    assert statement.startswith("INSERT INTO assistant_documents (scope, claim, claimed_at, key, label, ")
    assert "http_status INTEGER" in statement
    assert "claimed_at TIMESTAMP WITHOUT TIME ZONE" in statement
    assert json.loads(once) == {"scope": "s", "claim": "t", "claimed_at": "now", "recorded_at": "then"}
    assert [(one["key"], one["outcome"]) for one in json.loads(entries)] == [
        ("a", "claimed"),
        ("k", "created"),
        ("z", "claimed"),
    ]
    assert [one["sent_hash"] for one in json.loads(entries)] == [None, None, "x"]


@pytest.mark.parametrize("table", [documents, chat_requests], ids=lambda table: table.name)
@pytest.mark.parametrize(
    ("outcomes", "claims", "expected"), [(1, 2, 1), (0, 290, 1), (74, 0, 1), (50, 50, 1), (82, 0, 2), (80, 80, 2)]
)
def test_a_group_on_sqlite_is_one_statement_if_its_parameters_fit(outcomes, claims, expected, table):
    found = written(sqlite.dialect(), outcomes=outcomes, claims=CLAIMS[:1] * claims, table=table)
    assert len(found) == expected
    assert all(statement.count("?") == len(values) <= PARAMETERS for statement, values in found)
    is_one = group_sql(Recorder(sqlite.dialect()), table, SHARED).is_one_statement(outcomes, claims)
    assert is_one is (expected == 1)


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()], ids=lambda d: d.name)
def test_the_indexes_of_the_pages_are_partial(dialect):
    """An index on all rows would cost every row of a load."""
    statements: list[str] = []
    engine = sa.create_mock_engine(
        f"{dialect.name}://", lambda statement, *_, **__: statements.append(str(statement.compile(dialect=dialect)))
    )
    metadata.create_all(engine, checkfirst=False)
    partial = [one for one in statements if "INDEX" in one and "claimed_at" in one]
    assert len(partial) == 5
    assert all(" WHERE " in one for one in partial)
