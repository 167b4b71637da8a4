"""The operator that loads the Parquet datasets into a warehouse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given
from airflow_provider_assistant.lake.datasets import dataset_of
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.operators.base import AssistantBaseOperator
from airflow_provider_assistant.operators.tries import recorded_as
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.lake.warehouse import Loaded


class AssistantParquetToWarehouseOperator(AssistantBaseOperator):
    """
    Load the days that changed into PostgreSQL, or create views over the files in DuckDB; and create the views.

    Each dataset is a table or view of the same name. The column ``date`` is the day of the partition. In PostgreSQL, a
    load brings every day whose files changed since they were loaded: after a pause, a late export or a backfill, too.
    One transaction replaces all these days of all datasets, so a re-run creates no duplicates. In DuckDB, nothing is
    loaded: the views read the files. The operator sends no requests.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/warehouse`

    :param output_path: Folder of the datasets: a local path or an object storage URL.
    :param database: Path of a DuckDB file on the worker, created if missing, in a folder that exists. Set this or
        ``conn_id``.
    :param conn_id: Airflow connection to a PostgreSQL database. Set this or ``database``.
    :param schema: Schema of tables and views. Use one for each ``output_path``. Default: ``assistant``.
    :param datasets: Names of the datasets. Default: all of this package that were ever exported to ``output_path``.
    """

    template_fields: Sequence[str] = ("output_path", "database", "conn_id", "datasets")

    # The datasets that this run loaded, for lineage.
    loaded_datasets: Sequence[str] = ()

    def __init__(
        self,
        *,
        output_path: str,
        database: str | None = None,
        conn_id: str | None = None,
        schema: str = "assistant",
        datasets: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_path = output_path
        self.database = database
        self.conn_id = conn_id
        self.schema = schema
        self.datasets = datasets
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
    @recorded_as("warehouse")
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Load the days and create the views.

        :param context: Airflow's task context.
        :return: ``rows``, the number of rows loaded, or for DuckDB those that the views show; ``datasets``, a mapping
            from dataset to rows; ``partitions``, the number of their days; ``unchanged``, the number of days that
            PostgreSQL has as they are; ``replaced``, the number of rows that were there before; ``kept``, the number of
            days that the lake no longer has, and whose rows stay; ``date``, the newest day in the warehouse; and
            ``views``, their names.
        :raises AssistantInputError: An argument is invalid, or DuckDB is not installed.
        :raises AssistantWarehouseError: The warehouse cannot be opened or written, or a file cannot be read or is not
            one of a dataset. No rows have changed.
        """
        from airflow_provider_assistant.lake import warehouse

        days = warehouse.days_to_load(self.output_path, self.datasets)
        if self.conn_id is not None:
            from airflow_provider_assistant.lake import postgres

            engine = postgres.postgres_engine(self.conn_id)
            url = engine.url
            database_uri = f"postgres://{url.host}:{url.port or 5432}/{url.database}"
            loaded = postgres.load(engine, self.schema, self.output_path, days)
        else:
            from airflow_provider_assistant.lake import duckdb

            file = self._duckdb_file()
            database_uri = f"duckdb://{file.absolute()}/{file.stem}"
            loaded = duckdb.load(str(file), self.schema, self.output_path, days)
        self._note(database_uri, loaded)
        result = {
            "rows": sum(loaded.rows.values()),
            "datasets": loaded.rows,
            "partitions": loaded.partitions,
            "unchanged": loaded.unchanged,
            "replaced": loaded.replaced,
            "kept": loaded.kept,
            "date": loaded.last_day.isoformat() if loaded.last_day else None,
            "views": [f"{self.schema}.{view}" for view in warehouse.views()],
        }
        return self.emit_asset_events(context, result)

    def _duckdb_file(self) -> Path:
        if self.database is None or "://" in self.database:
            raise AssistantInputError(
                f"database must be the path of a file on this worker, not {self.database!r}", field="database"
            )
        # DuckDB names a database after its file.
        name, _, _ = Path(self.database).name.partition(".")
        if name.casefold() == self.schema.casefold():
            raise AssistantInputError(
                f"{self.database!r} and the schema {self.schema!r} have the same name, which makes names in queries "
                "ambiguous",
                todo="Rename the file.",
                field="database",
            )
        return Path(self.database)

    def _note(self, database_uri: str, loaded: Loaded) -> None:
        """Log what was loaded, and keep it for lineage."""
        self.loaded_datasets = list(loaded.rows)
        self.lineage_outputs = tuple(
            LineageDataset(
                f"{database_uri}.{self.schema}.{name}",
                {field.name: str(field.type) for field in dataset_of(name).schema()},
                rows,
            )
            for name, rows in loaded.rows.items()
        )
        self.log.info(
            "Loaded %s of %s, replacing %s: %s. Unchanged: %s. Only in the warehouse: %s.",
            counted(sum(loaded.rows.values()), "row"),
            counted(loaded.partitions, "day"),
            counted(loaded.replaced, "row"),
            ", ".join(f"{name} {rows}" for name, rows in loaded.rows.items()),
            counted(loaded.unchanged, "day"),
            counted(loaded.kept, "day"),
        )

    def lineage_inputs(self) -> Sequence[LineageDataset]:
        """Return the datasets that were loaded."""
        root = object_storage_path(self.output_path)
        return [LineageDataset(str(root / dataset)) for dataset in self.loaded_datasets]

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the warehouse, for the log lines of a failure."""
        target = f"connection {self.conn_id!r}" if self.conn_id else self.database
        return FailureContext(f"load of {self.output_path} into the warehouse ({target})")
