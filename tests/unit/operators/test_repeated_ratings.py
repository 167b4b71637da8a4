"""A service that has two words and keeps the first rating of a request, as it answers in several shapes."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.feedback.ratings import REPEATED
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Filter, Ledger, queries
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.task_runs.context import task_context
from tests.wire import Answer, ScriptedService

TIME = "2026-11-25T10:00:00+00:00"
SHAPES = {
    "as documented": lambda reply, time: {**reply, **({"feedback_submitted_at": time} if time else {})},
    "null": lambda reply, time: {**reply, "feedback_submitted_at": time},
    "in an envelope": lambda reply, time: {"data": {**reply, **({"feedback_submitted_at": time} if time else {})}},
}


class FirstRatings(ScriptedService):
    """Keep the first rating of each request."""

    def __init__(self, shape):
        super().__init__()
        self.shape = SHAPES[shape]
        self.kept = {}
        # Answers to send instead of the next replies, although the rating is kept.
        self.failures = []

    def next(self, request):
        super().next(request)
        sent = request.json()
        assert sent["feedback"] in {"good", "bad"}
        is_first = sent["request_id"] not in self.kept
        self.kept.setdefault(sent["request_id"], sent["feedback"])
        if self.failures:
            return self.failures.pop()
        reply = {"status": "ok", "request_id": sent["request_id"], "feedback": self.kept[sent["request_id"]]}
        return Answer(200, self.shape(reply, TIME if is_first else None))


@pytest.fixture(params=SHAPES)
def assistant(request, ledger_home, monkeypatch):
    with FirstRatings(request.param) as assistant:
        connection = {
            "conn_type": "assistant", "host": assistant.url, "password": "canary-key-0123456789",
            "extra": {"site_id": "docs", "retries": 0},
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
        yield assistant


def rate(word, request_id="r1", **options):
    operator = AssistantFeedbackOperator(
        task_id="rate", session_id="s", request_id=request_id, feedback=word, **options
    )
    result = operator.execute(task_context("rate"))
    return result["sent"], result["repeated"]


def recorded():
    """Return rating, state and error of the attempts in the ledger, the earliest one first."""
    with Ledger.open() as ledger:
        page = ledger.read(queries.entries, ledger.clock, Filter(kinds=["rating"]))
    return [(row["rating"], row["state"], row["error"]) for row in reversed(page.rows)]


def test_a_second_rating_is_repeated_and_the_first_one_stays_the_latest(assistant, caplog, capfd):
    assert rate("good") == (True, False)
    assert rate("bad") == (False, True)
    assert "was not accepted" in caplog.text + "".join(capfd.readouterr())
    assert recorded() == [("good", "created", None), ("bad", "rejected", REPEATED)]
    assert rate("good") == (False, False), "it is still the latest one, so it is not sent again"
    assert [json.loads(one.body)["feedback"] for one in assistant.received] == ["good", "bad"]
    assert rate("bad") == (False, True)


@pytest.mark.parametrize("failure", [Answer(drop=True), Answer(502, {"error": "bad gateway"})])
def test_after_an_ambiguous_attempt_the_earlier_rating_is_the_own_one(failure, assistant):
    assistant.failures = [failure]
    with pytest.raises(AssistantError):
        rate("good")
    assert rate("good") == (True, False)
    assert [(word, state) for word, state, _ in recorded()] == [("good", "ambiguous"), ("good", "created")]
    assert rate("bad") == (False, True)


@pytest.mark.parametrize("word", ["Good", "so-so"])
def test_another_word_is_refused_before_anything_is_sent(word, assistant):
    with pytest.raises(AssistantInputError):
        rate(word)
    with pytest.raises(AssistantInputError, match="rating_words"):
        AssistantHook().send_feedback("s", "r", word)
    operator = AssistantRateAnswersOperator(
        task_id="rate", answers="none.parquet", scores="none.parquet", rules={"good": "a >= 1", word: "a < 1"}
    )
    with pytest.raises(AssistantInputError, match=f"rules: {word!r}") as error:
        operator.execute(task_context("rate"))
    assert isinstance(error.value, AirflowFailException), "a retry cannot help"
    assert assistant.received == []


def test_repeated_ratings_of_a_batch_are_counted_and_listed(assistant, ledger_home, tmp_path):
    chance = random.Random(0)
    keys = [f"q{number:02}" for number in range(30)]
    rated_before = set(chance.sample(keys, chance.randint(1, 15)))
    assistant.kept = {f"req_{key}": chance.choice(["good", "bad"]) for key in rated_before}
    before = dict(assistant.kept)
    score_by_key = {key: chance.choice([0.1, 0.5, 0.9]) for key in keys}
    answers = [
        {"key": key, "answer": "a", "status": "complete", "session_id": "s", "request_id": f"req_{key}"} for key in keys
    ]
    scores = [
        {"key": key, "scorer": "mark", "score": score, "outcome": "scored", "status": "complete", "seconds": None}
        for key, score in score_by_key.items()
    ]
    pq.write_table(pa.Table.from_pylist(answers), tmp_path / "answers.parquet")
    schema = pa.Table.from_pylist(scores).schema.set(5, pa.field("seconds", pa.float64()))
    pq.write_table(pa.Table.from_pylist(scores, schema=schema), tmp_path / "scores.parquet")
    operator = AssistantRateAnswersOperator(
        task_id="rate", answers=str(tmp_path / "answers.parquet"), scores=str(tmp_path / "scores.parquet"),
        rules={"good": "mark >= 0.8", "bad": "mark < 0.3"},
    )  # fmt: skip
    result = operator.execute(task_context("rate"))
    to_rate = {key for key in keys if score_by_key[key] != 0.5}
    repeated = to_rate & rated_before
    assert (result["repeated"], result["sent"]) == (len(repeated), len(to_rate - rated_before))
    assert (result["failed"], result["not_rated"], result["rows"]) == (0, 30 - len(to_rate), 30)
    assert sum(result["by_rating"].values()) == result["sent"]
    listed = pq.read_table(result["findings"]).to_pylist() if result["findings"] else []
    assert {(row["kind"], row["key"], tuple(row["document_ids"])) for row in listed} == {
        ("repeated", key, (f"req_{key}",)) for key in repeated
    }
    assert {request_id: assistant.kept[request_id] for request_id in before} == before
    again = operator.execute(task_context("rate"))
    assert (again["sent"], again["already_sent"], again["repeated"]) == (0, result["sent"], len(repeated))
