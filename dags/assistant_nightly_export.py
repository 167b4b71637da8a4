"""
Export all datasets every night, load them into a warehouse, query its views.

The Airflow Variable ``assistant_lake`` sets the folder of the datasets: a local path or
an object storage URL. Default: ``lake`` in AIRFLOW_HOME. The Variable
``assistant_warehouse`` sets the DuckDB file. Default: ``warehouse.duckdb`` in
AIRFLOW_HOME. For PostgreSQL, replace ``database`` by the ``conn_id`` of a connection. A
run replaces the days that it writes, and catches up after a pause. For local days, give
the DAG a ``start_date`` with your zone. The load updates the asset
``assistant_warehouse``, which starts the DAGs that are scheduled on it.

The DAG needs ``pip install 'airflow-provider-assistant[warehouse]'``.
"""

import os
from pathlib import Path

from airflow.sdk import Asset, dag, task

from airflow_provider_assistant.transfers.ledger_to_parquet import (
    AssistantFeedbackToParquetOperator,
    AssistantLoadsToParquetOperator,
    AssistantRequestsToParquetOperator,
)
from airflow_provider_assistant.transfers.limits_to_parquet import (
    AssistantLimitsToParquetOperator,
)
from airflow_provider_assistant.transfers.parquet_to_warehouse import (
    AssistantParquetToWarehouseOperator,
)
from airflow_provider_assistant.transfers.statistics_to_parquet import (
    AssistantStatisticsToParquetOperator,
)

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
WAREHOUSE = (
    f"{{{{ var.value.get('assistant_warehouse', '{HOME / 'warehouse.duckdb'}') }}}}"
)


@dag(
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_nightly_export():
    """Export the datasets, load them into the warehouse, query the views."""
    exports = [
        AssistantStatisticsToParquetOperator(
            task_id="export_statistics", output_path=LAKE
        ),
        AssistantLimitsToParquetOperator(task_id="export_limits", output_path=LAKE),
        AssistantFeedbackToParquetOperator(task_id="export_feedback", output_path=LAKE),
        AssistantRequestsToParquetOperator(task_id="export_requests", output_path=LAKE),
        AssistantLoadsToParquetOperator(task_id="export_loads", output_path=LAKE),
    ]
    load = AssistantParquetToWarehouseOperator(
        task_id="load_warehouse",
        output_path=LAKE,
        database=WAREHOUSE,
        outlets=[Asset("assistant_warehouse")],
    )

    @task
    def summarise(database: str, day: str) -> dict:
        """Return what the statistics and the views say of the day, without nulls."""
        import duckdb

        def rows(sql: str) -> list[dict]:
            # Not fetchall(), which needs pytz for timestamps.
            found = connection.sql(sql, params=[day]).to_arrow_table().to_pylist()
            return [
                {name: value for name, value in row.items() if value is not None}
                for row in found
            ]

        with duckdb.connect(database, read_only=True) as connection:
            return {
                "statistics": rows(
                    """
                    SELECT site_id, metric, value
                    FROM assistant.statistics
                    WHERE date = ? AND metric LIKE 'chats.%.total' AND value > 0
                    """
                ),
                "feedback": rows(
                    """
                    SELECT * EXCLUDE (date)
                    FROM assistant.feedback_daily WHERE date = ?
                    """
                ),
                "latency": rows(
                    """
                    SELECT * EXCLUDE (date)
                    FROM assistant.latency_daily WHERE date = ?
                    """
                ),
            }

    exports >> load >> summarise(WAREHOUSE, exports[0].output["date"])


assistant_nightly_export()
