"""The operator that loads the Parquet datasets into a warehouse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.from_lake import FromLakeOperator

if TYPE_CHECKING:
    from airflow_provider_assistant.lake import warehouse


class AssistantParquetToWarehouseOperator(FromLakeOperator):
    """
    Load the partitions that changed into DuckDB or PostgreSQL, and update the views.

    Each dataset has a table of the same name. The column ``date`` is the day of the partition. A
    load brings every partition whose files changed since they were loaded: after a pause, a late
    export or a backfill, too. One transaction replaces all these days of all datasets, so a re-run
    creates no duplicates. The operator sends no requests.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/warehouse`

    :param database: Path of a DuckDB file on the worker, created if missing. Set this or
        ``conn_id``.
    :param conn_id: Airflow connection to a PostgreSQL database. Set this or ``database``.
    :param schema: Schema of tables and views in the warehouse. Default: ``assistant``.

    The other parameters are those of
    :class:`~airflow_provider_assistant.transfers.from_lake.FromLakeOperator`.
    """

    template_fields: Sequence[str] = (*FromLakeOperator.template_fields, "database", "conn_id")

    def __init__(
        self,
        *,
        database: str | None = None,
        conn_id: str | None = None,
        schema: str = "assistant",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.database = database
        self.conn_id = conn_id
        self.schema = schema
        check_given(self)
        if (database is None) == (conn_id is None):
            raise AssistantInputError(
                f"task {self.task_id!r}: set either database, the path of a DuckDB file, or conn_id, a PostgreSQL "
                "connection",
                field="database",
            )
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", self.schema):
            raise AssistantInputError(
                f"task {self.task_id!r}: schema must be a plain SQL name, not {schema!r}", field="schema"
            )

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Load the partitions and update the views.

        :param context: Airflow's task context.
        :return: ``rows``, the number of rows loaded; ``datasets``, a mapping from dataset to rows;
            ``partitions``, the number of days loaded, over all datasets; ``unchanged``, the number
            of days that the warehouse has as they are; ``replaced``, the number of rows that were
            there before; ``kept``, the number of days that the lake no longer has, and whose rows
            stay; ``missing``, the number of days of ``date`` and ``days`` that the lake does not
            have; ``date``, the newest day in the warehouse; ``views``, their names; and
            ``views_behind``, the number of views that lack new columns, because other sessions were
            reading them.
        :raises AssistantInputError: An argument is invalid, or DuckDB is not installed.
        :raises AssistantWarehouseError: The warehouse cannot be opened or written, or a file cannot
            be read. The warehouse is unchanged.
        """
        check_rendered(self, context)
        from airflow_provider_assistant.lake import warehouse

        days = self.days_to_load()
        datasets = self.datasets_to_load()
        with self._transaction() as transaction:
            loaded = warehouse.load(transaction, self.output_path, datasets, days)
            database_uri = transaction.uri
        self.loaded_datasets = datasets
        self.lineage_outputs = tuple(
            LineageDataset(
                uri=f"{database_uri}.{self.schema}.{dataset}",
                columns=warehouse.columns(dataset),
                rows=loaded.rows[dataset],
            )
            for dataset in datasets
        )
        if loaded.missing:
            self.log.warning(
                "The lake does not have these days; what the warehouse has of them stays: %s.",
                ", ".join(loaded.missing),
            )
        result = {
            "rows": sum(loaded.rows.values()),
            "datasets": loaded.rows,
            "partitions": loaded.partitions,
            "unchanged": loaded.unchanged,
            "replaced": loaded.replaced,
            "kept": loaded.kept,
            "missing": len(loaded.missing),
            "date": loaded.last_day.isoformat() if loaded.last_day else None,
            "views": [f"{self.schema}.{view}" for view in warehouse.VIEWS],
            "views_behind": len(loaded.views_behind),
        }
        rows_by_dataset = ", ".join(f"{dataset} {rows}" for dataset, rows in loaded.rows.items())
        self.log.info(
            "Loaded %s of %s, replacing %s: %s. Unchanged: %s.",
            counted(sum(loaded.rows.values()), "row"),
            counted(loaded.partitions, "partition"),
            counted(loaded.replaced, "row"),
            rows_by_dataset or "nothing is new",
            counted(loaded.unchanged, "partition"),
        )
        return self.emit_asset_events(context, result)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the warehouse and its state, for the log lines of a failure."""
        target = self.database
        if self.conn_id:
            target = f"connection {self.conn_id!r}"
        return FailureContext(
            f"load of {self.output_path} into the warehouse ({target})",
            "Nothing was changed: the load is one transaction, and it was rolled back.",
        )

    def _transaction(self) -> AbstractContextManager[warehouse.WarehouseTransaction]:
        from airflow_provider_assistant.lake import warehouse

        if self.conn_id is not None:
            return warehouse.postgres_transaction(warehouse.postgres_engine(self.conn_id), schema=self.schema)
        if self.database is None or "://" in self.database:
            raise AssistantInputError(
                f"database must be the path of a file on this worker, not {self.database!r}", field="database"
            )
        # DuckDB names a database after its file.
        database_name, _, _ = Path(self.database).name.partition(".")
        if database_name.casefold() == self.schema.casefold():
            raise AssistantInputError(
                f"{self.database!r} and the schema {self.schema!r} have the same name, which makes names in queries "
                "ambiguous",
                todo="Rename the file.",
                field="database",
            )
        return warehouse.duckdb_transaction(self.database, schema=self.schema)
