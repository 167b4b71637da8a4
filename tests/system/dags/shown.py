"""A load, a chat batch and an evaluation, for the tests of the pages in Airflow's UI."""  # noqa: INP001

from datetime import timedelta

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator

LAKE = "{{ var.value.assistant_lake }}"
SITE = "acme-shop"
HOSTILE = "<img src=x onerror=globalThis.hacked=1>"
ROWS = [
    {
        "id": f"row-{number}",
        "title": f"Option {number}",
        "question": f"What is option {number}?",
        "answer": "It is one.",
    }
    for number in range(8)
]
# Rejected: it has no question. Its key is shown as text.
ROWS.append({"id": HOSTILE, "title": "Hostile", "question": "", "answer": "None."})


@dag(schedule=None, catchup=False, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)})
def shown():
    load = AssistantLoadQAOperator(task_id="load", source=ROWS, site_id=SITE, key_columns=["id"], on_ambiguous="skip")
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=[
            {"key": number, "message": f"What is option {number}?", "expected": "It is one."} for number in range(4)
        ],
        key_columns="key",
        site_id=SITE,
        output_path=f"{LAKE}/shown/{{{{ run_id }}}}.parquet",
        deferrable=True,
        poll_interval=0.5,
        max_failed=1,
        trigger_rule="all_done",
    )
    judge = AssistantEvaluateOperator(
        task_id="judge",
        answers=ask.output["output_path"],
        output_path=f"{LAKE}/shown",
        name="shown",
        scorers=["token_f1"],
        pass_if="token_f1 >= 0.5",
        gate=["coverage >= 0.9"],
        on_fail="report",
        lake_path=LAKE,
    )
    load >> ask >> judge


shown()
