"""A wrapper for sources that Airflow must not render as templates."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from airflow_provider_assistant.loading.columns import BATCH
from airflow_provider_assistant.texts import counted, shortened

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
        source = self.value
        type_name = type(source).__name__
        if not is_dataframe(source) and not isinstance(source, list | tuple):
            if callable(source):
                function_name = getattr(source, "__qualname__", type_name)
                return f"{function_name}()"
            return type_name
        column_names = ", ".join(map(str, _column_names(source)))
        return f"{type_name}, {counted(len(source), 'row')}: {shortened(column_names, NAMES_LENGTH)}"


def _column_names(source: Any) -> Iterable[Any]:
    """Return the columns of a dataframe, or of the first rows of a list."""
    if isinstance(source, list | tuple):
        # Ignore elements that are not mappings; the load refuses them later.
        rows = [row for row in source[:BATCH] if isinstance(row, Mapping)]
        return dict.fromkeys(itertools.chain.from_iterable(rows))
    # In a table of pyarrow, ``columns`` holds the values.
    if hasattr(type(source), "column_names"):
        return cast("Iterable[Any]", source.column_names)
    return cast("Iterable[Any]", source.columns)


def without_templating(source: Any) -> Any:
    """
    Wrap a source in :class:`Untemplated` unless it is a template.

    Airflow would render rows as templates, although a row about Jinja must be sent unchanged, and would call a
    callable with its context.

    :param source: Any source that :func:`open_source` takes.
    :return: The wrapped source; paths, URLs and templates unchanged.
    """
    has_contents = isinstance(source, list | tuple) and any(map(_is_content, source))
    if has_contents or _is_content(source) or callable(source):
        return Untemplated(source)
    return source


def _is_content(source: Any) -> bool:
    """Return whether a source holds rows itself; paths and templates only name where rows are."""
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
