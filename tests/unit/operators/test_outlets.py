"""Outlets of every kind get an event with the result of the task."""

from __future__ import annotations

import pytest
from airflow.sdk import Asset, AssetAlias, AssetAll, AssetAny

from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantLoadTextOperator
from airflow_provider_assistant.operators.outlets import tell_outlets
from airflow_provider_assistant.transfers.parquet_to_warehouse import AssistantParquetToWarehouseOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.task_runs.context import task_context

ROWS = [{"title": "T", "content": "C", "category": "c", "message": "M"}]


def events_of(run):
    """Return the extra of each event of a run, by its task and the name of its asset."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    columns = AssetEvent.source_task_id, AssetModel.name, AssetEvent.extra
    query = select(*columns).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
    with create_session() as session:
        rows = session.execute(query.where(AssetEvent.source_run_id == run.run_id)).all()
    events = {(task_id, name): extra for task_id, name, extra in rows}
    assert len(events) == len(rows), "one event for each asset"
    return events


@pytest.mark.promise("Airflow", "Every outlet of a task gets one event with the result of the task.")
def test_each_outlet_gets_its_event_with_the_result(service, connection, run_operator, tmp_path):
    lake = tmp_path / "lake"

    def build():
        load = AssistantLoadTextOperator(
            task_id="load",
            source=ROWS,
            outlets=[
                Asset(name="with-uri", uri="s3://bucket/knowledge"),
                AssetAlias("my-alias"),
                [Asset("in-a-list"), AssetAll(Asset("one"), AssetAny(Asset("two"), Asset("three")))],
                Asset.ref(name="statistics"),
            ],
        )
        export = AssistantStatisticsToParquetOperator(
            task_id="export",
            output_path=str(lake),
            outlets=[AssetAlias("lake"), Asset("statistics"), Asset.ref(uri="s3://bucket/knowledge")],
        )
        load >> export

    # Airflow stores every key of a result separately, which takes 20 ms of processor time per key.
    run = run_operator(build, dag_options={"default_args": {"multiple_outputs": False}}, stored=True)
    assert run.state == "success", run.errors
    site = f"assistant://{service.url.split('/')[2]}/acme-docs/documents"
    expected = {
        "load": {"with-uri", "in-a-list", "one", "two", "three", "statistics", site},
        "export": {f"file://{lake}/statistics", f"file://{lake}/statistics_raw", "statistics", "with-uri"},
    }
    events = events_of(run)
    assert set(events) == {(task_id, name) for task_id, names in expected.items() for name in names}
    for (task_id, name), extra in events.items():
        assert extra == run.xcom(task_id), (task_id, name)


def told(operator, *written):
    """Return the URIs to which an operator with these outputs sends events, by the name of the alias."""
    operator.lineage_outputs = tuple(map(LineageDataset, written))
    context = task_context()
    assert operator.emit_asset_events(context, {"rows": 7}) == {"rows": 7}
    told = {}
    for key, accessor in context["outlet_events"]._dict.items():
        added = {event.dest_asset_key.uri: event.extra for event in accessor.asset_alias_events}
        told[key.name] = added or {key.uri: accessor.extra}
        assert set(map(str, told[key.name].values())) == {"{'rows': 7}"}
    assert sorted(told) == sorted(outlet.name for outlet in operator.outlets)
    return {name: sorted(uris) for name, uris in told.items()}


def test_the_site_of_a_load_gets_one_event_whatever_its_outlets_are(service, connection):
    site = f"assistant://{service.url.split('/')[2]}/acme-docs/documents"
    for outlets, names in [
        ([], ["assistant_documents"]),
        ([Asset("other")], ["assistant_documents", "other"]),
        (Asset(name="same", uri=site), ["same"]),
        ([AssetAlias("assistant_documents")], ["assistant_documents"]),
    ]:
        for kind in (AssistantLoadTextOperator, AssistantLoadQAOperator):
            load = kind(task_id="load", source=ROWS, outlets=outlets)
            assert sorted(told(load, site)) == names
            assert sorted(told(load, site)) == names, "a retry in the same process adds nothing"


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        ("/data/answers.parquet", "file:///data/answers.parquet"),
        ("file:///data/lake/statistics", "file:///data/lake/statistics"),
        ("s3://lake@bucket/folder/statistics", "s3://bucket/folder/statistics"),
        ("assistant://assistant.example.com/docs/documents", "assistant://assistant.example.com/docs/documents"),
        ("postgres://db.example.com:5432/dwh.assistant.runs", "postgres://db.example.com:5432/dwh/assistant/runs"),
        ("duckdb:///data/w.duckdb/w.assistant.runs", "duckdb:/data/w.duckdb/w.assistant.runs"),
    ],
)
def test_an_alias_stands_for_what_the_task_wrote(written, uri):
    operator = AssistantParquetToWarehouseOperator(
        task_id="warehouse", output_path="lake", database="w.duckdb", outlets=AssetAlias("tables")
    )
    assert told(operator, written, written) == {"tables": [uri]}


def test_an_asset_that_airflow_does_not_know_does_not_fail_a_task_that_has_sent_its_rows(caplog):
    context = {"outlet_events": {}}
    tell_outlets(context, [Asset.ref(name="unknown"), "text", None], {"rows": 7}, [])
    assert "unknown" in caplog.text
