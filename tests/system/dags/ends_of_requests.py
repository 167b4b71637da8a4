"""DAGs for every outcome of waiting for a chat request, each with a separate site to count its requests."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

GLOBEX = {"assistant_conn_id": "assistant_globex"}
WAITING = {"deferrable": True, "poll_interval": 0.5}


@dag(schedule=None, catchup=False, default_args={"retry_delay": timedelta(seconds=1)})
def complete():
    """Submit and wait in one task, in the triggerer."""
    AssistantSubmitChatOperator(
        task_id="ask", session_id="{{ run_id }}", message="Who?", site_id="acme-shop", **WAITING
    )


@dag(schedule=None, catchup=False, default_args={"retry_delay": timedelta(seconds=1)})
def on_the_worker():
    """Submit and wait in one task, on the worker, which is killed."""
    AssistantSubmitChatOperator(
        task_id="ask",
        session_id="{{ run_id }}",
        message="Who else?",
        site_id="acme-docs",
        deferrable=False,
        wait_for_completion=True,
        poll_interval=0.5,
        retries=1,
    )


@dag(schedule=None, catchup=False, default_args={"retries": 0, **GLOBEX})
def cleared():
    """Submit and wait in the triggerer. The task is cleared while it waits."""
    AssistantSubmitChatOperator(
        task_id="ask", session_id="{{ run_id }}", message="Who now?", site_id="globex-labs", **WAITING
    )


@dag(schedule=None, catchup=False, default_args={"retries": 0, **GLOBEX})
def failed():
    """The request fails, for a sensor and for an operator."""
    submit = AssistantSubmitChatOperator(
        task_id="submit", session_id="{{ run_id }}", message="This one must fail.", site_id="globex-help"
    )
    AssistantChatRequestSensor(
        task_id="wait",
        request_id=submit.output["request_id"],
        site_id="globex-help",
        deferrable=True,
        poke_interval=0.5,
    )
    AssistantSubmitChatOperator(
        task_id="ask", session_id="{{ run_id }}", message="This one must fail too.", site_id="globex-help", **WAITING
    )


@dag(schedule=None, catchup=False, default_args={"retries": 2, "retry_delay": timedelta(seconds=1), **GLOBEX})
def late():
    """The request does not finish before the timeout."""
    submit = AssistantSubmitChatOperator(
        task_id="submit", session_id="{{ run_id }}", message="When?", site_id="globex-labs"
    )
    AssistantChatRequestSensor(
        task_id="wait",
        request_id=submit.output["request_id"],
        site_id="globex-labs",
        deferrable=True,
        poke_interval=0.5,
        timeout=3,
    )


@dag(schedule=None, catchup=False, default_args={"retries": 3, "retry_delay": timedelta(seconds=1)})
def unauthorized():
    """A wrong API key, and a key that becomes invalid while a task waits."""
    AssistantSubmitChatOperator(
        task_id="wrong_key", session_id="{{ run_id }}", message="Who?", assistant_conn_id="assistant_wrong_key"
    )
    submit = AssistantSubmitChatOperator(
        task_id="submit", session_id="{{ run_id }}", message="Who?", site_id="globex-labs", **GLOBEX
    )
    AssistantChatRequestSensor(
        task_id="revoked_key",
        request_id=submit.output["request_id"],
        assistant_conn_id="assistant_globex_readonly",
        site_id="globex-labs",
        deferrable=True,
        poke_interval=0.5,
    )


cleared()
complete()
on_the_worker()
failed()
late()
unauthorized()
