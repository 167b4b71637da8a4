"""Operators that load documents: ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.payloads import Payload, QADocument, TextDocument
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.loading.fields import columns_to_read, mapping_of
from airflow_provider_assistant.loading.rows import Rows, TableRows
from airflow_provider_assistant.loading.uploads import FileRows
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.loads import AssistantLoadOperator
from airflow_provider_assistant.operators.source import AssistantSourceOperator, files_in
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import StoragePath
from airflow_provider_assistant.storage.uploads import as_upload


class AssistantLoadRowsOperator(AssistantSourceOperator, AssistantLoadOperator):
    """
    Base of the operators that create one document per row.

    An operator reads the whole source before it sends the first row. It does not send rows that the ledger records as
    created: a re-run, a retry or a second task with the same rows creates no duplicates.

    :param group_columns: Column or columns with the page, file or ticket that a row is a part of, such as ``parent`` of
        chunks. All rows of a group belong to one task. With ``missing_in="groups"``, the load then finds the rows that
        are gone from the groups that it contains, and findings name the group. Default: an empty sequence, no groups.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.source.AssistantSourceOperator` and
    :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = tuple(
        dict.fromkeys(
            (*AssistantLoadOperator.template_fields, *AssistantSourceOperator.template_fields, "group_columns")
        )
    )
    payload: ClassVar[type[Payload]]

    def __init__(self, *, group_columns: str | Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.missing_in == "groups" and not group_columns:
            raise AssistantInputError(
                f"task {self.task_id!r}: missing_in='groups' needs group_columns", field="group_columns"
            )
        self.group_columns = group_columns
        check_given(self)

    @abstractmethod
    def _call(self, site_id: str, document: Any) -> Call[CreatedDocument]:
        """Return the call that creates this document."""

    def _rows(self, site_id: str) -> Rows:
        columns = mapping_of(self.payload, self.columns, self.constants)
        # Not in the constructor: templates and outputs of other tasks have no value before the task runs.
        key_columns = key_names(self.key_columns)
        group_columns = key_names(self.group_columns, "group_columns")
        return TableRows(
            self._source_rows(columns_to_read(self.payload, columns, [*key_columns, *group_columns])),
            payload=self.payload,
            columns=columns,
            constants=self.constants or {},
            key_columns=key_columns,
            group_columns=group_columns,
            call=lambda document: self._call(site_id, document),
            allow_empty=self.allow_empty,
        )


class AssistantLoadQAOperator(AssistantLoadRowsOperator):
    """
    Create one question-and-answer document per row (``POST …/documents/qa``), each row once.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/load-dataframe`

    The fields of a row are ``title``, ``question``, ``answer`` and ``category``. ``title`` and ``category`` are
    optional: they are not sent if the column is missing or empty.

    The parameters are those of
    :class:`~airflow_provider_assistant.operators.documents.AssistantLoadRowsOperator`.
    """

    payload = QADocument
    kind = "qa"

    def _call(self, site_id: str, document: QADocument) -> Call[CreatedDocument]:
        return endpoints.create_qa_document(site_id, document)


class AssistantLoadTextOperator(AssistantLoadRowsOperator):
    """
    Create one text document per row (``POST …/documents/text``), each row once.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/load-dataframe`

    The fields of a row are ``title``, ``content`` and ``category``. ``title`` and ``category`` are optional:
    they are not sent if the column is missing or empty.

    The parameters are those of
    :class:`~airflow_provider_assistant.operators.documents.AssistantLoadRowsOperator`.
    """

    payload = TextDocument
    kind = "text"

    def _call(self, site_id: str, document: TextDocument) -> Call[CreatedDocument]:
        return endpoints.create_text_document(site_id, document)


class AssistantUploadFilesOperator(AssistantLoadOperator):
    """
    Create one document per file (``POST …/documents``), each file once.

    The key of a file is its path below the given folder. The operator reads all files once before it sends the first,
    to compare content hashes with the ledger; it streams each file to the service. The name of the document is that
    path, with hyphens between the folders (``de-readme.pdf``).

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/load/load-dataframe`

    :param files: A path or a list of paths: local paths, object storage URLs, globs or folders. A folder selects all
        files below it.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a folder without files succeeds with zero counts; no document becomes stale then.
        Default: False, an empty source is an error.

    The other parameters are those of :class:`~airflow_provider_assistant.operators.loads.AssistantLoadOperator`.
    """

    template_fields: Sequence[str] = (*AssistantLoadOperator.template_fields, "files", "allowed_root")
    kind = "file"

    def __init__(
        self, *, files: Any, allowed_root: str | None = None, allow_empty: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if self.missing_in == "groups":
            raise AssistantInputError(
                f"task {self.task_id!r}: missing_in must not be 'groups': files have no groups", field="missing_in"
            )
        self.files = files
        self.allowed_root = allowed_root
        self.allow_empty = allow_empty
        check_given(self)

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files, or the folders that contain them."""
        return files_in(self.files)

    def _rows(self, site_id: str) -> Rows:
        account = SourceAccount()
        return FileRows(
            storage_files(self.files, self.allowed_root, allow_empty=self.allow_empty, account=account),
            upload=self._upload,
            call=lambda upload: endpoints.upload_document(site_id, upload),
            notes=account.notes(),
            allowed_root=self.allowed_root,
            allow_empty=self.allow_empty,
        )

    def _upload(self, path: StoragePath, filename: str) -> Upload:
        return as_upload(path, filename, allowed_root=self.allowed_root)
