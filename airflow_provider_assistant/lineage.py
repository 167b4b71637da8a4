"""What a task read and wrote, and how OpenLineage calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.openlineage.extractors import OperatorLineage

# As OpenLineage's naming has it.
SCHEMES = {"s3a": "s3", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class Data:
    """
    Something that a task reads or writes.

    :param uri: Path of a file or folder, object storage URL, the URI of an asset, or that of a table:
        ``postgres://host:port/database.schema.table``, ``duckdb:///path/of/file.duckdb/file.schema.table``.
    :param columns: Its columns and their types, as far as they are known.
    :param rows: How many rows the task wrote.
    :param bytes: How many bytes these are.
    """

    uri: str
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: int | None = None
    bytes: int | None = None


def table_at(uri: str, table: pa.Table, size: int | None = None) -> Data:
    """
    Return a table that was written.

    :param uri: Where to.
    :param table: What was written.
    :param size: How many bytes it took.
    """
    columns = {column.name: str(column.type) for column in table.schema}
    return Data(uri, columns, table.num_rows, size)


def dataset_name(uri: str) -> tuple[str, str]:
    """
    Return namespace and name of a dataset, by OpenLineage's rules.

    :param uri: As in :class:`Data`. The id of a connection in it is no part of the name.
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


def operator_lineage(inputs: Iterable[Data], outputs: Iterable[Data]) -> OperatorLineage[Any, Any]:
    """
    Return what OpenLineage's provider asks an operator for; it must be installed.

    :param inputs: What the task read.
    :param outputs: What it wrote; parts of one dataset count together.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        InputDataset,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage

    def schema(data: Data) -> dict[str, Any]:
        fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in data.columns.items()]
        return {"schema": SchemaDatasetFacet(fields=fields)} if fields else {}

    def statistics(data: Data) -> dict[str, Any]:
        return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=data.rows, size=data.bytes)}

    def named(data: Data) -> dict[str, Any]:
        namespace, name = dataset_name(data.uri)
        return {"namespace": namespace, "name": name, "facets": schema(data)}

    return OperatorLineage(
        inputs=[InputDataset(**named(data)) for data in inputs],
        outputs=[OutputDataset(**named(data), outputFacets=statistics(data)) for data in merged(outputs)],
    )


def merged(written: Iterable[Data]) -> list[Data]:
    """Return each dataset once, with the rows and bytes of all its parts."""
    found: dict[str, Data] = {}
    for data in written:
        if (before := found.get(data.uri)) is None:
            found[data.uri] = data
        else:
            rows, size = _total(before.rows, data.rows), _total(before.bytes, data.bytes)
            found[data.uri] = replace(data, rows=rows, bytes=size)
    return list(found.values())


def _total(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
