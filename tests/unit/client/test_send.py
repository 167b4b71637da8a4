"""How a call is sent: retries, what may have been carried out, outages. With and without asyncio, it is the same."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Response, Upload
from airflow_provider_assistant.api.payloads import ChatMessage, QADocument
from airflow_provider_assistant.client.retry import Attempts, RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAuthenticationError,
    AssistantBadRequestError,
    AssistantConnectionError,
    AssistantError,
    AssistantGatewayError,
    AssistantRateLimitError,
    AssistantResponseError,
    AssistantTimeoutError,
)
from tests.virtual_time import now, simulated
from tests.wire import FakeTime, FunctionTransport, ScriptedAsyncTransport, ScriptedTransport, client_with

GET = endpoints.get_statistics("docs")
POST = endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="c"))
CHAT = endpoints.chat("docs", ChatMessage(session_id="s", message="m"))
SUBMIT = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
UNSENT = AssistantConnectionError("refused")
DROPPED = AssistantConnectionError("dropped", maybe_done=True)
LATE = AssistantTimeoutError("no complete answer within 30 s", maybe_done=True)
PAGE = Response(404, {"content-type": "text/html"}, b"<html><title>Not here</title></html>")
SETTINGS = ClientSettings("http://127.0.0.1:1/api/v1", "key-of-a-test/<&")


def response(status: int = 200, body: Any = None, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, b"" if body is None else json.dumps(body).encode())


class World:
    """A client whose requests get scripted outcomes, and whose waits take no time."""

    def __init__(
        self, outcomes: list[Any], policy: RetryPolicy, *, is_async: bool, seed: int = 1, wire: Any = None
    ) -> None:
        self.clock = FakeTime()
        self.wire = wire or ScriptedTransport(outcomes)
        settings = replace(SETTINGS, retry=policy)
        self.is_async = is_async
        self.attempts = Attempts()
        self.client = client_with(
            settings, transport=self.wire, async_transport=ScriptedAsyncTransport(self.wire), now=self.clock.now,
            sleep=self.clock.sleep, asleep=self._asleep, rng=random.Random(seed),
        )  # fmt: skip

    async def _asleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        await asyncio.sleep(seconds)

    def send(self, call: Any, **options: Any) -> Any:
        if self.is_async:
            return simulated(self.client.asend(call, attempts=self.attempts, **options))
        return self.client.send(call, **options)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def world(request: pytest.FixtureRequest) -> Callable[..., World]:
    def made(outcomes: list[Any], policy: RetryPolicy | None = None, **options: Any) -> World:
        return World(outcomes, policy or RetryPolicy(), is_async=request.param, **options)

    return made


def test_a_success_is_sent_once(world):
    one = world([response(body={"a": 1})])
    reply = one.send(GET)
    assert (reply.raw, reply.call_info.attempts, len(one.wire.sent)) == ({"a": 1}, 1, 1)


def test_the_seconds_include_the_waits(world):
    assert world([response(429, retry_after="8"), response()]).send(GET).call_info.seconds >= 8


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
def test_what_may_pass_is_sent_again(world, status):
    reply = world([response(status), response(body={"id": "d"})]).send(POST)
    assert (reply.document_id, reply.call_info.attempts) == ("d", 2)
    assert reply.call_info.ambiguous == (status >= 500)


@pytest.mark.parametrize("outcome", [response(400), response(401), response(403), response(404), response(501), PAGE])
def test_a_refusal_is_sent_once(world, outcome):
    one = world([outcome])
    with pytest.raises(AssistantError) as refused:
        one.send(POST)
    assert not refused.value.maybe_done
    assert refused.value.retryable == isinstance(refused.value, AssistantGatewayError)
    assert len(one.wire.sent) == 1


@pytest.mark.promise("chat", "The client never sends a chat that timed out a second time.")
@pytest.mark.parametrize("others_are_answered", [False, True])
def test_a_chat_that_timed_out_is_never_sent_again(world, others_are_answered):
    one = world([response(), LATE] if others_are_answered else [LATE])
    if others_are_answered:
        one.send(GET)
    with pytest.raises(AssistantAmbiguousError, match="no complete answer") as unclear:
        one.send(CHAT)
    assert unclear.value.maybe_done
    assert one.wire.sent.count(CHAT) == 1
    assert one.clock.waited == []


def test_a_submission_that_timed_out_is_sent_again(world):
    assert world([LATE, response(body={"request_id": "r1"})]).send(SUBMIT).request_id == "r1"


def test_a_create_is_not_sent_again_if_that_is_forbidden():
    one = World([DROPPED, response(201)], RetryPolicy(), is_async=False)
    with pytest.raises(AssistantAmbiguousError) as unclear:
        one.send(POST, retry_ambiguous=False)
    assert not unclear.value.retryable, "Airflow does not send it again either"
    assert len(one.wire.sent) == 1
    # What was not carried out is sent again nevertheless.
    one = World([UNSENT, response(429), response(201)], RetryPolicy(), is_async=False)
    assert one.send(POST, retry_ambiguous=False).call_info.attempts == 3


def test_a_reply_that_cannot_be_read_may_have_been_carried_out(world):
    with pytest.raises(AssistantResponseError) as unreadable:
        world([Response(201, {}, b"{")]).send(POST)
    assert unreadable.value.maybe_done


@pytest.mark.parametrize("last", [UNSENT, response(404), response(429, retry_after="999")])
def test_a_create_that_met_a_5xx_stays_ambiguous_whatever_follows(world, last):
    with pytest.raises(AssistantAmbiguousError) as unclear:
        world([response(502), last]).send(POST)
    assert "502" in unclear.value.happened, "the reason is that of the attempt that was sent"
    assert unclear.value.attempts > 1


@pytest.mark.parametrize(
    ("body", "document_id"),
    [({"error": "may already exist"}, None), ({"duplicate_of": "d-7"}, "d-7"), (["exists"], None), (None, None)],
)
@pytest.mark.parametrize("before", [[DROPPED], [response(502), UNSENT], [response(500), response(429)]])
def test_a_409_to_a_resend_is_the_document_of_the_lost_attempt(world, body, document_id, before):
    reply = world([*before, response(409, body)]).send(POST)
    assert (reply.existed, reply.document_id, reply.state) == (True, document_id, "unknown")
    info = reply.call_info
    assert (info.status, info.attempts, info.ambiguous) == (409, len(before) + 1, 0)


@pytest.mark.parametrize("is_repeat", [False, True])
@pytest.mark.parametrize("before", [[], [UNSENT], [response(429), UNSENT]])
def test_a_409_to_a_first_create_needs_an_earlier_call(before, is_repeat):
    one = World([*before, response(409, {"error": "duplicate"})], RetryPolicy(), is_async=True)
    if is_repeat:
        assert one.send(POST, is_repeat=True).existed
        return
    with pytest.raises(AssistantBadRequestError, match="exists already") as refused:
        one.send(POST)
    assert "leave the row out" in refused.value.todo


def test_a_409_to_a_chat_is_an_error(world):
    with pytest.raises(AssistantAmbiguousError):
        world([DROPPED, response(409)]).send(SUBMIT)
    with pytest.raises(AssistantBadRequestError) as refused:
        world([response(409)]).send(SUBMIT)
    assert "document" not in str(refused.value)


def test_a_file_that_can_be_read_once_is_sent_once(world):
    upload = Upload(lambda: pytest.fail("nothing is read here"), "a.txt", "text/plain", rewindable=False)
    one = world([UNSENT])
    with pytest.raises(AssistantError):
        one.send(endpoints.upload_document("docs", upload))
    assert len(one.wire.sent) == 1


@pytest.mark.promise("replies and errors", "If a key that has worked in a task is refused, Airflow retries the task.")
def test_a_401_after_the_key_had_worked_may_pass(world):
    one = world([response(), response(401)])
    one.send(GET)
    with pytest.raises(AssistantAuthenticationError, match="rotated or revoked") as refused:
        one.send(GET)
    assert refused.value.retryable
    assert len(one.wire.sent) == 2
    with pytest.raises(AssistantAuthenticationError) as refused:
        world([response(401)]).send(GET)
    assert not refused.value.retryable


# -- how long -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [GET, POST])
@pytest.mark.parametrize("asked", ["0", "0.001", "soon", None], ids=repr)
@pytest.mark.parametrize("longest", [0.0, 60.0])
def test_a_429_that_does_not_end_is_bounded_in_requests_and_time(call, asked, longest):
    headers = {} if asked is None else {"retry_after": asked}
    one = World([response(429, **headers)], RetryPolicy(max_backoff=longest), is_async=False)
    with pytest.raises(AssistantRateLimitError):
        one.send(call)
    assert len(one.wire.sent) <= 10 + longest
    assert sum(one.clock.waited) <= 1.2 * longest + 1


def test_429s_are_bounded_by_time_and_not_by_number(world):
    reply = world([*[response(429, retry_after="1")] * 30, response()]).send(GET)
    assert reply.call_info.attempts == 31


@pytest.mark.parametrize(("asked", "waited"), [(60, 1), (61, 0)])
def test_the_longest_pause_is_exact(asked, waited):
    one = World([response(429, retry_after=str(asked))], RetryPolicy(max_backoff=60), is_async=False)
    with pytest.raises(AssistantRateLimitError):
        one.send(GET)
    assert len(one.clock.waited) == waited


def test_one_attempt_means_one(world):
    one = world([response(429)], RetryPolicy(attempts=1))
    with pytest.raises(AssistantRateLimitError):
        one.send(GET)
    assert len(one.wire.sent) == 1


OUTCOMES = st.lists(
    st.sampled_from([response(429), response(500), response(503, retry_after="2"), UNSENT, DROPPED]), max_size=12
)


@given(OUTCOMES, st.integers(min_value=1, max_value=8), st.sampled_from([GET, POST]), st.booleans(), st.booleans())
def test_sends_are_bounded_and_counted(outcomes, attempts, call, retry, is_async):
    policy = RetryPolicy(attempts=attempts, retry_ambiguous=retry)
    one = World([*outcomes, response()], policy, is_async=is_async)
    with contextlib.suppress(AssistantError):
        one.send(call)
    sent = outcomes[: len(one.wire.sent)]
    # An outage and a rate limit are bounded by time.
    others = sum(getattr(outcome, "status", 0) != 500 for outcome in outcomes)
    assert 1 <= len(one.wire.sent) <= (attempts + others if attempts > 1 else 1)
    maybe_done = [outcome for outcome in sent if errors.may_have_arrived(outcome)]
    if call is POST and not retry:
        assert maybe_done in ([], sent[-1:])
    if is_async:
        assert one.attempts.sent == len(one.wire.sent)
        assert one.attempts.maybe_done == (len(maybe_done) if call is POST else 0)


@given(st.none() | st.integers(min_value=0, max_value=60), st.integers())
def test_jitter_only_lengthens_a_wait(asked, seed):
    headers = {} if asked is None else {"retry_after": str(asked)}
    one = World([response(429, **headers), response()], RetryPolicy(), is_async=False, seed=seed)
    one.send(GET)
    base = 0.5 if asked is None else asked
    assert base <= one.clock.waited[0] <= base + max(0.1 * base, 0.1)


def test_the_backoff_doubles():
    one = World([response(500)], RetryPolicy(), is_async=False)
    with pytest.raises(AssistantError):
        one.send(GET)
    assert [round(pause) for pause in one.clock.waited[1:]] == [1, 2, 4]


def test_a_clock_that_is_set_back_makes_no_time_negative():
    one = World([response()], RetryPolicy(), is_async=False)
    times = iter([100.0, 100.0, *[40.0] * 20])
    one.client.now = lambda: next(times)
    assert one.send(GET).call_info.seconds == 0.0


# -- outages ------------------------------------------------------------------------------------------


class Away(ScriptedTransport):
    """Answer nothing until a time."""

    clock = FakeTime()
    until = 0.0

    def exchange(self, call: Any) -> Any:
        outcome = super().exchange(call)
        return response(body={"limits": {}}) if self.clock.now() >= self.until else outcome


GATEWAY = Response(503, {"content-type": "text/html"}, b"<html>away</html>")


@pytest.mark.promise(
    "replies and errors", "A task waits for the end of an outage of a minute, and logs it every ten seconds."
)
@pytest.mark.parametrize("failure", [UNSENT, GATEWAY], ids=["refused", "a gateway's 503"])
@pytest.mark.parametrize("call", [GET, POST], ids=["read", "create"])
@pytest.mark.parametrize("seconds", [1, 30, 75, 1000])
def test_an_outage_is_waited_for_and_told(seconds, call, failure, caplog):
    away = Away([failure])
    one = World([], RetryPolicy(), is_async=False, seed=seconds, wire=away)
    caplog.set_level("INFO")
    started = one.clock.now()
    away.clock, away.until = one.clock, started + seconds
    with contextlib.nullcontext() if seconds < 80 else pytest.raises(AssistantError, match="Nothing was answered for"):
        one.send(call)
    took = one.clock.now() - started
    assert took <= 100
    if call is POST and failure is GATEWAY:
        assert len(away.sent) <= 5, "each may create a duplicate"
        return
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert messages[0].startswith("Trying again in ")
    assert sum("Trying again in" in message for message in messages) <= 2
    silent = [message for message in messages if "has not answered for" in message]
    assert (took - 10) // 15 <= len(silent) <= took / 10
    assert all("; trying again in " in message for message in silent)
    assert ("The service answers again" in caplog.text) == (bool(silent) and seconds < 80)


def test_failures_between_answers_are_each_told(world, caplog):
    one = world([UNSENT, response()] * 3)
    for _ in range(3):
        one.send(GET)
    assert caplog.text.count("Trying again in") == 3


def test_a_request_that_is_cancelled_may_have_been_carried_out():
    attempts = Attempts()

    async def main() -> None:
        client = client_with(SETTINGS, async_transport=FunctionTransport(lambda _: asyncio.sleep(1000)), now=now)
        task = asyncio.create_task(client.asend(POST, attempts=attempts))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    simulated(main())
    assert (attempts.sent, attempts.maybe_done) == (1, 1)


KEY = "key-of-a-test/<&"
BODIES = {
    "plain": json.dumps({"error": f"not {KEY}", "raw": KEY}),
    "escaped": json.dumps({"error": KEY}).replace("k", "\\u006b"),
    "a page": f"<html><title>{html.escape(KEY)}</title>",
    "a text": f"no such key: {KEY}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("status", [200, 201, 400, 401, 500])
def test_the_key_is_in_no_reply_and_no_error(world, status, body):
    outcome = Response(status, {"x-request-id": KEY}, body.encode())
    try:
        said = str(world([outcome]).send(GET).raw)
    except AssistantError as error:
        said = f"{error} {vars(error)}"
    assert KEY not in said
    assert "***" in said or status < 300
