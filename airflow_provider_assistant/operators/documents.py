"""Operators that load documents: ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.payloads import Payload, QADocument, TextDocument
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.field_columns import mapping_of, wanted_columns
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.loading.options import OF_GROUPS
from airflow_provider_assistant.loading.rows import DataframeRows, Rows
from airflow_provider_assistant.loading.sources import Source
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.loads import AssistantLoadOperator
from airflow_provider_assistant.operators.runs import kept_rows_file
from airflow_provider_assistant.operators.source import AssistantSourceOperator
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.paths import StoragePath
from airflow_provider_assistant.storage.source_files import files_in, storage_files
from airflow_provider_assistant.storage.uploads import as_upload


class AssistantLoadRowsOperator(AssistantSourceOperator, AssistantLoadOperator):
    """
    Base of the operators that create one document per row.

    :param group_columns: Column or columns with the page, file or ticket that a row is a part of, such as ``parent`` of
        chunks. All rows of a group belong to one task. Shards, mapped tasks and ``on_missing="group"`` then find the
        stale rows of the groups that they see, and findings name the group. Default: an empty sequence, no groups.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.source.AssistantSourceOperator` and
    :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = tuple(
        dict.fromkeys(
            (*AssistantLoadOperator.template_fields, *AssistantSourceOperator.template_fields, "group_columns")
        )
    )
    parameter_checks: ClassVar[Checks] = {"group_columns": parameters.names}
    payload: ClassVar[type[Payload]]
    # The open source of the current try and its columns; whether they are rows from before a pause.
    _open_source: Source | None = None
    _column_selection: ColumnSelection | None = None
    _is_kept = False

    def __init__(self, *, group_columns: str | Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.on_missing in OF_GROUPS.values() and not group_columns:
            raise AssistantInputError(
                f"task {self.task_id!r}: on_missing={self.on_missing!r} needs group_columns", field="group_columns"
            )
        self.group_columns = group_columns
        check_given(self)

    def execute_complete(
        self,
        context: Context,
        event: Any = None,
        until: float | None = None,
        rendered: Mapping[str, str] | None = None,
        rows: str | None = None,
    ) -> dict[str, Any]:
        """
        Continue the load after a pause in the triggerer. Rows that were created before count as unchanged.

        :param context: Airflow's task context.
        :param event: The trigger's event. Not used.
        :param until: When ``timeout`` expires, in seconds since the epoch.
        :param rendered: Values of the template fields at the time of the deferral.
        :param rows: Path of the rows that the source had before the pause. Default: None, the source is read again.
        :return: The same as :meth:`execute`.
        """
        from airflow_provider_assistant.loading.kept_rows import KeptRows

        kept_rows = KeptRows(rows) if rows else None
        if kept_rows and kept_rows.exist():
            self.source = kept_rows
            self._is_kept = True
        result = super().execute_complete(context, event, until, rendered)
        if kept_rows:
            # The load is complete, so no later try needs them.
            kept_rows.remove()
        return result

    def _keep_rows(self, run: RunRef) -> dict[str, Any]:
        if not self.is_function or self._open_source is None or self._column_selection is None:
            return {}
        from airflow_provider_assistant.loading.kept_rows import KeptRows

        kept_rows = KeptRows(kept_rows_file(run))
        # After a second pause, the source is this file.
        if self._is_kept or kept_rows.write(self._open_source, self._column_selection):
            return {"rows": str(kept_rows.path)}
        return {}

    @abstractmethod
    def _call(self, site_id: str, document: Any) -> Call[CreatedDocument]:
        """Return the call that creates this document."""

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        columns = mapping_of(self.payload, self.columns, self.constants)
        # Not in the constructor: templates and outputs of other tasks have no value before the task runs.
        key_columns = key_names(self.key_columns)
        group_columns = key_names(self.group_columns, "group_columns")
        selection = wanted_columns(self.payload, columns, [*key_columns, *group_columns])
        with self._opened_source(selection) as source:
            self._open_source = source
            self._column_selection = selection
            yield DataframeRows(
                source,
                payload=self.payload,
                columns=columns,
                constants=self.constants or {},
                key_columns=key_columns,
                group_columns=group_columns,
                call=lambda document: self._call(site_id, document),
                allow_empty=self.allow_empty,
            )

    def _has_whole_source(self, context: Context) -> bool:
        is_shard = isinstance(self.source, Mapping) and "row_groups" in self.source
        return super()._has_whole_source(context) and not is_shard


class AssistantLoadQAOperator(AssistantLoadRowsOperator):
    """
    Create one question-and-answer document per row (``POST …/documents/qa``), each row once.

    The operator reads the whole source before it sends the first row. It does not send rows that the ledger records as
    created: a re-run, a retry or a second task with the same rows creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/load-dataframe`

    The fields of a row are ``title``, ``question``, ``answer`` and ``category``. ``title`` and ``category`` are
    optional: they are not sent if the column is missing or empty.

    The parameters are those of
    :class:`~airflow_provider_assistant.operators.documents.AssistantLoadRowsOperator`.
    """

    payload = QADocument
    endpoint = "documents/qa"
    kind = "qa"

    def _call(self, site_id: str, document: QADocument) -> Call[CreatedDocument]:
        return endpoints.create_qa_document(site_id, document)


class AssistantLoadTextOperator(AssistantLoadRowsOperator):
    """
    Create one text document per row (``POST …/documents/text``), each row once.

    The operator reads the whole source before it sends the first row. It does not send rows that the ledger records as
    created: a re-run, a retry or a second task with the same rows creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/load-dataframe`

    The fields of a row are ``title``, ``content`` and ``category``. ``title`` and ``category`` are optional:
    they are not sent if the column is missing or empty.

    The parameters are those of
    :class:`~airflow_provider_assistant.operators.documents.AssistantLoadRowsOperator`.
    """

    payload = TextDocument
    endpoint = "documents/text"
    kind = "text"

    def _call(self, site_id: str, document: TextDocument) -> Call[CreatedDocument]:
        return endpoints.create_text_document(site_id, document)


class AssistantUploadFilesOperator(AssistantLoadOperator):
    """
    Create one document per file (``POST …/documents``), each file once.

    The key of a file is its path below the given folder. The operator reads all files once before it sends the first,
    to compare content hashes with the ledger; it streams each file to the service. The document has the file's name. If
    several files have the same name, the folders in which they differ become a prefix (``de-readme.md``).

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/upload-files`

    :param files: A path or a list of paths: local paths, object storage URLs, globs or folders. A folder selects all
        files below it.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a folder without files succeeds with zero counts; no document becomes stale then.
        Default: False, an empty source is an error.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLoadOperator.template_fields, "files", "allowed_root")
    parameter_checks: ClassVar[Checks] = {
        "files": parameters.anything,
        "allowed_root": parameters.path,
        "allow_empty": parameters.flag,
    }
    endpoint = "documents"
    kind = "file"

    def __init__(
        self, *, files: Any, allowed_root: str | None = None, allow_empty: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if self.on_missing in OF_GROUPS.values():
            raise AssistantInputError(
                f"task {self.task_id!r}: on_missing must not be {self.on_missing!r}: files have no groups",
                field="on_missing",
            )
        self.files = files
        self.allowed_root = allowed_root
        self.allow_empty = allow_empty
        check_given(self)

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files, or the folders that contain them."""
        return files_in(self.files)

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        account = SourceAccount()
        yield FileRows(
            storage_files(self.files, self.allowed_root, allow_empty=self.allow_empty, account=account),
            upload=self._upload,
            call=lambda upload: endpoints.upload_document(site_id, upload),
            allowed_root=self.allowed_root,
            allow_empty=self.allow_empty,
            account=account,
        )

    def _upload(self, path: StoragePath, filename: str) -> Upload:
        return as_upload(path, filename, allowed_root=self.allowed_root)
