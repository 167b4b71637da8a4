"""Uploads: accepted and refused files."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.sandbox.errors import ApiError
from airflow_provider_assistant.sandbox.files import read_file


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", b"\xef\xbb\xbfplain", "plain"),
        ("../up/a.MD", b"# head", "# head"),
        ("C:\\docs\\a.md", b"# head", "# head"),
        ("a.csv", b"name,price\npear,4\n", "name: pear; price: 4"),
        ("a.json", b'{"shop": {"open": [9, 10]}}', "shop open: 9\nshop open: 10"),
        (
            "a.html",
            b"<html><head><title>x</title></head><p>Pears &amp; plums<script>1</script><p>end",
            "Pears & plums\nend",
        ),
    ],
)
def test_read(name: str, content: bytes, text: str) -> None:
    title, read = read_file(name, content)
    assert title in {"a.txt", "a.MD", "a.md", "a.csv", "a.json", "a.html"}
    assert read == text


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.pdf", b"%PDF", "unsupported_file_type"),
        ("txt", b"no suffix", "unsupported_file_type"),
        ("a.txt", b"\xff\xfe\x00", "undecodable_file"),
        ("a.json", b"{", "undecodable_file"),
        ("a.json", b'"\\ud800"', "undecodable_file"),
        ("a.json", b"[" * 100_000, "undecodable_file"),
        ("a.txt", b" \n", "empty_file"),
        ("a.html", b"<script>1</script>", "empty_file"),
    ],
)
def test_refused(name: str, content: bytes, code: str) -> None:
    with pytest.raises(ApiError) as refusal:
        read_file(name, content)
    assert (refusal.value.status, refusal.value.code, refusal.value.field) == (400, code, "file")
