"""The content of generated pages of websites: what a reader sees, and nothing else."""

from __future__ import annotations

import re

import pytest

from airflow_provider_assistant.parsing.page import parse_page
from tests import pages

CODED = "/cdn-cgi/l/email-protection"


def text_of(html, **options):
    return parse_page(html.encode(), url="https://x.example/p", content_type="text/html", **options)["text"]


def words(text):
    return set(re.findall(r"\w+", text))


@pytest.mark.promise("sources of documents", "Of a page, the text that readers see is kept and the rest is not.")
@pytest.mark.parametrize("layout", range(len(pages.LAYOUTS)))
def test_what_a_reader_sees(layout):
    for seed in range(layout, 5 * len(pages.LAYOUTS), len(pages.LAYOUTS)):
        page = pages.generated_page(seed)
        text = text_of(page.html)
        found = words(text)
        assert set(page.seen) <= found
        assert not found & set(page.noise)
        for sign in ("¶", "\U0001f517", "\u200b", "Permalink", "Section titled", "2026-11-20", "days ago", "Tagen"):
            assert sign not in text
        titles = [line for line in text.splitlines() if line.startswith("## ")]
        assert all(re.fullmatch(r"## k\w+(?: k\w+\?)?", title) for title in titles), titles
        for question, answer in page.questions:
            (line,) = [line for line in text.splitlines() if question in line]
            assert answer not in line
            assert "](" not in line
            assert text.index(question) < text.index(answer)


def test_code_in_a_list_is_whole():
    code = "# no heading\n  indented | bar\n```\nfence\n```"
    item = "<li>First:<pre><code>{}</code></pre>then</li>"
    html = f"<main><ol>{item.format(code)}<li><p>Second</p><ul>{item.format(code)}</ul></li></ol><h2>End</h2></main>"
    text = text_of(html)
    for indent in ("   ", "     "):
        fence = "".join(f"{indent}{line}\n" for line in ("````", *code.split("\n"), "````"))
        assert fence in text
    assert "\n## End" in text
    assert [line for line in text.splitlines() if re.match(r"\d\. |- |#", line)] == ["1. First:", "2. Second", "## End"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<table><tr><th>a|b</th><td>x<br>y</td></tr></table>", "| a\\|b | x y |"),
        ("<p>See <a href='/a b(1)'>this</a></p>", "See [this](https://x.example/a%20b%281%29)"),
        ("<p>a <a href='javascript:x()'>b</a> <a href='data:,c'>c</a></p>", "a b c"),
        ("<p><math><mi>x</mi><annotation>x^2</annotation></math><span class=katex-html>x2</span></p>", "x^2"),
        ("<pre>a<br>b<div>c</div><div>d</div></pre>", "```\na\nbc\nd\n```"),
        ("<template shadowrootmode='open'><p>shadow</p></template><template>no</template>", "shadow"),
        ("<p>a <a href='/e#1' data-cfemail='2a424306526a524f04435e'>[email]</a></p>", "a hi,x@xe.it"),
        (f"<p>a <a href='{CODED}#1'><span data-cfemail='2'>[email]</span></a></p>", "a [email]"),
        ("<p>a <img src='i.png' alt='icon'> b</p>", "a icon b"),
    ],
)  # fmt: skip
def test_tags_that_markdown_writes_in_another_way(body, text):
    lines = [" ".join(line.split()) for line in text_of(f"<main>{body}</main>").splitlines()]
    assert text in "\n".join(lines)


@pytest.mark.parametrize(
    ("moment", "text", "is_kept"),
    [
        ("2026-11-20", "5 days ago", False),
        ("2026-11-20T10:00:00Z", "vor 3 Stunden", False),
        ("2026-11-20", "há 2 dias", False),
        ("2026-11-05", "5 days ago", False),
        ("2026-11-20", "13 klukkustundum", False),
        ("", "yesterday", False),
        ("2026-11-20", "20 November", True),
        ("2026-11-20", "11/20/26", True),
        ("2026-11-20", "1405/08/29 2026", True),
        ("2026-12-24T19:00", "7 pm", True),
        ("2026-12-24", "Christmas Eve", True),
        ("09:00", "9 am", True),
        ("P5D", "5 days", True),
    ],
)
def test_relative_times(moment, text, is_kept):
    html = f"<main><p>Open for all of you since <time datetime='{moment}'>{text}</time> or so.</p></main>"
    assert (text in text_of(html)) == is_kept


def test_selectors():
    html = "<main>top<div class=a>one<p class=x>two</p><div class=a>three</div></div></main>"
    html += "<div id=b>four</div><nav>five</nav>"
    assert text_of(html, select=".a, #b").split() == ["one", "two", "three", "four"]
    assert text_of(html, select="nav, main", remove=".x, .a .a").split() == ["top", "one", "five"]
    assert text_of(html, select=".unknown") == ""


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        ("<p>Please enable JavaScript to use this app.</p>", "has no text without JavaScript"),
        ("<div id=root></div><p>Bitte JavaScript aktivieren.</p>", "has no text without JavaScript"),
        ("<form><label>Name<input></label><input type=password><button>Log in</button></form>", "asks to log in"),
        ("<h1>Sign in</h1><form action=/login><input type=PASSWORD></form><p>Forgot it?</p>", "asks to log in"),
        ("<h1>Site</h1><p>このサイトを見るには JavaScript を有効にしてください。", "has no text without JavaScript"),
        ("<p>Nous avons besoin que vous activiez JavaScript.", "has no text without JavaScript"),
        ("<h1>Print</h1><p>In JavaScript, write <code>console.log(1)</code>.", None),
        ("<form><input type=password></form><main><h1>Refunds</h1>Five days.</main>", None),
        ("<p>Some words about JavaScript. " + "They go on. " * 40, None),
        ("<form><input type=password></form><main>" + "A long text. " * 40, None),
    ],
)
def test_pages_that_show_no_content(body, obstacle):
    page = parse_page(body.encode(), url="https://x.example/p", content_type="")
    assert page["obstacle"] == obstacle


def test_templates_in_templates_are_removed():
    html = b"<template>a<template>b</template></template><p>text</p>"
    assert parse_page(html, url="https://x.example/", content_type="")["text"] == "text"
