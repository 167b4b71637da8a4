"""
Export statistics and feedback to Parquet every night, and query what was exported.

The Airflow Variable ``assistant_lake`` names the folder of the datasets, a local path or an object storage
URL; without it that is ``lake`` in AIRFLOW_HOME. A run replaces the partitions it writes.
"""

import os
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.feedback import AssistantFeedbackToParquetOperator
from airflow_provider_assistant.operators.statistics import AssistantStatisticsToParquetOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"


@dag(schedule="@daily", catchup=False, max_active_runs=1, tags=["assistant"], doc_md=__doc__)
def assistant_nightly_export():
    """Write both datasets, then count what they say."""
    statistics = AssistantStatisticsToParquetOperator(task_id="export_statistics", output_path=LAKE)
    feedback = AssistantFeedbackToParquetOperator(task_id="export_feedback", output_path=LAKE)

    @task
    def summarise(statistics_path: str, feedback_path: str) -> dict:
        """Return the numbers of the day, and how often each rating was given."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        from airflow.sdk import ObjectStoragePath

        def read(path: str):
            with ObjectStoragePath(path).open("rb") as file:
                return pq.read_table(file)

        numbers = read(statistics_path).filter(pc.field("type") == "number")
        ratings = read(feedback_path).group_by("rating").aggregate([("request_id", "count")])
        return {
            "metrics": dict(zip(numbers["metric"].to_pylist(), numbers["value"].to_pylist(), strict=True)),
            "ratings": dict(zip(ratings["rating"].to_pylist(), ratings["request_id_count"].to_pylist(), strict=True)),
        }

    summarise(statistics.output["path"], feedback.output["path"])


assistant_nightly_export()
