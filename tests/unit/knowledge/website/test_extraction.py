"""The main text of a page, and what hostile pages do to the process that extracts it."""

from __future__ import annotations

import contextlib
import importlib.util
import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantTimeoutError
from airflow_provider_assistant.knowledge.website.extraction import Extractor, PageText, is_noindex
from airflow_provider_assistant.knowledge.website.fetcher import Skipped
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
    assert (found.title, found.category, found.date) == ("Office", "hr", "2026-11-01T10:00:00Z")
    assert found.content.startswith("# Office\n")
    assert "## Hours" in found.content
    assert "[the rules](https://x.org/a/c.html)" in found.content
    assert "**every**" in found.content
    assert "- one\n- two" in found.content
    assert "```\n# no heading\nx = 1\n```" in found.content
    assert "Home" not in found.content
    assert "Imprint" not in found.content


@pytest.mark.parametrize("html", [b"", b"<html></html>", b"<html><title>Home</title></html>", b"\x00\x01"])
def test_a_page_without_text(extractor, html):
    with pytest.raises(Skipped, match="has no main text"):
        extractor.text(html, "text/html", URL)


def test_damaged_pages_have_a_text_or_none(extractor):
    without_body = b"<!doctype html><meta charset=utf-8><title>Office</title><main><h1>Office</h1><p>From nine.</main>"
    assert extractor.text(without_body, "", URL) == PageText("Office", "# Office\n\nFrom nine.")
    chance = random.Random(1)
    for _ in range(20):
        html = bytearray(RICH)
        for _ in range(chance.randint(1, 20)):
            at = chance.randrange(len(html))
            html[at : at + chance.randint(0, 30)] = chance.randbytes(chance.randint(0, 5))
        with contextlib.suppress(Skipped):
            assert extractor.text(bytes(html), "text/html", URL).content


def test_deep_nesting_is_harmless(extractor):
    for depth in (600, 20_000):
        html = b"<html><body>" + b"<div>" * depth + b"text" + b"</div>" * (depth // 2) + b"more"
        assert extractor.text(html, "text/html", URL).content.split() == ["text", "more"]


def test_a_page_that_takes_too_long_is_named_and_the_next_one_is_read(extractor):
    extractor.text(RICH, "text/html", URL)  # Python may have to compile the libraries, which takes seconds
    # To number an item of a list, the library counts those before it.
    slow = b"<html><body><main><ol>" + b"<li>x" * 30_000
    with Extractor(seconds=3.0) as extractor:
        with pytest.raises(AssistantTimeoutError, match=r"https://x\.org/slow .* takes longer than 3 seconds"):
            extractor.text(slow, "text/html", "https://x.org/slow")
        extractor._parser._seconds = 60.0  # a new process imports the libraries
        found = extractor.text(page("Office", "From nine to five."), "text/html", URL)
    assert found == PageText("Office", "# Office\n\nFrom nine to five.")


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[website\]'"):
        Extractor()


@pytest.mark.parametrize(
    ("robots", "is_hidden"),
    [
        ("noindex", True),
        ("NoIndex, nofollow", True),
        ("follow,none", True),
        ("googlebot: nofollow, noindex", True),
        ("otherbot: noindex, nofollow", False),
        ("otherbot: noindex\nnoindex", True),
        ("max-snippet:20, noindex", True),
        ("index, follow, noimageindex", False),
        ("", False),
    ],
)
def test_what_is_not_for_search_engines(extractor, robots, is_hidden):
    assert is_noindex(robots) == is_hidden
    if ":" not in robots:
        html = b"<meta content='%s' name=Robots><main>text" % robots.encode()
        with pytest.raises(Skipped, match="asks not to be indexed") if is_hidden else contextlib.nullcontext():
            assert extractor.text(html, "", URL).content == "text"
