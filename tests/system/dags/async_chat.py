"""A chat that is submitted, awaited in the triggerer, rated and closed."""  # noqa: INP001

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat import AssistantCloseSessionOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor


@dag(schedule=None, catchup=False)
def async_chat():
    """Submit, wait, rate, close."""
    submit = AssistantSubmitChatOperator(task_id="submit", session_id="nightly-{{ run_id }}", message="How?")
    chat = {name: submit.output[name] for name in ("session_id", "request_id")}
    wait = AssistantChatRequestSensor(task_id="wait", request_id=chat["request_id"], deferrable=True, poke_interval=1)
    rate = AssistantFeedbackOperator(task_id="rate", feedback="good", **chat)
    close = AssistantCloseSessionOperator(task_id="close", session_id=chat["session_id"])
    wait >> rate >> close


async_chat()
