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
    """

    uri: str
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None


def table_at(uri: str, table: pa.Table) -> LineageDataset:
    """Return the description of a table that a task wrote, with its columns and row count."""
    return LineageDataset(uri, {column.name: str(column.type) for column in table.schema}, table.num_rows)


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
    scheme = SCHEMES.get(parts.scheme, parts.scheme)
    _, _, host = parts.netloc.rpartition("@")
    return f"{scheme}://{host}", parts.path.strip("/") or "/"


def operator_lineage(inputs: Iterable[LineageDataset], outputs: Iterable[LineageDataset]) -> OperatorLineage[Any, Any]:
    """
    Return an operator's lineage for Airflow's OpenLineage provider, which must be installed.

    :param outputs: What the task wrote; the rows of entries with the same URI are added up.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        InputDataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage

    def described(dataset: LineageDataset) -> dict[str, Any]:
        namespace, name = dataset_name(dataset.uri)
        fields = [SchemaDatasetFacetFields(name=column, type=kind) for column, kind in dataset.columns.items()]
        return {
            "namespace": namespace,
            "name": name,
            "facets": {"schema": SchemaDatasetFacet(fields=fields)} if fields else {},
        }

    written: dict[str, LineageDataset] = {}
    for output in outputs:
        earlier = written.get(output.uri)
        rows = output.rows
        if earlier:
            # A total with an unknown part is unknown.
            rows = None if rows is None or earlier.rows is None else rows + earlier.rows
        written[output.uri] = replace(output, rows=rows)
    output_datasets = []
    for output in written.values():
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=output.rows)
        output_datasets.append(OutputDataset(**described(output), outputFacets={"outputStatistics": statistics}))
    return OperatorLineage(inputs=[InputDataset(**described(dataset)) for dataset in inputs], outputs=output_datasets)
