"""
Delete every week what is older than it has to be.

Set the ages in ``DAYS``. The Airflow Variable ``assistant_lake`` sets the folder of the
datasets, in which the example DAGs also keep answers and evaluations. Default: ``lake``
in AIRFLOW_HOME. The Variable ``assistant_warehouse`` sets the DuckDB file. Default:
``warehouse.duckdb`` in AIRFLOW_HOME.

The baselines of evaluations and the documents in the ledger are kept. Run the exports
and the load of the warehouse more often than the shortest of these ages.

The DAG needs ``pip install 'airflow-provider-assistant[warehouse]'``.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import dag, task

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
WAREHOUSE = (
    f"{{{{ var.value.get('assistant_warehouse', '{HOME / 'warehouse.duckdb'}') }}}}"
)
# Ages by place.
DAYS = {
    "ledger": 400,
    "lake": 400,
    "warehouse": 1100,
    "files": 90,
    "batch_states": 30,
    "evaluations": 400,
}
# Folders of evaluations in the lake: the output_path of each.
EVALUATIONS = ("evaluation", "comparison", "baselines")


@dag(
    schedule="@weekly",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_retention():
    """Delete old data, place by place."""

    def oldest(place: str) -> datetime:
        return datetime.now(UTC) - timedelta(days=DAYS[place])

    @task
    def prune_ledger() -> dict:
        """Delete old entries of the ledger."""
        from airflow_provider_assistant.erasure import retention
        from airflow_provider_assistant.ledger import Ledger

        with Ledger.open() as ledger:
            return retention.prune_ledger(ledger, oldest("ledger"))

    @task
    def prune_lake(lake: str) -> int:
        """Delete the partitions of old days."""
        from airflow_provider_assistant.erasure import retention

        return retention.prune_lake(lake, oldest("lake").date())

    @task
    def prune_warehouse(database: str) -> int:
        """Delete the rows of old days."""
        from airflow_provider_assistant.erasure import retention
        from airflow_provider_assistant.lake.warehouse import duckdb_transaction

        if not Path(database).is_file():
            return 0
        with duckdb_transaction(database) as warehouse:
            return retention.prune_warehouse(warehouse, oldest("warehouse").date())

    @task
    def prune_files(lake: str) -> dict:
        """Delete old findings, answers, and states of batches that were killed."""
        from airflow_provider_assistant.erasure import retention
        from airflow_provider_assistant.loading.findings import findings_folder

        deleted = {"answers": retention.prune_files(lake, oldest("files"))}
        findings = str(findings_folder())
        deleted["findings"] = retention.prune_files(findings, oldest("files"))
        deleted["batch_states"] = retention.prune_batch_states(
            lake, oldest("batch_states")
        )
        return deleted

    @task
    def prune_evaluations(lake: str) -> int:
        """Delete old evaluations, except baselines."""
        from airflow_provider_assistant.erasure import retention

        before = oldest("evaluations")
        return sum(
            retention.prune_evaluations(f"{lake}/{folder}", before)
            for folder in EVALUATIONS
        )

    prune_ledger()
    prune_lake(LAKE)
    prune_warehouse(WAREHOUSE)
    prune_files(LAKE)
    prune_evaluations(LAKE)


assistant_retention()
