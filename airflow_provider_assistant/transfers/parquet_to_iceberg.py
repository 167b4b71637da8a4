"""The operator that loads the Parquet datasets into Iceberg tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.observability.lineage import LineageDataset
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.transfers.from_lake import FromLakeOperator
from airflow_provider_assistant.transfers.iceberg_properties import iceberg_properties


class AssistantParquetToIcebergOperator(FromLakeOperator):
    """
    Load the partitions that changed into Iceberg tables.

    Each dataset has a table of the same name, partitioned by the column ``date``, the day of the
    partition. A load brings every partition whose files changed since they were loaded: after a
    pause, a late export or a backfill, too. A commit replaces whole days and records which
    partitions they came from, so a re-run creates no duplicates, and several loads can run at the
    same time. The operator sends no requests to the assistant.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/iceberg`

    :param catalog: Name of the catalog in pyiceberg's configuration. Default: ``default``; with
        ``conn_id``, its name.
    :param conn_id: Airflow connection of type ``iceberg``. Default: None, only the configuration of
        pyiceberg and ``properties``.
    :param properties: Properties of the catalog, which override those of the connection and of the
        configuration. Secrets belong into the connection. Default: None.
    :param namespace: Namespace of the tables, created if it is missing; its levels are separated by
        dots. Default: ``assistant``.

    The other parameters are those of
    :class:`~airflow_provider_assistant.transfers.from_lake.FromLakeOperator`.
    """

    template_fields: Sequence[str] = (
        *FromLakeOperator.template_fields,
        "catalog",
        "conn_id",
        "properties",
        "namespace",
    )

    def __init__(
        self,
        *,
        catalog: str | None = None,
        conn_id: str | None = None,
        properties: Mapping[str, str] | None = None,
        namespace: str = "assistant",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.catalog = catalog
        self.conn_id = conn_id
        self.properties = properties
        self.namespace = namespace
        check_given(self)

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Load the partitions.

        :param context: Airflow's task context.
        :return: ``rows``, the number of rows loaded; ``datasets``, a mapping from dataset to rows;
            ``partitions``, the number of days loaded, over all datasets; ``unchanged``, the number
            of days that the tables have as they are; ``replaced``, the number of rows that were
            there before; ``kept``, the number of days that the lake no longer has, and whose rows
            stay; ``missing``, the number of days of ``date`` and ``days`` that the lake does not
            have; ``date``, the newest day in the tables; and ``tables``, their names.
        :raises AssistantInputError: An argument or the connection is invalid, or pyiceberg is not
            installed.
        :raises AssistantWarehouseError: The catalog or a table cannot be read or written, or a file
            cannot be read. Each day has its old rows or its new ones.
        """
        check_rendered(self, context)
        from airflow_provider_assistant.lake import iceberg

        days = self.days_to_load()
        datasets = self.datasets_to_load()
        properties = iceberg_properties(self.conn_id, self.properties)
        loads = {}
        with iceberg.open_catalog(self.catalog or self.conn_id or "default", properties) as catalog:
            for dataset in datasets:
                loaded = iceberg.load(catalog, self.namespace, self.output_path, dataset, days)
                loads[dataset] = loaded
                self.log.info(
                    "Table %s.%s: loaded %s of %s, replacing %s. Unchanged: %s; no longer in the lake, with rows that "
                    "stay in the table: %s.",
                    self.namespace,
                    dataset,
                    counted(loaded.rows, "row"),
                    counted(len(loaded.days), "partition"),
                    counted(loaded.replaced, "row"),
                    counted(loaded.unchanged, "partition"),
                    counted(loaded.kept, "partition"),
                )
        self.loaded_datasets = datasets
        self.lineage_outputs = tuple(
            LineageDataset(uri=loaded.location, columns=loaded.columns, rows=loaded.rows)
            for loaded in loads.values()
            if loaded.location
        )
        missing = []
        for dataset, loaded in loads.items():
            missing += [f"{dataset}/date={day}" for day in loaded.missing]
        if missing:
            self.log.warning(
                "The lake does not have these days; what the tables have of them stays: %s.", ", ".join(missing)
            )
        last_days = [loaded.last_day for loaded in loads.values() if loaded.last_day]
        result = {
            "rows": sum(loaded.rows for loaded in loads.values()),
            "datasets": {dataset: loaded.rows for dataset, loaded in loads.items()},
            "partitions": sum(len(loaded.days) for loaded in loads.values()),
            "unchanged": sum(loaded.unchanged for loaded in loads.values()),
            "replaced": sum(loaded.replaced for loaded in loads.values()),
            "kept": sum(loaded.kept for loaded in loads.values()),
            "missing": len(missing),
            "date": max(last_days).isoformat() if last_days else None,
            "tables": [f"{self.namespace}.{dataset}" for dataset, loaded in loads.items() if loaded.location],
        }
        return self.emit_asset_events(context, result)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return the tables and their state, for the log lines of a failure."""
        return FailureContext(
            f"load of {self.output_path} into the Iceberg tables of {self.namespace!r}",
            "Each day has its old rows or its new ones. What was loaded is recorded, and not loaded again.",
        )
