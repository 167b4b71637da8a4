from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Response, TransportFailure, Upload
from airflow_provider_assistant.api.payloads import ChatMessage, QADocument
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantError,
    AssistantRateLimitError,
)
from tests.wire import FakeTime, drive

GET = endpoints.get_statistics("docs")
POST = endpoints.create_qa_document("docs", QADocument(title="t", question="q", answer="a", category="c"))
UNSENT = TransportFailure("connection", "refused", sent=False)
DROPPED = TransportFailure("connection", "dropped", sent=True)


def response(status: int = 200, body: Any = None, **headers: str) -> Response:
    return Response(status, headers, b"" if body is None else json.dumps(body).encode())


def perform(call: Any, outcomes: list[Any], rule: flow.RetryPolicy = flow.RetryPolicy()) -> tuple[Any, list[Any]]:
    clock = FakeTime()
    return drive(flow.perform(call, rule, now=clock.now, rng=random.Random(1)), outcomes, clock)


class TestPerform:
    def test_a_success_is_one_send(self) -> None:
        reply, steps = perform(GET, [response(body={"a": 1})])
        assert (reply.raw, reply.call_info.attempts, len(steps)) == ({"a": 1}, 1, 1)

    def test_the_seconds_include_the_waits(self) -> None:
        reply, _ = perform(GET, [response(429, **{"retry-after": "8"}), response()])
        assert reply.call_info.seconds >= 8

    def test_a_create_that_met_a_5xx_and_then_could_not_connect_stays_ambiguous(self) -> None:
        with pytest.raises(AssistantAmbiguousError) as unclear:
            perform(POST, [response(502), *[UNSENT] * 40])
        assert "502" in unclear.value.happened, "the reason is that of the attempt that was sent"
        assert unclear.value.attempts > 5

    def test_a_create_that_met_a_5xx_and_then_a_refusal_stays_ambiguous(self) -> None:
        with pytest.raises(AssistantAmbiguousError):
            perform(POST, [DROPPED, response(404)])

    @pytest.mark.parametrize(
        ("body", "document_id"),
        [
            ({"error": "may already exist"}, None),
            ({"error": {"document_id": 7}, "id": "e1"}, "7"),
            ({"document": {"uuid": "d-7"}, "status": "error"}, "d-7"),
            ({"duplicate_of": "d-7"}, "d-7"),
            (["exists"], None),
            (None, None),
        ],
    )
    @pytest.mark.parametrize("before", [[DROPPED], [response(502), UNSENT], [response(500), response(429)]])
    def test_a_409_to_a_resend_is_the_document_of_the_lost_attempt(self, body, document_id, before) -> None:
        reply, _ = perform(POST, [*before, response(409, body)])
        assert (reply.existed, reply.document_id, reply.state) == (True, document_id, "unknown")
        info = reply.call_info
        assert (info.status, info.attempts, info.ambiguous) == (409, len(before) + 1, 0)

    @pytest.mark.parametrize("is_repeat", [False, True])
    @pytest.mark.parametrize("before", [[], [UNSENT], [response(429), UNSENT]])
    def test_a_409_to_a_first_create_needs_an_earlier_call(self, before, is_repeat) -> None:
        clock = FakeTime()
        random_waits = random.Random(1)
        rule = flow.RetryPolicy()
        steps = flow.perform(POST, rule, now=clock.now, rng=random_waits, is_repeat=is_repeat)
        outcomes = [*before, response(409, {"error": "duplicate"})]
        if is_repeat:
            assert drive(steps, outcomes, clock)[0].existed
            return
        with pytest.raises(AssistantBadRequestError, match="exists already") as refused:
            drive(steps, outcomes, clock)
        assert "leave the row out" in refused.value.todo

    def test_a_409_to_another_call_is_an_error(self) -> None:
        chat = endpoints.submit_chat("docs", ChatMessage(session_id="s", message="m"))
        with pytest.raises(AssistantAmbiguousError):
            perform(chat, [DROPPED, response(409)])
        with pytest.raises(AssistantBadRequestError) as refused:
            perform(chat, [response(409)])
        assert "document" not in str(refused.value)

    def test_a_429_is_retried_even_if_ambiguous_calls_are_not(self) -> None:
        rule = flow.RetryPolicy(retry_ambiguous=False)
        reply, _ = perform(POST, [UNSENT, response(429), response(201)], rule)
        assert reply.call_info.attempts == 3

    def test_a_file_that_can_be_read_once_is_sent_once(self) -> None:
        upload = Upload(lambda: pytest.fail("nothing is read here"), "a.txt", "text/plain", rewindable=False)
        with pytest.raises(AssistantError):
            perform(endpoints.upload_document("docs", upload), [UNSENT])

    @pytest.mark.parametrize("call", [GET, POST])
    @pytest.mark.parametrize("asked", ["0", "0.001", "soon", None], ids=repr)
    @pytest.mark.parametrize("longest", [0.0, 60.0])
    def test_a_429_that_does_not_end_is_bounded_in_requests_and_time(self, call, asked, longest) -> None:
        clock, headers = FakeTime(), {} if asked is None else {"retry-after": asked}
        steps = flow.perform(call, flow.RetryPolicy(max_backoff=longest), now=clock.now, rng=random.Random(1))
        sent: list[Any] = []
        with pytest.raises(AssistantRateLimitError):
            drive(recorded(steps, sent), [response(429, **headers)] * 1000, clock)
        assert sum(isinstance(step, flow.Send) for step in sent) <= 10 + longest
        assert sum(clock.waited) <= 1.2 * longest + 1

    def test_one_attempt_means_one(self) -> None:
        with pytest.raises(AssistantRateLimitError):
            perform(GET, [response(429)], flow.RetryPolicy(attempts=1))

    @given(
        st.lists(
            st.sampled_from([response(429), response(500), response(503, **{"retry-after": "2"}), UNSENT, DROPPED]),
            max_size=12,
        ),
        st.integers(min_value=1, max_value=8),
        st.sampled_from([GET, POST]),
        st.booleans(),
    )
    def test_sends_are_bounded_and_only_waits_stand_between_them(self, outcomes, attempts, call, retry) -> None:
        seen: list[Any] = []
        clock = FakeTime()
        rule = flow.RetryPolicy(attempts=attempts, retry_ambiguous=retry)
        steps = flow.perform(call, rule, now=clock.now, rng=random.Random(1))
        with contextlib.suppress(AssistantError):
            _, seen = drive(recorded(steps, seen), [*outcomes, response()], clock)
        sends = [step for step in seen if isinstance(step, flow.Send)]
        # An outage and a rate limit are bounded by time.
        others = sum(getattr(outcome, "status", 0) != 500 for outcome in outcomes)
        assert 1 <= len(sends) <= (attempts + others if attempts > 1 else 1)
        if call is POST and not retry:
            repeated = outcomes[: len(sends) - 1]
            assert not any(getattr(outcome, "sent", getattr(outcome, "status", 0) >= 500) for outcome in repeated)


def recorded(steps: Any, into: list[Any]) -> Any:
    outcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            return end.value
        into.append(step)
        outcome = yield step


class TestPause:
    @given(st.none() | st.integers(min_value=0, max_value=60), st.integers())
    def test_jitter_only_lengthens_a_wait(self, retry_after: int | None, seed: int) -> None:
        headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        clock = FakeTime()
        steps = flow.perform(GET, flow.RetryPolicy(), now=clock.now, rng=random.Random(seed))
        drive(steps, [response(429, **headers), response()], clock)
        base = 0.5 if retry_after is None else retry_after
        assert base <= clock.waited[0] <= base + max(0.1 * base, 0.1)

    def test_jitter_spreads_clients_with_the_same_retry_after(self) -> None:
        pauses = set()
        for seed in range(20):
            clock = FakeTime()
            steps = flow.perform(GET, flow.RetryPolicy(), now=clock.now, rng=random.Random(seed))
            drive(steps, [response(429, **{"retry-after": "10"}), response()], clock)
            pauses.add(clock.waited[0])
        assert len(pauses) == 20

    def test_without_retry_after_the_backoff_doubles(self) -> None:
        rule = flow.RetryPolicy()
        assert [rule.pause(attempt, None) for attempt in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 60.0]

    @pytest.mark.parametrize(("asked", "waited"), [(60, 1), (61, 0)])
    def test_the_longest_pause_is_exact(self, asked: int, waited: int) -> None:
        clock = FakeTime()
        steps = flow.perform(GET, flow.RetryPolicy(max_backoff=60), now=clock.now, rng=random.Random(1))
        with pytest.raises(AssistantRateLimitError):
            drive(steps, [response(429, **{"retry-after": str(asked)})] * 3, clock)
        assert len(clock.waited) == waited

    def test_429s_are_bounded_by_time_and_not_by_number(self) -> None:
        outcomes = [response(429, **{"retry-after": "1"})] * 30
        reply, _ = perform(GET, [*outcomes, response()])
        assert reply.call_info.attempts == 31


def test_a_driver_that_sends_no_outcome_gets_an_error() -> None:
    steps = flow.perform(GET, flow.RetryPolicy(), now=lambda: 0.0, rng=random.Random(1))
    next(steps)
    with pytest.raises(TypeError):
        steps.send(None)


class TestOddClocksAndStatuses:
    def test_a_clock_that_is_set_back_makes_no_time_negative(self) -> None:
        times = iter([100.0, 40.0])
        steps = flow.perform(GET, flow.RetryPolicy(), now=lambda: next(times), rng=random.Random(1))
        next(steps)
        with pytest.raises(StopIteration) as end:
            steps.send(response(body={}))
        assert end.value.value.call_info.seconds == 0.0

    @pytest.mark.parametrize("status", [408, 425])
    def test_408_and_425_are_retried(self, status: int) -> None:
        reply, steps = perform(POST, [response(status), response(body={"id": "d"})])
        assert (reply.document_id, reply.call_info.ambiguous, len(steps)) == ("d", 0, 3)
