"""Operators, the sensor and the hook in nights that once went wrong, on virtual clocks."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout

from airflow_provider_assistant.exceptions import AssistantRateLimitError, AssistantRequestTimeoutError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.adversary.request_service import Answer, Request, Service, Try
from tests.adversary.world import World
from tests.task_runs.context import task_context

HOUR = 3_600.0
WELL = Answer()
NO_PAUSE = ("0", "0.0", "-1", "Thu, 01 Jan 1970 00:00:00 GMT")


def rows(count, key=lambda number: number):
    return [{"id": key(n), "title": f"T{n}", "question": "Q", "answer": f"A{n}", "category": "c"} for n in range(count)]


def load(source, **options):
    return AssistantLoadQAOperator(task_id="task", source=source, key_columns="id", **options)


def submit(**options):
    return AssistantSubmitChatOperator(task_id="task", session_id="s", message="Anything?", **options)


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

    @pytest.mark.parametrize("interval", [300.0, 1e4])
    def test_a_deferred_sensor_polls_on(self, interval, world):
        night = world(request(ends_after=6))
        # The first poll is the task's, the others are the trigger's.
        polls = (WELL, Answer(status=429, retry_after="1"), WELL)
        ended = night.tried(
            Try(polls), lambda context: night.executed(lambda: waiting(poke_interval=interval), context), number=1
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
            lambda _: submit(),
            lambda _: SimpleNamespace(execute=lambda _context: AssistantHook().get_limits()),
        ],
        ids=["chat", "rating", "submission", "hook"],
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

    @pytest.mark.parametrize("retry_after", NO_PAUSE[::3])
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

    @pytest.mark.parametrize("retry_after", NO_PAUSE)
    def test_a_load_ends_soon_and_a_retry_creates_every_row(self, retry_after, world, monkeypatch):
        monkeypatch.setattr(AssistantLoadQAOperator, "max_backoff", 60.0)
        night = world()
        night.most = 500
        refused = Try(then=Answer(status=429, retry_after=retry_after))
        ended = night.tried(refused, lambda context: load(rows(3)).execute(context), number=1)
        assert isinstance(ended.error, AssistantRateLimitError), ended.error
        good = night.tried(Try(), lambda context: load(rows(3)).execute(context), number=2)
        assert good.result["created"] == 3
        assert set(night.service.documents.values()) == {1}


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


TEXTS = ["x" * 251, "Ω" * 300, "x" * 9_990, "a\x00b", "\ud800", "\ud800\x00" + "y" * 300]


class TestIdsOfAnyText:
    """Ids of the service and keys of rows are recorded, whatever their characters; PostgreSQL in integration."""

    @pytest.mark.parametrize("text", [text for text in TEXTS if "\ud800" not in text])
    def test_a_request_is_submitted_once(self, text, world):
        night = world()
        submissions = [
            night.tried(
                Try(then=Answer(identifier=text)),
                lambda context: night.executed(submit, context),
                number=number,
            )
            for number in (1, 2)
        ]
        assert [ended.error for ended in submissions] == [None, None]
        assert night.service.submitted.total() == 1
        # A reply has no NUL after it is read.
        request_id = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
        assert submissions[1].result["request_id"] == f"{request_id}1"

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_document_with_such_an_id_is_created_once(self, text, world):
        night = world()
        created = [
            night.tried(
                Try(then=Answer(identifier=text)), lambda context: load(rows(3)).execute(context), number=number
            )
            for number in (1, 2)
        ]
        assert [ended.result["created"] for ended in created] == [3, 0], [ended.error for ended in created]

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_row_with_such_a_key_is_created_once(self, text, world):
        night = world()
        source = rows(3, key=lambda number: f"{text}{number}")
        created = [
            night.tried(Try(), lambda context: load(source).execute(context), number=number) for number in (1, 2)
        ]
        assert [ended.result["created"] for ended in created] == [3, 0], [ended.error for ended in created]


class TestARowThatWaitsForHours:
    """A row that waits out a long pause belongs to its load, however long the pause is."""

    @pytest.mark.parametrize("after", [1.5 * HOUR, 5.0 * HOUR])
    def test_another_run_does_not_send_it(self, after, world, monkeypatch):
        monkeypatch.setattr(AssistantLoadQAOperator, "max_backoff", 7 * HOUR)
        night = world(timeout=30.0, max_concurrency=2)
        pause = Answer(status=429, retry_after=str(int(6 * HOUR)))
        # The pause answers the first row, not a request for the limits.
        options = {"source_name": "rows", "on_limit": "ignore"}
        other = []

        def second_run():
            other.append(load(rows(2), findings_path=findings, **options).execute(task_context(run_id="next")))

        def in_a_thread():
            thread = threading.Thread(target=second_run)
            thread.start()
            thread.join()

        findings = str(night.folder / "second.parquet")
        received = night.receive

        def receive(call):
            if not night.service.journal:
                asyncio.get_running_loop().call_later(after, in_a_thread)
            return received(call)

        night.receive = receive
        ended = night.tried(
            Try((pause,)),
            lambda context: load(rows(2), **options).execute(context),
            number=1,
        )
        assert ended.error is None, ended.error
        assert ended.result["created"] == 2
        # The first request goes alone, so both rows wait.
        assert (other[0]["skipped"], other[0]["unchanged"], other[0]["requests"]) == (2, 0, 0)
        assert {row["kind"] for row in pq.read_table(findings).to_pylist()} == {"skipped"}
        assert set(night.service.documents.values()) == {1}
