"""Read a whole source into one table."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa


def table_of(source: Source) -> pa.Table:
    """
    Return all rows of a source as one table.

    :param source: The open source.
    :raises AssistantInputError: A column has values of several types.
    """
    import pyarrow as pa

    columns: dict[str, list[Any]] = {}
    rows = 0
    for batch in source.batches():
        for name, values in batch.columns.items():
            columns.setdefault(name, [None] * rows).extend(values)
        rows += len(batch)
        for values in columns.values():
            values.extend(itertools.repeat(None, rows - len(values)))
    try:
        return pa.table({name: pa.array(values) for name, values in columns.items()})
    except (pa.ArrowException, TypeError) as error:
        raise AssistantInputError(f"source: a column holds several types: {error}", field="source") from error
