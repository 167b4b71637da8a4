"""
Ask a golden set every day, score the answers, check the gate, rate the answers.

Run ``assistant_knowledge_base`` first, so that the assistant has documents to answer
from. The evaluation compares the answers question by question with the runs before
that did not get worse. If the gate fails, the run fails too: the report lists the
questions that got worse, and no answer is rated. The figures of every run are in the
dataset ``evaluations``. The task ``evaluate`` has a link to the report with charts.

The golden set is a file with one question per row, see
``golden_set/make_golden_set.py``. The Airflow Variable ``assistant_lake`` sets the
output folder: a local path or an object storage URL that both worker and triggerer can
reach. Default: ``lake`` in AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import (
    AssistantRateAnswersOperator,
)

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
GOLDEN_SET = Path(__file__).parent / "golden_set" / "golden_set.csv"

# An answer passes if it contains the required phrases, and says "I do not know"
# exactly where that is expected.
RIGHT_IF = "must_include >= 1 and refusal >= 1"
GATE = [
    # Enough questions have an answer.
    "coverage >= 0.98",
    # Most answers pass, and those about the configuration score high.
    "pass_rate >= 0.75",
    "token_f1[configuration] >= 0.8",
    # At least half of the questions about options that do not exist are refused.
    "refusal[unanswerable] >= 0.5",
    # No score drops by more than 0.02 compared with the runs before, except by chance.
    "token_f1 drop <= 0.02",
    "must_include drop <= 0.02",
]
RATINGS = {"good": "token_f1 >= 0.8 and must_include >= 1", "bad": "token_f1 < 0.3"}


@dag(
    schedule="@daily",
    catchup=False,
    max_active_runs=1,
    tags=["assistant"],
    doc_md=__doc__,
)
def assistant_evaluation():
    """Ask the golden set, evaluate the answers, rate them."""
    ask = AssistantChatBatchOperator(
        task_id="ask",
        source=str(GOLDEN_SET),
        output_path=f"{LAKE}/evaluation/answers/{{{{ run_id }}}}.parquet",
        key_columns="key",
        deferrable=True,
        timeout=600,
        poll_interval=4,
        # The coverage rule of the gate judges missing answers.
        max_failed=0.5,
        lake_path=LAKE,
    )
    evaluate = AssistantEvaluateOperator(
        task_id="evaluate",
        answers=ask.output["output_path"],
        output_path=f"{LAKE}/evaluation",
        name="golden_set",
        scorers=["token_f1", "must_include", "refusal", "latency"],
        pass_if=RIGHT_IF,
        gate=GATE,
        on_fail="fail",
        baseline="previous",
        lake_path=LAKE,
    )
    AssistantRateAnswersOperator(
        task_id="rate",
        answers=ask.output["output_path"],
        scores=evaluate.output["scores_path"],
        rules=RATINGS,
    )


assistant_evaluation()
