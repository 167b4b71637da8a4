"""A load that is asked to come back later than it is willing to wait."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.retry_policy import AssistantRetryPolicy


@dag(schedule=None, catchup=False)
def coming_back():
    """Without the policy, the next try would come in an hour."""
    AssistantLoadTextOperator(
        task_id="load",
        source=[{"title": f"Coming back {number}", "content": "C", "category": "faq"} for number in range(4)],
        site_id="acme-shop",
        max_pause=1,
        max_concurrency=1,
        deferrable=False,
        retries=1,
        retry_delay=timedelta(hours=1),
        retry_policy=AssistantRetryPolicy(),
    )


coming_back()
