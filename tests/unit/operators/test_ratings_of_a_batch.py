"""A batch with repetitions, its evaluation and its ratings, with the files as they are written."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.task_runs.context import execute_operator

SOURCE = [{"id": number, "message": f"Question {number}?", "must_include": "five days"} for number in range(4)]
RULES = {"good": "must_include >= 1", "bad": "must_include < 1"}


@pytest.mark.promise("ratings", "The repetitions of a question in a batch are rated by their own answers.")
def test_each_repetition_of_a_batch_is_rated_by_its_own_answer(service, connection, tmp_path):
    # Half of the answers; the service does not know the others.
    reply = {"status": "completed", "answer": "Five days."}
    service.answer("status:200", path="chat/requests/", times=4, reply=reply)
    answers = str(tmp_path / "answers.parquet")
    options = {"source": SOURCE, "key_columns": "id", "repeat": 2, "poll_interval": 0.05, "deferrable": False}
    execute_operator(AssistantChatBatchOperator(task_id="ask", output_path=answers, **options))
    evaluate = AssistantEvaluateOperator(
        task_id="evaluate", answers=answers, output_path=str(tmp_path / "runs"), scorers=["must_include"]
    )
    scores = execute_operator(evaluate)["scores_path"]
    result = execute_operator(AssistantRateAnswersOperator(task_id="rate", answers=answers, scores=scores, rules=RULES))
    rows = pq.read_table(answers).to_pylist()
    assert service.ratings() == {row["request_id"]: "good" if "Five" in row["answer"] else "bad" for row in rows}
    assert (result["rows"], result["sent"], result["by_rating"]) == (8, 8, {"good": 4, "bad": 4})
