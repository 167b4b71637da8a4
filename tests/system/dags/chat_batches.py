"""DAGs for every outcome of a chat batch, each with unique messages."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator

GLOBEX = {"assistant_conn_id": "assistant_globex"}


def chat_batch(message: str, **arguments):
    """Ask forty variants of a message, and wait in the triggerer."""
    return AssistantChatBatchOperator(
        task_id="questions",
        source=[{"id": number, "message": f"{message} {number}?"} for number in range(40)],
        output_path="{{ var.value.assistant_lake }}/chat_batches/{{ dag.dag_id }}/questions.parquet",
        key_columns="id",
        **{"deferrable": True, "timeout": 3600, "poll_interval": 1, "max_concurrency": 8, **arguments},
    )


@dag(schedule=None, catchup=False)
def batch_through_restarts():
    """The triggerer is killed and restarted."""
    chat_batch("Through restarts")


@dag(schedule=None, catchup=False, default_args={"retries": 1, "retry_delay": timedelta(seconds=1), **GLOBEX})
def batch_of_a_killed_worker():
    """The worker is killed while it submits."""
    chat_batch("Killed", site_id="globex-labs")


@dag(schedule=None, catchup=False)
def batch_cleared():
    """The task is cleared while it waits."""
    chat_batch("Taken up")


batch_cleared()
batch_of_a_killed_worker()
batch_through_restarts()
