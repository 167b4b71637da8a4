"""Every operator against a service that repeats the API key and adds a marker to its replies."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.chat import (
    AssistantChatOperator,
    AssistantCloseSessionOperator,
)
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator

PARROT = "assistant_parrot"
SESSION = {"session_id": "{{ run_id }}"}


@dag(
    schedule=None,
    catchup=False,
    default_args={"assistant_conn_id": PARROT, "retries": 0, "retry_delay": timedelta(seconds=1)},
)
def parrots():
    """Run every operator, and one with a wrong key."""

    @task
    def use_the_hook() -> None:
        """Print and log a reply, and fail with the text of a rejection."""
        import logging

        from airflow_provider_assistant.hooks.assistant import AssistantHook

        hook = AssistantHook(PARROT)
        limits = hook.get_limits()
        print(limits, hook.settings, hook.client)
        logging.getLogger(__name__).info("Limits: %s", limits.raw)
        hook.create_text_document("A title", "A text.", "test")

    use_the_hook()
    AssistantLimitsOperator(task_id="wrong_key", assistant_conn_id="assistant_wrong_key")
    AssistantLimitsOperator(task_id="limits")
    # A separate folder, because the nightly export uses the same site.
    AssistantStatisticsToParquetOperator(task_id="statistics", output_path="{{ var.value.assistant_lake }}/parrots")
    AssistantChatOperator(task_id="chat", message="Hello?", **SESSION)
    AssistantFeedbackOperator(task_id="rate", request_id="any", feedback="good", **SESSION)
    AssistantCloseSessionOperator(task_id="close", **SESSION)
    submit = AssistantSubmitChatOperator(task_id="submit", message="Hello?", **SESSION)
    AssistantChatRequestSensor(
        task_id="wait", request_id=submit.output["request_id"], deferrable=True, poke_interval=0.5
    )
    AssistantChatBatchOperator(
        task_id="ask",
        source=[{"message": "Hello?"}, {"message": "Who are you?"}],
        site_id="aviary",
        output_path="{{ var.value.assistant_lake }}/asked/parrots.parquet",
        deferrable=True,
        poll_interval=0.5,
    )


parrots()
