"""A load, a chat batch, an evaluation and exports, all on object storage."""  # noqa: INP001

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from airflow_provider_assistant.transfers.ledger_to_parquet import AssistantLoadsToParquetOperator
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator

LAKE = "{{ var.value.assistant_lake }}"


@dag(schedule=None, catchup=False)
def isolated():
    """Every task runs in an empty home."""
    load = AssistantLoadQAOperator(
        task_id="load", source=f"{LAKE}/faq.csv", key_columns="id", max_rejected=1, retries=0
    )
    upload = AssistantUploadFilesOperator(task_id="upload", files=f"{LAKE}/guides/*.txt")
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=f"{LAKE}/questions.csv",
        output_path=f"{LAKE}/answers/{{{{ run_id }}}}.parquet",
        key_columns="key",
        deferrable=True,
        poll_interval=1,
        timeout=300,
        max_failed=1,
    )
    evaluate = AssistantEvaluateOperator(
        task_id="evaluate",
        answers=ask.output["output_path"],
        output_path=f"{LAKE}/runs",
        name="golden",
        scorers=["token_f1", "latency"],
        gate=["coverage >= 0.5"],
        baseline="previous",
        lake_path=LAKE,
    )
    rate = AssistantRateAnswersOperator(
        task_id="rate",
        answers=ask.output["output_path"],
        scores=evaluate.output["scores_path"],
        rules={"good": "token_f1 >= 0"},
    )
    loads = AssistantLoadsToParquetOperator(task_id="export_loads", output_path=LAKE)
    statistics = AssistantStatisticsToParquetOperator(task_id="export_statistics", output_path=LAKE)
    [load, upload] >> ask
    rate >> [loads, statistics]


isolated()
