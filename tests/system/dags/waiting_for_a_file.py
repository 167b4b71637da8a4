"""A DAG that starts when a file appears, and reads the folder of the file."""  # noqa: INP001

import os
from pathlib import Path

from airflow.providers.standard.triggers.file import FileDeleteTrigger
from airflow.sdk import Asset, AssetWatcher, dag, task

FOLDER = Path(os.environ["AIRFLOW_VAR_ASSISTANT_LAKE"].removeprefix("file://")).with_name("handbook")
READY = FileDeleteTrigger(filepath=str(FOLDER / "_READY"), poke_interval=1)


@dag(
    schedule=[Asset("system_handbook", watchers=[AssetWatcher(name="system_handbook_ready", trigger=READY)])],
    catchup=False,
)
def waiting_for_a_file():
    """Return the keys of the documents in the folder."""

    @task
    def read() -> list[str]:
        from airflow_provider_assistant.knowledge import file_documents

        return [row["key"] for row in file_documents(FOLDER)]

    read()


waiting_for_a_file()
