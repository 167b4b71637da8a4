"""
Run the minimum production smoke flow of the API's specification, step by step.

Run this DAG after a change of the API key, the tenant, the site or the network. Each
task is one step, so the first failed task shows the problem. Each run uploads a
document that remains on the site.
"""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

# Plain text: a service may not accept Markdown.
DOCUMENT = Path(__file__).parent / "guides" / "knowledge-base.txt"
QUESTION = "What should a small approved set of documents start with?"


@dag(schedule=None, catchup=False, tags=["assistant"], doc_md=__doc__)
def assistant_smoke():
    """Read limits, upload a document, chat, rate the answer, read statistics."""

    @task
    def read_statistics() -> dict:
        """Read the site's statistics."""
        from airflow_provider_assistant.hooks.assistant import AssistantHook

        return AssistantHook().get_statistics().as_dict()

    limits = AssistantLimitsOperator(task_id="read_limits")
    upload = AssistantUploadFilesOperator(
        task_id="upload_document", files=str(DOCUMENT), ledger=False
    )
    chat = AssistantChatOperator(
        task_id="sync_chat", session_id="smoke-{{ run_id }}", message=QUESTION
    )
    submit = AssistantSubmitChatOperator(
        task_id="submit_async_chat",
        session_id="smoke-{{ run_id }}",
        message=QUESTION,
        deferrable=False,
    )
    wait = AssistantChatRequestSensor(
        task_id="wait_for_answer",
        request_id=submit.output["request_id"],
        deferrable=True,
        poke_interval=2,
        timeout=timedelta(minutes=10).total_seconds(),
    )
    rate = AssistantFeedbackOperator(
        task_id="send_feedback",
        session_id=submit.output["session_id"],
        request_id=submit.output["request_id"],
        feedback="good",
    )
    limits >> upload >> chat >> submit >> wait >> rate >> read_statistics()


assistant_smoke()
