"""Documents that were created and that the service does not use are counted and listed."""

from __future__ import annotations

import asyncio
import json
import random

import pyarrow.parquet as pq
import pytest
from airflow_provider_assistant.ledger.selection import Selection
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.managed_site import ManagedSite

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.api.document_routes import DocumentRoutes
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.ledger.queries import counts
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows

RUN = RunRef("dag", "run", "load", -1)
OTHER_RUN = RunRef("dag", "other", "load", -1)
# Status fields of a reply, and the word that a finding names; None if there is no finding.
REPLIES = [
    ({"status": "draft"}, "draft"),
    ({"state": "Not Published"}, "Not Published"),
    ({"active": False, "status": "indexed"}, "inactive"),
    ({"publication_status": "ARCHIVED"}, "ARCHIVED"),
    ({"processing_status": "error", "active": True}, "error"),
    ({"status": "quarantined"}, "quarantined"),
    ({"status": "active"}, None),
    ({"status": "indexed"}, None),
    ({"is_draft": False}, None),
    ({"status": "processing"}, None),
    ({"status": "success"}, None),
    ({}, None),
]


class Service:
    """A service that answers each title with the status fields of its script."""

    def __init__(self, fields_by_title):
        self.fields_by_title = fields_by_title
        self.created = []
        self.status_of_changes = 405

    async def answer(self, call):
        if "title" not in (call.json or {}):
            return Response(self.status_of_changes, {}, b"{}")
        title = call.json["title"]
        self.created.append(title)
        body = {"status": "success", "data": {"id": f"id-{title}", **self.fields_by_title[title]}}
        return Response(201, {}, json.dumps(body).encode())


@pytest.fixture
def run(tmp_path):
    """Load titles; return the counts, the findings of drafts, and the ledger's status by label."""

    def load_of(service, titles, routes=None, ref=RUN, **changes):
        options = LoadOptions(max_concurrency=3, **changes)
        client = ScriptedClient(service.answer, ClientSettings("http://unused", "key"), options)
        path = tmp_path / "findings.parquet"
        scope = DocumentScope(site_at("s"), "documents/text")
        with (
            Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger,
            ledger.documents(scope=scope, source="kb", run=ref) as documents,
            FindingsFile(path) as findings,
        ):
            load = Load(
                client,
                text_rows(titles),
                options,
                ledger=documents,
                findings=findings,
                site=ManagedSite.of("s", routes),
            )
            loaded = asyncio.run(load.run())
            totals = ledger.read(counts, Selection())
        listed = {row["key"]: row for row in pq.read_table(path).to_pylist()}
        in_ledger = [row["entries"] for row in totals if row["outcome"] == "draft"]
        return loaded, listed, in_ledger

    return load_of


@pytest.mark.parametrize("seed", range(2))
def test_drafts_are_counted_and_listed(run, seed):
    rng = random.Random(seed)
    chosen = rng.choices(REPLIES, k=rng.randint(8, 30))
    titles = [f"t{number}" for number in range(len(chosen))]
    words = dict(zip(titles, [word for _, word in chosen], strict=True))
    service = Service(dict(zip(titles, [fields for fields, _ in chosen], strict=True)))
    drafts = {title: word for title, word in words.items() if word is not None}

    loaded, listed, in_ledger = run(service, titles)
    assert (loaded.created, loaded.drafts) == (len(titles), len(drafts))
    assert loaded.as_dict()["drafts"] == len(drafts)
    assert listed.keys() == drafts.keys()
    for title, word in drafts.items():
        assert listed[title]["kind"] == "draft"
        assert listed[title]["document_ids"] == [f"id-{title}"]
        assert repr(word) in listed[title]["reason"]
    assert sum(in_ledger) == len(drafts)

    # Another try of the task creates nothing, and lists what the findings of the first one had.
    again, listed_again, _ = run(service, titles)
    assert (again.unchanged, again.created, again.drafts) == (len(titles), 0, len(drafts))
    assert listed_again.keys() == drafts.keys()
    # Another run does not.
    other, listed_other, _ = run(service, titles, ref=OTHER_RUN)
    assert (other.unchanged, other.drafts, listed_other) == (len(titles), 0, {})
    assert sorted(service.created) == sorted(titles)


@pytest.mark.parametrize("has_route", [True, False])
def test_a_load_that_activates_drafts_lists_those_that_it_cannot_activate(run, has_route):
    service = Service(
        {
            "draft": {"status": "draft"},
            "other": {"status": "quarantined"},
            "failed": {"status": "failed"},
            "no id": {"status": "draft", "id": None},
        }
    )
    service.status_of_changes = 200 if has_route else 405
    titles = list(service.fields_by_title)
    loaded, listed, _ = run(service, titles, DocumentRoutes(list=None), activate=True)
    expected = {"failed", "no id"} if has_route else set(titles)
    assert listed.keys() == expected
    assert (loaded.drafts, loaded.activated) == (len(expected), 2 if has_route else 0)
