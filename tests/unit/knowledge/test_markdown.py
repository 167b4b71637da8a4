"""Edits of Markdown and MDX: comments, links, components. The rest of the text stays."""

from __future__ import annotations

import random
import re
from itertools import count
from urllib.parse import urljoin

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge import split_documents
from airflow_provider_assistant.knowledge.markdown import (
    masked,
    plain_notes,
    with_absolute_links,
    without_comment_targets,
    without_comments,
)
from airflow_provider_assistant.knowledge.mdx import without_jsx
from airflow_provider_assistant.parsing.markdown import escaped

URL = "https://x.org/d/a.md"
PIECES = st.sampled_from(
    ["[a](b.md)", "![i](p.png)", "[r]: t.md", "[r]", "`", "```", "~~~", "    ", "> ", "- ", "1. ", "\n", "\n\n", "\r\n",
     "\n# ", " # ", "\t", "<b>", "<!--", "-->", "\\", "[", "](", ")", "<", ">", "|", "*", "_", "[^1]: ", "é", "\0"]
)  # fmt: skip


def absolute(text: str) -> str:
    return with_absolute_links(text, lambda target: urljoin(URL, target))


@pytest.mark.parametrize(
    "text",
    ["a `«b`» c", "``«b ` c``»", "a\n\n«    b\n    c\n»\nd", "«~~~\nb\n~~~\n»c", "«> ```\n> b\n> ```\n»c",
     r"\`b `«c`»", "a <!-- `b --> `«c`»", "`b\n\nc`", "# a `«b`»", "| `«b`» |\n|---|"],
)  # fmt: skip
def test_code_is_masked(text):
    plain = re.sub("[«»]", "", text)
    hidden = []
    is_code = False
    for char in text:
        if char in "«»":
            is_code = char == "«"
        else:
            hidden.append(is_code and char != "\n")
    found = masked(plain)
    assert len(found) == len(plain)
    for char, masked_char, is_hidden in zip(plain, found, hidden, strict=True):
        # The backticks and fences themselves are code as well.
        assert (masked_char == "\0") == is_hidden or char in "`~>"


@pytest.mark.parametrize(
    ("text", "kept", "words"),
    [
        ("a\n\n<!-- b\n\n# c\n-->\n\nd", "a\n\n\n\nd", 2),
        ("a <!-- b\nb --> c", "a  c", 2),
        ("> a <!-- b\n> b --> c", "> a  c", 2),
        ("<div>\n<!-- b -->\na</div>", "<div>\n\na</div>", 1),
        ("| a <!-- b --> |\n|---|\n| c |", "| a  |\n|---|\n| c |", 1),
        ("<details>\n<!-- b\n\nc -->\n\nd", "<details>\n\n\nd", 2),
        ("a <!-- `b` -->`<!-- c -->`", "a `<!-- c -->`", 1),
        ("<!--\n```\na\n```\n-->\nb", "\nb", 1),
        ("a\n\n<!-- b\n\nc", "a\n\n", 2),
        ("<!-- b --> c <!-- d", " c <!-- d", 1),
    ],
)
def test_a_comment_is_left_out_and_counted(text, kept, words):
    found, notes = without_comments(text)
    assert (found, sum(note.count for note in notes)) == (kept, words)
    assert all(note.is_expected == ("without an end" not in note.reason) for note in notes)


@pytest.mark.parametrize(
    "text",
    ["```\n<!-- a -->\n```", "a\n\n    <!-- a -->", r"\<!-- a -->", "{# like this #} {/* a */} {% comment %}",
     "a <!-- b\n\n`-->`\n\n```\n-->\n```", "`[//]: # (b)`", "    [//]: # (b)", "[//]: # b",
     "[a]: # (b)", "[//]: x.md (b)", "[//]: # (\n" * 20_000],
)  # fmt: skip
def test_what_only_looks_like_a_comment_stays(text):
    assert without_comments(text) == without_comment_targets(text) == (text, [])


@pytest.mark.parametrize(
    "comment", ["[//]: # (b (c) d)", '[//]: # "b c d"', "[comment]: <> (b\nc d)", "[Comment 1]:#'b d'"]
)
def test_a_target_without_an_address_is_a_comment(comment):
    text, (first, second) = without_comment_targets(f"a\n\n{comment}\n\n> {comment} \n> e")
    assert (text, first) == ("a\n\n\n\n>  \n> e", second)
    assert first.count == len(re.findall(r"\w+", comment))


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[a](b.md)", ["b.md"]),
        ('[a]( <b c.md> "t")', ["b c.md"]),
        ("[a](\n  b.md)", ["b.md"]),
        ("[![a](b.png)](c.md)", ["b.png", "c.md"]),
        ("[`]`](b.md) [a](c.md)", ["b.md", "c.md"]),
        ("> - a\n>   [a](b_(c).md)", ["b_(c).md"]),
        ("| a | [a](b.md) |\n|---|---|\n| `\\|` | [c](d.md) |", ["b.md", "d.md"]),
        ("a\r\n  [a](b.md)  \r\nc", ["b.md"]),
        ('[a]: b.md "t"\n\n[c\nd]:\n  <e.md>', ["b.md", "e.md"]),
        ("[^1]: See [a](b.md).", ["b.md"]),
        ("``[a](b.md) ` [c](d.md)``", []),
        ("a\n\n    handlers[a](event)\n    [b]: c.md", []),
        ("~~~\n[a](b.md)\n~~~", []),
        ("[^1]: note", []),
        ("[Note]: see below", []),
        ("[a]({{ site.baseurl }}/b) [a]({%link b.md%})", []),
        ("[r]: {{site.baseurl}}/b", []),
        (r"\[a](b.md)", []),
        ("[a](https://w.org/a?b=c#d)", []),
    ],
)
def test_relative_links_become_absolute(text, targets):
    expected = text
    for target in targets:
        expected = expected.replace(target, urljoin(URL, target))
    assert absolute(text) == expected


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_nothing_else_changes(text):
    """Only addresses are added, and only whole comments are left out."""
    assert absolute(text).replace("https://x.org/d/", "") == text
    kept = iter(text)
    assert all(char in kept for char in without_comments(text)[0])
    assert len(masked(text)) == len(text)


NOTES = """
!!! warning "Careful"
    Read *this*.

    ```yaml
    # no heading
    key:
      inner: 1
    ```

    ??? question inline end
        Nested.
!!! tip
\t- a

=== "Linux"

    ## Packages

    apt

1. Step

    !!! note ""
        Untitled.

```md
!!! note
    code
```

!!! no note
because nothing is indented
"""
FLAT = """
**Careful**
Read *this*.
```yaml
# no heading
key:
  inner: 1
```
**Question**
Nested.
**Tip**
- a
**Linux**
## Packages
apt
1. Step
    Untitled.
```md
!!! note
    code
```
!!! no note
because nothing is indented
"""


def test_the_text_of_notes_and_tabs_is_no_code():
    assert re.sub(r"\n\s*\n", "\n", plain_notes(NOTES)).strip() == FLAT.strip()
    assert plain_notes(plain_notes(NOTES)) == plain_notes(NOTES)


def test_plain_text_is_not_markdown():
    lines = ["# 7 is the shelf", "text", "---", "<your name>", "```", "[1]: see", "***", "~~~", "1 < 2"]
    row = {"key": "a", "parent": "a", "title": "T", "category": None, "url": None, "date": None}
    (chunk,) = split_documents([{**row, "content": escaped("\n".join(lines))}])
    assert chunk["title"] == "T"
    assert chunk["content"].replace("\\", "").split("\n") == lines


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("import A from 'x';\nimport {B,\n  C} from \"y\"\nimport 'z'\n\na", "a"),
        ("export const meta = {\n  a: 1,\n\n  b: [2]\n}\n\na", "a"),
        ("import duties are paid from the buyer.", "import duties are paid from the buyer."),
        ("export class diagrams to PNG.", "export class diagrams to PNG."),
        ("A `Map<String>` and Map<String>.", "A `Map<String>` and Map<String>."),
        ("```js\nimport x from 'y'\n<A/>\n```", "```js\nimport x from 'y'\n<A/>\n```"),
        # The indentation of a component is not code.
        ("<Tab title=\"npm\" tab='x' />\n\n<Tab label='yarn' />", "**npm**\n\n**x**\n\n**yarn**"),
        ("<Tabs>\n  <Tab label=\"Linux\" value='linux'>\n\n    a\n\n    - b\n\n  </Tab>\n</Tabs>",
         "**Linux**\n\na\n\n- b"),
        ("a <Badge text=\"New one\"/>{' '}b <>c</>", "a  New one  b c"),
        ("<Q question='Is it \\'x\\'?' answer={<p>You can't: {1}</p>} body={`a\nb c`} />",
         "**Is it 'x'?**\n\n<p>You can't: {1}</p>\n\na\nb c"),
        ("<div className='a b' style={{a: {b: 1}}}>\na", "a"),
        ("# A {/* b\n\nc */} d", "# A  d"),
        (f"<Note text='{'long text ' * 2000}' />", ("long text " * 2000).strip()),
    ],
)  # fmt: skip
def test_mdx_becomes_markdown(text, kept):
    assert without_jsx(text)[0].strip() == kept


@pytest.mark.promise("sources of documents", "Each word of a page of MDX is in its document, or it is counted.")
@pytest.mark.parametrize("seed", range(3))
def test_words_of_mdx_are_kept_or_counted(seed):
    dice = random.Random(seed)
    shapes = [
        "import {X} from './x'",
        "export const x = {\n  text: 'X',\n\n  more: [1]\n}",
        "{/* X */}",
        "text X\n\n    X more",
        "<Card title='X is' body=\"It's X\" href='/X' />",
        "<Tab items={['X', {a: 'X'}]}>\n\n  X\n\n</Tab>",
        "`<A b='X'>`",
        "a <B c={<i>X</i>}>X</B> X",
        "```\nimport X from 'x'\n<A b={X}/>\n```",
        "<Q a={`X's`}\n b = 'X x'>",
    ]
    for _ in range(30):
        numbers = count()
        page = re.sub("X", lambda _, numbers=numbers: f"u{next(numbers)}u", "\n\n".join(dice.choices(shapes, k=8)))
        text, notes = without_jsx(page)
        kept = len(re.findall(r"u\d+u", text))
        assert kept == len(set(re.findall(r"u\d+u", text)))
        counted = sum(note.count for note in notes)
        assert next(numbers) - kept <= counted
