"""
Ask a golden set in one task, and count the correct answers.

One task asks all questions, and one trigger waits for all answers. Run
``assistant_knowledge_base`` first, so that the assistant has documents to answer from.
The Airflow Variable ``assistant_lake`` sets the folder of the answers: a local path or
an object storage URL that both worker and triggerer can reach. Default: ``lake`` in
AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"

GOLDEN_SET = [
    {
        "option": f"{section}.{name}",
        "message": f"What does the Airflow configuration option {name} "
        f"in section {section} do?",
        "expected": f"Default: {default}.",
    }
    for section, name, default in [
        ("core", "parallelism", "32"),
        ("core", "max_active_tasks_per_dag", "16"),
        ("core", "executor", "LocalExecutor"),
        ("core", "default_task_retries", "0"),
        ("dag_processor", "min_file_process_interval", "30"),
        ("dag_processor", "refresh_interval", "300"),
        ("scheduler", "catchup_by_default", "False"),
        ("triggerer", "capacity", "1000"),
    ]
]


@dag(schedule=None, catchup=False, tags=["assistant"], doc_md=__doc__)
def assistant_chat_batch():
    """Ask all questions, then count the answers that contain the expected text."""
    ask = AssistantChatBatchOperator(
        task_id="ask_golden_set",
        source=GOLDEN_SET,
        output_path=f"{LAKE}/golden_set/{{{{ run_id }}}}.parquet",
        key_columns=["option"],
        deferrable=True,
        timeout=600,
        poll_interval=4,
        max_failed=0.25,
    )

    @task
    def summarise(path: str) -> dict:
        """Count the questions, answers and correct answers, and list the others."""
        import pyarrow.parquet as pq
        from airflow.sdk import ObjectStoragePath

        with ObjectStoragePath(path).open("rb") as file:
            rows = pq.read_table(file).to_pylist()
        missed = [
            row["key"] for row in rows if row["expected"] not in (row["answer"] or "")
        ]
        # Null if the replies have no timestamps and no poll came close to the end.
        times = [
            row["seconds"]
            for row in rows
            if row["status"] == "complete" and row["seconds"] is not None
        ]
        summary = {
            "questions": len(rows),
            "answered": sum(row["status"] == "complete" for row in rows),
            "as_expected": len(rows) - len(missed),
            "missed": missed,
            "slowest_seconds": max(times, default=None),
        }
        print(summary)
        return summary

    summarise(ask.output["output_path"])


assistant_chat_batch()
