"""The ledger's statements in the dialects of databases that the tests do not run."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.document_groups import GROUP_COLUMNS
from airflow_provider_assistant.ledger.group_sql import group_sql
from airflow_provider_assistant.ledger.schema import chat_requests, documents, metadata


# InnoDB's longest key, in bytes, at four bytes a character.
class Recorder:
    """A connection that records statements instead of executing them."""

    def __init__(self, dialect) -> None:
        self.dialect = dialect
        self.statements = []

    def exec_driver_sql(self, statement, parameters):
        self.statements.append((statement, parameters))
        return self

    rowcount = 0


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()], ids=lambda d: d.name)
def test_tables_can_be_created(dialect):
    for table in metadata.tables.values():
        assert str(CreateTable(table).compile(dialect=dialect))


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


GROUP = (7, "page")


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()], ids=lambda d: d.name)
def test_rows_of_groups_have_two_more_values(dialect):
    connection = Recorder(dialect)
    statements = group_sql(connection, documents, SHARED, GROUP_COLUMNS)
    outcome = OUTCOMES[documents.name]
    outcome = (*outcome[:2], *GROUP, *outcome[2:])
    claims = [(*claim[:2], *GROUP, claim[2]) for claim in CLAIMS] * 40
    statements.write(("s", "t", "now"), "then", [outcome] * 70, claims)
    assert all("label, group_key, group_label, attempts" in one for one, _ in connection.statements)
    if dialect.name == "postgresql":
        ((text, (_, entries)),) = connection.statements
        assert "group_key BIGINT" in text
        assert {(one["group_key"], one["group_label"]) for one in json.loads(entries)} == {GROUP}
    else:
        assert all(one.count("?") == len(values) <= PARAMETERS for one, values in connection.statements)
        assert sum(values.count("page") for _, values in connection.statements) == 150


@pytest.mark.parametrize("dialect", [postgresql.dialect(), sqlite.dialect()], ids=lambda d: d.name)
def test_entries_without_a_group_are_not_in_the_index_of_groups(dialect):
    (index,) = (one for one in documents.indexes if one.name.endswith("_by_group"))
    text = str(CreateIndex(index).compile(dialect=dialect))
    assert text.startswith("CREATE INDEX assistant_documents_by_group ON assistant_documents (group_key, scope)")
    assert text.endswith(" WHERE group_key IS NOT NULL")


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            postgresql.dialect(),
            "CREATE INDEX assistant_chat_requests_by_request ON assistant_chat_requests USING hash (request_id)",
        ),
        (sqlite.dialect(), "CREATE INDEX assistant_chat_requests_by_request ON assistant_chat_requests (request_id)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_index_allows_for_ids_of_any_length(dialect, expected):
    (index,) = (one for one in chat_requests.indexes if one.name.endswith("_by_request"))
    assert str(CreateIndex(index).compile(dialect=dialect)) == expected


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
