"""Reading the source and the ledger during a load does not delay requests, and its errors affect no other row."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantIncompleteError, AssistantInputError, AssistantLedgerError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading import engine
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from tests.sites import site_at
from tests.unit.ledger.outage import away
from tests.unit.loading.scripted_client import ScriptedClient
from tests.virtual_time import in_executor, now, simulated

FIELDS = ("title", "content", "category")
RUN = RunRef("dag", "run", "load", -1)


class Service:
    """A service that takes one second per response."""

    def __init__(self, seconds=1.0) -> None:
        self.seconds, self.in_flight, self.received = seconds, 0, 0

    async def answer(self, _call):

        self.received += 1
        self.in_flight += 1
        try:
            # The first request goes alone.
            await asyncio.sleep(min(self.seconds, 0.1) if self.received == 1 else self.seconds)
        finally:
            self.in_flight -= 1
        return Response(201, {}, b'{"id": "d"}')


class Rows(DataframeRows):
    """Rows whose source no longer exists when it is read for the second time."""

    fails_at = None

    def prepared(self, is_wanted):
        for row in super().prepared(is_wanted):
            if row.number == self.fails_at:
                raise AssistantInputError("'faq.csv' cannot be read: it is gone", field="source")
            yield row


@pytest.fixture
def ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as opened:
        yield opened


@pytest.fixture
def load_of(ledger, tmp_path, monkeypatch):
    """Return a load of ten rows with four requests in flight and ledger lookups of two rows."""
    monkeypatch.setattr(engine, "LOOK_AHEAD", 2)
    with contextlib.ExitStack() as stack:

        def load_of(service, fails_at=None):
            source = [dict.fromkeys(FIELDS, str(number)) for number in range(1, 11)]
            rows = Rows(
                open_source(source, ColumnSelection(FIELDS)),
                payload=TextDocument,
                columns={field: field for field in FIELDS},
                constants={},
                key_columns=["title"],
                call=lambda document: endpoints.create_text_document("s", document),
            )
            rows.fails_at = fails_at
            memory = stack.enter_context(
                ledger.documents(scope=DocumentScope(site_at("s", "s"), "documents/qa"), source="kb", run=RUN)
            )
            findings = stack.enter_context(FindingsFile(tmp_path / "findings.parquet"))
            settings, options = ClientSettings("http://unused/api/v1", "key"), LoadOptions(4)
            return Load(
                ScriptedClient(service.answer, settings, options), rows, options, ledger=memory, findings=findings
            )

        yield load_of


def test_the_event_loop_waits_for_no_statement_of_the_ledger_while_requests_are_under_way(ledger, load_of):
    service, waited_for = Service(), []

    @sa.event.listens_for(ledger.engine, "before_cursor_execute")
    def look(_connection, _cursor, statement, *_rest):
        if service.in_flight and not in_executor():
            waited_for.append(statement)

    counts = simulated(load_of(service).run())
    assert counts.created == 10
    assert not waited_for


def test_a_source_that_is_gone_in_the_middle_of_a_load_lets_requests_end(load_of):
    load = load_of(Service(), fails_at=7)
    with pytest.raises(AssistantInputError, match="is gone"):
        simulated(load.run())
    assert load.counts.ambiguous == 0
    assert load.counts.created == load.counts.requests
    assert load.counts.done == 10


def test_requests_that_are_given_up_are_counted(load_of):
    service = Service(seconds=60.0)
    load = load_of(service)

    async def main():

        asyncio.get_running_loop().call_later(1.0, load.cancel)
        with pytest.raises(AssistantIncompleteError):
            await load.run()
        return now()

    assert simulated(main()) < 5.0
    assert load.counts.requests == service.received == 5
    assert (load.counts.created, load.counts.ambiguous) == (1, 4)


def test_the_counts_add_up_where_the_ledger_fails_before_the_first_request(ledger, load_of, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    load = load_of(Service())
    with away(ledger.engine, "SELECT count"), pytest.raises(AssistantLedgerError):
        simulated(load.run())
    assert load.counts.rows == load.counts.done == load.counts.failed == 10
