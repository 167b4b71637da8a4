"""An evaluation of fixed answers, for the tests of the UI."""  # noqa: INP001

import os

from airflow.sdk import dag

from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator

ANSWERS = [
    {
        "key": "refunds",
        "message": "When?",
        "answer": "In five days.",
        "expected": "In five days.",
        "status": "complete",
    },
    {"key": "returns", "message": "How?", "answer": "By post.", "expected": "In a shop.", "status": "complete"},
]


@dag(schedule=None)
def judging():
    AssistantEvaluateOperator(
        task_id="judge",
        answers=ANSWERS,
        output_path=os.environ["AIRFLOW_VAR_ASSISTANT_LAKE"] + "/judged",
        scorers=["token_f1"],
    )


judging()
