"""A load that stops at the first 429, because its connection allows no retries."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator


@dag(schedule=None, catchup=False)
def coming_back():
    """Load with the retry policy of the operators. Without it, the next try would start after an hour."""
    AssistantLoadTextOperator(
        task_id="load",
        source=[{"title": f"Coming back {number}", "content": "C", "category": "faq"} for number in range(4)],
        assistant_conn_id="assistant_no_retries",
        site_id="acme-shop",
        deferrable=False,
        retries=1,
        retry_delay=timedelta(hours=1),
    )


coming_back()
