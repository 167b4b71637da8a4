"""A wrapper for sources that Airflow must neither render as templates nor show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_assistant.tables.frames import is_frame
from airflow_provider_assistant.texts import counted


class Untemplated:
    """
    Wrap a source so that Airflow neither renders, calls nor displays it in full.

    Airflow's own ``literal()`` is not enough: the page of rendered fields would show all rows.

    :param value: Rows, a dataframe, a callable or an iterator.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def serialize(self) -> str:
        """Return a short description for Airflow's rendered fields, such as ``list, 2 rows``."""
        source = self.value
        name = type(source).__name__
        if callable(source) and not is_frame(source):
            return f"{getattr(source, '__qualname__', name)}()"
        is_table = isinstance(source, list | tuple) or name in {"DataFrame", "Table"}
        return f"{name}, {counted(len(source), 'row')}" if is_table else name


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
