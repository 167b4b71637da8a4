"""Comments and links in Markdown: what is one, what only looks like one, and that the rest of the text stays."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.knowledge.markdown import absolute_links, block_parser, joined, without_comments

URL = "https://x.org/d/a.md"
PIECES = st.sampled_from(
    ["[a](b.md)", "![i](p.png)", "[r]: t.md", "[r]", "`", "```", "~~~", "    ", "> ", "- ", "1. ", "\n", "\n\n", "\r\n",
     "\n# ", " # ", "!!! note\n\n", "\t", "<b>", "<!--", "-->", "\\", "[", "](", ")", "<", ">", "|", "*", "_",
     "[^1]: ", "é", "\0"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n\n<!-- b\n\n# c\n-->\n\nd", "a\n\n\n\nd"),
        ("a <!-- b\nb --> c", "a  c"),
        ("> a <!-- b\n> b --> c", "> a  c"),
        ("<div>\n<!-- b -->\na</div>", "<div>\n\na</div>"),
        ("# Hours <!-- b --> #", "# Hours  #"),
        ("| a <!-- b --> |\n|---|\n| c |", "| a  |\n|---|\n| c |"),
        ("<details>\n<!-- b\n\nc -->\n\nd", "<details>\n\n\nd"),
        ("- a\n\n  <!-- b\n\nc `-->`", "- a\n\n  \n\nc `-->`"),
        ("a <!-- `b` -->`<!-- c -->`", "a `<!-- c -->`"),
        ("<!--\n```\na\n```\n-->\nb", "\nb"),
        ("a {/* b\n\nc */} d", "a  d"),
        ("a {% comment 'b' %} c {%- endcomment -%} d", "a  d"),
        ("a {{/* b */}} {{- /* c */ -}} {{</* d */>}} e", "a    e"),
        ("a\n\n{::comment}\nb\n{:/comment}\n\nc", "a\n\n\n\nc"),
        ("[//]: # (b)\n[comment]: <> (c)\n\na", "\na"),
    ],
)
def test_a_comment_is_left_out(text, kept):
    assert without_comments(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "```\n<!-- a -->\n```",
        "a\n\n    <!-- a -->",
        r"\<!-- a -->",
        "{# no end",
        "`{/* a */}` and {% include a %}",
        "a <!-- b\n\n`-->`\n\n```\n-->\n```",
        '[a]: b.md "c"\n[d]: # ',
    ],
)
def test_what_only_looks_like_a_comment_stays(text):
    assert without_comments(text) == text


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("[a](b.md)", "[a](https://x.org/d/b.md)"),
        ('[a]( <b c.md> "t")', '[a]( <https://x.org/d/b c.md> "t")'),
        ("[a](\n  b.md)", "[a](\n  https://x.org/d/b.md)"),
        ("[![a](b.png)](c.md)", "[![a](https://x.org/d/b.png)](https://x.org/d/c.md)"),
        ("[`]`](b.md) [a](c.md)", "[`]`](https://x.org/d/b.md) [a](https://x.org/d/c.md)"),
        ("> - a\n>   [a](b.md)", "> - a\n>   [a](https://x.org/d/b.md)"),
        ("> a\n[a](b.md)", "> a\n[a](https://x.org/d/b.md)"),
        ("| a | [a](b.md) |\n|---|---|\n| `\\|` | [c](d.md) |",
         "| a | [a](https://x.org/d/b.md) |\n|---|---|\n| `\\|` | [c](https://x.org/d/d.md) |"),
        ("a\r\n  [a](b.md)  \r\nc", "a\r\n  [a](https://x.org/d/b.md)  \r\nc"),
        ("!!! note\n\n    [a](b.md)\n\n    ??? tip\n\n        [c](d.md)",
         "!!! note\n\n    [a](https://x.org/d/b.md)\n\n    ??? tip\n\n        [c](https://x.org/d/d.md)"),
        ('[a]: b.md "t"\n[c\nd]:\n  <e.md>', '[a]: https://x.org/d/b.md "t"\n[c\nd]:\n  <https://x.org/d/e.md>'),
        ("[^1]: See [a](b.md).", "[^1]: See [a](https://x.org/d/b.md)."),
    ],
)  # fmt: skip
def test_a_link_becomes_absolute(text, changed):
    assert absolute_links(text, partial(joined, URL)) == changed


@pytest.mark.parametrize(
    "text",
    [
        "``[a](b.md) ` [c](d.md)``",
        "a\n\n    handlers[a](event)\n    [b]: c.md",
        "~~~\n[a](b.md)\n~~~",
        "[^1]: note",
        "[a]({{ site.baseurl }}/b)",
        "[a]({%link b.md%})",
        "[r]: {{site.baseurl}}/b",
        r"\[a](b.md)",
        "[r]\n\n[r]: https://w.org",
        "<!-- [a](b.md) -->",
        "[a](https://w.org/a?b=c#d)",
    ],
)
def test_what_is_no_relative_link_stays(text):
    assert absolute_links(text, partial(joined, URL)) == text


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=25).map("".join))
def test_nothing_else_changes(text):
    """Only addresses are added, and only whole comments are left out."""
    changed = absolute_links(text, partial(joined, "https://x.org/"))
    assert changed.replace("https://x.org/", "") == text
    kept = iter(text)
    assert all(char in kept for char in without_comments(text))


@pytest.mark.parametrize(
    "before", ["", "text\n", "> ", "- ", "1. a\n   - "], ids=["alone", "text", "quote", "item", "list"]
)
@pytest.mark.parametrize(("first", "last"), [("$$", "$$"), ("$$x", "$$"), ("$$", "y $$ ")])
def test_a_line_in_a_formula_is_no_heading(before, first, last):
    indent = "> " if before == "> " else " " * len(before.rpartition("\n")[2])
    text = f"{before}{first}\n{indent}# a\n{indent}{last}\n\n# b\n"
    tokens = block_parser().parse(text)
    assert [token.map[0] for token in tokens if token.type == "heading_open"] == [text.count("\n") - 1]


@pytest.mark.parametrize(
    "text", ["$$\n# b\nnever ends", "$$ a $$ b\n# b\n$$", "$$$ dear\n\n# b\n$$", "- $$\n\n# b\n$$"]
)
def test_a_line_that_is_no_formula_hides_no_heading(text):
    assert "heading_open" in [token.type for token in block_parser().parse(text)]
