"""A complete export to S3, and readers of its files."""

from __future__ import annotations

import duckdb
import pandas as pd
import pyarrow.dataset as ds
import pytest
from pyarrow.fs import S3FileSystem

from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator

COLUMNS = ["site_id", "metric", "text"]
SITES = ["acme-docs", "acme-shop"]


def with_s3fs(bucket):
    dataset = ds.dataset(f"{bucket.name}/lake/statistics", filesystem=bucket.fs, partitioning="hive")
    return dataset.to_table().select([*COLUMNS, "date"]).to_pylist()


def with_pyarrow(bucket):
    storage = S3FileSystem(
        access_key="an-access-key", secret_key="a-secret-key", endpoint_override=bucket.storage.url, region="us-east-1"
    )
    dataset = ds.dataset(f"{bucket.name}/lake/statistics", filesystem=storage, partitioning="hive")
    return dataset.to_table().select([*COLUMNS, "date"]).to_pylist()


def with_pandas(bucket):
    options = {"key": "an-access-key", "secret": "a-secret-key", "endpoint_url": bucket.storage.url}
    frame = pd.read_parquet(f"s3://{bucket.name}/lake/statistics", storage_options=options)
    return frame[[*COLUMNS, "date"]].to_dict("records")


def with_duckdb(bucket):
    """Read through s3fs: DuckDB's own S3 support is an extension that would have to be downloaded."""
    with duckdb.connect() as database:
        database.register_filesystem(bucket.fs)
        files = f"s3://{bucket.name}/lake/statistics/*/*.parquet"
        found = database.execute(f"SELECT site_id, metric, text, date FROM read_parquet('{files}')").fetchall()
    return [dict(zip([*COLUMNS, "date"], row, strict=True)) for row in found]


@pytest.fixture
def export(bucket, service, connection, run_operator):
    def exported():
        return run_operator(
            AssistantStatisticsToParquetOperator,
            output_path=bucket.root,
            site_ids=SITES,
            date="2026-11-21",
        )

    return exported


def test_an_export_to_s3_is_read_by_all(bucket, export):
    run = export()
    result = run.xcom()
    assert run.state == "success"
    assert result["path"] == f"{bucket.root}/statistics/date=2026-11-21/{run.dag_id}.task.parquet"
    assert result["bytes"] == sum(map(bucket.fs.size, bucket.keys()))
    assert len(bucket.keys()) == 2
    rows = with_s3fs(bucket)
    assert len(rows) == result["rows"]
    assert {row["site_id"] for row in rows} == set(SITES)

    def sortable(found):
        return sorted((row["site_id"], row["metric"], row["text"], str(row["date"])) for row in found)

    for read in (with_pyarrow, with_pandas, with_duckdb):
        assert sortable(read(bucket)) == sortable(rows)


def test_a_failed_upload_of_an_export_is_fixed_by_a_retry(bucket, export):
    bucket.fail("put", status=500)
    failed = export()
    assert failed.state == "failed"
    assert isinstance(failed.error, OSError)
    assert "What was there before is as it was" in str(failed.error)
    assert bucket.keys() == []
    bucket.heal()
    assert export().state == "success"
    assert len(bucket.keys()) == 2
