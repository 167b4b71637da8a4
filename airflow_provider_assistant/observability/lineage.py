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
    return LineageDataset(uri, columns, table.num_rows, size)


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
        file, _, name = parts.path.rpartition("/")
        return f"duckdb://{file}", name
    scheme, host = SCHEMES.get(parts.scheme, parts.scheme), parts.netloc.rpartition("@")[2]
    return f"{scheme}://{host}", parts.path.strip("/") or "/"


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

    def schema(data: LineageDataset) -> dict[str, Any]:
        fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in data.columns.items()]
        return {"schema": SchemaDatasetFacet(fields=fields)} if fields else {}

    def statistics(data: LineageDataset) -> dict[str, Any]:
        return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=data.rows, size=data.bytes)}

    def named(data: LineageDataset) -> dict[str, Any]:
        namespace, name = dataset_name(data.uri)
        return {"namespace": namespace, "name": name, "facets": schema(data)}

    return OperatorLineage(
        inputs=[InputDataset(**named(data)) for data in inputs],
        outputs=[OutputDataset(**named(data), outputFacets=statistics(data)) for data in merged(outputs)],
    )


def merged(written: Iterable[LineageDataset]) -> list[LineageDataset]:
    """Return each dataset once, with the rows and bytes of its entries added up."""
    found: dict[str, LineageDataset] = {}
    for data in written:
        if (before := found.get(data.uri)) is None:
            found[data.uri] = data
        else:
            rows, size = _total(before.rows, data.rows), _total(before.bytes, data.bytes)
            found[data.uri] = replace(data, rows=rows, bytes=size)
    return list(found.values())


def _total(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
