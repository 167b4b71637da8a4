"""A dry run decides like a load and changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.dry_run import DryRun
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.fingerprints import encoded, hash_of
from airflow_provider_assistant.loading.load_client import LoadClient
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from tests.sites import site_at

FIELDS = ("title", "content", "category")
RUN = RunRef("d", "r", "t", -1)


@pytest.fixture
def memory(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        with ledger.documents(
            scope=DocumentScope(site_at("s", "site"), "documents/qa"), source="src", run=RUN
        ) as opened:
            yield opened


def rehearse(tmp_path, memory, *rows, sent=None, **options):
    source = open_source([dict(zip(FIELDS, row, strict=True)) for row in rows], ColumnSelection(FIELDS))
    made = DataframeRows(
        source,
        payload=TextDocument,
        columns=dict(zip(FIELDS, FIELDS, strict=True)),
        constants={},
        key_columns=["title"],
        call=lambda document: endpoints.create_text_document("site", document),
    )

    async def run():
        # Nothing listens on this port: a request would fail.
        given = LoadOptions(max_concurrency=2, **options)
        async with LoadClient(ClientSettings("http://127.0.0.1:9/api/v1", "key"), given) as client:
            with FindingsFile(tmp_path / "findings.parquet") as findings:
                rehearsal = DryRun(
                    client,
                    made,
                    given,
                    ledger=memory,
                    findings=findings,
                    on_created=lambda item, _: sent.append(item.readable_key) if sent is not None else None,
                )
                return await rehearsal.run()

    return asyncio.run(run())


def settle(memory, title, outcome):
    claim = Claim(hash_of(encoded((title,))), title, None)
    memory.commit_and_claim((), [claim])
    memory.commit_and_claim([ClaimOutcome(claim, outcome, "another content", "doc_1")], ())


def test_it_counts_what_would_be_sent_and_sends_and_claims_nothing(tmp_path, memory):
    sent = []
    counts = rehearse(tmp_path, memory, ("A", "a", "c"), ("B", "", "c"), ("C", "c", "c"), sent=sent)
    assert (counts.rows, counts.created, counts.rejected, counts.failed, counts.requests) == (3, 2, 1, 0, 0)
    assert sent == ["A", "C"]
    assert memory.entries([hash_of(encoded((title,))) for title in "ABC"]) == {}


def test_it_knows_changes_doubts_and_stale_rows(tmp_path, memory):
    settle(memory, "A", "created")
    settle(memory, "B", "ambiguous")
    settle(memory, "Z", "created")
    counts = rehearse(tmp_path, memory, ("A", "a", "c"), ("B", "b", "c"))
    assert (counts.created, counts.changed, counts.possibly_duplicated, counts.stale) == (2, 1, 1, 1)
    assert memory.find(hash_of(encoded(("Z",)))).stale_at is None
    counts = rehearse(tmp_path, memory, ("A", "a", "c"), ("B", "b", "c"), on_ambiguous="skip", on_change="skip")
    assert (counts.created, counts.ambiguous, counts.skipped) == (0, 1, 1)


def test_it_stops_where_a_load_stops(tmp_path, memory):
    settle(memory, "A", "created")
    with pytest.raises(AssistantInputError, match="on_change"):
        rehearse(tmp_path, memory, ("A", "a", "c"), on_change="fail")


def test_without_a_ledger_everything_would_be_sent(tmp_path):
    assert rehearse(tmp_path, None, ("A", "a", "c"), ("B", "b", "c")).created == 2
