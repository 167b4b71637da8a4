"""Operators, the sensor and the hook in nights that once went wrong, on virtual clocks."""

from __future__ import annotations

import time

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout

from airflow_provider_assistant.exceptions import AssistantRateLimitError, AssistantRequestTimeoutError
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.adversary.request_service import Answer, Request, Service, Try
from tests.adversary.world import World

HOUR = 3_600.0
WELL = Answer()
NO_PAUSE = ("0", "Thu, 01 Jan 1970 00:00:00 GMT")


def rows(count, key=lambda number: number):
    return [{"id": key(n), "title": f"T{n}", "question": "Q", "answer": f"A{n}", "category": "c"} for n in range(count)]


def load(source, **options):
    return AssistantLoadQAOperator(task_id="task", source=source, key_columns="id", **options)


def waiting(**options):
    options = {"poke_interval": 1.0, "timeout": 100 * HOUR, "deferrable": True, **options}
    return AssistantChatRequestSensor(task_id="task", request_id="r1", **options)


def request(ends_after):
    """Return a service with one request that ends after some polls."""
    return Service(requests={"r1": Request("s", "Anything?", ends_after)})


@pytest.fixture
def world():
    """Return a function that enters the environment of a service."""
    entered = []

    def enter(service=None, **options):
        entered.append(World(service or Service(), **options).entered())
        return entered[-1].__enter__()

    yield enter
    for one in reversed(entered):
        one.__exit__(None, None, None)


class TestALongTimeAfterA429:
    """The learned rate grows with the time since the last request, without a bound in the first version."""

    def test_a_deferred_sensor_polls_on(self, world):
        night = world(request(ends_after=6))
        # The first poll is the task's, the others are the trigger's.
        polls = (WELL, Answer(status=429, retry_after="1"), WELL)
        ended = night.tried(
            Try(polls), lambda context: night.executed(lambda: waiting(poke_interval=1e4), context), number=1
        )
        assert ended.error is None, ended.error
        assert ended.result["state"] == "complete"

    def test_a_load_with_slow_responses_goes_on(self, world):
        night = world(timeout=2 * HOUR, max_concurrency=1)
        answers = (Answer(status=429, retry_after="1"), Answer(latency=300.0), Answer(latency=HOUR))
        ended = night.tried(Try(answers), lambda context: load(rows(5)).execute(context), number=1)
        assert ended.error is None, ended.error
        assert ended.result["created"] == 5


class TestA429WithoutAPause:
    """A 429 whose Retry-After is 0 or over is repeated with a backoff, and not for ever."""

    @pytest.mark.parametrize("retry_after", NO_PAUSE)
    @pytest.mark.parametrize(
        "make",
        [
            lambda _: AssistantChatOperator(task_id="task", session_id="s", message="Anything?"),
            lambda _: AssistantFeedbackOperator(task_id="task", session_id="s", request_id="r", feedback="good"),
        ],
        ids=["chat", "rating"],
    )
    def test_a_call_ends_soon_and_says_why(self, make, retry_after, world):
        night = world(request(ends_after=1))
        night.most = 200
        ended = night.tried(
            Try(then=Answer(status=429, retry_after=retry_after)),
            lambda context: night.executed(lambda: make(night), context),
            number=1,
        )
        assert isinstance(ended.error, AssistantRateLimitError), ended.error
        assert not isinstance(ended.error, AirflowFailException)
        assert len(ended.entries) < 100
        assert 10 < ended.seconds < 200

    @pytest.mark.parametrize("retry_after", NO_PAUSE)
    def test_a_sensor_waits_until_its_timeout_and_polls_rarely(self, retry_after, world):
        night = world(request(ends_after=1))
        night.most = 300
        ended = night.tried(
            Try(then=Answer(status=429, retry_after=retry_after)),
            lambda context: night.executed(lambda: waiting(poke_interval=60.0, timeout=600.0), context),
            number=1,
        )
        assert isinstance(ended.error, AssistantRequestTimeoutError | AirflowSensorTimeout), ended.error
        assert len(ended.entries) < 150
        assert 500 < ended.seconds < 900


class TestHoursOfRequests:
    """What a 429 costs must not grow with the time since the one before."""

    def test_a_429_after_a_day_of_polls_does_not_block_the_event_loop(self, world):
        polls = 144
        night = world(request(ends_after=3 * polls))
        refused = Answer(status=429, retry_after="1")
        # The rate is fitted at the second 429 after an epoch with requests.
        answers = (WELL, refused, *[WELL] * polls, refused, *[WELL] * polls, refused)
        began = time.process_time()
        ended = night.tried(
            Try(answers), lambda context: night.executed(lambda: waiting(poke_interval=600.0), context), number=1
        )
        assert ended.error is None, ended.error
        assert ended.seconds > 48 * HOUR
        # Without the repair, it takes minutes.
        assert time.process_time() - began < 60.0
