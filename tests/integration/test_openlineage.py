"""OpenLineage's classes and file transport accept the operators' lineage."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.assets import assistant_asset
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator

ROWS = [{"title": "Refunds", "question": "When are refunds paid?", "answer": "In five days.", "category": "faq"}]


@pytest.fixture
def event(ran, connection, tmp_path):
    """Run an operator, and return the event that the file transport wrote about the operator's inputs and outputs."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.transport.file import FileConfig, FileTransport

    def told(kind, **arguments):
        run, task = ran(kind, **arguments)
        lineage = DefaultExtractor(task).extract_on_complete(None)
        path = tmp_path / "events.jsonl"
        client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(path), append=True)))
        client.emit(
            RunEvent(
                eventType=RunState.COMPLETE,
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(runId=str(uuid4())),
                job=Job(namespace="tests", name=run.dag_id),
                inputs=lineage.inputs,
                outputs=lineage.outputs,
                producer="https://example.com/tests",
            )
        )
        return json.loads(path.read_text().splitlines()[-1])

    return told


def host(service):
    return service.url.partition("://")[2].partition("/")[0]


@pytest.mark.promise("Airflow", "OpenLineage gets the inputs, outputs and counts of a load.")
def test_a_load(event, service, tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "faq.parquet")
    told = event(AssistantLoadQAOperator, source=str(tmp_path / "faq.parquet"))
    assert [(data["namespace"], data["name"]) for data in told["inputs"]] == [("file", f"{tmp_path}/faq.parquet")]
    (written,) = told["outputs"]
    assert (written["namespace"], written["name"]) == (f"assistant://{host(service)}", "acme-docs/documents")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert {field["name"] for field in written["facets"]["schema"]["fields"]} == set(ROWS[0])


def test_the_asset_and_the_output_are_one_dataset(service):
    from airflow.providers.openlineage.extractors.manager import ExtractorManager

    dataset = ExtractorManager.convert_to_ol_dataset(assistant_asset(host(service), "acme-docs"))
    assert (dataset.namespace, dataset.name) == (f"assistant://{host(service)}", "acme-docs/documents")
