"""
Ask a golden set, and list the answers with low confidence.

A person reads the list: such answers are often wrong, or the documents for them are
missing. An answer is on the list if its confidence level is ``low``, or if its score is
below the parameter ``threshold``. The range of the score depends on the service. The
questions are asked in sync mode, because the API sends no confidence with the answer to
a poll. Some services never send one; then the list is empty, and ``unknown`` counts the
answers.

Run ``assistant_knowledge_base`` first, so that the assistant has documents to answer
from. The Airflow Variable ``assistant_lake`` sets the output folder: a local path or an
object storage URL. Default: ``lake`` in AIRFLOW_HOME.
"""

import csv
import os
from pathlib import Path

from airflow.sdk import Param, dag, task

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
GOLDEN_SET = Path(__file__).parent / "golden_set" / "golden_set.csv"
COLUMNS = [
    "key",
    "confidence_level",
    "confidence_score",
    "message",
    "answer",
    "session_id",
    "request_id",
]


@dag(
    schedule=None,
    catchup=False,
    params={"threshold": Param(0.5, type="number")},
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_low_confidence():
    """Ask the golden set, then list the answers with low confidence."""
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=str(GOLDEN_SET),
        output_path=f"{LAKE}/low_confidence/answers/{{{{ run_id }}}}.parquet",
        key_columns="key",
        mode="sync",
        max_failed=0.1,
    )

    @task
    def list_low_confidence(answers: str, path: str, params: dict) -> dict:
        """Write the answers with low confidence to a CSV file, lowest score first."""
        import pyarrow.parquet as pq
        from airflow.sdk import ObjectStoragePath

        with ObjectStoragePath(answers).open("rb") as file:
            rows = pq.read_table(file).to_pylist()
        answered = [row for row in rows if row["status"] == "complete"]
        low = [row for row in answered if is_low(row, params["threshold"])]
        low.sort(key=lambda row: row["confidence_score"] or 0.0)
        with ObjectStoragePath(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for row in low:
                writer.writerow([cell(row[column]) for column in COLUMNS])
        result = {
            "answers": len(answered),
            "low": len(low),
            "unknown": sum(is_unknown(row) for row in answered),
            "path": path,
        }
        print(result)
        return result

    list_low_confidence(
        ask.output["output_path"], f"{LAKE}/low_confidence/{{{{ run_id }}}}.csv"
    )


def is_low(row: dict, threshold: float) -> bool:
    """Return whether the level of an answer is low, or its score too low."""
    level = row["confidence_level"] or ""
    score = row["confidence_score"]
    return level.strip().lower() == "low" or (score is not None and score < threshold)


def is_unknown(row: dict) -> bool:
    """Return whether the service has sent no confidence with an answer."""
    return row["confidence_level"] is None and row["confidence_score"] is None


def cell(value: object) -> object:
    """Return a value that a spreadsheet does not take for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


assistant_low_confidence()
