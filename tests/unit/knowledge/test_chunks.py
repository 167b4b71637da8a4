"""Chunks whose keys an edit elsewhere does not change."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from markdown_it import MarkdownIt

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import split_documents
from airflow_provider_assistant.knowledge.markdown import with_absolute_links, without_comments
from airflow_provider_assistant.knowledge.sections import first_heading
from tests.chunk_faults import faults
from tests.markdown_pages import KINDS, Pages

WORDS = ("office", "opens", "at", "nine", "and", "closes", "when", "everybody", "has", "left", "for", "the", "evening")


def row(content: str, **changes):
    fields = {"key": "a.md", "parent": "a.md", "title": "Handbook", "category": "guide", "url": None, "date": None}
    return {**fields, "content": content, **changes}


def split(content: str, size: int = 200, **options):
    return list(split_documents([row(content)], size, **options))


def handbook(dice: random.Random, pages: int) -> list[list[str]]:
    """Return a handbook as pages of paragraphs, each page below a heading."""

    def paragraph() -> str:
        return " ".join(dice.choices(WORDS, k=dice.randint(20, 90))) + f" ({dice.random()})."

    return [[f"{'#' * dice.choice([1, 2, 2, 3])} Page {n}", *(paragraph() for _ in range(9))] for n in range(pages)]


def text_of(pages: list[list[str]]) -> str:
    return "\n\n".join("\n\n".join(page) for page in pages)


def test_a_section_is_a_chunk_with_its_headings():
    chunks = split("intro\n\n# Office\n\n## Hours #\n\nFrom 9 to 5.\n\n# Home\nbye")
    assert [(chunk["title"], chunk["content"]) for chunk in chunks] == [
        ("Handbook", "intro"),
        ("Handbook > Office > Hours", "From 9 to 5."),
        ("Handbook > Home", "bye"),
    ]
    assert chunks[1]["key"].startswith("a.md#Hours#")
    # A title that is the first heading counts once.
    assert split("# Handbook\n## Hours\ntext")[0]["title"] == "Handbook > Hours"
    for text in (
        "```npm i``` installs it.\n\n# Run\n\nls",
        "# Run\n\n<pre>\n# comment\n\n# comment\n</pre>",
        "# Run\n~~~sh\n# comment\n```x\nls\n~~~\n",
        "# Run\r\n\r\nls\r\n",
    ):
        assert split(text)[-1]["title"] == "Handbook > Run"
    assert {(chunk["parent"], chunk["category"]) for chunk in chunks} == {("a.md", "guide")}


QUESTIONS = ["Do you ship on Sunday? No.", "¿Abren los sábados? Sí.", "日曜日も営業。", "C#?"]


@pytest.mark.parametrize("underline", [False, True])
@pytest.mark.parametrize("below", ["", "---", "![](a.png)", "[a]: https://x.org", "<br>"])
def test_a_heading_without_text_below_is_a_chunk(below, underline):
    if underline:
        lines = [f"{question}\n---------\n\n{below}" for question in QUESTIONS]
    else:
        lines = [f"## {question}\n\n{below}" for question in QUESTIONS]
    chunks = split("\n\n".join(["# Questions", *lines, "##", "# End", "text"]))
    assert [chunk["content"] for chunk in chunks] == [*QUESTIONS, "text"]
    assert [chunk["title"] for chunk in chunks[:-1]] == [f"Handbook > Questions > {one}" for one in QUESTIONS]


def test_a_heading_that_is_too_long_is_text():
    words = "word " * 50
    assert [chunk["title"] for chunk in split(f"# {words}\n\n# Short\n\n{words}\nline\n---", 500)] == [
        "Handbook",
        "Handbook > Short",
    ]


@pytest.mark.parametrize("seed", range(4))
def test_chunks_stand_alone(seed):
    """Each chunk fits, has words, whole fences and the header of its table; all words are there."""
    dice = random.Random(seed)
    pages = Pages(dice)
    for _ in range(15):
        text = pages.page()
        size = dice.choice([80, 150, 400, 2000])
        rows = split_documents([row(text)], size)
        chunks = list(rows)
        found = faults(text, [(chunk["content"], chunk["title"]) for chunk in chunks], size)
        assert set(+found) <= {"chunks", "words"}
        assert rows.account.as_dict()["read"].get("chunk", 0) == len(chunks)
        for chunk in chunks:
            assert "| A | B |\n| --- | :---: |\n| " in chunk["content"] or "|---|" not in chunk["content"]


@pytest.mark.parametrize("seed", range(2))
def test_white_space_changes_neither_text_nor_key(seed):
    dice = random.Random(seed)
    text = Pages(dice).page()
    lines = text.split("\n")
    changed = []
    for line, next_line in zip(lines, [*lines[1:], ""], strict=True):
        indentation = " " if re.match(r"u\d+u", line) else ""
        changed.append(indentation + line + dice.choice(["", "  ", "\t"]))
        # Between two lines of code, it would be a part of the code.
        if not line and not next_line.startswith("    "):
            changed += dice.choice([[], [" "], ["", ""]])
    for size in (100, 2000):
        assert split("\r\n".join(changed), size) == split(text, size)


def test_a_heading_in_a_tab_begins_a_section():
    assert split('=== "Linux"\n\n    ## Packages\n\n    apt')[-1]["title"] == "Handbook > Packages"


@pytest.mark.parametrize(
    ("before", "first", "last"),
    [("", "$$", "$$"), ("text\n", "$$x", "$$"), ("> ", "$$", "y $$"), ("- ", "$$x", "y $$ ")],
)
def test_a_line_in_a_formula_is_no_heading(before, first, last):
    indentation = "> " if before == "> " else " " * len(before.rpartition("\n")[2])
    text = f"{before}{first}\n{indentation}# a\n{indentation}{last}\n\n# b\n\nc"
    assert [chunk["title"] for chunk in split(text)] == ["Handbook", "Handbook > b"]
    for other in ("$$\n# b\nnever ends", "$$ a $$ b\n# b\n$$", "$$$ dear\n\n# b\n$$"):
        assert split(other)[-1]["title"] == "Handbook > b"


def test_a_table_in_a_quotation_or_a_list_repeats_its_header():
    table = "| A | B |\n|---|---|\n" + "".join(f"| row {number} | value |\n" for number in range(20))
    for mark, next_mark in (("> ", "> "), ("1. text\n\n   ", "   ")):
        chunks = split(mark + table.strip().replace("\n", f"\n{next_mark}"), 100)
        tables = [chunk["content"].removeprefix("1. text\n\n") for chunk in chunks]
        assert len(tables) > 3
        assert all(re.match(r" *\| A \| B \|\n *\| --- \| --- \|\n *\| row ", one) for one in tables)


@pytest.mark.parametrize(
    ("image", "is_content"),
    [
        ("![Map of the office](map.png)", True),
        ('<img src="map.png" alt="Map of the office" width="5">', True),
        ("![](map.png)", False),
        ('<img src="map.png">', False),
        ("[![Build](https://x.org/a.svg)](https://x.org)", False),
        ("[![Build][a]][b]", False),
        ("![Build](https://img.shields.io/a.svg)", False),
        ('<a href="x"><img alt="Build" src="https://x.org/badge.svg"></a>', False),
    ],
)
def test_an_image_with_a_description_is_content(image, is_content):
    contents = [chunk["content"] for chunk in split(f"{image}\n\n# A\n\ntext")]
    assert contents == ([image, "text"] if is_content else ["text"])


def test_the_data_of_a_picture_is_no_text():
    text = '![Map]({0}) <img src="{0}" alt="Map"> ![Map][a]\n\n[a]: <{0}>'
    data = f"data:image/svg+xml;charset=utf-8;base64,{'aB+/' * 500}=="
    assert [chunk["content"] for chunk in split(text.format(data))] == [text.format("data:,")]


def test_a_row_that_is_too_long_for_its_header_is_a_list_of_cells():
    header = "| Country | Opening hours |\n|---|---|\n"
    chunks = split(f"{header}| Norway | {'from nine to five, ' * 4}|\n| Chile | ten |", 70)
    assert [chunk["content"] for chunk in chunks] == [
        "Country: Norway\nOpening hours: from nine to five, from nine to five,",
        "from nine to five, from nine to five,",
        "| Country | Opening hours |\n| --- | --- |\n| Chile | ten |",
    ]


@pytest.mark.parametrize("question", ["**Do you ship on Sunday**", "Shipping:", "日曜日？"])  # noqa: RUF001
def test_a_question_stays_with_its_answer(question):
    text = "\n\n".join(f"{question}\n\nThe answer to question {number} is long enough." for number in range(20))
    chunks = split(text, 150)
    assert len(chunks) > 5
    assert all(chunk["content"].startswith(question) for chunk in chunks)
    assert not any(chunk["content"].endswith(question) for chunk in chunks)


def test_what_announces_a_table_is_in_the_chunk_of_its_first_rows():
    rows = "".join(f"| {number} | value |\n" for number in range(20))
    first, second, *_ = split(f"{'A long text. ' * 5}\n\nAll values:\n\n| a | b |\n|---|---|\n{rows}", 100)
    assert first["content"] == ("A long text. " * 5).strip()
    assert second["content"].startswith("All values:\n\n| a | b |\n| --- | --- |\n| 0 | value |\n| 1 |")


def test_sizes_in_tokens():
    """A tokenizer is slow: it counts each text a few times only."""
    counted = 0

    def tokens(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(re.findall(r"\w+|[^\w\s]", text))

    text = text_of(handbook(random.Random(1), 20))
    chunks = split(text, 200, length=tokens)
    assert 100 < max(tokens(chunk["content"]) for chunk in chunks) <= 200
    assert counted < 25 * len(text)


def test_a_row_without_key_stays_as_it_is():
    """Its chunks would have keys without a name of the page. A load rejects the row."""
    unreadable = row("", key=None, parent="b.md")
    for key in ("", " "):
        assert list(split_documents([row("# A\n\ntext", key=key)])) == [row("# A\n\ntext", key=None)]
    assert list(split_documents([row("# A\n\ntext\n\n# B\n\ntext", key=None), unreadable])) == [
        row("# A\n\ntext\n\n# B\n\ntext", key=None),
        unreadable,
    ]


def test_equal_chunks_and_parts_of_a_page_have_keys_of_their_own():
    """An edit above changes none of them, and a page of a PDF does not have its number in its key."""
    texts = ["# A\n\nsame\n\n# A\n\nsame", "same", "text", "same"]
    rows = [row(text, key=f"a.pdf#page={number}", parent="a.pdf") for number, text in enumerate(texts)]
    before = [chunk["key"] for chunk in split_documents(rows)]
    assert len(set(before)) == len(before) == 5
    inserted = [row("new", key="a.pdf#page=9", parent="a.pdf"), *rows]
    after = [chunk["key"] for chunk in split_documents(inserted)]
    assert set(before) < set(after)
    assert len(after) == len(set(after)) == 6


def test_what_readers_cannot_read_is_counted():
    rows = split_documents([row("---\n\n![](x.png)\n\n# A {#id}\n\n[a]: https://x.org/b"), row(" \n", key="b.md")])
    assert [chunk["content"] for chunk in rows] == ["A"]
    assert [(one.unit, one.count, one.reason, one.is_expected) for one in rows.account.left_out] == [
        ("page", 1, "has no text", False),
        ("word", 7, "in badges, tags and addresses alone", True),
        ("word", 1, "in attributes and images of a heading", True),
    ]


@pytest.mark.parametrize(
    "sign", ["<https://x.org/a>", "<a.b@x.org>", "<mailto:a@x.org>", "👍", "★★★★☆", "~~~\n!=\n~~~", "¥"]
)
def test_an_answer_may_be_a_sign_or_an_address(sign):
    assert [chunk["content"] for chunk in split(f"# How?\n\n{sign}\n\n# Why?\n\ntext")] == [sign, "text"]


def test_the_address_is_cited_within_the_size():
    rows = [row("{url} " + "word " * 100, url="https://x/a"), row("c"), row("d", url="https://x/" + "a" * 90)]
    chunks = split_documents(rows, 100, cite="Source: {url}")
    contents = [chunk["content"] for chunk in chunks]
    assert all(text.endswith("\n\nSource: https://x/a") for text in contents[:-2])
    assert contents[-2:] == ["c", "d"]
    assert 90 < max(map(len, contents)) <= 100
    assert [left_out.unit for left_out in chunks.account.unexpected] == ["citation"]
    # Another address changes no key: the load replaces the document.
    moved = list(split_documents([row("text", url="https://y/a")], cite="{url}"))
    assert moved[0]["key"] == split("text")[0]["key"]
    with pytest.raises(AssistantInputError, match="cite must contain"):
        split_documents([], cite="Source")


def test_another_title_of_the_page_changes_no_key():
    text = "Intro\n\n# Handbook\n\n## Hours\n\nFrom 9 to 5.\n\n# Rules\n\ntext"
    other = [list(split_documents([row(text, title=title)])) for title in ("Handbook", "Start here")]
    assert [chunk["key"] for chunk in other[0]] == [chunk["key"] for chunk in other[1]]
    renamed = text.replace("Handbook", "Manual")
    before, after = (
        list(split_documents([row(one, title=title)])) for one, title in ((text, "Handbook"), (renamed, "Manual"))
    )
    assert [chunk["key"] for chunk in before] == [chunk["key"] for chunk in after]
    assert [chunk["title"] for chunk in after] == ["Manual", "Manual > Hours", "Manual > Rules"]


HOSTILE = ["# " * 100_000, "#" * 100_000, "# " + "#" * 200_000 + "x", "`" * 100_000, "```\n" * 20_000, "[" * 20_000,
           "<!--\n" * 20_000, "text<!--" * 5_000, "!!! a\n\n" * 20_000, "===\n" * 20_000,
           " " * 1_000_000 + "!!! a\n    b"]  # fmt: skip
BLOCKS = ["{:#a} " * 20_000 + "y", "|a|\n|-|\n" + "|" * 100_000, "[a]: b\n" * 2_000, "e" + "\u0301" * 50_000,
          "![a](" * 20_000, "[toc] " * 20_000 + "y", "# " + "{:#a} " * 600 + "y", "a\n\n" * 2_000, "A b. " * 20_000,
          "|a|\n|-|\n" + "|a|\n" * 2_000, "data:image/;" * 20_000]  # fmt: skip


def test_hostile_texts_take_linear_time():
    """With quadratic time, this would take many minutes."""
    for text in (*HOSTILE, *BLOCKS):
        assert all(len(chunk["content"]) <= 2000 for chunk in split(text, 2000))
    for text in HOSTILE:
        # A comment that begins a block and has no end hides the rest.
        assert without_comments(text)[0].strip() == ("" if text.startswith("<!--") else text.strip())
        changed = with_absolute_links(f"[a](b)\n\n{text}", partial(urljoin, "https://x.org/"))
        assert changed == f"[a](https://x.org/b)\n\n{text}"


def test_code_whose_opening_line_is_too_long_is_split_as_text():
    code = "\n".join(f"line {number}" for number in range(20))
    chunks = split(f"```python title='{'x' * 60}'\n{code}\n```", 50)
    assert "\n".join(chunk["content"] for chunk in chunks) == code
    assert max(len(chunk["content"]) for chunk in chunks) <= 50
    # A table with other spaces, and without its outer borders, is the same.
    assert split("a|b\n-|:-\n1|2 \\| 3") == split("| a   | b |\n|---|:--|\n| 1   | 2 \\| 3 |")


@pytest.mark.parametrize("size", [0, -1])
def test_an_impossible_size_is_refused_at_once(size):
    with pytest.raises(AssistantInputError, match="size must be at least 1"):
        split_documents([], size)


CHARACTERS = ["e\u0301", "नी", "👩‍👩‍👧", "1\ufe0f\u20e3", "か\u3099", "漢", "x", "\u0628\u064e"]
SENTENCES = ["J. Smith opens at 9 a.m. every day.", "Really?", "Yes: see [A b](https://x.org/a.b)!", "¿Sí?", "“Done.”",
             "कार्यालय खुला है।", "هل المكتب مفتوح؟"]  # fmt: skip


@pytest.mark.parametrize("size", [16, 40, 100])
def test_a_long_text_is_cut_at_sentences_then_words_then_anywhere(size):
    dice = random.Random(size)
    for parts, joint, fitting in (
        (SENTENCES, " ", 40),
        (["Monday", "Tuesday `9 - 5`", "a"], "\n", 16),
        (CHARACTERS, "", 16),
    ):
        chosen = dice.choices(parts, k=100)
        pieces = [chunk["content"] for chunk in split(joint.join(chosen), size)]
        assert "".join("".join(pieces).split()) == "".join("".join(chosen).split())
        assert max(map(len, pieces)) <= size
        if size >= fitting:
            assert all(piece.endswith(tuple(parts)) for piece in pieces)


PLAIN = ["Install", "1.2 Install on *", "Do you ship on Sunday? No.", "Größe & Gewicht", "50 % [sic]", "x < y > z"]
# What a site generator, an HTML page or a person puts around the words of a heading.
MARKUP = [
    "X {#an-id}", "X {: .no_toc}", 'X {: #id title="a b" }', "X {/* #id */}", "X [#an-id]",
    'X {%- include version.html version="4.0" -%}', "[X](https://example.com/a)", "[X][ref]", "X [](#x)",
    'X [¶](#x "Permanent link")', "[#](#x) X", "X ¶", "X\u200b", "**X**", "~~X~~", '<a name="x"></a>X',
    "X <!-- a comment -->", "![Logo](logo.png) X", "X[^1]",
]  # fmt: skip


@pytest.mark.parametrize("markup", MARKUP)
def test_only_the_words_of_a_heading_are_the_title(markup):
    for plain in PLAIN:
        if "[" in plain and markup.startswith("[X]"):
            continue
        heading = markup.replace("X", plain.replace("*", "\\*").replace("<", "&lt;"))
        (chunk,) = split_documents([row(f"## {heading}\n\ntext\n\n[ref]: https://example.com", title=None)])
        assert chunk["title"] == plain
        assert chunk["key"].split("#", 1)[1].startswith(plain)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("\n \n# Office {#a}\ntext", "Office"),
        ("Office\n======\ntext", "Office"),
        ("# The `pip` command `a{name='x'}`", "The pip command a{name='x'}"),
        ("# E=mc<sup>2</sup> &amp; _more_", "E=mc^2^ & more"),
        ("# ![Logo](a.png)", "Logo"),
        ("text\n\n# Office", None),
        ("two\nlines\n---", None),
        ("# {#only-an-id}", None),
        ("# " + "word " * 100, None),
        ("---\n# Office", None),
    ],
)
def test_the_first_heading(text, heading):
    assert first_heading(text) == heading


class Shown(HTMLParser):
    """The words that a browser shows of a page."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.words: Counter[str] = Counter()
        self.feed(MarkdownIt("commonmark").enable("table").render(markdown))
        self.close()

    def handle_data(self, data: str) -> None:
        self.words.update(re.findall(r"\w+", data))


@pytest.mark.promise("sources of documents", "Each word of a page is in its chunks, or it is counted with a reason.")
@pytest.mark.parametrize("seed", range(3))
def test_words_in_are_words_out_and_words_left_out(seed):
    dice = random.Random(seed)
    # The other parser shows addresses of links in HTML.
    pages = Pages(dice, kinds=[kind for kind in KINDS if kind != "html"])
    for _ in range(10):
        text = re.sub(r"^(#+ .*)", r"\1 {#anchor}", pages.page(), flags=re.MULTILINE)
        rows = split_documents([row(text, title=None)], dice.choice([100, 400, 2000]))
        shown: Counter[str] = Counter()
        for chunk in rows:
            shown += Shown(chunk["content"]).words + Counter(re.findall(r"\w+", chunk["title"] or ""))
        lost = Shown(text).words - shown
        assert sum(lost.values()) <= sum(each.count for each in rows.account.left_out)
        assert set(lost) <= {"anchor"}


EDITS = {
    "insert a paragraph": lambda part: f"New.\n\n{part}",
    "change a word": lambda part: part.replace("u", "changed", 1),
    "append": lambda part: f"{part}\n\nAs of today.",
    "delete": lambda part: "",
    "insert a list": lambda part: f"{part}\n\n- one\n- two",
    "insert a table": lambda part: f"{part}\n\n| A |\n|---|\n| b |",
    "insert code": lambda part: f"```\n# no heading\n```\n\n{part}",
    "insert a comment": lambda part: f"<!-- a comment -->\n\n{part}",
    "insert a heading": lambda part: f"{part}\n\n## New heading\n\ntext",
}


@pytest.mark.promise("sources of documents", "An edit changes only the chunks of its section.")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_only_its_section(edit):
    pages = Pages(random.Random(edit), kinds=["paragraph", "table", "code", "list"])
    sections = [
        [f"## Section {number}", pages.block(dice)] for number, dice in enumerate(["table", "list", "code"] * 5)
    ]

    def keys() -> dict[str, str]:
        text = "\n\n".join(["# Page", *("\n\n".join(section) for section in sections)])
        return {chunk["key"]: chunk["content"] for chunk in split(text, 300)}

    before = keys()
    sections[7][1] = EDITS[edit](sections[7][1])
    after = keys()
    assert before != after
    changed = [key for key in before.keys() ^ after.keys() if "#Section 7#" not in key]
    assert not [key for key in changed if "New heading" not in key]
    assert all(after[key] == content for key, content in before.items() if key in after)
