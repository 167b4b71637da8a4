"""Charsets as browsers read them: names with a wider meaning, and characters that Python's codecs do not know."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.charsets import decode, named_charset
from airflow_provider_assistant.parsing.html import parse_html
from airflow_provider_assistant.parsing.page import decoded

# Bytes that only the Encoding Standard reads, by charset, with what they mean, and the names of the charset.
WIDER = [
    ("windows-1252", b"a\x80\x93\x99", "a€“™", ["us-ascii"]),
    ("windows-1254", b"\x80\xfe", "€ş", ["latin5"]),
    ("windows-874", b"\x80\x85\xa1", "€…ก", ["tis-620"]),
    ("gbk", b"\x80\xe9\x46", "€镕", ["gb2312"]),
    ("shift_jis", b"\x87\x40\xfb\xfc\x8b\x9e", "①髙京", ["windows-31j"]),
    ("euc-jp", b"\xad\xa1\xfc\xe2\xb5\xfe\x8e\xb1", "①髙京ｱ", ["x-euc-jp"]),
    ("iso-2022-jp", b"\x1b$B\x2d\x21\x7c\x62\x35\x7e\x1b(B", "①髙京", ["csiso2022jp"]),
    ("euc-kr", b"\x8c\x63\xb0\xa1", "똠가", ["ks_c_5601-1987"]),
    ("big5", b"\x88\x62\xa4\xa4", "Ê̄中", ["x-x-big5"]),
    ("iso-8859-8", b"\xe0\xe1", "אב", ["logical"]),
    ("macintosh", b"\x8a\xd2", "ä“", ["mac"]),
]
CASES = [(name, content, text) for charset, content, text, names in WIDER for name in (charset.upper(), names[0])]
PAGES = [
    ("Bücher".encode(), "", "Bücher"),
    ("Bücher".encode(), "text/html; charset=iso-8859-1", "Bücher"),
    ("Bücher".encode("latin-1"), "text/html; charset=utf-8", "Bücher"),
    ("Bücher".encode("cp1252"), "", "Bücher"),
    ("книги".encode("koi8-r"), 'text/html; charset="koi8-r"', "книги"),
    ('<meta charset="windows-1251">книги'.encode("cp1251"), "", "книги"),
    (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">\xcb', "", "к"),
    ("Bücher".encode("utf-16"), "text/html; charset=utf-8", "Bücher"),
    ("\ufeffBücher".encode(), "", "Bücher"),
    ("ü".encode("latin-1"), "text/html; charset=windows-99999", "ü"),
    ("ü".encode("latin-1"), "text/html; charset=punycode", "ü"),
]


@pytest.mark.parametrize(("html", "content_type", "text"), PAGES)
def test_the_charset_of_a_page(html, content_type, text):
    assert decoded(html, content_type).endswith(text)


@pytest.mark.parametrize(("name", "content", "text"), CASES)
def test_a_charset_is_read_as_browsers_read_it(name, content, text):
    assert decode(content, name) == text
    page = f"<meta charset='{name}'><p>".encode() + content + b"</p>"
    assert parse_html(page)["text"] == text
    assert decoded(page, "").endswith(f"<p>{text}</p>")
    assert decoded(content, f"text/html; Charset={name}") == text


def test_undefined_bytes_of_windows_are_control_characters():
    assert decode(b"a\x81\x9d", "windows-1252") == "a\x81\x9d"


@pytest.mark.parametrize(
    "name", ["klingon", "punycode", "unicode_escape", "zip", "hz-gb-2312", "x-user-defined", "utf-7"]
)
def test_what_browsers_do_not_read_is_unknown(name):
    with pytest.raises(LookupError):
        decode(b"a", name)


@pytest.mark.parametrize(
    ("content", "name"),
    [(b"\x81", "shift_jis"), (b"\xa9\xa9\xa9", "euc-jp"), (b"\x81", "euc-kr"), (b"\xff", "big5"), (b"\xdb", "tis-620")],
)
def test_invalid_bytes_are_refused_or_replaced(content, name):
    with pytest.raises(UnicodeDecodeError):
        decode(content, name)
    assert "\ufffd" in decode(content, name, errors="replace")


@pytest.mark.parametrize(
    ("content", "content_type", "name"),
    [
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b"<meta charset=a>", "text/html; charset=b", "b"),
        (b"\xff\xfe<\0", "text/html; charset=b", "utf-16le"),
        (b"<p>charset=a</p>", "text/html", None),
        (b" " * 3000 + b"<meta charset=a>", "", None),
    ],
)
def test_the_name_of_a_charset(content, content_type, name):
    assert named_charset(content, content_type) == name
