"""Reading the source and the ledger during a load does not delay requests, and its errors affect no other row."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading import engine
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows
from tests.virtual_time import simulated

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
            rows = text_rows([str(number) for number in range(1, 11)], kind=Rows)
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


def test_a_source_that_is_gone_in_the_middle_of_a_load_lets_requests_end(load_of):
    load = load_of(Service(), fails_at=7)
    with pytest.raises(AssistantInputError, match="is gone"):
        simulated(load.run())
    assert load.counts.ambiguous == 0
    assert load.counts.created == load.counts.requests
    assert load.counts.done == 10
