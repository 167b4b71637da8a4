"""Operators that load documents: ``POST …/documents``, ``…/documents/text`` and ``…/documents/qa``."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call, Upload
from airflow_provider_assistant.api.payloads import Payload, QADocument, TextDocument
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.keys import key_names
from airflow_provider_assistant.loading.field_columns import mapping_of, wanted_columns
from airflow_provider_assistant.loading.file_rows import FileRows
from airflow_provider_assistant.loading.rows import DataframeRows, Rows
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.loads import AssistantLoadOperator
from airflow_provider_assistant.operators.source import AssistantSourceOperator
from airflow_provider_assistant.storage.paths import StoragePath, check_inside, files_in, storage_files
from airflow_provider_assistant.storage.uploads import as_upload


class AssistantLoadRowsOperator(AssistantLoadOperator, AssistantSourceOperator):
    """
    Base of the operators that create one document per row.

    :param source: The rows: a dataframe (pandas, polars, pyarrow, DuckDB, …); a list of mappings, such as the output of
        another task; a path, object storage URL, glob or folder of Parquet, CSV or JSON Lines files, or a list of
        these; or a callable that runs on the worker and returns one of these or yields batches of rows.
    :param columns: Mapping from a field to its column, for columns whose name differs. Default: None.
    :param constants: Mapping from a field to one value for all rows. Default: None.
    :param key_columns: Column or columns that identify a row. Default: the whole content of the row. Keys are compared
        as text, whatever the type of the column, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param group_columns: Column or columns with the page, file or ticket that a row is a part of, such as ``parent`` of
        chunks. All rows of a group belong to one task. Shards, mapped tasks and ``on_missing="group"`` then find the
        stale rows of the groups that they see, and findings name the group. Default: none.
    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``group`` lists only those in the groups that the source contains, and
        needs ``group_columns``; ``ignore`` does not look for them. Use ``ignore`` if the source contains only new rows.
    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_rejected: Number of rejected rows that the task tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. Needs the ledger. Default: Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a source without rows or files succeeds with zero counts; no document becomes stale
        then. Default: False, an empty source is an error.
    :param ledger: Whether to record in the ledger which rows were created. Default: True. Without the ledger, every run
        creates every row again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = tuple(
        dict.fromkeys(
            (*AssistantLoadOperator.template_fields, *AssistantSourceOperator.template_fields, "group_columns")
        )
    )

    payload: ClassVar[type[Payload]]
    on_missing_choices: ClassVar[tuple[str, ...]] = ("stale", "group", "ignore")

    def __init__(self, *, group_columns: str | Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.on_missing == "group" and not group_columns:
            raise ValueError("on_missing='group' needs group_columns")
        self.group_columns = group_columns

    @abstractmethod
    def _call(self, site_id: str, document: Any) -> Call[CreatedDocument]:
        """Return the call that creates this document."""

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        columns = mapping_of(self.payload, self.columns, self.constants)
        # Not in the constructor: templates and outputs of other tasks have no value before the task runs.
        keys, groups = key_names(self.key_columns), key_names(self.group_columns, "group_columns")
        wanted = wanted_columns(self.payload, columns, [*keys, *groups])
        options: dict[str, Any] = {"csv_options": self.csv_options, "allow_empty": self.allow_empty}
        with open_source(self.source, wanted, self.allowed_root, **options) as source:
            yield DataframeRows(
                source,
                payload=self.payload,
                columns=columns,
                constants=self.constants or {},
                key_columns=keys,
                group_columns=groups,
                call=lambda document: self._call(site_id, document),
                allow_empty=self.allow_empty,
            )

    def _is_whole(self, context: Context) -> bool:
        is_shard = isinstance(self.source, Mapping) and "row_groups" in self.source
        return super()._is_whole(context) and not is_shard


class AssistantLoadQAOperator(AssistantLoadRowsOperator):
    """
    Create one question-and-answer document per row (``POST …/documents/qa``), each row once.

    The operator reads the whole source before it sends the first row. It does not send rows that the ledger records as
    created: a re-run, a retry or a second task with the same rows creates no duplicates.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/howto/load-dataframe`

    :param source: The rows: a dataframe (pandas, polars, pyarrow, DuckDB, …); a list of mappings, such as the output of
        another task; a path, object storage URL, glob or folder of Parquet, CSV or JSON Lines files, or a list of
        these; or a callable that runs on the worker and returns one of these or yields batches of rows.
    :param columns: Mapping from a field to its column, for columns whose name differs: ``{"title": "headline"}``. The
        fields are ``title``, ``question``, ``answer`` and ``category``. ``title`` and ``category`` are optional: they
        are not sent if the column is missing or empty. Default: None.
    :param constants: Mapping from a field to one value for all rows. Default: None.
    :param key_columns: Column or columns that identify a row. Default: the whole content of the row. Keys are compared
        as text, whatever the type of the column, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param group_columns: Column or columns with the page, file or ticket that a row is a part of, such as ``parent`` of
        chunks. All rows of a group belong to one task. Shards, mapped tasks and ``on_missing="group"`` then find the
        stale rows of the groups that they see, and findings name the group. Default: none.
    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``group`` lists only those in the groups that the source contains, and
        needs ``group_columns``; ``ignore`` does not look for them. Use ``ignore`` if the source contains only new rows.
    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_rejected: Number of rejected rows that the task tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. Needs the ledger. Default: Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a source without rows or files succeeds with zero counts; no document becomes stale
        then. Default: False, an empty source is an error.
    :param ledger: Whether to record in the ledger which rows were created. Default: True. Without the ledger, every run
        creates every row again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
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
        :doc:`/howto/load-dataframe`

    :param source: The rows: a dataframe (pandas, polars, pyarrow, DuckDB, …); a list of mappings, such as the output of
        another task; a path, object storage URL, glob or folder of Parquet, CSV or JSON Lines files, or a list of
        these; or a callable that runs on the worker and returns one of these or yields batches of rows.
    :param columns: Mapping from a field to its column, for columns whose name differs: ``{"title": "headline"}``. The
        fields are ``title``, ``content`` and ``category``. ``title`` and ``category`` are optional: they are not sent
        if the column is missing or empty. Default: None.
    :param constants: Mapping from a field to one value for all rows. Default: None.
    :param key_columns: Column or columns that identify a row. Default: the whole content of the row. Keys are compared
        as text, whatever the type of the column, see :func:`~airflow_provider_assistant.keys.key_text`.
    :param group_columns: Column or columns with the page, file or ticket that a row is a part of, such as ``parent`` of
        chunks. All rows of a group belong to one task. Shards, mapped tasks and ``on_missing="group"`` then find the
        stale rows of the groups that they see, and findings name the group. Default: none.
    :param csv_options: Format of CSV files: a mapping with ``delimiter`` (default ``,``), ``encoding`` (default
        ``utf-8``) and ``quote`` (default ``"``).
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``group`` lists only those in the groups that the source contains, and
        needs ``group_columns``; ``ignore`` does not look for them. Use ``ignore`` if the source contains only new rows.
    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_rejected: Number of rejected rows that the task tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. Needs the ledger. Default: Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a source without rows or files succeeds with zero counts; no document becomes stale
        then. Default: False, an empty source is an error.
    :param ledger: Whether to record in the ledger which rows were created. Default: True. Without the ledger, every run
        creates every row again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
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
        :doc:`/howto/upload-files`

    :param files: A path or a list of paths: local paths, object storage URLs, globs or folders. A folder selects all
        files below it.
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``ignore`` does not look for them. Use ``ignore`` if the source contains
        only new rows.
    :param namespace: Separates the keys of this load from those of other loads, for tables whose keys overlap. Changing
        it creates every row again. Default: one namespace for all loads of a site and a kind of document.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``fail`` (default) fails before the first row
        is sent; ``fit`` creates as many as there is room for, in the order of the source, skips the others and lists
        them; ``ignore`` does not read the limits. Limits that cannot be read or understood do not stop a load.
    :param max_rejected: Number of rejected rows that the task tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    :param findings_path: Parquet file for the findings, the rows that a person should look at: a local path or an
        object storage URL. Default: a file in ``[assistant] findings_folder``, written only if there are
        findings.
    :param source_name: Name of the source in the ledger. A document becomes stale when the source of this name no
        longer contains its row. Default: ``<dag_id>.<task_id>``.
    :param max_concurrency: Maximum number of requests in flight. Default: that of the connection.
    :param deferrable: Whether to spend a pause of more than five minutes in the triggerer instead of failing, when the
        service asks the task to back off. Needs the ledger. Default: Airflow's ``[operators] default_deferrable``.
    :param timeout: Longest total time of a try that defers, pauses included, in seconds or as a timedelta. After that,
        the task fails instead of deferring again. Default: 86400, one day.
    :param allowed_root: Folder that all files must lie in after symbolic links are resolved: a local path or an object
        storage URL. Default: None, files may lie anywhere.
    :param allow_empty: Whether a source without rows or files succeeds with zero counts; no document becomes stale
        then. Default: False, an empty source is an error.
    :param ledger: Whether to record in the ledger which rows were created. Default: True. Without the ledger, every run
        creates every row again.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection, or else of
        Airflow's configuration.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param tenant_id: The tenant. Default: that of the connection.
    :param site_id: The site. Default: that of the connection.
    """

    template_fields: Sequence[str] = (*AssistantLoadOperator.template_fields, "files", "allowed_root")
    endpoint = "documents"
    kind = "file"

    def __init__(
        self, *, files: Any, allowed_root: str | None = None, allow_empty: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.files = files
        self.allowed_root = allowed_root
        self.allow_empty = allow_empty

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the files, or the folders that contain them."""
        return files_in(self.files)

    @contextlib.contextmanager
    def _rows(self, site_id: str) -> Iterator[Rows]:
        yield FileRows(
            storage_files(self.files, self.allowed_root, allow_empty=self.allow_empty),
            upload=self._upload,
            call=lambda upload: endpoints.upload_document(site_id, upload),
            allow_empty=self.allow_empty,
        )

    def _upload(self, path: StoragePath, filename: str) -> Upload:
        # Check again: a symbolic link may have changed since the files were listed.
        check_inside(path, self.allowed_root)
        return as_upload(path, filename)
