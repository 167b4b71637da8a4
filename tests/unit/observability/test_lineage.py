"""How datasets are called, which files a source names, and what OpenLineage is told."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.common.compat.openlineage.facet import (
    Dataset,
    InputDataset,
    OutputDataset,
    OutputStatisticsOutputDatasetFacet,
    SchemaDatasetFacet,
    SchemaDatasetFacetFields,
)
from airflow.sdk import Asset

from airflow_provider_assistant.assets import convert_asset_to_openlineage
from airflow_provider_assistant.observability.lineage import (
    LineageDataset,
    dataset_name,
    merged,
    operator_lineage,
    table_at,
)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/statistics", ("file", "/lake/statistics")),
        ("file:///lake/statistics", ("file", "/lake/statistics")),
        ("s3://bucket/lake/statistics", ("s3://bucket", "lake/statistics")),
        ("s3a://aws_default@bucket/lake/", ("s3://bucket", "lake")),
        ("gcs://bucket", ("gs://bucket", "/")),
        ("postgres://db:5432/dwh.assistant.loads", ("postgres://db:5432", "dwh.assistant.loads")),
        ("duckdb:///data/lake.duckdb/lake.assistant.loads", ("duckdb:///data/lake.duckdb", "lake.assistant.loads")),
        ("assistant://host:8099/help/documents", ("assistant://host:8099", "help/documents")),
    ],
)
def test_names_are_those_of_openlineage(uri: str, expected: tuple[str, str]) -> None:
    assert dataset_name(uri) == expected


def test_a_relative_path_is_named_by_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dataset_name("faq.csv") == ("file", str(tmp_path / "faq.csv"))


def test_parts_of_a_dataset_count_together() -> None:
    day = table_at("/lake/feedback", pa.table({"rating": ["good", "bad"]}), 100)
    other = LineageDataset("/lake/loads", rows=1)
    assert merged([day, other, day]) == [LineageDataset("/lake/feedback", {"rating": "string"}, 4, 200), other]
    assert merged([other, other]) == [LineageDataset("/lake/loads", rows=2)]


def test_what_openlineage_is_told() -> None:
    lineage = operator_lineage(
        [LineageDataset("/a/faq.csv")],
        [LineageDataset("assistant://host/help/documents", {"title": "string"}, 3), LineageDataset("s3://b/k")],
    )
    assert lineage.inputs == [InputDataset("file", "/a/faq.csv")]
    schema = SchemaDatasetFacet([SchemaDatasetFacetFields("title", "string")])
    assert lineage.outputs == [
        OutputDataset(
            "assistant://host",
            "help/documents",
            facets={"schema": schema},
            outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=3)},
        ),
        OutputDataset("s3://b", "k", outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet()}),
    ]


def test_an_asset_and_what_a_load_writes_are_one_dataset() -> None:
    asset = Asset(uri="assistant://Host/help/documents/")
    assert convert_asset_to_openlineage(asset, None) == Dataset(*dataset_name("assistant://host/help/documents"))
