"""Base class of the operators that send one request per row of a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantOperator
from airflow_provider_assistant.parsing.pages import Note
from airflow_provider_assistant.storage.listing import listed_paths, split_glob
from airflow_provider_assistant.tables import Batch, Columns, read_rows
from airflow_provider_assistant.tables.untemplated import without_templating


def files_in(source: Any) -> list[LineageDataset]:
    """
    Return the files that a source refers to, without accessing them, for lineage.

    :return: One entry per path, URL or folder; a glob is represented by its folder. Empty for rows and dataframes.
    """
    paths = [path for path in listed_paths(source) if isinstance(path, str | Path | ObjectStoragePath)]
    # A dict, to keep the order and drop repetitions.
    locations = dict.fromkeys(split_glob(str(path))[0] for path in paths)
    return list(map(LineageDataset, locations))


class UntemplatedField:
    """A template field that keeps a source as given, whether the DAG file or Airflow's rendering sets it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, operator: Any, owner: type | None = None) -> Any:
        return self if operator is None else vars(operator)[self._name]

    def __set__(self, operator: Any, source: Any) -> None:
        vars(operator)[self._name] = without_templating(source)


class AssistantSourceOperator(AssistantOperator):
    """
    Base of the operators that send one request per row of a source.

    :param source: The rows: a dataframe (pandas, polars, pyarrow, DuckDB, …); a list of mappings, such as the output of
        another task; a path, object storage URL, glob or folder of Parquet, CSV or JSON files, or a list of
        these; or a callable that runs on the worker and returns one of these or yields batches of rows.
    :param columns: Mapping from a field to its column, for columns whose name differs: ``{"title": "headline"}``.
        Default: None.
    :param constants: Mapping from a field to one value for all rows: ``{"category": "faq"}``. Default: None.
    :param key_columns: Column or columns that identify a row. Default: an empty sequence, the whole content of the row
        identifies it. Keys are compared as text, whatever the type of the column, see
        :func:`~airflow_provider_assistant.keys.key_text`.
    :param csv_options: Format of files: a mapping with some of the fields of
        :class:`~airflow_provider_assistant.tables.csv_files.CsvOptions`, such as ``delimiter`` and ``encoding``.
        Default: None.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a source without rows or files succeeds with zero counts. A load then marks no document
        as stale. Default: False, an empty source is an error.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.base.AssistantOperator`.
    """

    template_fields: Sequence[str] = (
        *AssistantOperator.template_fields,
        "source",
        "columns",
        "constants",
        "key_columns",
        "csv_options",
        "allowed_root",
    )
    source = UntemplatedField()

    def __init__(
        self,
        *,
        source: Any,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = (),
        csv_options: Mapping[str, Any] | None = None,
        allowed_root: str | None = None,
        allow_empty: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Rows that a function returns may be others at the next call.
        self.is_function = callable(source) and not hasattr(source, "__arrow_c_stream__")
        self.source = source
        self.columns = columns
        self.constants = constants
        self.key_columns = key_columns
        self.csv_options = csv_options
        self.allowed_root = allowed_root
        self.allow_empty = allow_empty
        check_given(self)

    def _source_rows(self, columns: Columns) -> Iterator[Batch | Note]:
        """Return these columns of the rows, and what the source left out. They can be read once."""
        return read_rows(
            self.source,
            columns,
            csv_options=self.csv_options,
            allowed_root=self.allowed_root,
            allow_empty=self.allow_empty,
        )

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files of the source; empty if the rows do not come from files."""
        return files_in(self.source)
