"""A wrapper for sources that Airflow must neither render as templates nor show."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from airflow_provider_assistant.tables.batches import BATCH
from airflow_provider_assistant.tables.frames import is_frame
from airflow_provider_assistant.texts import counted, shortened

# Characters of the column names in the short description of a source.
NAMES_LENGTH = 200


class Untemplated:
    """
    Wrap a source so that Airflow neither renders, calls nor displays it in full.

    Airflow's own ``literal()`` is not enough: the page of rendered fields would show all rows.

    :param value: Rows, a dataframe, a callable or an iterator.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self) -> str:
        """Return a short description for Airflow's rendered fields: type, rows and columns."""
        source = self.value
        type_name = type(source).__name__
        if isinstance(source, list | tuple) or type_name in {"DataFrame", "Table"}:
            names = ", ".join(map(str, _column_names(source)))
            return f"{type_name}, {counted(len(source), 'row')}: {shortened(names, NAMES_LENGTH)}"
        if callable(source):
            return f"{getattr(source, '__qualname__', type_name)}()"
        return type_name


def _column_names(source: Any) -> Iterable[Any]:
    """Return the columns of a dataframe, or of the first rows of a list."""
    if isinstance(source, list | tuple):
        rows = [row for row in source[:BATCH] if isinstance(row, Mapping)]
        return dict.fromkeys(itertools.chain.from_iterable(rows))
    # In a table of pyarrow, ``columns`` holds the values.
    is_arrow = hasattr(type(source), "column_names")
    return cast("Iterable[Any]", source.column_names if is_arrow else source.columns)


def without_templating(source: Any) -> Any:
    """
    Wrap a source in :class:`Untemplated` if it holds rows, or returns them.

    Airflow would render rows as templates, although a row about Jinja must be sent unchanged, and
    would call a callable with its context.

    :return: The wrapped source; paths, URLs and templates unchanged.
    """
    contents = [source, *source] if isinstance(source, list | tuple) else [source]
    if callable(source) or any(map(_is_content, contents)):
        return Untemplated(source)
    return source


def _is_content(source: Any) -> bool:
    is_rows = isinstance(source, list | tuple) and any(isinstance(row, Mapping) for row in source)
    return is_rows or is_frame(source) or isinstance(source, Iterator)
