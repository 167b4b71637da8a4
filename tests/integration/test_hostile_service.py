"""Malformed, huge, slow and truncated responses: every call ends with a reply or an AssistantError."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
import tracemalloc
from functools import partial

import pytest
from airflow.providers.common.compat.sdk import AirflowTaskTimeout
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Upload
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantAPIError,
    AssistantConnectionError,
    AssistantError,
    AssistantResponseError,
    AssistantTimeoutError,
)
from tests.hostile import CALLS, KEY, Closed, HostileService, answer
from tests.live.process import wait_for
from tests.wire import SHORT_TIMEOUT, Answer, ScriptedService, client_of

ONCE = RetryPolicy(attempts=1)
MEGABYTE = 1024 * 1024
READ, CREATE = CALLS["limits"], CALLS["qa"]
BOTH = pytest.mark.parametrize("call", [READ, CREATE], ids=["GET", "POST"])
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def send(send):
    """Send a call once, synchronously and with asyncio."""
    return partial(send, retry=ONCE, timeout=60.0)


def saying(*pieces, close=False):
    """Return a service that sends the same response to every request."""

    def speak(line):
        line.say(*pieces)
        if close:
            raise Closed

    return HostileService(speak)


def check_error(error):
    said = str(error)
    assert said.splitlines() == [said]
    assert "\x1b" not in said
    assert KEY not in said
    assert len(said) < 1500


# -- size ------------------------------------------------------------------------------------------


@BOTH
def test_ten_megabytes_of_json_are_read(send, call):
    item = json.dumps({"n": 1, "text": "x" * 80})
    body = f'{{"id": "d1", "items": [{", ".join([item] * 100_000)}]}}'.encode()
    assert len(body) > 10_000_000
    with saying(answer(body)) as service:
        assert len(send(service.url, call).raw["items"]) == 100_000


@pytest.mark.promise("replies and errors", "A reply of any size is read within a limit of memory.")
@BOTH
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10000000000", b"Connection: close", b"Transfer-Encoding: chunked"]
)
def test_ten_gigabytes_are_not_read(send, call, framing):
    piece = b"x" * MEGABYTE
    if b"chunked" in framing:
        piece = b"%x\r\n%s\r\n" % (MEGABYTE, piece)

    def speak(line):
        line.say(HEAD + framing + b"\r\n\r\n")
        for _ in range(10_000):
            line.say(piece)

    with HostileService(speak) as service:
        tracemalloc.start()
        with pytest.raises(AssistantResponseError, match="larger than a reply may be") as caught:
            send(service.url, call, max_response_bytes=MEGABYTE)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 20 * MEGABYTE
    assert ("was carried out" in str(caught.value)) == (call is CREATE)
    assert service.requests == 1


def test_a_connection_is_used_again_after_a_reply_that_was_too_large(send):
    with ScriptedService(Answer(503, b"x" * 3 * MEGABYTE), Answer(body={"n": 1})) as service:
        reply = send(service.url, READ, retry=RetryPolicy(), max_response_bytes=MEGABYTE)
    assert reply.raw == {"n": 1}
    assert reply.call_info.attempts == 2


# -- time ------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("head", "dripped"),
    [
        (HEAD + b"Content-Length: 100000\r\n\r\n", b"x" * 100_000),
        (HEAD + b"Connection: close\r\n\r\n", b"x" * 100_000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 100_000),
        (b"", HEAD + b"X-Long: " + b"x" * 100_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000),
    ],
    ids=["length", "close", "chunked", "headers", "continue"],
)
def test_a_slow_response_times_out(send, no_connect_timeout, call, head, dripped):
    def speak(line):
        line.say(head)
        line.drip(dripped, 0.01)

    with HostileService(speak) as service:
        started = time.monotonic()
        with pytest.raises(AssistantTimeoutError if call is READ else AssistantAmbiguousError) as caught:
            send(service.url, call, timeout=SHORT_TIMEOUT)
        # The slow response takes minutes, so the error comes from the response timeout, not from its end.
        assert time.monotonic() - started > SHORT_TIMEOUT / 2
    assert isinstance(caught.value.__cause__ if call is CREATE else caught.value, AssistantTimeoutError)
    check_error(caught.value)


def test_an_upload_does_not_count_towards_the_timeout(send):
    content = b"x" * 32 * MEGABYTE
    call = endpoints.upload_document("docs", Upload(lambda: io.BytesIO(content), "a.bin", "application/octet-stream"))
    # Only the start of the upload is slow: its end is still in the buffers of the system when the timeout starts.
    with HostileService(lambda line: line.say(answer(b'{"id": "d1"}')), pauses=[0.02] * 350) as service:
        started = time.monotonic()
        assert send(service.url, call, timeout=6.0).document_id == "d1"
    assert time.monotonic() - started > 6.5


def test_waiting_for_a_pool_slot_does_not_count_towards_the_timeout(monkeypatch):
    """The timeout of each of many requests on one connection begins when the request before it has ended."""
    begun, real, thread = [], asyncio.timeout, threading.get_ident()

    def timeout(seconds):
        # The transport begins with the ten seconds of a connection; others call it with other times.
        if seconds == 10.0 and threading.get_ident() == thread:
            begun.append(len(service.received))
        return real(seconds)

    async def run(url):
        async with client_of(url, retry=ONCE, max_concurrency=1, timeout=60.0) as client:
            return await asyncio.gather(*(client.asend(READ) for _ in range(8)))

    monkeypatch.setattr(asyncio, "timeout", timeout)
    with ScriptedService(Answer(body={"n": 1})) as service:
        assert [reply.raw for reply in asyncio.run(run(service.url))] == [{"n": 1}] * 8
    assert begun == list(range(8))


# -- malformed HTTP -----------------------------------------------------------------------------

BROKEN = {
    "cut": answer(b'{"a": 1}', length=100),
    "garbage": b"\x16\x03\x01\x00\xa5\x01\x00" * 20,
    "ftp": b"220 ftp.example.com ready\r\n",
    "old": b"{}",
    "status": b"HTTP/1.1 abc Odd\r\n\r\n",
    "steering": b"HTTP/1.1 \x1b[2J\x1b[31mgone\r\n\r\n",
    "length": HEAD + b"Content-Length: many\r\n\r\n{}",
    "negative": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "chunk cut": HEAD + b"Transfer-Encoding: chunked\r\n\r\n64\r\n{}",
    "huge header": HEAD + b"X-Huge: " + b"x" * MEGABYTE + b"\r\nContent-Length: 2\r\n\r\n{}",
    "many headers": HEAD
    + b"".join(b"X-%d: x\r\n" % number for number in range(50_000))
    + b"Content-Length: 2\r\n\r\n{}",
    "no colon": HEAD + b"nonsense\r\nContent-Length: 2\r\n\r\n{}",
    "nothing": b"",
}


@pytest.mark.parametrize("broken", BROKEN)
@BOTH
def test_malformed_http_is_an_error(send, call, broken):
    kinds = []
    with saying(BROKEN[broken], close=True) as service:
        try:
            reply = send(service.url, call)
        except (AssistantConnectionError, AssistantAmbiguousError, AssistantAPIError, AssistantResponseError) as error:
            check_error(error)
            kinds.append(type(error))
        else:
            # Some parsers are more tolerant than others, but what they return must be what was sent.
            assert reply.raw in ({}, None)
            assert broken in {"no colon", "many headers", "two lengths", "huge header"}
    assert AssistantConnectionError not in kinds or call is READ


def test_a_header_with_several_lines_is_read_whole(send):
    with saying(answer(b"[]", b'Link: </x?p=2>; rel="next"\r\nlink: </x>; rel="first"')) as service:
        assert send(service.url, READ).call_info.link == '</x?p=2>; rel="next", </x>; rel="first"'


def test_a_wrong_content_length_gives_no_partial_answer(send):
    with saying(answer(b'{"a": 1}', length=4)) as service:
        # aiohttp checks for data after the response, httpx does not.
        with pytest.raises((AssistantResponseError, AssistantConnectionError), match=r"not JSON|not HTTP"):
            send(service.url, READ)


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad", b"500 Down", b"302 Found"])
def test_the_service_cannot_forge_log_lines(send, status, caplog):
    caplog.set_level(0)
    body = json.dumps({"error": "fine\nERROR forged \x1b[2J\x1b]0;owned\x07 \u202egnp.exe"}).encode()
    headers = (b"Content-Type: text/html\x1b[31m", b"X-Request-Id: a\x1b[31m", b"Location: /\x1b[31m")
    lines = b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % (len(body) + 1), b"", b"<" + body])
    with saying(lines) as service, pytest.raises(AssistantError) as caught:
        send(service.url, READ, retry=RetryPolicy(attempts=2))
    check_error(caught.value)
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("airflow_provider_assistant")]
    assert all(said.splitlines() == [said] and "\x1b" not in said for said in ours)


# -- arbitrary bytes -------------------------------------------------------------------------------

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.sampled_from(["request_id", "status", "result", "error", "id"]), inner)
    ),
    max_leaves=8,
)
ANSWERS = st.one_of(
    st.binary(max_size=300),
    st.builds(
        lambda body, status, name, value, length: answer(
            body, name + b": " + value, status=b"%d Odd" % status, length=length
        ),
        st.one_of(VALUES.map(json.dumps).map(str.encode), st.binary(max_size=100)),
        st.one_of(st.sampled_from([200, 201, 204, 302, 400, 404, 429, 500]), st.integers(100, 999)),
        st.sampled_from([b"Content-Encoding", b"Transfer-Encoding", b"Retry-After", b"Set-Cookie", b"Content-Length"]),
        st.one_of(st.binary(max_size=20), st.sampled_from([b"gzip", b"chunked", b"5", b"a=b"])),
        st.one_of(st.none(), st.integers(0, 500)),
    ),
)


@pytest.mark.promise(
    "replies and errors", "Whatever bytes a server sends, the result is a reply or an error of the package."
)
@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(said=ANSWERS, name=st.sampled_from(sorted(CALLS)))
def test_any_response_is_a_reply_or_an_error_of_this_package(send, said, name):
    with saying(said, close=True) as service:
        try:
            reply = send(service.url, CALLS[name], timeout=2.0)
        except AssistantError as error:
            check_error(error)
        else:
            assert json.dumps(reply.as_dict())


def test_an_exception_of_a_signal_handler_in_the_parser_is_raised(send, monkeypatch):
    """aiohttp's parser treats any exception raised while it passes on a chunk as a malformed response."""

    def alarm(*_):
        raise AirflowTaskTimeout("execution_timeout")

    monkeypatch.setattr("aiohttp.StreamReader.feed_data", alarm)
    monkeypatch.setattr("airflow_provider_assistant.client.transport.BoundedBody.feed", alarm)
    with saying(answer(b"{}")) as service, pytest.raises(AirflowTaskTimeout, match="execution_timeout"):
        send(service.url, READ)


def test_no_socket_is_left_open(send):
    """When the client stops reading a response, the service sees the connection close."""
    seen = []

    def speak(line):
        line._connection.settimeout(60)
        try:
            line.say(HEAD + b"Content-Length: 100000000\r\n\r\n" + b"x" * 2 * MEGABYTE)
            seen.append(line._connection.recv(1))
        except (ConnectionError, TimeoutError) as error:
            seen.append(error)

    with HostileService(speak) as service:
        with pytest.raises(AssistantResponseError):
            send(service.url, READ, max_response_bytes=MEGABYTE)
        wait_for("the service to see its client go", lambda: seen, timeout=60)
    assert seen == [b""] or isinstance(seen[0], ConnectionError)


FIELD = b"X-Policy-%d: " + b"p" * 40
LARGE_HEADS = {
    "one cookie of 16 KB": [b"Set-Cookie: session=" + b"s" * 16_000],
    "a policy of 60 KB": [b"Content-Security-Policy: " + b"default-src 'self'; " * 3_000],
    "1,500 headers": [FIELD % number for number in range(1_500)],
    "a long reason": [],
    "two lengths": [b"Content-Length: 12"],
    "three lengths in two lines": [b"content-length:12, 12"],
}


@pytest.mark.promise("replies and errors", "A reply with large headers or repeated lengths is read, by both clients.")
@pytest.mark.parametrize("piece", [1_000_000, 1_000, 7])
@pytest.mark.parametrize("head", LARGE_HEADS)
def test_a_large_head_is_read(send, head, piece):
    status = b"200 " + b"OK" * 5_000 if head == "a long reason" else b"200 OK"
    content = answer(b'{"id": "d1"}', *LARGE_HEADS[head], status=status)
    pieces = [content[start : start + piece] for start in range(0, len(content), piece)]
    if len(pieces) > 300:
        pieces = [*pieces[:100], b"".join(pieces[100:-100]), *pieces[-100:]]
    with HostileService(lambda line: line.say(*pieces)) as service:
        documents = [send(service.url, CREATE).document_id for _ in range(2)]
    assert (service.requests, documents) == (2, ["d1", "d1"])


@pytest.mark.parametrize("lines", [1, 4_000])
def test_a_head_that_is_too_large_is_one_clear_error_and_nothing_is_sent_again(send, lines):
    field = b"X-Field: " + b"x" * (400_000 // lines)
    with HostileService(lambda line: line.say(answer(b'{"id": "d1"}', *[field] * lines))) as service:
        with pytest.raises(AssistantResponseError, match="100 KiB"):
            send(service.url, CALLS["limits"], retry=RetryPolicy())
        with pytest.raises(AssistantResponseError, match="100 KiB") as unread:
            send(service.url, CALLS["qa"], retry=RetryPolicy())
    assert unread.value.maybe_done
    assert service.requests == 2


def test_different_lengths_are_an_error(send):
    with HostileService(lambda line: line.say(answer(b'{"id": "d1"}', b"Content-Length: 5"))) as service:
        with pytest.raises(AssistantConnectionError):
            send(service.url, CALLS["limits"])
