"""The DAGs of the cluster's tests. Source, output and site are in the configuration of the run."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import ObjectStoragePath, dag, task

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator

LAKE = "{{ var.value.assistant_lake }}"
ARGUMENTS = {"retries": 5, "retry_delay": timedelta(seconds=1)}
LOAD = {
    "key_columns": ["id"],
    "constants": {"category": "cluster"},
    # The worker's disk may be gone with the worker.
    "findings_path": f"{LAKE}/findings/{{{{ dag_run.conf.name }}}}/{{{{ ti.task_id }}}}.{{{{ ti.map_index }}}}."
    "{{ ti.try_number }}.parquet",
}


@dag(schedule=None, catchup=False, default_args=ARGUMENTS)
def cluster_load():
    """Load the files of a folder, each in a task, on any worker."""

    @task
    def shards(dag_run=None):
        return sorted(str(file) for file in ObjectStoragePath(dag_run.conf["source"]).glob("*.parquet"))

    AssistantLoadQAOperator.partial(task_id="load", **LOAD).expand(source=shards())


@dag(schedule=None, catchup=False, default_args=ARGUMENTS)
def cluster_rates():
    """Load two sites, one on each worker."""
    for worker, site_id in (("worker-1", "acme-docs"), ("worker-2", "acme-shop")):
        AssistantLoadQAOperator(
            task_id=f"load_{site_id}", source="{{ dag_run.conf.source }}", site_id=site_id, queue=worker, **LOAD
        )


@dag(schedule=None, catchup=False, default_args=ARGUMENTS)
def cluster_batch():
    """Ask questions on any worker, and wait for the answers in any triggerer."""
    AssistantChatBatchOperator(
        task_id="ask",
        source="{{ dag_run.conf.source }}",
        output_path=f"{LAKE}/answers/{{{{ dag_run.conf.name }}}}.parquet",
        key_columns=["id"],
        deferrable=True,
        timeout=timedelta(hours=1),
        poll_interval=5,
    )


cluster_load()
cluster_rates()
cluster_batch()
