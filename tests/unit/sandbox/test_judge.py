"""The judge of the embedded service: honest verdicts, OpenAI's format, and a key."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.sandbox.judge import compare, judge
from tests.live.clients import local_client, local_request

SCHEMA = {"json_schema": {"schema": {"required": ["reason", "score", "verdict"]}}}


@pytest.fixture
def models(server):
    headers = {"Authorization": "Bearer dev-acme-full"}
    with local_client(base_url=f"{server.root}/v1", headers=headers) as opened:
        yield opened


@pytest.mark.parametrize(
    ("first", "second", "better"),
    [
        ("Refunds are paid within 5 days.", "Refunds are paid within 9 days.", "first"),
        ("I like trains.", "We pay refunds within 5 days.", "second"),
        ("Refunds are paid within 9 days.", "Refunds are paid within 8 days.", "tie"),
    ],
)
def test_the_better_of_two_answers_does_not_depend_on_the_order(first, second, better):
    expected = "Refunds are paid within 5 days."
    other = {"first": "second", "second": "first", "tie": "tie"}[better]
    assert compare({"first": first, "second": second, "expected": expected})[0] == better
    assert compare({"first": second, "second": first, "expected": expected})[0] == other


@pytest.mark.parametrize(("bias", "better"), [(0.2, "first"), (0.0, "tie"), (-0.2, "second")])
def test_a_position_bias_decides_between_equal_answers(bias, better):
    assert compare({"first": "Please wait.", "second": "Wait, please."}, bias)[0] == better


@given(st.text(), st.text(), st.text(), st.floats(-1, 1))
def test_any_two_texts_are_compared(first, second, expected, bias):
    better, reason = compare({"first": first, "second": second, "expected": expected}, bias)
    assert better in {"first", "second", "tie"}
    assert reason


def test_two_answers_get_a_reply_with_the_better_one(server, models):
    schema = {"json_schema": {"schema": {"required": ["reason", "better"]}}}
    request = body({"first": "Yes.", "second": "Yes."}, response_format=schema)

    def better():
        text = models.post("/chat/completions", json=request).json()["choices"][0]["message"]["content"]
        return json.loads(text)["better"]

    assert better() == "tie"
    server.service.faults.update(judge_position_bias=0.3)
    assert better() == "first"


def body(question, **more):
    text = question if isinstance(question, str) else json.dumps(question)
    messages = [{"role": "system", "content": "Check."}, {"role": "user", "content": text}]
    return {"model": "any", "messages": messages, "response_format": SCHEMA, **more}


@pytest.mark.parametrize(
    ("answer", "expected", "lowest", "highest"),
    [
        ("Refunds are paid within 5 days.", "Refunds are paid within 5 days.", 1, 1),
        ("We pay refunds; it takes 5 days.", "Refunds are paid within 5 days.", 0.6, 1),
        ("Refunds are paid within 9 days.", "Refunds are paid within 5 days.", 0, 0.3),
        ("Refunds are not paid.", "Refunds are paid.", 0, 0.3),
        ("I like trains.", "Refunds are paid within 5 days.", 0, 0.3),
        ("", "Refunds are paid.", 0, 0),
    ],
)
def test_correctness_is_the_share_of_words_unless_a_fact_is_wrong(answer, expected, lowest, highest):
    assert lowest <= judge({"answer": answer, "expected": expected})[0] <= highest


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ("Refunds take 5 days.", True),
        ("Refunds take 5 days and cost 3 Euro.", False),
        ("Trains are never late.", False),
    ],
)
def test_groundedness_is_the_share_of_the_answer_in_the_passages(answer, passes):
    passages = ["Refunds take 5 days.", "They are not paid in cash."]
    assert (judge({"answer": answer, "passages": passages})[0] >= 0.6) == passes


@pytest.mark.parametrize(("answer", "score"), [("Please wait.", 1), ("That is YOUR PROBLEM, idiot!!", 0)])
def test_without_a_reference_only_rude_words_count(answer, score):
    assert judge({"answer": answer})[0] == score


@given(st.text(), st.text())
def test_any_texts_get_a_score_and_a_reason(answer, expected):
    score, reason = judge({"answer": answer, "expected": expected})
    assert 0 <= score <= 1
    assert reason


def test_a_reply_is_a_chat_completion_and_the_same_every_time(models):
    request = body({"answer": "Yes.", "expected": "Yes."})
    one, two = (models.post("/chat/completions", json=request).json() for _ in range(2))
    one.pop("created"), two.pop("created")
    assert one == two
    verdict = json.loads(one["choices"][0]["message"]["content"])
    assert list(verdict) == ["reason", "score", "verdict"]
    assert (verdict["score"], verdict["verdict"]) == (1.0, "pass")
    assert one["usage"]["total_tokens"] == one["usage"]["prompt_tokens"] + one["usage"]["completion_tokens"]


@pytest.mark.parametrize(
    "request_body",
    [
        body("Is it right?"),
        body({"question": "?"}),
        body({"first": "x"}),
        body({"first": "x", "second": "y"}),
        body({"answer": "x"}, response_format={"type": "json_object"}),
        body({"answer": "x"}, messages=[]),
        body({"answer": "x"}, model=None),
        [],
    ],
)
def test_what_it_cannot_judge_is_refused(models, request_body):
    reply = models.post("/chat/completions", json=request_body)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"]


def test_the_key_is_a_bearer_and_works_for_the_judge_only(server, models):
    request = body({"answer": "x"})
    assert models.post("/chat/completions", json=request, headers={"Authorization": "Bearer no"}).status_code == 401
    url = f"{server.url}/m2m/sites/acme-docs/statistics"
    assert local_request("GET", url, headers={"Authorization": "Bearer dev-acme-full"}).status_code == 401


def test_its_requests_are_in_the_journal_and_can_fail(server, models):
    server.service.faults.add("retry-after:1", path="/chat/completions")
    replies = [models.post("/chat/completions", json=body({"answer": "x"})).status_code for _ in range(2)]
    assert replies == [429, 200]
    assert [entry.status for entry in server.service.journal.entries(path="/chat/completions")] == [429, 200]
