"""A sensor that waits for a document, between two looks without a worker."""  # noqa: INP001

from airflow.sdk import dag

from airflow_provider_assistant.sensors.documents import AssistantDocumentsReadySensor


@dag(schedule=None, catchup=False)
def document_ready():
    AssistantDocumentsReadySensor(
        task_id="ready",
        document_ids=["{{ dag_run.conf['document_id'] }}"],
        assistant_conn_id="assistant_manages",
        deferrable=True,
        poke_interval=1,
        timeout=600,
    )


document_ready()
