"""Headings as plain text."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.knowledge import split_documents
from airflow_provider_assistant.knowledge.headings import first_heading, plain_text

PLAIN = [
    "Install",
    "1.2 Install on *",
    "Do you ship on Sunday? No.",
    "Größe & Gewicht",
    "50 % [sic]",
    "x < y > z",
    "f(x) = {a, b}",
]
# What a site generator, an HTML page or a person puts around the words of a heading.
MARKUP = [
    "X {#an-id}",
    "X {: .no_toc}",
    'X {: #id title="a b" }',
    'X {%- include version.html version="4.0" -%}',
    "X {/* #id */}",
    "[X](https://example.com/a)",
    "[X](<a b> 'title'){:target=\"_blank\"}",
    "[X][ref]",
    "[X][]",
    "X [](#x)",
    'X [¶](#x "Permanent link")',
    "[#](#x) X",
    "X ¶",
    "X\u200b",
    "**X**",
    "~~X~~",
    '<a name="x"></a>X',
    "<span class='a'>X</span>",
    "X <!-- a comment -->",
    "![Logo](logo.png) X",
    "X[^1]",
]


@pytest.mark.parametrize("markup", MARKUP)
def test_only_the_words_are_the_title(markup):
    for plain in PLAIN:
        if markup == "[X][]" or ("[" in plain and markup.startswith("[X]")):
            continue
        source = plain.replace("*", "\\*").replace("<", "&lt;")
        heading = markup.replace("X", source)
        text = f"## {heading}\n\ntext\n\n[ref]: https://example.com"
        row = {"key": "k", "parent": "k", "title": None, "category": None, "url": None, "date": None, "content": text}
        (chunk,) = split_documents([row])
        assert chunk["title"] == plain
        assert chunk["key"].split("#", 1)[1].startswith(plain)


@pytest.mark.parametrize(
    ("heading", "plain"),
    [
        ("The `pip install` command", "The pip install command"),
        ('`items{name="a"}` and `a[i][j]`', 'items{name="a"} and a[i][j]'),
        ("H<sub>2</sub>O &amp; E=mc<sup>2</sup>", "H2O & E=mc2"),
        ("_Really_ **new**", "Really new"),
        ("![](logo.png)", ""),
        ("1\\. Start", "1. Start"),
        ("<https://example.com>", "https://example.com"),
        ("{#only-an-id}", ""),
    ],
)
def test_plain_text(heading, plain):
    assert plain_text(heading) == plain


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("\n \n# Office {#a}\ntext", "Office"),
        ("Office\n======\ntext", "Office"),
        ("text\n\n# Office", None),
        ("two\nlines\n---", None),
        ("#", None),
        ("# " + "word " * 100, None),
        ("---\n# Office", None),
    ],
)
def test_the_first_heading(text, heading):
    assert first_heading(text) == heading
