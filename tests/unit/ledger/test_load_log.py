"""Entries of loads: one per try, written at its start and updated at its end."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import fields
from datetime import timedelta

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.exceptions import AssistantIncompleteError, AssistantLedgerError
from airflow_provider_assistant.ledger import DocumentScope, RunRef
from airflow_provider_assistant.ledger.load_log import ERROR_LENGTH
from airflow_provider_assistant.ledger.load_queries import loads_between
from airflow_provider_assistant.ledger.schema import COUNTS
from airflow_provider_assistant.loading.counts import LoadCounts
from tests.sites import site_at
from tests.unit.ledger.conftest import START

RUN = RunRef("dag", "run", "load", 3)
SITE = "https://h/api/v1/m2m/sites/docs"
COUNTED = LoadCounts(rows=9, created=4, unchanged=1, rejected=1, failed=3, stale=0, requests=8, seconds=2.5).as_dict()


def load(ledger, scope=SITE):
    return ledger.load(scope=DocumentScope(site_at(scope), "documents/qa"), source="dag.load", run=RUN)


def found(ledger, days=1, scope=None):
    return ledger.read(loads_between, START, START + timedelta(days=days), scope)


def test_a_load_is_a_row_with_its_counts(ledger, clock):
    with load(ledger) as record:
        clock.now += timedelta(seconds=3)
        record.counts = COUNTED
    (row,) = found(ledger)
    assert row == {
        "started_at": START, "ended_at": START + timedelta(seconds=3), "outcome": "succeeded", "error": None,
        "service": "h", "tenant_id": None,
        "site_id": "docs", "endpoint": "documents/qa", "source": "dag.load", "seconds": 2.5,
        "dag_id": "dag", "run_id": "run", "task_id": "load", "map_index": 3,
        **{name: COUNTED[name] for name in COUNTS},
    }  # fmt: skip


def test_all_counts_are_columns():
    assert [field.name for field in fields(LoadCounts)] == [*COUNTS, "seconds"]


def test_a_load_that_runs_or_was_killed_has_no_end(ledger):
    with load(ledger):
        (row,) = found(ledger)
    assert (row["outcome"], row["ended_at"], row["rows"], row["seconds"]) == ("unfinished", None, None, None)


@pytest.mark.parametrize(
    ("error", "outcome", "text"),
    [
        (AssistantIncompleteError("3 rows failed"), "failed", "3 rows failed"),
        (KeyboardInterrupt(), "failed", "KeyboardInterrupt"),
        (TaskDeferred(trigger=None, method_name="execute_complete"), "deferred", None),
        (ValueError("half \ud83d, \0"), "failed", "half \\ud83d, \\x00"),
        (ValueError("x" * 2 * ERROR_LENGTH), "failed", "x" * (ERROR_LENGTH - 1) + "…"),
    ],
)
def test_how_a_load_ended(error, outcome, text, ledger):
    with pytest.raises(type(error)):
        fail(ledger, error)
    (row,) = found(ledger)
    assert (row["outcome"], row["error"], row["failed"]) == (outcome, text, 3)


def test_what_ended_before_it_counted_has_no_counts(ledger):
    with pytest.raises(FileNotFoundError), load(ledger):
        raise FileNotFoundError("faq.csv")
    (row,) = found(ledger)
    assert {row[name] for name in (*COUNTS, "seconds")} == {None}


def test_every_try_is_a_row_and_they_are_in_order(ledger, clock):
    for _ in range(3):
        with load(ledger):
            clock.now += timedelta(seconds=1)
    assert [row["started_at"] - START for row in found(ledger)] == [timedelta(seconds=at) for at in range(3)]
    assert len(ledger.read(loads_between, START + timedelta(seconds=1), START + timedelta(seconds=2))) == 1


def test_of_one_site(ledger):
    for scope in (SITE, SITE.replace("//h/", "//staging/")):
        with load(ledger, scope):
            pass
    assert len(found(ledger)) == 2
    assert len(found(ledger, scope=site_at(SITE))) == 1


def test_a_load_costs_two_statements(ledger):
    statements = []
    sa.event.listen(ledger.engine, "before_cursor_execute", lambda *facts: statements.append(facts[2].split()[0]))
    with load(ledger) as record:
        record.counts = COUNTED
    assert statements == ["INSERT", "UPDATE"]


def test_nothing_is_sent_if_the_start_cannot_be_written(ledger):
    drop(ledger)
    with pytest.raises(AssistantLedgerError, match="cannot be written"), load(ledger):
        raise AssertionError("it ran")


@pytest.mark.parametrize("error", [None, AssistantIncompleteError("3 rows failed")])
def test_an_end_that_cannot_be_written_hides_nothing(error, ledger, caplog):
    with pytest.raises(AssistantIncompleteError) if error else contextlib.nullcontext():
        fail(ledger, error, meanwhile=lambda: drop(ledger))
    assert "The end of this load is not recorded" in caplog.text


def drop(ledger):
    with ledger.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE assistant_loads"))


def fail(ledger, error, meanwhile=lambda: None):
    """Run a load that sets its counts and then raises the given error, if any."""
    with load(ledger) as record:
        record.counts = COUNTED
        meanwhile()
        if error:
            raise error


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("no_waits")
def test_the_start_is_written_once_although_its_acknowledgement_is_lost(ledger, monkeypatch):
    commit, lost = ledger.engine.dialect.do_commit, []

    def acknowledgement_lost(connection):
        commit(connection)
        if not lost:
            lost.append(connection)
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(ledger.engine.dialect, "do_commit", acknowledgement_lost)
    with load(ledger):
        pass
    assert lost
    assert [row["outcome"] for row in found(ledger)] == ["succeeded"]
