"""Limits and statistics: as XCom, and as Parquet."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant import lake
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.statistics import (
    AssistantLimitsOperator,
    AssistantStatisticsToParquetOperator,
)


def test_limits(service, connection, run_operator):
    limits = run_operator(AssistantLimitsOperator).xcom()
    assert set(limits) == {"tenant_id", "raw"}
    assert limits["tenant_id"] == limits["raw"]["tenant_id"] == "acme"
    assert service.seen() == [("GET", "/m2m/tenants/acme/limits")]


def test_limits_of_another_tenant(service, connect, run_operator):
    connect(key="dev-globex-full", conn_id="other", tenant_id="acme")
    run = run_operator(AssistantLimitsOperator, assistant_conn_id="{{ 'other' }}", tenant_id="{{ 'globex' }}")
    assert run.xcom()["raw"]["tenant_id"] == "globex"


def test_limits_mapped(service, connection, connect, run_operator):
    connect(key="dev-globex-full", conn_id="other")

    def build():
        AssistantLimitsOperator.partial(task_id="task").expand(assistant_conn_id=["assistant_default", "other"])

    run = run_operator(build)
    assert [run.xcom(map_index=index)["tenant_id"] for index in (0, 1)] == ["acme", "globex"]


def test_statistics_to_parquet(service, connection, run_operator, tmp_path):
    texts = [{"title": title, "content": "C", "category": "größen"} for title in "abc"]
    run_operator(AssistantLoadTextOperator, source=texts)
    before = datetime.now(UTC)
    run = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path), date="2026-11-21")
    result = run.xcom()
    name = f"date=2026-11-21/{run.dag_id}.task.parquet"
    assert result["path"] == str(tmp_path / "statistics" / name)
    assert result["raw_path"] == str(tmp_path / "statistics_raw" / name)
    assert (result["site_id"], result["date"]) == ("acme-docs", "2026-11-21")

    read = pq.ParquetFile(result["path"]).read()
    assert read.schema.equals(lake.statistics_schema())
    assert read.num_rows == result["rows"]
    metrics = {row["metric"]: row for row in read.to_pylist()}
    assert metrics["documents.by_kind.text"]["value"] == 3
    assert metrics["documents.top_categories.0.category"]["text"] == "größen"
    assert metrics["chats.sync.latency_ms"]["type"] == "null"
    assert before <= metrics["documents.total"]["captured_at"] <= datetime.now(UTC)
    assert {row["site_id"] for row in metrics.values()} == {"acme-docs"}

    (raw,) = pq.ParquetFile(result["raw_path"]).read().to_pylist()
    now = httpx.get(f"{service.url}/m2m/sites/acme-docs/statistics", headers={"X-API-Key": "dev-acme-full"}).json()
    assert json.loads(raw["raw"]) | {"generated_at": 0} == now | {"generated_at": 0}


def test_a_second_run_of_a_day_replaces_it(service, connection, run_dag, tmp_path):
    for _ in range(2):
        with DAG("statistics_twice", schedule=None) as dag:
            AssistantStatisticsToParquetOperator(task_id="task", output_path=str(tmp_path), date="2026-11-21")
        result = run_dag(dag).xcom()
    read = ds.dataset(tmp_path / "statistics", partitioning="hive").to_table()
    assert read.num_rows == result["rows"]
    assert set(read["date"].to_pylist()) == {"2026-11-21"}


def test_an_empty_reply_is_a_row_too(service, connection, run_operator, tmp_path):
    service.answer("empty", path="statistics")
    result = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path)).xcom()
    (row,) = pq.ParquetFile(result["path"]).read().to_pylist()
    assert (row["metric"], row["type"], row["text"]) == ("$", "null", "null")


def test_a_failed_read_leaves_the_old_day(service, connection, run_dag, tmp_path):
    def run():
        with DAG("statistics_failed", schedule=None) as dag:
            AssistantStatisticsToParquetOperator(task_id="task", output_path=str(tmp_path), date="2026-11-21")
        return run_dag(dag)

    path = run().xcom()["path"]
    before = pq.ParquetFile(path).read()
    service.answer("truncate", path="statistics")
    assert run().state == "failed"
    assert pq.ParquetFile(path).read().equals(before)


@pytest.mark.parametrize("site", ["acme-docs", "acme-shop"])
def test_site(site, service, connection, run_operator, tmp_path):
    run = run_operator(AssistantStatisticsToParquetOperator, output_path=str(tmp_path), site_id=site)
    assert run.xcom()["site_id"] == site
    assert service.seen() == [("GET", f"/m2m/sites/{site}/statistics")]


def test_statistics_mapped_over_sites(service, connection, run_operator, tmp_path):
    def build():
        AssistantStatisticsToParquetOperator.partial(task_id="task", output_path=str(tmp_path)).expand(
            site_id=["acme-docs", "acme-shop"]
        )

    run = run_operator(build)
    assert run.state == "success"
    read = ds.dataset(tmp_path / "statistics", partitioning="hive").to_table()
    assert set(read["site_id"].to_pylist()) == {"acme-docs", "acme-shop"}
