"""The main text of a page, and what hostile pages do to the process that extracts it."""

from __future__ import annotations

import importlib.util
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantTimeoutError
from airflow_provider_assistant.knowledge.website.extraction import Extractor, PageText
from tests.website import page

URL = "https://x.org/a/b"
RICH = b"""<html><head><title>Office | Site</title><meta property="article:section" content="hr">
<meta property="article:published_time" content="2026-11-01T10:00:00Z"></head>
<body><nav><a href="/">Home</a></nav><main><h1>Office</h1><p>Open for everybody, see <a href="c.html">the rules</a>.</p>
<h2>Hours</h2><p>From nine to five, on <b>every</b> day of the week.</p><ul><li>one</li><li>two</li></ul>
<pre><code># no heading
x = 1</code></pre></main><footer>Imprint</footer></body></html>"""


@pytest.fixture(scope="module")
def extractor():
    with Extractor() as extractor:
        yield extractor


def test_the_main_text_is_markdown(extractor):
    found = extractor.text(RICH, "text/html", URL)
    assert (found.title, found.category, found.date) == ("Office", "hr", "2026-11-01")
    assert found.content.startswith("# Office\n")
    assert "## Hours" in found.content
    assert "[the rules](https://x.org/a/c.html)" in found.content
    assert "**every**" in found.content
    assert "- one\n- two" in found.content
    assert "```\n# no heading\nx = 1\n```" in found.content
    assert "Home" not in found.content
    assert "Imprint" not in found.content


@pytest.mark.parametrize("html", [b"", b"<html></html>", b"<html><title>Home</title></html>", b"\x00\x01\xff"])
def test_a_page_without_text(extractor, html):
    assert extractor.text(html, "text/html", URL) is None


def test_a_page_without_the_tag_of_its_body(extractor):
    html = b"<!doctype html><meta charset=utf-8><title>Office</title><main><h1>Office</h1><p>From nine to five.</main>"
    assert extractor.text(html, "", URL) == PageText("Office", "# Office\n\nFrom nine to five.", None, None)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_pages_have_a_text_or_none(extractor, seed):
    chance = random.Random(seed)
    for _ in range(20):
        html = bytearray(RICH)
        for _ in range(chance.randint(1, 20)):
            at = chance.randrange(len(html))
            html[at : at + chance.randint(0, 30)] = chance.randbytes(chance.randint(0, 5))
        found = extractor.text(bytes(html), "text/html", URL)
        assert found is None or found.content


def test_deep_nesting_is_harmless(extractor):
    assert extractor.text(b"<html><body>" + b"<div>" * 100_000 + b"text", "text/html", URL) is None


def test_a_page_that_takes_too_long_is_named_and_the_next_one_is_read(extractor):
    extractor.text(RICH, "text/html", URL)  # Python may have to compile the libraries, which takes seconds
    # The parser compares every attribute of an element with all others.
    slow = b"<html><body><p " + b"".join(b"a%d=b " % number for number in range(300_000)) + b">x</p></body></html>"
    with Extractor(seconds=3.0) as extractor:
        with pytest.raises(AssistantTimeoutError, match=r"https://x\.org/slow .* takes longer than 3 seconds"):
            extractor.text(slow, "text/html", "https://x.org/slow")
        extractor._parser._seconds = 60.0  # a new process imports the libraries
        found = extractor.text(page("Office", "From nine to five."), "text/html", URL)
    assert found == PageText("Office", "# Office\n\nFrom nine to five.", None, None)


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[website\]'"):
        Extractor()
