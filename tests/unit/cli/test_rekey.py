"""The rekey command: after it, an older ledger creates no row again."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pandas as pd
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.keys import key_label, key_text
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.loading.fingerprints import hash_of
from tests.unit.operators.test_documents import load, many


def former_key(*values):
    """Return a key in the older format, which depends on types."""
    texts = [str(value) for value in values]
    if not all(type(value) is str for value in values):
        texts.append(",".join(type(value).__name__ for value in values))
    return hash_of("".join(f"{len(text)}:{text}" for text in texts))


def age(rows, *columns):
    """Fill the ledger with the entries that an older version would have written for these rows."""
    with Ledger.open() as ledger, ledger.engine.begin() as connection:
        for row in rows:
            values = [row[column] for column in columns]
            label = str(values[0]) if len(values) == 1 else ", ".join(f"{c}={v}" for c, v in zip(columns, values))  # noqa: B905
            today = connection.scalar(sa.select(documents.c.key).where(documents.c.label == row["label"]))
            assert today
            change = sa.update(documents).where(documents.c.key == today)
            connection.execute(change.values(key=former_key(*values), label=label))


VALUES = [
    [1, 2],
    [1.0, 2.0],
    [Decimal("1.00"), Decimal("2.50")],
    ["1", "x"],
    [" 1", "2\n"],
    ["1.0", "True"],
    [True, False],
    [datetime.date(2026, 1, 31), datetime.date(2026, 2, 1)],
    [datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC), datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC)],
    [pd.Timestamp("2026-01-31 08:30"), pd.Timestamp("2026-02-01")],
]


@pytest.mark.parametrize("values", VALUES, ids=lambda values: type(values[0]).__name__)
@pytest.mark.parametrize(
    "columns", [("id",), ("lang", "id"), pytest.param(("id", "n", "lang"), marks=pytest.mark.slow)]
)
def test_nothing_is_created_again(values, columns, cli, connection, service):
    rows = [row | {"id": value, "lang": "de", "n": 7.0} for row, value in zip(many(2), values, strict=True)]
    options = {"key_columns": list(columns)}
    assert load(rows, **options)["created"] == 2
    age([row | {"label": key_label(columns, [key_text(row[c]) for c in columns])} for row in rows], *columns)
    ran = cli("ledger", "rekey", "-o", "json")
    assert ran.code == 0, ran.err
    assert ran.json["taken"] == 0
    assert load(rows, run_id="again", **options)["unchanged"] == 2
    assert cli("ledger", "rekey", "-o", "json").json == {"changed": 0, "same": 2, "taken": 0}


def test_rows_without_key_columns_keep_their_keys(cli, connection):
    assert load(many(3))["created"] == 3
    assert cli("ledger", "rekey", "-o", "json").json == {"changed": 0, "same": 3, "taken": 0}
    assert load(many(3), run_id="again")["unchanged"] == 3


def test_a_row_that_was_created_under_two_types_is_stale_once(cli, connection):
    rows = [row | {"id": number} for number, row in enumerate(many(2))]
    assert load(rows, key_columns=["id"])["created"] == 2
    age([row | {"label": str(row["id"])} for row in rows], "id")
    assert load(rows, run_id="with types", key_columns=["id"])["created"] == 2
    assert cli("ledger", "rekey", "-o", "json").json == {"changed": 0, "same": 2, "taken": 2}
    result = load(rows, run_id="again", key_columns=["id"])
    assert (result["unchanged"], result["stale"]) == (2, 2)
