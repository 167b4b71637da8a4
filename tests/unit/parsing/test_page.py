"""Pages of websites: their charsets."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.page import decoded


@pytest.mark.parametrize(
    ("html", "content_type", "text"),
    [
        ("Bücher".encode(), "", "Bücher"),
        ("Bücher".encode(), "text/html; charset=iso-8859-1", "Bücher"),
        ("Bücher".encode("latin-1"), "text/html; charset=utf-8", "Bücher"),
        ("Bücher".encode("cp1252"), "", "Bücher"),
        ("книги".encode("koi8-r"), 'text/html; charset="koi8-r"', "книги"),
        ('<meta charset="windows-1251">книги'.encode("cp1251"), "", '<meta charset="windows-1251">книги'),
        ("本".encode("shift_jis"), "text/html;charset=Shift_JIS", "本"),
        ("Bücher".encode("utf-16"), "text/html; charset=utf-8", "Bücher"),
        ("\ufeffBücher".encode(), "", "Bücher"),
        ("ü".encode("latin-1"), "text/html; charset=windows-99999", "ü"),
        ("ü".encode("latin-1"), "text/html; charset=punycode", "ü"),
        ("ü".encode("latin-1"), "text/html; charset=big5-no-such", "ü"),
    ],
)
def test_charsets(html, content_type, text):
    assert decoded(html, content_type) == text
