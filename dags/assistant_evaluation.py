"""
Know every morning whether the assistant got worse: ask the golden set, score the answers, judge, rate.

Run ``assistant_knowledge_base`` first, so that there is something to answer from. The answers are compared question by
question with those of the last run that passed. If the gate fails, so does the run: its report says which questions got
worse, and nothing is rated. The figures of every run are in the dataset ``evaluations``, and a report with pictures is
one click away from the task ``evaluate``.

The golden set is a file with one question per row, see ``golden_set/make_golden_set.py``. The Airflow Variable
``assistant_lake`` names the folder of all that is written, a local path or an object storage URL that worker and
triggerer both reach; without it that is ``lake`` in AIRFLOW_HOME.
"""

import os
from pathlib import Path

from airflow.sdk import dag

from airflow_provider_assistant.operators.ask import AssistantAskOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator

HOME = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
LAKE = f"{{{{ var.value.get('assistant_lake', '{HOME / 'lake'}') }}}}"
GOLDEN_SET = Path(__file__).parent / "golden_set" / "golden_set.csv"

# An answer is as it should be if it holds what it must, or says that it does not know where it should.
RIGHT_IF = "must_include >= 1 and refusal >= 1"
GATE = [
    # Enough questions have an answer for the rest to mean something,
    "coverage >= 0.98",
    # most answers are as they should be, and above all those about the configuration,
    "pass_rate >= 0.75",
    "token_f1[configuration] >= 0.9",
    # a made-up option is often answered, and that must not become worse,
    "refusal[unanswerable] >= 0.5",
    # and none of it is worse than last time by more than chance explains.
    "token_f1 drop <= 0.02",
    "must_include drop <= 0.02",
]
RATINGS = {"good": "token_f1 >= 0.8 and must_include >= 1", "bad": "token_f1 < 0.3"}


@dag(schedule="@daily", catchup=False, max_active_runs=1, tags=["assistant"], doc_md=__doc__)
def assistant_evaluation():
    """Ask, evaluate, rate."""
    ask = AssistantAskOperator(
        task_id="ask",
        source=str(GOLDEN_SET),
        output_path=f"{LAKE}/evaluation/answers/{{{{ run_id }}}}.parquet",
        key_columns="key",
        deferrable=True,
        deadline=600,
        poll_interval=4,
        # Missing answers are for the gate to judge.
        max_failed=0.5,
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
    AssistantFeedbackOperator(
        task_id="rate",
        answers=ask.output["output_path"],
        scores=evaluate.output["scores_path"],
        rules=RATINGS,
    )


assistant_evaluation()
