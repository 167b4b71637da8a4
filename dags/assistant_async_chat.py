"""
Submit a chat, wait for the answer without a worker slot, rate it, close the session.

A restart of the worker or the triggerer neither loses the request nor submits it twice.
"""

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat import AssistantCloseSessionOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor


@dag(
    schedule=None,
    catchup=False,
    params={
        "question": "What does the parallelism option of Airflow's core section do?"
    },
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_async_chat():
    """Submit, wait, rate, close."""
    submit = AssistantSubmitChatOperator(
        task_id="submit",
        session_id="nightly-{{ run_id }}",
        message="{{ params.question }}",
    )
    wait = AssistantChatRequestSensor(
        task_id="wait_for_answer",
        request_id=submit.output["request_id"],
        deferrable=True,
        poke_interval=1,
    )
    rate = AssistantFeedbackOperator(
        task_id="send_feedback",
        session_id=submit.output["session_id"],
        request_id=submit.output["request_id"],
        feedback="good",
    )
    close = AssistantCloseSessionOperator(
        task_id="close_session", session_id=submit.output["session_id"]
    )
    wait >> rate >> close


assistant_async_chat()
