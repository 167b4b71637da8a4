"""HTML as Markdown."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.parsing.html import parse_html
from airflow_provider_assistant.parsing.limits import UnreadableFileError

PAGE = """<!doctype html><html><head><title>Office hours — Handbook</title>
<link rel="canonical" href="https://docs.example.com/office"><meta name="category" content="hr">
<meta property="article:modified_time" content="2026-11-22"><style>p {}</style></head><body>
<header>Company</header><nav><a href="/">Home</a></nav>
<main><header><h1>Office hours<a class="headerlink" href="#hours">¶</a></h1></header>
<p>From 9 to <b>5</b>, see <a href="../parking.html">parking_lot</a>.</p>
<h2>Steps</h2><ol><li>Ring<ul><li>twice</li></ul></li></ol>
<pre><code># comment
ls *</code></pre>
<table><thead><tr><th>Day</th></tr></thead><tbody><tr><td>Monday</td></tr></tbody></table><script>alert(1)</script></main>
<footer>2026</footer></body></html>"""


def text_of(html: str) -> str:
    return parse_html(html.encode())["text"]


def test_the_main_part_and_the_head():
    fields = parse_html(PAGE.encode())
    assert {name: value for name, value in fields.items() if value} == {
        "title": "Office hours",
        "text": """# Office hours

From 9 to **5**, see [parking_lot](../parking.html).

## Steps

1. Ring
   - twice

```
# comment
ls *
```

| Day |
| --- |
| Monday |""",
        "url": "https://docs.example.com/office",
        "category": "hr",
        "date": "2026-11-22",
    }


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<header>a</header><p>b</p><footer>c</footer><aside>d</aside>", "b"),
        ("<div>a</div><article>b c</article>", "b c"),
        ("<article>a</article><article>b</article>", "ab"),
        ("<div>a</div><div role='main'>b</div>", "b"),
        ("<p>a<img src='data:image/png;base64,AAAA' alt='map'>b</p>", "a map b"),
        ("<a href='javascript:alert(1)'>a</a>", "a"),
        ("", ""),
        ("a < b &amp; c &copy; &#x1F600;", "a < b & c © 😀"),
    ],
)
def test_what_is_text(body, text):
    assert "".join(text_of(f"<html><body>{body}</body></html>").split("\n")) == text


def test_without_a_name_of_its_charset_a_page_is_windows_1252():
    assert parse_html("größer".encode("cp1252"))["text"] == "größer"


def test_the_title():
    assert parse_html(b"<html><head><title>A\n B</title></head><body><h1>C</h1></body>")["title"] == "A B"
    assert parse_html(b"<html><body><h1>A</h1></body></html>")["title"] == "A"
    assert parse_html(b"<html><head><title> </title></head><body></body></html>")["title"] is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'<meta charset="utf-8">\xff', "is not utf-8, as it declares, at byte 22"),
        (b'<meta charset="klingon">', "declares the unknown encoding 'klingon'"),
    ],
)
def test_a_page_in_an_unknown_encoding_is_refused(content, problem):
    with pytest.raises(UnreadableFileError, match=problem):
        parse_html(content)


@pytest.mark.parametrize("heading", ["", "<h1>Hours</h1>"])
@pytest.mark.parametrize("prose", ["<p>From 9.</p>", "<ul><li>From 9.</li></ul>"])
@pytest.mark.parametrize("control", ["<input type=submit value=Go>", "<textarea></textarea>"])
def test_a_page_inside_a_form_keeps_its_text(heading, prose, control):
    """As of ASP.NET."""
    text = text_of(f"<body><form action=x><input type=hidden name=y><div>{heading}{prose}{control}</div></form></body>")
    assert "From 9." in text
    assert ("Hours" in text) == bool(heading)


def test_a_form_beside_the_text_is_left_out():
    form = "<form><p>Write to us!</p><input name=mail><button>Subscribe</button></form>"
    assert text_of(f"<main><p>From 9 to 5, except on Fridays.</p>{form}</main>") == "From 9 to 5, except on Fridays."


def test_a_text_that_begins_with_a_mark_is_no_heading_or_code():
    text = text_of(
        "<p># a</p><p>b<br>## c</p><p>``` d</p><ul><li># e</li></ul><pre># f</pre><p>C# g</p><code># h</code>"
    )
    assert text == "\\# a\n\nb  \n\\## c\n\n\\``` d\n\n- \\# e\n\n```\n# f\n```\n\nC# g\n\n`# h`"


@pytest.mark.parametrize(
    ("head", "field", "value"),
    [
        ("<meta name=robots content='NOINDEX, follow'>", "robots", "NOINDEX, follow"),
        ("<meta name=GoogleBot content=none>", "robots", "none"),
        ("<meta http-equiv=Refresh content='0; URL=\"../a/\"'>", "redirect", "../a/"),
        ("<meta http-equiv=refresh content='30'>", "redirect", None),
        ("<meta http-equiv=refresh content='60; url=/'>", "redirect", None),
    ],
)
def test_what_the_head_says_to_search_engines_and_browsers(head, field, value):
    assert parse_html(f"<head>{head}</head>text".encode())[field] == value
