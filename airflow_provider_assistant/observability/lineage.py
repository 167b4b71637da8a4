"""OpenLineage datasets that a task read and wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.openlineage.extractors import OperatorLineage

# URL schemes that OpenLineage's naming convention replaces.
SCHEMES = {"s3a": "s3", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class LineageDataset:
    """
    A file, folder, table or asset that a task reads or writes.

    :param uri: Path of a file or folder, object storage URL, URI of an asset, or URI of a table:
        ``postgres://host:port/database.schema.table``, ``duckdb:///path/of/file.duckdb/file.schema.table``.
    :param columns: Type by column name. Empty if unknown.
    :param rows: Number of rows that the task wrote. None if unknown.
    :param bytes: Number of bytes that the task wrote. None if unknown.
    """

    uri: str
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    bytes: int | None = None


def table_at(uri: str, table: pa.Table, size: int | None = None) -> LineageDataset:
    """
    Return the description of a table that a task wrote, with its columns and row count.

    :param size: Number of bytes written, or None if unknown.
    """
    columns = {column.name: str(column.type) for column in table.schema}
    return LineageDataset(uri=uri, columns=columns, rows=table.num_rows, bytes=size)


def dataset_name(uri: str) -> tuple[str, str]:
    """
    Return the namespace and the name of a dataset by OpenLineage's naming convention.

    :param uri: As in :class:`LineageDataset`. A connection id before ``@`` is ignored.
    """
    if "://" not in uri:
        return "file", str(Path(uri).absolute())
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return "file", parts.path
    if parts.scheme == "duckdb":
        file, _, table = parts.path.rpartition("/")
        return f"duckdb://{file}", table
    scheme = parts.scheme
    if scheme in SCHEMES:
        scheme = SCHEMES[scheme]
    _, _, host = parts.netloc.rpartition("@")
    name = parts.path.strip("/") or "/"
    return f"{scheme}://{host}", name


def operator_lineage(inputs: Iterable[LineageDataset], outputs: Iterable[LineageDataset]) -> OperatorLineage[Any, Any]:
    """
    Return an operator's lineage for Airflow's OpenLineage provider, which must be installed.

    :param outputs: What the task wrote; entries with the same URI are added up.
    :return: Inputs with their columns, and outputs with their columns, rows and bytes.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        InputDataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage

    def schema_facet(dataset: LineageDataset) -> dict[str, Any]:
        columns = dataset.columns.items()
        fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns]
        if not fields:
            return {}
        return {"schema": SchemaDatasetFacet(fields=fields)}

    input_datasets = []
    for dataset in inputs:
        namespace, name = dataset_name(dataset.uri)
        facets = schema_facet(dataset)
        input_datasets.append(InputDataset(namespace=namespace, name=name, facets=facets))
    output_datasets = []
    for dataset in merged(outputs):
        namespace, name = dataset_name(dataset.uri)
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=dataset.rows, size=dataset.bytes)
        output_dataset = OutputDataset(
            namespace=namespace,
            name=name,
            facets=schema_facet(dataset),
            outputFacets={"outputStatistics": statistics},
        )
        output_datasets.append(output_dataset)
    return OperatorLineage(inputs=input_datasets, outputs=output_datasets)


def merged(written: Iterable[LineageDataset]) -> list[LineageDataset]:
    """Return each dataset once, with the rows and bytes of its entries added up."""
    dataset_by_uri: dict[str, LineageDataset] = {}
    for dataset in written:
        earlier = dataset_by_uri.get(dataset.uri)
        if earlier is None:
            dataset_by_uri[dataset.uri] = dataset
            continue
        rows = _total(earlier.rows, dataset.rows)
        size = _total(earlier.bytes, dataset.bytes)
        dataset_by_uri[dataset.uri] = replace(dataset, rows=rows, bytes=size)
    return list(dataset_by_uri.values())


def _total(number: int | None, other: int | None) -> int | None:
    # A total with an unknown part is unknown.
    if number is None or other is None:
        return None
    return number + other
