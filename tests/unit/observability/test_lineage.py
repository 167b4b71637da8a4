"""How datasets are called, and what OpenLineage is told."""

from __future__ import annotations

from pathlib import Path

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
from airflow_provider_assistant.observability.lineage import LineageDataset, dataset_name, operator_lineage


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/statistics", ("file", "/lake/statistics")),
        ("file:///lake/statistics", ("file", "/lake/statistics")),
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


def test_openlineage_gets_columns_and_the_rows_of_all_parts() -> None:
    day = LineageDataset("assistant://host/help/documents", {"title": "string"}, 3)
    lineage = operator_lineage([LineageDataset("/a/faq.csv")], [day, LineageDataset("s3://b/k"), day])
    assert lineage.inputs == [InputDataset("file", "/a/faq.csv")]
    schema = SchemaDatasetFacet([SchemaDatasetFacetFields("title", "string")])
    assert lineage.outputs == [
        OutputDataset(
            "assistant://host",
            "help/documents",
            facets={"schema": schema},
            outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=6)},
        ),
        OutputDataset("s3://b", "k", outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet()}),
    ]


def test_an_asset_and_what_a_load_writes_are_one_dataset() -> None:
    asset = Asset(uri="assistant://Host/help/documents/")
    assert convert_asset_to_openlineage(asset, None) == Dataset(*dataset_name("assistant://host/help/documents"))
