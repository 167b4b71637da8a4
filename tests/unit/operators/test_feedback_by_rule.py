"""Ratings by rule: each answer is rated once, and the counts add up."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantRateLimitError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.task_runs.context import task_context
from tests.task_runs.finals import is_final, kind_of

FEEDBACK = r"chat/feedback$"
RULES = {"good": "token_f1 >= 0.8", "bad": "token_f1 < 0.3"}
ENDS = ("sent", "already_sent", "repeated", "not_rated", "not_answered", "failed")


class Evaluated:
    """Files with answers of the service and their scores."""

    def __init__(self, folder, service):
        self.answers, self.scores = str(folder / "answers.parquet"), str(folder / "scores.parquet")
        self.service = service

    def ask(self, *scores):
        """Ask one question per score; return the ids of the requests."""
        hook = AssistantHook()
        asked = [hook.chat(f"s{number}", f"Question {number}?").request_id for number in range(len(scores))]
        hook.client.close()
        answers = {"request_id": asked, "session_id": [f"s{number}" for number in range(len(scores))]}
        pq.write_table(pa.table(answers), self.answers)
        rows = {
            "key": [f"q{number}" for number in range(len(scores))],
            "request_id": asked,
            "status": ["complete"] * len(scores),
            "token_f1": pa.array(scores, pa.float64()),
        }
        pq.write_table(pa.table(rows), self.scores)
        return asked

    def operator(self, **options):
        options = {"answers": self.answers, "scores": self.scores, "rules": RULES, **options}
        return AssistantRateAnswersOperator(task_id="rate", **options)

    def rate(self, **options):
        result = self.operator(**options).execute(task_context("rate"))
        assert result["rows"] == sum(result[end] for end in ENDS)
        return result

    def rated(self):
        return Counter(self.service.ratings().values())


@pytest.fixture
def evaluated(tmp_path, service, connection):
    return Evaluated(tmp_path, service)


def findings(ledger_home):
    path = ledger_home / "assistant_loads" / "dag" / "rate" / "run.parquet"
    return [(row["kind"], row["key"]) for row in pq.read_table(path).to_pylist()] if path.exists() else []


@pytest.mark.promise("ratings", "Each answer is rated once by its scores, and the counts add up.")
def test_each_answer_is_rated_once_by_its_scores(evaluated, service):
    requests = evaluated.ask(0.9, 0.1, 0.5, 1.0, None)
    # It was rated before, alone.
    AssistantFeedbackOperator(task_id="one", session_id="s0", request_id=requests[0], feedback="good").execute(
        task_context("one")
    )
    result = evaluated.rate()
    assert result == {
        "rows": 5, "sent": 2, "already_sent": 1, "repeated": 0, "not_rated": 2, "not_answered": 0, "failed": 0,
        "possibly_duplicated": 0, "by_rating": {"good": 2, "bad": 1}, "site_id": "acme-docs", "findings": None,
    }  # fmt: skip
    assert service.ratings() == {requests[0]: "good", requests[1]: "bad", requests[3]: "good"}
    assert service.posts(FEEDBACK) == 3


def test_a_rating_of_a_service_that_kept_an_earlier_one_is_counted_and_listed(evaluated, service, ledger_home):
    random = Random(0)
    requests = evaluated.ask(*[random.choice([0.1, 0.5, 0.9]) for _ in range(30)])
    scores = pq.read_table(evaluated.scores)["token_f1"].to_pylist()
    hook = AssistantHook()
    before = {number: random.choice(["good", "bad"]) for number in random.sample(range(30), 10)}
    for number, word in before.items():
        hook.send_feedback(f"s{number}", requests[number], word)
    hook.client.close()
    to_rate = {number for number, score in enumerate(scores) if score != 0.5}
    result = evaluated.rate()
    assert (result["repeated"], result["sent"]) == (len(to_rate & before.keys()), len(to_rate - before.keys()))
    assert sorted(findings(ledger_home)) == sorted(("repeated", f"q{number}") for number in to_rate & before.keys())
    ratings = service.ratings()
    assert {number: ratings[requests[number]] for number in before} == before
    again = evaluated.rate()
    assert (again["sent"], again["already_sent"], again["repeated"]) == (0, result["sent"], result["repeated"])


@pytest.mark.parametrize(
    ("action", "kind", "duplicated"), [("status:400", "failed", 0), ("store-then-drop", "ambiguous", 1)]
)
def test_a_rating_that_failed_is_listed_and_sent_by_the_retry(
    action, kind, duplicated, evaluated, service, ledger_home
):
    evaluated.ask(0.9, 0.9, 0.9, 0.9)
    service.answer(action, path=FEEDBACK)
    with pytest.raises(AssistantIncompleteError):
        evaluated.rate(max_concurrency=1)
    assert findings(ledger_home) == [(kind, "q0")]
    result = evaluated.rate()
    assert (result["sent"], result["already_sent"], result["possibly_duplicated"]) == (1, 3, duplicated)
    assert findings(ledger_home) == [("possibly_duplicated", "q0")] * duplicated or not duplicated
    assert evaluated.rated() == {"good": 4}


@pytest.mark.parametrize("field", ["answers", "scores"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_is_sent(field, evaluated, service, tmp_path):
    evaluated.ask(0.9)
    (tmp_path / "other.txt").write_text("no Parquet")
    for path in ("missing.parquet", "other.txt"):
        with pytest.raises(AssistantInputError, match=f"{field} must be a Parquet file, but .*{path}") as raised:
            evaluated.rate(**{field: str(tmp_path / path)})
        assert raised.value.field == field
    with pytest.raises(AssistantInputError, match="rules: 'so-so'") as raised:
        evaluated.rate(rules={"so-so": "token_f1 < 1"})
    assert isinstance(raised.value, AirflowFailException), "a retry cannot help"
    assert service.posts(FEEDBACK) == 0


# -- rejected ratings ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("status:404", AssistantIncompleteError),
        ("drop", AssistantIncompleteError),
        # These concern all ratings, and stop at the first.
        ("status:401", AssistantAuthenticationError),
        ("retry-after:3600", AssistantRateLimitError),
    ],
)
def test_which_failures_a_retry_can_help(action, error, evaluated, service):
    evaluated.ask(0.9, 0.9, 0.9)
    service.answer(action, path=FEEDBACK, times=None)
    with pytest.raises(AssistantError) as raised:
        evaluated.rate(max_concurrency=1)
    assert kind_of(raised.value) is error
    stops = error in {AssistantAuthenticationError, AssistantRateLimitError}
    assert service.posts(FEEDBACK) == (1 if stops else 3)


def test_a_retry_sends_what_failed_and_then_reports_what_is_refused(evaluated, service):
    evaluated.ask(*[0.9] * 5)
    for action in ("status:404", "status:503"):
        service.answer(action, path=FEEDBACK)
    with pytest.raises(AssistantIncompleteError, match=r"Not sent: 2 ratings .*A retry sends those") as raised:
        evaluated.rate(max_concurrency=1)
    assert not isinstance(raised.value, AirflowFailException)
    service.answer("status:404", path=FEEDBACK)
    with pytest.raises(AssistantIncompleteError, match="refused 1 rating ", check=is_final):
        evaluated.rate(max_concurrency=1)
    assert evaluated.rated() == {"good": 4}
