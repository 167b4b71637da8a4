"""File uploads on a real socket: both transports send the same bytes, and the service reads the file's own name."""

from __future__ import annotations

import contextlib
import io
import re
import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Upload
from tests.unit.client.ways import SENDERS, asend, send
from tests.wire import Answer, ScriptedService, client_of

# What a browser escapes in a file name; everything else is sent as it is.
ESCAPED = {"\r": "%0D", "\n": "%0A", '"': "%22"}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40) | st.text(
    st.sampled_from(' "%/\\:;=+&\r\n' + string.ascii_letters + "äß日🙂\u0301"), min_size=1, max_size=40
)


@pytest.fixture(scope="module")
def wire():
    with ScriptedService(Answer(body={"document_id": "d"})) as running:
        yield running


def sent(service, send, upload):
    """Return headers and body of an upload, with one word for its boundary."""
    service.received.clear()
    send(client_of(service.url), endpoints.upload_document("docs", upload))
    (request,) = service.received
    boundary = re.fullmatch("multipart/form-data; boundary=([0-9a-f]+)", request.headers["content-type"])[1]
    length = request.headers.get("content-length")
    return length, request.body.replace(boundary.encode(), b"BOUNDARY")


def upload_of(name, content=b"# Guide", rewindable=True):
    class File(io.BytesIO):
        def seekable(self):
            return rewindable

    return Upload(lambda: contextlib.nullcontext(File(content)), name, "text/markdown", rewindable)


@settings(max_examples=15, deadline=None)
@given(NAMES)
@example("Refund policy.md")
@example("Größe & Maß 100%.md")
@example("already%20quoted.md")
@example('say "no".md')
@example("folder/../name\\of.md")
@example("two\r\nlines.md")
@example("x" * 5000 + ".md")
def test_both_transports_send_the_name_as_it_is(wire, name):
    spelled = "".join(ESCAPED.get(char, char) for char in name)
    first, second = (sent(wire, way, upload_of(name)) for way in (send, asend))
    assert first == second
    length, body = first
    head = f'Content-Disposition: form-data; name="file"; filename="{spelled}"\r\nContent-Type: text/markdown\r\n\r\n'
    assert body == f"--BOUNDARY\r\n{head}# Guide\r\n--BOUNDARY--\r\n".encode()
    assert int(length) == len(body) + 2 * (32 - len("BOUNDARY"))


@SENDERS
def test_a_stream_of_unknown_length_is_sent_whole(wire, send):
    content = bytes(range(256)) * 1000
    length, body = sent(wire, send, upload_of("flow.bin", content, rewindable=False))
    assert length is None
    assert content in body


@SENDERS
def test_each_attempt_sends_the_whole_file_and_leaves_it_open(send):
    file = io.BytesIO(b"# Guide" * 20_000)

    def opened():
        file.seek(0)
        return contextlib.nullcontext(file)

    with ScriptedService(Answer(503), Answer(body={"document_id": "d"})) as twice:
        call = endpoints.upload_document("docs", Upload(opened, "guide.md", "text/markdown"))
        send(client_of(twice.url), call)
        assert [request.body.count(b"# Guide") for request in twice.received] == [20_000] * 2
    assert not file.closed
