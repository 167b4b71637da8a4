"""A key that is rotated while requests are under way: read once, sent again, and never to another service."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Upload
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.api_key import QUIET_SECONDS, ApiKey
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.rate_limited import RateLimitedClient
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantAuthenticationError, AssistantInputError
from tests.wire import Answer, ScriptedService

OLD, NEW, THIRD = "key-of-yesterday-1", "key-of-today-22", "key-of-tomorrow-333"
IN_FLIGHT = 32


class Rotating(ScriptedService):
    """A service that accepts one key, and from its request number ``at`` on, another."""

    def __init__(self, at, valid=NEW):
        super().__init__()
        self.at, self.valid, self.refused, self.created = at, valid, 0, []
        # All requests that are in flight at the rotation are answered together.
        self.together = threading.Barrier(IN_FLIGHT)

    def next(self, request):
        super().next(request)
        with self._lock:
            position = len(self.received)
        if self.at and self.at < position <= self.at + IN_FLIGHT:
            self.together.wait(30)
        key = request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer ")
        if key != (self.valid if position > self.at else OLD):
            # It repeats the key, as careless services do.
            return Answer(401, {"error": f"unknown key {key}"})
        with self._lock:
            self.created.append(request.body)
        return Answer(200, {"document_id": "d", "echo": [OLD, key]})


class Reads:
    """Reads of the connection, which return these keys one after the other; the last one repeats."""

    def __init__(self, *results, base_url=None):
        self.results, self.count, self.base_url = results, 0, base_url

    def settings(self, url, **changes):
        first = ClientSettings(url, OLD, retry=RetryPolicy(attempts=1), max_concurrency=IN_FLIGHT, **changes)

        def read():
            result = self.results[min(self.count, len(self.results) - 1)]
            self.count += 1
            if isinstance(result, Exception):
                raise result
            return replace(first, api_key=result, base_url=self.base_url or url)

        return replace(first, read_again=read)


def calls(count):
    documents = [TextDocument(title=f"T{number}", content="C", category="c") for number in range(count)]
    return [endpoints.create_text_document("docs", document) for document in documents]


def send_in_threads(settings, count):
    """Return the results of calls in threads: replies, or errors."""

    def send(call):
        try:
            return client.send(call)
        except AssistantAuthenticationError as error:
            return error

    with AssistantClient(settings) as client, ThreadPoolExecutor(IN_FLIGHT) as pool:
        return list(pool.map(send, calls(count)))


def send_under_asyncio(settings, count):
    async def send():
        async with RateLimitedClient(settings) as client:
            return await asyncio.gather(*map(client.asend, calls(count)), return_exceptions=True)

    return asyncio.run(send())


SENDERS = pytest.mark.parametrize("send", [send_in_threads, send_under_asyncio], ids=["threads", "asyncio"])


@SENDERS
def test_all_requests_in_flight_go_on_with_the_new_key_after_one_read(send):
    reads = Reads(NEW)
    with Rotating(at=32) as service:
        results = send(reads.settings(service.url), 80)
        assert [error for error in results if isinstance(error, Exception)] == []
        # Each row arrived once, and each request that was refused was sent once more.
        assert len(service.created) == len(set(service.created)) == 80
        assert len(service.received) == 80 + IN_FLIGHT
    assert reads.count == 1
    text = repr(results)
    assert not {OLD, NEW} & set(text.split("'"))
    assert OLD not in text
    assert NEW not in text


@SENDERS
@pytest.mark.parametrize(
    ("reads", "note"),
    [
        (Reads(OLD), "The connection was read again; its API key has not changed. Fix the API key"),
        (Reads(THIRD), "The connection was read again"),
        (Reads(AirflowNotFoundException("no connection 'x'")), "could not be read again: AirflowNotFoundException"),
        (Reads(AssistantInputError("it has no API key")), "could not be read again: it has no API key."),
        (Reads(NEW, base_url="https://other.example/api/v1"), "another base URL now: run the task again"),
    ],
    ids=["same", "wrong", "deleted", "invalid", "moved"],
)
def test_without_a_right_key_the_error_says_what_the_connection_has_now(send, reads, note):
    reads.count = 0
    with Rotating(at=0) as service:
        results = send(reads.settings(service.url), 6)
        assert {type(error) for error in results} == {AssistantAuthenticationError}
        assert all(note in error.todo for error in results)
        sent = {request.headers["x-api-key"] for request in service.received}
        assert sent == ({OLD, THIRD} if THIRD in reads.results else {OLD})
        assert service.created == []
    # A key that was new once may be followed by another one.
    assert reads.count <= 3
    assert not any(key in f"{error} {vars(error)}" for error in results for key in (OLD, NEW, THIRD))


@pytest.mark.parametrize("is_rewindable", [True, False])
def test_a_file_is_sent_again_if_it_can_be_read_again(is_rewindable):
    upload = Upload(lambda: contextlib.nullcontext(io.BytesIO(b"text")), "a.txt", "text/plain", is_rewindable)
    call = endpoints.upload_document("docs", upload)
    with Rotating(at=0) as service, AssistantClient(Reads(NEW).settings(service.url)) as client:
        if is_rewindable:
            client.send(call)
            assert len(service.created) == 1
            return
        with pytest.raises(AssistantAuthenticationError):
            client.send(call)
        assert len(service.received) == 1
        # The next file goes out with the new key.
        client.send(call)


def test_a_key_is_looked_for_again_after_a_while_and_after_every_rotation():
    clock = [1000.0]
    reads = Reads(OLD, NEW, THIRD)
    key = ApiKey(reads.settings("https://h/api/v1"), [], clock=lambda: clock[0])
    counts = []
    for seconds, refused in [(0, OLD), (QUIET_SECONDS / 2, OLD), (QUIET_SECONDS, OLD), (0, OLD), (0, NEW), (0, NEW)]:
        clock[0] += seconds
        key.renew(refused)
        counts.append((reads.count, key.value))
    assert counts == [(1, OLD), (1, OLD), (2, NEW), (2, NEW), (3, THIRD), (3, THIRD)]


def test_a_client_of_plain_settings_fails_as_the_service_says():
    with Rotating(at=0) as service, AssistantClient(ClientSettings(service.url, OLD)) as client:
        with pytest.raises(AssistantAuthenticationError) as caught:
            client.send(calls(1)[0])
        assert caught.value.todo == AssistantAuthenticationError.default_todo
        assert len(service.received) == 1
