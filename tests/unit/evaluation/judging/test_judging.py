"""When judges stop, how many requests are in flight, and what is saved, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport
from airflow_provider_assistant.evaluation.judging.judging import Judging
from airflow_provider_assistant.evaluation.judging.labels import assign
from airflow_provider_assistant.evaluation.judging.rubrics import BUILT_IN, JudgeOptions
from airflow_provider_assistant.evaluation.judging.verdicts import known_verdicts
from airflow_provider_assistant.evaluation.scorers import scorers_of
from airflow_provider_assistant.exceptions import (
    AssistantBadRequestError,
    AssistantGatewayError,
    AssistantIncompleteError,
    AssistantJudgeLimitError,
    AssistantResponseError,
    AssistantStorageError,
)
from tests.unit.evaluation.test_scorers import make_case

SETTINGS = ClientSettings("http://127.0.0.1:1/v1", "k", retry=RetryPolicy(attempts=1), bearer=True)
TONE = BUILT_IN["tone"]
VERDICT = json.dumps({"reason": "Polite.", "score": 1, "verdict": "pass"})


class Host(AsyncTransport):
    """
    Reply to every request after a turn of the event loop.

    :param fails: Response or failure by the number of the request; None for a verdict.
    :param refuses: Refusal by the body of the request; None to accept it.
    :param says: Text of the reply.
    """

    def __init__(self, *, usage=(8, 2), fails=lambda number: None, refuses=lambda body: None, says=VERDICT) -> None:
        self._refuses = refuses
        self._says = says
        self.bodies = []
        self.sent = self.flying = self.most = 0
        self._usage = usage
        self._fails = fails

    async def exchange(self, call):
        number, self.sent = self.sent, self.sent + 1
        self.flying += 1
        self.most = max(self.most, self.flying)
        await asyncio.sleep(0)
        self.flying -= 1
        usage = {"prompt_tokens": self._usage[0], "completion_tokens": self._usage[1]} if self._usage else None
        self.bodies.append(call.json)
        refusal = self._refuses(call.json)
        if refusal:
            return Response(400, {}, json.dumps({"error": {"message": refusal}}).encode())
        body = {"choices": [{"message": {"content": self._says}}], "usage": usage}
        return self._fails(number) or Response(200, {}, json.dumps(body).encode())


def judging(count=300, *, known=None, save=None, **options):
    cases = [make_case(f"Answer {number}.", key=str(number)) for number in range(count)]
    files = []
    made = Judging(
        assign(cases, [TONE]), "m", JudgeOptions.parse(options), known=known or {}, save=save or files.append
    )
    return made, files, cases


def run(made, host):
    made.run(lambda: RateLimitedClient(replace(SETTINGS, max_concurrency=64), async_transport=host))


def test_a_file_that_cannot_be_saved_on_the_way_loses_no_verdict(caplog):
    calls = []

    def save(table):
        calls.append(table.num_rows)
        if len(calls) == 1:
            raise AssistantStorageError("full")

    made, _, cases = judging(150, save=save)
    run(made, Host())
    assert calls[-1] == 150
    assert "were not saved" in caplog.text
    [scorer] = scorers_of(["judge.tone"])
    assert {made.bound(scorer).score(case) for case in cases} == {1.0}


def test_the_limit_of_tokens_counts_the_verdicts_of_earlier_attempts():
    made, files, _ = judging(max_concurrency=1, max_judge_tokens=1000)
    host = Host()
    with pytest.raises(AssistantJudgeLimitError, match="used 1,000 tokens, and max_judge_tokens is 1,000"):
        run(made, host)
    assert host.sent == files[-1].num_rows == 100
    again, _, _ = judging(max_judge_tokens=1000, known=known_verdicts(files[-1]))
    other = Host()
    with pytest.raises(AssistantJudgeLimitError):
        run(again, other)
    assert other.sent == 0


def test_a_limit_needs_a_host_that_counts():
    host = Host(usage=None)
    with pytest.raises(AssistantJudgeLimitError, match="does not report the number of tokens"):
        run(judging(max_concurrency=1, max_judge_tokens=1000)[0], host)
    assert host.sent == 1


def test_one_failure_is_the_error_of_one_answer():
    made, _, cases = judging(50, max_concurrency=1)
    run(made, Host(fails=lambda number: Response(500, {}, b"") if number == 3 else None))
    [scorer] = scorers_of(["judge.tone"])
    with pytest.raises(Exception, match="500") as raised:
        made.bound(scorer).score(cases[3])
    assert "may create a duplicate" not in str(raised.value)
    assert made.bound(scorer).score(cases[4]) == 1.0


@pytest.mark.promise("evaluation", "A judge that is away ends the task and keeps its verdicts.")
def test_a_model_that_is_away_ends_the_task_and_keeps_its_verdicts():
    made, files, _ = judging(max_concurrency=1)
    dropped = TransportFailure("connection", "dropped", sent=True)
    host = Host(fails=lambda number: dropped if number >= 50 else None)
    with pytest.raises(AssistantIncompleteError, match="20 answers in a row could not be judged"):
        run(made, host)
    assert host.sent == 70
    assert files[-1].num_rows == 50


def test_what_the_host_does_not_support_is_left_out_after_its_first_refusal(caplog):
    def refuses(body):
        if "temperature" in body:
            return "Unsupported value: 'temperature' does not support 0 with this model."
        if "response_format" in body:
            return "json_schema is not supported"
        return "System role not supported" if body["messages"][0]["role"] == "system" else None

    made, files, _ = judging(100, max_concurrency=8)
    host = Host(refuses=refuses)
    run(made, host)
    assert (files[-1].num_rows, host.sent) == (100, 103)
    assert host.bodies[-1].keys() == {"model", "messages"}
    assert caplog.text.count("does not support") == 3


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("The model `gpt-99` does not exist.", 1),
        ("Your account is not active, please check your billing details.", 1),
        ("Unbekannter Fehler 17", 2),
    ],
)
def test_a_refusal_that_all_would_get_stops_after_the_first_in_the_words_of_the_host(text, sent):
    made, files, _ = judging(400)
    host = Host(refuses=lambda _: text)
    with pytest.raises(AssistantBadRequestError) as raised:
        run(made, host)
    assert host.sent == sent
    assert files[-1].num_rows == 0
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("body", "error", "sent"),
    [
        (b"<html>Sign in</html>", AssistantGatewayError, 1),
        (b"{}", AssistantIncompleteError, 2),
        (b"", AssistantIncompleteError, 2),
    ],
)
def test_a_host_that_is_none_of_a_model_is_hardly_asked(body, error, sent):
    made, files, _ = judging(400)
    host = Host(fails=lambda _: Response(200, {"content-type": "text/html"}, body))
    with pytest.raises(error, match="heck the base URL"):
        run(made, host)
    assert (host.sent, files[-1].num_rows) == (sent, 0)


def test_refusals_of_single_questions_stop_nothing():
    too_long = "This model's maximum context length is 4096 tokens."
    for refused in ([0], [0, 1, 2], [0, 7, 8], list(range(10))):
        made, files, cases = judging(60, max_concurrency=4)
        texts = [f'"Answer {number}."' for number in refused]
        run(made, Host(refuses=lambda body, texts=texts: too_long if any(
            text in body["messages"][1]["content"] for text in texts) else None))  # fmt: skip
        assert files[-1].num_rows == 60 - len(refused)
        [scorer] = scorers_of(["judge.tone"])
        with pytest.raises(AssistantBadRequestError, match="from the host of the model"):
            made.bound(scorer).score(cases[0])


def test_the_first_question_is_asked_alone_and_then_as_many_as_allowed():
    flying = []
    host = Host(fails=lambda _: flying.append(host.flying))
    made, files, _ = judging(300, max_concurrency=8)
    run(made, host)
    assert (flying[0], host.sent, host.most) == (0, 300, 8)
    # The file is saved on the way and at the end.
    rows = [file.num_rows for file in files]
    assert 2 <= len(rows) <= 4
    assert rows == sorted(rows)
    assert rows[-1] == 300
    # A retry asks for nothing that is known, and other scorers are left alone.
    again, _, _ = judging(300, known=known_verdicts(files[-1]))
    run(again, host)
    assert host.sent == 300
    [scorer] = scorers_of(["token_f1"])
    assert made.bound(scorer) is scorer


def test_replies_that_are_no_verdicts_cost_tokens_too(caplog):
    caplog.set_level("INFO")
    made, files, cases = judging(10, max_concurrency=1, price={"input": 1, "output": 10})
    run(made, Host(says="I would rather not."))
    assert files[-1].num_rows == 0
    assert "0 verdicts, for 80 tokens of prompts and 20 tokens of replies, which cost 0.00028" in caplog.text
    [scorer] = scorers_of(["judge.tone"])
    with pytest.raises(AssistantResponseError, match=r"'I would rather not\.'") as raised:
        made.bound(scorer).score(cases[0])
    assert "base URL" not in str(raised.value)


def test_tokens_that_are_not_reported_have_no_cost():
    made, _, _ = judging(3, price={"input": 1, "output": 10})
    run(made, Host(usage=None))
    assert made.summaries([TONE])["judge.tone"].cost is None
