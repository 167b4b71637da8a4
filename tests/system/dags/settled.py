"""A load without retries, for the tests of settling."""  # noqa: INP001

from airflow.sdk import dag

from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator

SITE = "acme-shop"
ROWS = [{"title": f"Paint {n}", "question": f"What is paint {n}?", "answer": "It is dry."} for n in range(4)]


@dag(schedule=None, catchup=False)
def settled():
    """Load a few rows."""
    AssistantLoadQAOperator(
        task_id="load", source=ROWS, site_id=SITE, key_columns="title", on_ambiguous="skip", deferrable=False
    )


settled()
