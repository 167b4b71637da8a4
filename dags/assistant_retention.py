"""
Delete every week what is older than 400 days.

The Airflow Variable ``assistant_lake`` sets the folder of the datasets, in which the
example DAGs also keep evaluations. Default: ``lake`` in AIRFLOW_HOME. What a later
evaluation compares with is kept, and so is the approved baseline.
"""

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_provider_assistant.operators.retention import AssistantRetentionOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"


@dag(
    schedule="@weekly",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_retention():
    """Delete what is old."""
    AssistantRetentionOperator(
        task_id="prune",
        days=400,
        output_path=LAKE,
        evaluations=[f"{LAKE}/evaluation", f"{LAKE}/comparison"],
    )


assistant_retention()
