"""Operators that load documents: ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.models import CreatedDocument, Payload, QADocument, TextDocument
from airflow_provider_assistant.hooks.files import as_upload
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.lineage import Data
from airflow_provider_assistant.loading.rooted import check_inside
from airflow_provider_assistant.loading.rows import DataframeRows, FileRows, Rows, mapping_of, wanted_columns
from airflow_provider_assistant.loading.source import Path_, files_in, open_source, storage_files, storage_path
from airflow_provider_assistant.operators.base import SourceField
from airflow_provider_assistant.operators.loads import AssistantLoadOperator


class AssistantLoadRowsOperator(AssistantLoadOperator):
    """What loading question-and-answer and text documents share: rows become documents."""

    template_fields: Sequence[str] = (
        *AssistantLoadOperator.template_fields,
        "source",
        "columns",
        "constants",
        "key_columns",
        "csv_options",
    )
    source = SourceField()

    payload: ClassVar[type[Payload]]

    def __init__(
        self,
        *,
        source: Any,
        columns: Mapping[str, str] | None = None,
        constants: Mapping[str, str] | None = None,
        key_columns: str | Sequence[str] = (),
        csv_options: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.columns = columns
        self.constants = constants
        self.key_columns = key_columns
        self.csv_options = csv_options

    @abstractmethod
    def _call(self, site_id: str, document: Any) -> Call[CreatedDocument]:
        """Return the call that creates this document."""

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        columns = mapping_of(self.payload, self.columns, self.constants)
        # Not in the constructor: a template or another task's output is a text or a list only when the task runs.
        keys = key_names(self.key_columns)
        wanted = wanted_columns(self.payload, columns, keys)
        options: dict[str, Any] = {"csv_options": self.csv_options, "allow_empty": self.allow_empty}
        with open_source(self.source, wanted, self.root, **options) as source:
            yield DataframeRows(
                source,
                payload=self.payload,
                columns=columns,
                constants=self.constants or {},
                key_columns=keys,
                call=lambda document: self._call(site_id, document),
                allow_empty=self.allow_empty,
            )

    def reads(self) -> Sequence[Data]:
        """Return the files, where the rows come from files."""
        return files_in(self.source)

    def _is_whole(self, context: Context) -> bool:
        is_shard = isinstance(self.source, Mapping) and "row_groups" in self.source
        return super()._is_whole(context) and not is_shard


class AssistantLoadQAOperator(AssistantLoadRowsOperator):
    """
    Create one question-and-answer document per row (``POST …/documents/qa``), each row once.

    The whole source is read before the first row is sent. Rows that the ledger has as created are not sent again, so a
    re-run, a retry or a second task with the same rows creates nothing twice.

    :param source: A dataframe (pandas, polars, pyarrow, DuckDB, …), a list of mappings, usually what another
        task returned; a path, object storage URL, glob, folder, or list of these, of Parquet, CSV or JSON
        lines; or a callable that returns one of these, or yields batches, and runs on the worker.
    :param columns: Mapping from a field to its column, for columns whose name differs; the fields are ``title``,
        ``question``, ``answer`` and ``category``. Title and category are optional: without their column, or in a row
        where it is empty, they are not sent.
    :param constants: Fields with one value for all rows.
    :param key_columns: Columns that identify a row. Default: its whole content. Values are compared by value and not
        by type, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param csv_options: How CSV files are written: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).

    The other parameters are those of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    payload = QADocument
    endpoint = "documents/qa"
    kind = "qa"

    def _call(self, site_id: str, document: QADocument) -> Call[CreatedDocument]:
        return endpoints.create_qa_document(site_id, document)


class AssistantLoadTextOperator(AssistantLoadRowsOperator):
    """
    Create one text document per row (``POST …/documents/text``), each row once.

    The whole source is read before the first row is sent. Rows that the ledger has as created are not sent again, so a
    re-run, a retry or a second task with the same rows creates nothing twice.

    :param source: As for :class:`AssistantLoadQAOperator`.
    :param columns: Mapping from a field to its column, for columns whose name differs; the fields are ``title``,
        ``content`` and ``category``. Title and category are optional: without their column, or in a row where it is
        empty, they are not sent.
    :param constants: Fields with one value for all rows.
    :param key_columns: Columns that identify a row. Default: its whole content. Values are compared by value and not
        by type, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param csv_options: How CSV files are written: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).

    The other parameters are those of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    payload = TextDocument
    endpoint = "documents/text"
    kind = "text"

    def _call(self, site_id: str, document: TextDocument) -> Call[CreatedDocument]:
        return endpoints.create_text_document(site_id, document)


class AssistantUploadFilesOperator(AssistantLoadOperator):
    """
    Create one document per file (``POST …/documents``), each file once; files are streamed.

    The key of a file is its path below the given folder, and its content decides whether it has changed: all files are
    read once before the first is sent. The service sees the file's name; if several files have the same name, it is
    prefixed with the folders in which they differ (``de-readme.md``).

    :param files: One path or several: local paths, object storage URLs, globs or folders. A folder stands for
        all files below it.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLoadOperator.template_fields, "files")
    endpoint = "documents"
    kind = "file"

    def __init__(self, *, files: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.files = files

    def reads(self) -> Sequence[Data]:
        """Return the files, or the folders that they are in."""
        return files_in(self.files)

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        yield FileRows(
            storage_files(self.files, self.root, allow_empty=self.allow_empty),
            upload=self._upload,
            call=lambda upload: endpoints.upload_document(site_id, upload),
            allow_empty=self.allow_empty,
        )

    def _upload(self, path: Path_, filename: str) -> Upload:
        # Checked again, because a link may have been changed since the files were listed.
        check_inside(path, None if self.root is None else storage_path(self.root))
        return as_upload(path, filename)
