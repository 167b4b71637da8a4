"""Limits of the size and duration of a response, without HTTP."""

from __future__ import annotations

import gzip
import socket
import time
import tracemalloc
import zlib

import httpcore
import pytest

from airflow_provider_assistant.client.httpx_transport import ResponseTimeout, Watch
from airflow_provider_assistant.client.transport import BoundedBody

PLAIN = b'{"n": 1}' * 100


def received(pieces, limit=10_000, encoding=""):
    body = BoundedBody(limit, encoding)
    taken = 0
    for piece in pieces:
        taken += 1
        if not body.feed(piece):
            break
    return body.end(), body.defect, taken


def cut(content, size):
    return [content[start : start + size] for start in range(0, len(content), size)]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("", PLAIN),
        ("identity", PLAIN),
        ("gzip", gzip.compress(PLAIN, mtime=0)),
        (" GZIP ", gzip.compress(PLAIN, mtime=0)),
        ("x-gzip", gzip.compress(PLAIN, mtime=0)),
    ],
)
def test_a_body_is_what_was_sent(encoding, content, size):
    assert received(cut(content, size), encoding=encoding)[:2] == (PLAIN, None)


@pytest.mark.parametrize("encoding", ["", "gzip", "br"])
def test_an_empty_body_is_valid_in_every_encoding(encoding):
    assert received([b""], encoding=encoding)[:2] == (b"", None)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_the_limit_is_the_largest_that_fits(encoding):
    content = gzip.compress(PLAIN, mtime=0) if encoding else PLAIN
    assert received([content], limit=len(PLAIN), encoding=encoding)[:2] == (PLAIN, None)
    kept, defect, _ = received([content], limit=len(PLAIN) - 1, encoding=encoding)
    assert kept == PLAIN[:-1]
    assert f"larger than a reply may be ({len(PLAIN) - 1} bytes)" in defect


def test_reading_stops_at_the_limit():
    assert received([b"x" * 1000] * 100, limit=2500)[2] == 3


def test_a_gzip_bomb_is_never_unpacked():
    bomb = gzip.compress(b"\0" * 200_000_000, compresslevel=1)
    tracemalloc.start()
    kept, defect, _ = received([bomb], limit=1_000_000, encoding="gzip")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == 1_000_000
    assert "larger than a reply may be" in defect
    assert most < 10_000_000


@pytest.mark.parametrize(
    ("encoding", "content", "defect"),
    [
        ("gzip", b"no gzip at all", "cannot be decompressed"),
        ("gzip", gzip.compress(PLAIN, mtime=0)[:-4], "in the middle"),
        ("deflate", zlib.compress(PLAIN), "was not requested"),
        ("br", b"anything", "was not requested"),
        ("gzip, gzip", gzip.compress(gzip.compress(PLAIN, mtime=0), mtime=0), "was not requested"),
    ],
)
def test_a_body_that_cannot_be_decompressed_has_a_defect(encoding, content, defect):
    said = received([content], encoding=encoding)[1]
    assert defect in said
    assert said.isprintable()
    assert len(said) < 200


class Stream:
    def __init__(self, of):
        self.of = of

    def get_extra_info(self, name):
        return {"socket": self.of}[name]


def test_the_time_of_a_request_of_httpx_ends_its_read_and_no_other():
    here, there = socket.socketpair()
    watch, request = Watch(), httpcore.Request("GET", "http://x")
    with here, there:
        here.settimeout(60)
        watch.trace("connection.connect_tcp.complete", {"return_value": Stream(here)})

        def read(seconds):
            with watch.within(seconds):
                watch.trace("http11.send_request_headers.started", {"request": request})
                watch.trace("http11.send_request_body.complete", {"return_value": None})
                return here.recv(1)

        there.send(b"xyz")
        assert read(0.05) == b"x"
        time.sleep(0.1)
        assert read(60.0) == b"y"
        assert here.recv(1) == b"z"
        with pytest.raises(ResponseTimeout):
            read(0.05)


@pytest.mark.parametrize("size", [7, 1000, 100_000])
def test_reading_stops_at_the_end_of_the_compressed_data(size):
    content = gzip.compress(PLAIN, mtime=0)
    pieces = cut(content, size) + [b"\0" * 100_000] * 1000
    kept, defect, taken = received(pieces, encoding="gzip")
    assert (kept, defect) == (PLAIN, None)
    assert taken <= len(cut(content, size)) + 1


def test_a_compressed_body_that_ends_as_it_should_is_read_to_its_end():
    """The connection of a body that is not read to its end cannot be used again."""
    body = BoundedBody(10_000, "gzip")
    assert all(body.feed(piece) for piece in [*cut(gzip.compress(PLAIN, mtime=0), 7), b""])
