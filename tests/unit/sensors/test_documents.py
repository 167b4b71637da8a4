"""The sensor of documents in its three modes, against a list of the site."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from random import Random

import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, TaskDeferred

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantDocumentsFailedError,
    AssistantInputError,
)
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.sensors.documents import NAMED, AssistantDocumentsReadySensor
from tests.document_site import DocumentSite, Names
from tests.task_runs.context import task_context

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
MODES = {
    "poke": {"mode": "poke", "deferrable": False},
    "reschedule": {"mode": "reschedule", "deferrable": False},
    "deferrable": {"deferrable": True},
}
modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(autouse=True)
def _home(ledger_home):
    pass


@pytest.fixture
def connected(monkeypatch):
    def connect(site, **extra):
        monkeypatch.setenv(CONN, site.connection(retries=0, **extra))

    return connect


@pytest.fixture
def load(run_operator):
    def loaded(count, first=0, **options):
        numbers = range(first, first + count)
        rows = [{"key": number, "title": f"T {number}", "content": f"C {number}"} for number in numbers]
        arguments = {"source_name": "pages", "key_columns": ["key"], **options}
        run = run_operator(AssistantLoadTextOperator, source=rows, **arguments)
        assert run.state == "success", run.errors

    return loaded


@pytest.fixture
def sense(run_operator):
    def sensed(mode="poke", **options):
        arguments = {"poke_interval": 0.01, "timeout": 60} | MODES[mode] | options
        return run_operator(AssistantDocumentsReadySensor, **arguments)

    return sensed


@pytest.mark.promise("documents of a site", "The sensor waits until the service uses the documents of a load.")
@modes
def test_documents_of_a_load_become_ready(mode, connected, load, sense):
    with DocumentSite(Names.random(Random(1)), paging="cursor", page_size=4) as site:
        site.store("Of a person", "Text", active=False)
        connected(site)
        load(7)
        loaded = list(site.documents.values())[1:]
        for number, stored in enumerate(loaded):
            stored.processing = number % 4
        run = sense(mode, source_name="pages")
    assert run.state == "success", run.errors
    assert run.xcom() == {"site_id": "help", "documents": 7}
    assert all(stored.processing == 0 for stored in loaded)


@modes
def test_a_draft_is_named_at_the_timeout(mode, connected, load, sense):
    with DocumentSite() as site:
        connected(site)
        load(4)
        site.documents["d00003"].active = False
        run = sense(mode, source_name="pages", timeout=0.02, retries=2)
    assert (run.task_state(), run.tries()) == ("failed", 1)
    assert type(run.error) is AirflowSensorTimeout
    assert "3 of 4 documents in use, 1 draft: 'd00003' (draft)" in str(run.error)


@modes
def test_soft_fail_skips(mode, connected, load, sense):
    with DocumentSite() as site:
        connected(site)
        load(1)
        site.documents["d00001"].active = False
        assert sense(mode, soft_fail=True, timeout=0.02).task_state() == "skipped"


@modes
def test_a_failed_document_ends_the_wait_at_once(mode, connected, load, sense):
    with DocumentSite(Names(processing="error")) as site:
        connected(site, manage_documents=True)
        load(3)
        site.documents["d00002"].processing = 1000
        run = sense(mode, retries=2)
    assert (run.task_state(), run.tries()) == ("failed", 1)
    assert isinstance(run.error, AssistantDocumentsFailedError)
    assert "1 of 3 documents failed" in str(run.error)
    assert "'d00002' (failed)" in str(run.error)


def test_a_message_names_few_of_many(connected, sense):
    with DocumentSite(draft=True) as site:
        connected(site)
        ids = [site.store(f"T {number}", "C").id for number in range(NAMED + 5)]
        message = str(sense(document_ids=["gone", *ids, "gone"], timeout=0.02).error)
    assert f"0 of {NAMED + 6} documents in use, {NAMED + 5} draft, 1 not listed: 'gone' (not listed)" in message
    assert [name for name in ids if repr(name) in message] == ids[: NAMED - 1]
    assert "and 6 more" in message


@modes
def test_transient_errors_are_waited_through(mode, connected, sense):
    failing = {1: 503, 2: 500, 3: 429}
    with DocumentSite(before=lambda number, _, __: failing.get(number + 1)) as site:
        connected(site)
        site.store("T", "C")
        run = sense(mode, document_ids=["d00001"])
        assert len(site.requests) > len(failing)
    assert run.state == "success", run.errors
    assert run.tries() == 1


@modes
@pytest.mark.parametrize("worked", [0, 2])
def test_a_key_that_is_refused_fails_at_once(worked, mode, connected, sense):
    with DocumentSite(before=lambda number, *_: 401 if number >= worked else None) as site:
        connected(site)
        run = sense(mode, document_ids=["d00001"], retries=0 if worked else 2)
        assert len(site.requests) == worked + 1
    assert isinstance(run.error, AssistantAuthenticationError)


@pytest.mark.parametrize("status", [404, 405])
def test_a_missing_list_fails_at_once(status, connected, sense):
    with DocumentSite(missing={"list": status}) as site:
        connected(site)
        run = sense(document_ids=["d00001"], retries=2)
        assert len(site.requests) == 1
    assert f"{status} " in str(run.error)


def test_a_list_without_a_status_is_an_error(connected, sense):
    with DocumentSite(Names(status="zustand")) as site:
        connected(site, manage_documents=True)
        site.store("T", "C")
        run = sense(document_ids=["d00001"])
    assert isinstance(run.error, AssistantInputError)
    assert "status_field" in str(run.error)


def test_only_documents_of_the_source_and_of_its_rows_count(connected, load, sense):
    with DocumentSite() as site:
        connected(site)
        load(2, on_missing="ignore")
        load(1, first=1)
        load(3, first=2, source_name="others")
        # The document of row 0 is stale: nobody waits for it.
        for name in ("d00001", "d00003", "d00004", "d00005"):
            site.documents[name].active = False
        assert sense(source_name="pages").xcom()["documents"] == 1
        assert "1 of 4 documents in use" in str(sense(timeout=0.02).error)


@pytest.mark.parametrize("options", [{}, {"source_name": "unknown"}])
def test_a_ledger_without_documents_is_an_error(options, connected, sense):
    with DocumentSite() as site:
        connected(site)
        run = sense(**options)
        assert not site.requests
    assert isinstance(run.error, AssistantInputError)
    assert "the ledger has no documents" in str(run.error)


def test_documents_without_an_id_cannot_be_waited_for(connected, load, sense):
    class Silent(DocumentSite):
        def _created(self, fields):
            super()._created(fields)
            return {"ok": True}

    with Silent() as site:
        connected(site)
        load(2)
        run = sense(source_name="pages")
    assert isinstance(run.error, AssistantInputError)
    assert "2 documents of source 'pages'" in str(run.error)


def test_no_documents_are_ready_at_once(connected, sense):
    with DocumentSite() as site:
        connected(site, manage_documents=None)
        run = sense(document_ids=[])
        assert not site.requests
    assert run.xcom() == {"site_id": "help", "documents": 0}


def test_a_deferred_sensor_looks_a_last_time_at_its_timeout(connected):
    with DocumentSite(draft=True) as site:
        connected(site)
        site.store("T", "C")
        sensor = AssistantDocumentsReadySensor(task_id="wait", document_ids=["d00001"], deferrable=True, timeout=3000)
        context = task_context("wait")
        waits = []
        for started in (None, time.time() - 1000, time.time() - 2970):
            with pytest.raises(TaskDeferred) as deferred:
                sensor.execute_complete(context, started=started)
            waits.append((deferred.value.trigger.moment - datetime.now(UTC)).total_seconds())
            assert started in (None, deferred.value.kwargs["started"])
        with pytest.raises(AirflowSensorTimeout):
            sensor.execute_complete(context, started=time.time() - 3001)
    assert [round(wait, -1) for wait in waits] == [60, 60, 30]
