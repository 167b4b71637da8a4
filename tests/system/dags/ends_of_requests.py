"""DAGs for every outcome of waiting for a chat request, each with a separate site to count its requests."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

GLOBEX = {"assistant_conn_id": "assistant_globex"}


def submitted(message, **options):
    """Submit a chat; return the arguments of a sensor that waits for it."""
    submit = AssistantSubmitChatOperator(task_id="submit", session_id="{{ run_id }}", message=message, **options)
    return {"request_id": submit.output["request_id"], "poke_interval": 0.5, "site_id": options.get("site_id")}


@dag(schedule=None, catchup=False, default_args={"retry_delay": timedelta(seconds=1)})
def complete():
    """Wait in the triggerer."""
    AssistantChatRequestSensor(task_id="wait", deferrable=True, **submitted("Who?", site_id="acme-shop"))


@dag(schedule=None, catchup=False, default_args={"retry_delay": timedelta(seconds=1)})
def on_the_worker():
    """Wait on the worker, which is killed, and in a new process for each poll."""
    sensor = submitted("Who else?", site_id="acme-docs")
    AssistantChatRequestSensor(task_id="wait", deferrable=False, retries=1, **sensor)
    AssistantChatRequestSensor(task_id="reschedule", deferrable=False, mode="reschedule", retries=1, **sensor)


@dag(schedule=None, catchup=False, default_args={"retries": 0, **GLOBEX})
def cleared():
    """Wait in the triggerer. The tasks are cleared while one of them waits."""
    AssistantChatRequestSensor(task_id="wait", deferrable=True, **submitted("Who now?", site_id="globex-labs"))


@dag(schedule=None, catchup=False, default_args={"retries": 0, **GLOBEX})
def failed():
    """The request fails."""
    sensor = submitted("This one must fail.", site_id="globex-help")
    AssistantChatRequestSensor(task_id="wait", deferrable=True, **sensor)
    AssistantChatRequestSensor(task_id="poke", deferrable=False, **sensor)


@dag(schedule=None, catchup=False, default_args={"retries": 2, "retry_delay": timedelta(seconds=1), **GLOBEX})
def late():
    """The request does not finish before the timeout."""
    AssistantChatRequestSensor(task_id="wait", deferrable=True, timeout=3, **submitted("When?", site_id="globex-labs"))


@dag(schedule=None, catchup=False, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)})
def unauthorized():
    """A wrong API key, and a key that becomes invalid while a task waits."""
    AssistantSubmitChatOperator(
        task_id="wrong_key", session_id="{{ run_id }}", message="Who?", assistant_conn_id="assistant_wrong_key"
    )
    sensor = submitted("Who?", site_id="globex-labs", **GLOBEX)
    AssistantChatRequestSensor(
        task_id="revoked_key", assistant_conn_id="assistant_globex_readonly", deferrable=True, **sensor
    )


cleared()
complete()
on_the_worker()
failed()
late()
unauthorized()
