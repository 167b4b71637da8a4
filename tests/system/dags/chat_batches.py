"""DAGs for every outcome of a chat batch, each with unique messages."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag, task

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

GLOBEX = {"assistant_conn_id": "assistant_globex"}
SENSORS = 6


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


@dag(schedule=None, catchup=False)
def requests_of_many_sensors():
    """One sensor per request, over a connection with few requests in flight."""

    @task
    def submit() -> list[str]:
        hook = AssistantHook("assistant_globex", site_id="globex-help")
        return [hook.submit_chat("many", f"Of many {number}?").request_id for number in range(SENSORS)]

    AssistantChatRequestSensor.partial(
        task_id="wait", deferrable=True, poke_interval=0.5, assistant_conn_id="assistant_globex_readonly"
    ).expand(request_id=submit())


batch_cleared()
batch_of_a_killed_worker()
requests_of_many_sensors()
batch_through_restarts()
