"""HTML as Markdown: what a reader sees is in the text, or it is counted."""

from __future__ import annotations

import re
import sys
from collections import Counter
from html.parser import HTMLParser

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.parsing.child import ChildParser
from airflow_provider_assistant.parsing.html import DEFAULT_REMOVE, check_selectors, page
from tests import pages

PAGE = """<!doctype html><html lang="en-GB"><head><title>Office hours — Handbook</title>
<link rel="canonical" href="https://docs.example.com/office"><meta name="category" content="hr">
<meta property="article:modified_time" content="2026-11-22"><style>p {}</style></head><body>
<header>Company</header><nav><a href="/">Home</a></nav>
<main><header><h1>Office hours<a class="headerlink" href="#hours">¶</a></h1></header>
<p>From 9 to <b>5</b>, see <a href="../parking.html" title="Parking">parking_lot</a>.</p>
<h2>Steps</h2><ol><li>Ring<ul><li>twice</li></ul></li></ol>
<pre><code># comment
ls *</code></pre>
<table><thead><tr><th>Day</th></tr></thead><tbody><tr><td>Monday</td></tr></tbody></table><script>alert(1)</script></main>
<footer>2026</footer></body></html>"""
CODED = "/cdn-cgi/l/email-protection"


def text_of(html: str, **options: str) -> str:
    return page(html.encode(), **options).text


def left_out(html: str, **options: str) -> dict[str, int]:
    """Return how many words are left out, by the reason."""
    return {note.reason: note.count for note in page(html.encode(), **options).notes}


class SourceText(HTMLParser):
    """Collects the text of a page with another parser than the package's."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.descriptions: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in {"script", "style", "title"}
        self.descriptions.append(dict(attrs).get("alt") or "")

    def handle_endtag(self, tag):
        self._hidden -= tag in {"script", "style", "title"}

    def handle_data(self, data):
        if not self._hidden:
            self.texts.append(data)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def words_of_markdown(text: str) -> Counter[str]:
    """Return the words without the targets of links and the numbers of lists."""
    return Counter(words(re.sub(r"(?m)\]\([^()\s]*\)|^ *\d+\. ", " ", text)))


def test_the_main_part_and_the_head():
    parsed = page(PAGE.encode())
    assert parsed.fields == {
        "title": "Office hours",
        "category": "hr",
        "date": "2026-11-22",
        "canonical": "https://docs.example.com/office",
    }
    assert (
        parsed.text
        == """# Office hours

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
| Monday |"""
    )
    assert [(note.unit, note.reason, note.count) for note in parsed.notes] == [("word", "outside <main>", 3)]


# -- generated pages -------------------------------------------------------------------------------


@pytest.mark.promise(
    "sources of documents",
    "Of a page, at least 98.5 % of the words that readers see are kept, and each question of a list of questions is a "
    "line of its own above its answer.",
)
def test_what_a_reader_sees():
    seen = kept = noise = noise_kept = questions = separate = 0
    for seed in range(60):
        generated = pages.generated_page(seed)
        text = text_of(generated.html)
        found = set(words(text))
        seen += len(generated.seen)
        kept += len(found & set(generated.seen))
        noise += len(generated.noise)
        noise_kept += len(found & set(generated.noise))
        for sign in ("¶", "\U0001f517", "\u200b", "Permalink", "Section titled", "Tagen"):
            assert sign not in text
        for question, answer in generated.questions:
            lines = [line for line in text.splitlines() if question in line]
            is_line = len(lines) == 1 and answer not in lines[0] and "](" not in lines[0]
            questions += 1
            separate += is_line and text.index(question) < text.index(answer)
    assert kept >= 0.985 * seen
    assert noise_kept <= 0.15 * noise
    assert (questions, separate >= 472) == (480, True)


@pytest.mark.promise("sources of documents", "Each word of a page is in its text, or it is counted with the reason.")
@pytest.mark.parametrize(
    ("remove", "select"),
    [(DEFAULT_REMOVE, ""), ("", ""), ("nav, .note, table > tr:has(th)", ""), ("[class]", "p, h2, .unknown")],
)
def test_words_in_are_words_out_and_words_left_out(remove, select):
    # Without a date, a time stays as it is.
    htmls = [pages.generated_page(seed).html.replace("datetime=", "title=") for seed in range(40)]
    htmls += [pages.random_markup(seed) for seed in range(300)]
    for html in htmls:
        source = SourceText()
        source.feed(html)
        source.close()
        parsed = page(html.encode(), remove=remove, select=select)
        words_in, words_out = Counter(words(" ".join(source.texts))), words_of_markdown(parsed.text)
        assert (words_in - words_out).total() == sum(note.count for note in parsed.notes), html
        assert set(words_out - words_in) <= set(words(" ".join(source.descriptions))), html


# -- the main part ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text", "outside"),
    [
        ("<p>a</p><main>b</main><footer>c</footer>", "b", {"outside <main>": 2}),
        ("<div>a</div><div role=main>b<div role=main>c</div></div>", "bc", {"outside <main>": 1}),
        ("<main>a</main><p>b</p><main>c</main>", "ac", {"outside <main>": 1}),
        ("<main></main><p>a</p>", "a", {}),
        ("<div>a</div><article>b c</article>", "b c", {"outside <article>": 1}),
        ("<article>a</article><article>b</article>", "ab", {}),
        ("<p>a b c</p><article>d</article>", "a b cd", {}),
        (
            "<header>a</header><p>b</p><footer>c d</footer>",
            "b",
            {
                "removed by ':is(body, body > div) > header:not(:has(h1))'": 1,
                "removed by ':is(body, body > div) > footer'": 2,
            },
        ),
        ("<header><h1>a</h1></header><section><header>b</header><p>c</p></section>", "# abc", {}),
        ("<frameset><frame src=x></frameset>", "", {}),
        ("", "", {}),
        ("&#xFFFD; &nbsp;", "", {}),
    ],
)
def test_the_main_part_of_a_body(body, text, outside):
    html = f"<html><body>{body}</body></html>"
    assert "".join(text_of(html).split("\n")) == text
    assert left_out(html) == outside


def test_users_choose_the_main_part_and_what_is_removed():
    html = "<main>top<div class=a>one<p class=x>two</p><div class=a>three</div></div></main>"
    html += "<div id=b>four</div><nav>five six</nav>"
    assert text_of(html, select=".a, #b").split() == ["one", "two", "three", "four"]
    assert left_out(html, select=".a, #b") == {"outside '.a, #b'": 3}
    assert text_of(html, select="nav, main", remove=".x, div:is(.a, .b) .a").split() == ["top", "one", "five", "six"]
    assert left_out(html, select="body", remove=".x, :is(nav, [title=','])") == {
        "removed by '.x'": 1,
        "removed by \":is(nav, [title=','])\"": 2,
    }
    assert text_of(html, select=".unknown") == ""
    assert text_of("<nav>a</nav><p>b</p>", remove="").split() == ["a", "b"]
    added = DEFAULT_REMOVE + ", /* a, b */ .ours"
    assert text_of("<nav>a</nav><p>b</p><p class=ours>c</p>", remove=added) == "b"


@pytest.mark.parametrize("selector", ["p[", "p,", ":has(", "p {}"])
def test_a_selector_is_checked_before_a_page_is_read(selector):
    check_selectors(select="", remove=DEFAULT_REMOVE)
    with pytest.raises(AssistantInputError, match=r"remove='.*' is not a selector of CSS: "):
        check_selectors(remove=selector)


@pytest.mark.parametrize(
    "body",
    [
        "<form action=x><input type=hidden name=y><div><h1>Hours</h1><p>From 9.</p><textarea></textarea></div></form>",
        "<form><ul><li>From 9.</li></ul><input type=submit value=Go></form>",
        "<p>Try the <a class=print href=/p>From 9.</a></p>",
        "<section class=related id=comments><h2>Comments</h2><p>From 9.</p></section>",
        "<p>See <a rel=next href=/n>From 9.</a> or <a href=https://github.com/x/y/edit/main/a.md>edit it</a>.</p>",
        "<main><aside class=sidebar><h3>Tip</h3><p>From 9.</p></aside><ul class='nav nav-tabs'><li>Linux</ul></main>",
        "<p>Call today: From 9.</p><p>Schritt 2: Hier klicken</p>",
        "<div class=menu><h3>From 9.</h3></div>",
        "<div class=answer hidden>From 9.</div>",
    ],
)
def test_what_looks_like_no_content_but_is(body):
    assert "From 9." in text_of(f"<body>{body}</body>")
    assert not left_out(f"<body>{body}</body>", remove=DEFAULT_REMOVE.replace("textarea,", ""))


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p><time datetime=2026-11-20>20 November</time></p>", "a 20 November"),
        ("<div class=x><span><time datetime=2026-11-20>5日前</time></span></div>", "a 2026-11-20"),
        ("<p>Doors: <time datetime=2026-12-05T19:30>19.30 Uhr</time></p>", "a Doors: 19.30 Uhr"),
        ("<table><tr><td>b<td><p><time datetime=2026-12-05T07:00>7 a.m.</time></p></table>", "a b 7 a.m."),
        ("<p>Updated <time datetime=2026-11-20T10:00:00Z>3 hours ago</time></p>", "a Updated 2026-11-20"),
        ("<p>Opened <relative-time datetime=2026-11-20>há 2 dias</relative-time>.</p>", "a Opened 2026-11-20."),
        ("<p>Since <time datetime=2026-11-05>November 5</time></p>", "a Since November 5"),
        ("<p>Since <time datetime=2026-11-20>11/20/26</time></p>", "a Since 11/20/26"),
        ("<p>Opens at <time datetime=09:00>9 am</time></p>", "a Opens at 9 am"),
        ("<h2><time datetime=2026-12-24>24 December</time></h2>", "a ## 24 December"),
        ("<ul><li><time>24 December</time></li></ul>", "a - 24 December"),
    ],
)
def test_times(body, text):
    assert " ".join(text_of(f"<main><p>a</p>{body}</main>").split()) == text


# -- Markdown --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "text"),
    [
        # Superscripts and subscripts.
        ("10<sup>6</sup> or 30<sup>1</sup> euros", "10^6^ or 30^1^ euros"),
        ("2 <sup><a href='#n'>1</a></sup> <code>10<sup>6</sup></code>", "2 ^[1](#n)^ `10^6^`"),
        ("H<sub>2</sub>O 10<sub>2</sub> a<sup></sup>", "H2O 10~2~ a"),
        # What Markdown would take for markup.
        ("a < b &amp; c &copy; &#x1F600;", "a < b & c © 😀"),
        ("&lt;p&gt; &lt;your name&gt; &lt;!-- &amp;lt; <code>&lt;p&gt;</code>", r"\<p> \<your name> \<!-- \&lt; `<p>`"),
        ("<script>'<![CDATA[a'</script><p>b <![CDATA[<c> & d]]></p><script>//<![CDATA[\n//]]></script>", r"b \<c> & d"),
        ("<h2>&lt;Directory&gt;</h2>", r"## \<Directory>"),
        ("<p># a</p><p>b<br>## c</p><ul><li># d</li></ul><p>C# e</p>", "\\# a\n\nb\n\\## c\n\n- \\# d\n\nC# e"),
        ("<p>``` a</p><p>~~~ b</p><p>[1]: c</p><p>d\n# e\n---</p>", "\\``` a\n\n\\~~~ b\n\n\\[1]: c\n\nd # e ---"),
        ("a<br>---<br>===<br>| - | - |<br>- b", "a\n\\---\n\\===\n\\| - | - |\n- b"),
        # Code.
        ("<code>a<br># note</code>", "```\na\n# note\n```"),
        ("<pre>a<br>b<div>c</div><div>d</div></pre>", "```\na\nbc\nd\n```"),
        ("<table><tr><th>a</th></tr><tr><td><pre>b | c</pre></td></tr></table>", "| a |\n| --- |\n| `b \\| c` |"),
        # Tables.
        ("<table><tr><td>a<td>b<tr><td>c</table>", "| | |\n| --- | --- |\n| a | b |\n| c | |"),
        (
            (
                "<table><caption>T</caption><colgroup><thead><tr><th rowspan=2>a<th colspan=2>b</thead>"
                "<tr><td>c<td>d<tfoot><tr><th>e</table>"
            ),
            "T\n\n| a | b | |\n| --- | --- | --- |\n| | c | d |\n| e | | |",
        ),
        ("<table><tr><td>a<tr><td>b</table><table><tr><td>c<td>d</table>", "a\n\nb\n\nc\n\nd"),
        ("<table><tr><td><h2>a</h2><td><table><tr><th>b<th>c</table></table>", "## a\n\n| b | c |\n| --- | --- |"),
        ("<table><tr><th>a<th>b</tr><th>c</table>", "a\n\nb\n\nc"),
        ("<table role=presentation><tr><th>a<td>b<tr><th>c<td>d</table>", "a\n\nb\n\nc\n\nd"),
        ("<td>a</td><table><tr>b<td>c<tr><td>d</table>", "a\n\nb\n\nc\n\nd"),
        # Links and pictures.
        ("<a href='javascript:x()'>a</a> <a href='data:,b'>b</a> <a href='#'>c</a> <a>d</a>", "a b c d"),
        ("<a href='x y(1).html' title=t>a</a>", "[a](x%20y%281%29.html)"),
        ("<a href=/card><h3>a</h3><p>b</p></a>", "### a\n\nb"),
        ("a<img src='data:image/png;base64,AAAA' alt='map &lt;b>'>c <img src=x>", "a map \\<b> c"),
        (f"a <a href='{CODED}#1' data-cfemail='2a424306526a524f04435e'>[email]</a>", "a hi,x@xe.it"),
        (f"a <a href='{CODED}#1'><span data-cfemail='2'>[email]</span></a>", "a [email]"),
        # Panels.
        ("<h3><button>a<span> +</span></button></h3><div>b</div>", "### a +\n\nb"),
        ("<dl><dt>a<dd>b<dd>c</dl><details><summary>d</summary>e</details>", "a\n\nb\n\nc\n\nd\n\ne"),
        ("<p>Press <button>a</button> and <kbd>b</kbd></p><label>c</label><p>d</p>", "Press a and `b`\n\nc\n\nd"),
        ("<div role=heading aria-level=4>a</div><div role=heading aria-level=x>b</div>", "#### a\n\n## b"),
        # Lists.
        ("<ul><li>a<ul><li>b</ul>c<li>d</ul>e", "- a\n- b\n\nc\n- d\n\ne"),
        ("<ol start=3><li>a<li><p>b</p><p>c</p></ol>", "3. a\n4. b\n\nc"),
        ("<ol start=x><li>a<li></li><li>b<ol start=9999999999><li>c</ol></ol>", "1. a\n3. b\n1. c"),
        # Formulas and shadow trees.
        ("<math><semantics><mi>x</mi><annotation>x^2</annotation></semantics></math>", "x^2"),
        ("<template shadowrootmode=open><p>a</p></template><template>b<template>c</template></template>", "a"),
    ],
)
def test_tags_that_markdown_writes_in_another_way(body, text):
    remove = DEFAULT_REMOVE.replace("template,", "template:not([shadowrootmode]),")
    lines = [" ".join(line.split()) for line in text_of(f"<main>{body}</main>", remove=remove).splitlines()]
    assert "\n".join(lines) == text


def test_code_in_a_list_is_whole():
    code = "# no heading\n  indented | bar\n```\nfence\n```"
    item = "<li>First:<pre><code>{}</code></pre>then</li>"
    html = f"<main><ol>{item.format(code)}<li><p>Second</p><ul>{item.format(code)}</ul></li></ol><h2>End</h2></main>"
    text = text_of(html)
    for indent in ("   ", "     "):
        fence = "".join(f"{indent}{line}\n" for line in ("````", *code.split("\n"), "````"))
        assert fence in text
    assert [line for line in text.splitlines() if re.match(r"\d\. |- |#", line)] == ["1. First:", "2. Second", "## End"]


@pytest.mark.parametrize(
    "heading",
    [
        "<h2 id=x>a<a class=headerlink href=#x>¶</a></h2>",
        "<h2 id=x><a href=#x>a</a></h2>",
        "<h2><a class=toc-backref href=#id7>a</a></h2>",
        "<div id=x><h2>a <a href=/page#x>link</a></h2></div>",
        "<h2><a name=ü></a>a <a href=#%C3%BC><img src=i.svg alt=link></a></h2>",
        "<h2>a&#8203; <button title='Copy link'>&#128279;</button></h2>",
    ],
)
def test_a_heading_does_not_link_to_itself(heading):
    assert text_of(f"<main>{heading}</main>") == "## a"
    assert left_out(f"<main>{heading}</main>") in ({}, {"in the anchor mark of a heading": 1})


def test_a_long_list_takes_seconds():
    with ChildParser(seconds=30) as parser:
        assert parser.parse(".html", b"<ol>" + b"<li>a</li>" * 20_000).text.endswith("\n20000. a")


def test_a_main_part_without_a_body_keeps_its_text():
    assert text_of("<title>Hours</title>\n<main>From 9.</main>") == "From 9."


def test_a_link_in_a_heading_stays():
    assert text_of("<h2 id=x>a <a href=/b#c>b</a></h2>") == "## a [b](/b#c)"


def test_links_are_joined_to_the_base_that_a_page_names():
    html = "<head><base href='https://x.example/docs/'></head><p><a href=a.html>a</a> <a href='http://['>b</a></p>"
    assert text_of(html) == "[a](https://x.example/docs/a.html) [b](http://[)"


# -- the head --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("html", "fields"),
    [
        ("<title>A\n B</title><h1>C</h1>", {"title": "A B"}),
        ("<title>A | Site</title><h1>A</h1>", {"title": "A"}),
        ("<h1>A</h1>", {"title": "A"}),
        ("<title> </title>a", {}),
        (
            "<meta name=robots content='NOINDEX, follow'><meta name=GoogleBot content=none>",
            {"robots": "NOINDEX, follow, none"},
        ),
        ("<meta http-equiv=Refresh content='0; URL=\"../a/\"'>", {"redirect": "../a/"}),
        ("<noscript><meta http-equiv=refresh content='0; url=/nojs'></noscript>", {}),
        ("<meta http-equiv=refresh content='30'>", {}),
        ("<meta http-equiv=refresh content='60; url=/'>", {}),
        ("<meta name=date content=2026-11-20><meta name=last-modified content=2026-11-21>", {"date": "2026-11-21"}),
    ],
)
def test_what_the_head_says(html, fields):
    assert page(html.encode()).fields == fields


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        ("<p>Please enable JavaScript to use this app.</p>", "has no text without JavaScript"),
        ("<h1>Site</h1><p>このサイトを見るには JavaScript を有効にしてください。", "has no text without JavaScript"),
        ("<div id=root></div><noscript>Bitte JavaScript aktivieren.</noscript>", "has no text without JavaScript"),
        ("<form><label>Name<input></label><input type=password><button>Log in</button></form>", "asks to log in"),
        ("<h1>Sign in</h1><form action=/login><input type=PASSWORD></form><p>Forgot it?</p>", "asks to log in"),
        ("<p>Hours: 9 to 5.</p><noscript>Enable JavaScript.</noscript>", None),
        ("<h1>Print</h1><p>In JavaScript, write <code>console.log(1)</code>.", None),
        ("<h1>JavaScript</h1><ul><li><a href=a>Basics</a></ul>", None),
        ("<form><input type=password></form><main><h1>Refunds</h1>Five days.</main>", None),
        ("<p>Some words about JavaScript. " + "They go on. " * 40, None),
        ("<form><input type=password></form><main>" + "A long text. " * 40, None),
    ],
)
def test_pages_that_show_no_content(body, obstacle):
    assert page(body.encode()).fields.get("obstacle") == obstacle


# -- charsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("us-ascii", b"a\x80\x93", "a€“"),
        ("iso-8859-1", b"\x80\xfc", "€ü"),
        ("latin5", b"\x80\xfe", "€ş"),
        ("tis-620", b"\x80\x85\xa1", "€…ก"),
        ("gb2312", b"\xe9\x46\xd6\xd0", "镕中"),
        ("x-sjis", b"\x87\x40\xfb\xfc\x8b\x9e", "①髙京"),
        ("x-euc-jp", b"\xb5\xfe\x8e\xb1", "京ｱ"),
        ("csiso2022jp", b"\x1b$B\x35\x7e\x1b(B", "京"),
        ("ks_c_5601-1987", b"\x8c\x63\xb0\xa1", "똠가"),
        ("big5", b"\x88\x62\xa4\xa4", "Ê̄中"),
        ("logical", b"\xe0\xe1", "אב"),
        ("mac", b"\x8a\xd2", "ä“"),
        ("koi8-r", b"\xcb\xce", "кн"),
        ("utf-8", "Bücher".encode("cp1252"), "Bücher"),
        ("windows-99999", "ü".encode("latin-1"), "ü"),
        ("x-user-defined", "ü".encode("latin-1"), "ü"),
        ("iso-8859-1", "Bücher".encode(), "Bücher"),
        ("utf-16", b"abc", "abc"),
    ],
)
def test_a_charset_is_read_as_browsers_read_it(name, content, text):
    parsed = page(content, encoding=name.upper())
    assert (parsed.text, parsed.notes) == (text, [])
    for declaration in (f"<meta charset='{name}'>", f"<meta http-equiv=x content='text/html; charset={name}'>"):
        assert page(declaration.encode() + content).text == text


def test_the_charset_of_a_page_without_a_name():
    assert page("größer".encode("cp1252")).text == "größer"
    assert page("größer".encode("utf-16"), encoding="utf-8").text == "größer"
    assert page(b"\xef\xbb\xbf\xc3\xbc", encoding="koi8-r").text == "ü"


def test_characters_that_cannot_be_decoded_are_counted():
    parsed = page(b"<p>a \x81\xff</p>", encoding="shift_jis")
    (note,) = parsed.notes
    assert (note.unit, note.reason, note.is_expected) == ("character", "not in the charset shift_jis", False)
    assert parsed.text.count("\ufffd") == note.count


# -- hostile pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 20_000 + "end",
        "<b><i>" * 3_000 + "end",
        "<table><tr><td>" * 1_000 + "end",
        "<ul><li>" * 2_000 + "end",
        "<blockquote>" * 2_000 + "end",
        "<table>" + "<tr><td rowspan=65534 colspan=99999>" * 200 + "end</table>",
        "<main><p>end</p>" + "<" * 100_000,
        "<main><p>end</p>" + "<![CDATA[" * 100_000,
    ],
    ids=range(8),
)
def test_deep_and_wide_pages_keep_their_text(html):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)  # as in the process that parses strangers' files
    try:
        assert "end" in text_of(html)
    finally:
        sys.setrecursionlimit(before)
