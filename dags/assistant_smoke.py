"""
Run the minimum production smoke flow of the API's specification, step by step.

Run this DAG after a change of the API key, the tenant, the site or the network. Each
task is one step, so the first failed task shows the problem. Each run uploads a new
document, and deletes it if ``manage_documents`` in the connection describes the route.
"""

import io
import re
from datetime import timedelta
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.limits import AssistantLimitsOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor

# The API takes PDF, Word and plain text, but no Markdown.
DOCUMENT = Path(__file__).parent / "guides" / "knowledge-base.txt"
QUESTION = "What should a small approved set of documents start with?"


@dag(schedule=None, catchup=False, tags=["assistant"], doc_md=__doc__)
def assistant_smoke():
    """Read limits, upload a document, chat, rate the answer, read statistics."""

    @task
    def upload_document(run_id: str) -> str | None:
        """Upload a document with the run's id, and return its id at the service."""
        from airflow_provider_assistant.exceptions import AssistantBadRequestError
        from airflow_provider_assistant.hooks.assistant import AssistantHook

        # A service that refuses duplicates takes the document of each run.
        text = f"{DOCUMENT.read_text()}\nSmoke test {run_id}\n"
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"smoke-{run_id}")
        try:
            created = AssistantHook().upload_document(
                io.BytesIO(text.encode()), f"{name}.txt"
            )
        except AssistantBadRequestError as error:
            if error.status != 409:
                raise
            print("The document is there already: an earlier try uploaded it.")
            return None
        return created.document_id

    @task
    def delete_document(document_id: str | None) -> None:
        """Delete the document, if the connection describes the route."""
        from airflow_provider_assistant.hooks.assistant import AssistantHook

        hook = AssistantHook()
        routes = hook.settings.documents
        if document_id and routes is not None and routes.delete is not None:
            hook.delete_documents([document_id])
        else:
            print("The document remains on the site.")

    @task
    def read_statistics() -> dict:
        """Read the site's statistics."""
        from airflow_provider_assistant.hooks.assistant import AssistantHook

        return AssistantHook().get_statistics().as_dict()

    limits = AssistantLimitsOperator(task_id="read_limits")
    upload = upload_document(run_id="{{ run_id }}")
    chat = AssistantChatOperator(
        task_id="sync_chat", session_id="smoke-{{ run_id }}", message=QUESTION
    )
    submit = AssistantSubmitChatOperator(
        task_id="submit_async_chat",
        session_id="smoke-{{ run_id }}",
        message=QUESTION,
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
    statistics = read_statistics()
    limits >> upload >> chat >> submit >> wait >> rate >> statistics
    # A teardown runs as well if a step after the upload has failed.
    statistics >> delete_document(upload).as_teardown(setups=upload)


assistant_smoke()
