"""
Keep a site equal to a folder of Markdown, such as a Git checkout, every day.

The first task splits the pages at their headings and writes a file of chunks with their
addresses. The load sends the new and changed chunks, and deletes the documents that
they replace and those whose chunks are gone.

The connection needs ``manage_documents``, because the API's specification does not show
the routes that list and delete documents. Without them, leave out ``on_change`` and
``on_missing``: the load then lists outdated documents.

The Airflow Variable ``assistant_handbook`` is the folder. The Variable
``assistant_lake`` sets the folder of the file and of the findings. Default: ``lake`` in
AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
FOLDER = "{{ var.value.assistant_handbook }}"


@dag(
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_handbook():
    """Split the pages into chunks, and load them."""

    @task
    def read_handbook(folder: str, path: str) -> str:
        """Write the chunks of all pages, and return the path of the file."""
        from airflow_provider_assistant.knowledge import (
            file_documents,
            split_documents,
            write_documents,
        )

        pages = file_documents(folder, base_url="https://docs.example.com/")
        chunks = split_documents(pages, cite="Source: {url}")
        return write_documents(chunks, path)["path"]

    AssistantLoadTextOperator(
        task_id="load",
        source=read_handbook(FOLDER, f"{LAKE}/handbook/chunks.parquet"),
        constants={"category": "handbook"},
        key_columns=["key"],
        group_columns=["parent"],
        on_change="replace",
        on_missing="delete",
        findings_path=f"{LAKE}/handbook/findings/{{{{ run_id }}}}.parquet",
        retries=3,
    )


assistant_handbook()
