"""A wrapper for sources that Airflow must not render as templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_assistant.loading.columns import BATCH
from airflow_provider_assistant.texts import shortened

# Characters of the column names in the short description of a source.
NAMES_LENGTH = 200


class Untemplated:
    """
    Wrap a source so that Airflow neither renders, calls nor displays it in full.

    :param value: Rows, a dataframe, a callable or an iterator.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self) -> str:
        """Return a short description for Airflow's rendered fields: type, number of rows and columns."""
        source, kind = self.value, type(self.value).__name__
        if is_dataframe(source):
            names = source.column_names if hasattr(type(source), "column_names") else source.columns
        elif isinstance(source, list | tuple):
            # Ignore elements that are not mappings; the load refuses them later.
            names = dict.fromkeys(name for row in source[:BATCH] if isinstance(row, Mapping) for name in row)
        else:
            return f"{getattr(source, '__qualname__', kind)}()" if callable(source) else kind
        count = f"{len(source):,} row{'' if len(source) == 1 else 's'}"
        listed = ", ".join(map(str, names))
        return f"{kind}, {count}: {shortened(listed, NAMES_LENGTH)}"


def without_templating(source: Any) -> Any:
    """
    Wrap a source in :class:`Untemplated` unless it is a template.

    Airflow would render rows as templates, although a row about Jinja must be sent unchanged, and would call a
    callable with its context.

    :param source: Any source that :func:`open_source` takes.
    :return: The wrapped source; paths, URLs and templates unchanged.
    """
    is_several = isinstance(source, list | tuple) and any(map(_is_content, source))
    return Untemplated(source) if is_several or _is_content(source) or callable(source) else source


def _is_content(source: Any) -> bool:
    is_rows = isinstance(source, list | tuple) and any(isinstance(row, Mapping) for row in source)
    return is_rows or hasattr(type(source), "__arrow_c_stream__") or isinstance(source, Iterator)


def is_dataframe(source: Any) -> bool:
    """Return whether a source is a table in memory, which can be streamed repeatedly."""
    kind = type(source)
    package = kind.__module__.partition(".")[0]
    return hasattr(source, "__arrow_c_stream__") and (package, kind.__name__) in {
        ("pandas", "DataFrame"),
        ("polars", "DataFrame"),
        ("pyarrow", "Table"),
    }
