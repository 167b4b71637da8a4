"""Chunks whose keys an edit elsewhere does not change."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import split_documents, with_source
from airflow_provider_assistant.knowledge.headings import sections_of
from airflow_provider_assistant.knowledge.markdown import absolute_links, without_comments

WORDS = ("office", "opens", "at", "nine", "and", "closes", "when", "everybody", "has", "left", "for", "the", "evening")
LINES = st.sampled_from(
    ["# A", "## B", "### C # D ##", "#hash", "```", "~~~~", "text", "", "    # code", "- # item", "#"]
)


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
    chunks = split("intro\n\n# Office\n\n## Hours #\n\nFrom 9 to 5.\n\n## Parking\n\n# Home\nbye")
    assert [(chunk["title"], chunk["content"]) for chunk in chunks] == [
        ("Handbook", "intro"),
        ("Handbook > Office > Hours", "From 9 to 5."),
        ("Handbook > Home", "bye"),
    ]
    assert chunks[1]["key"].startswith("a.md#Office > Hours#")
    assert {(chunk["parent"], chunk["category"]) for chunk in chunks} == {("a.md", "guide")}


@pytest.mark.parametrize("fence", ["```", "~~~", "  ````"])
def test_a_comment_in_code_is_no_heading(fence):
    (chunk,) = split(f"# Run\n{fence}sh\n# comment\n```x\nls\n{fence}\n")
    assert chunk["title"] == "Handbook > Run"
    assert "# comment" in chunk["content"]


@pytest.mark.parametrize(
    "text",
    [
        "```npm i``` installs it.\n\n# Run\n\nls",
        "# Run\n\n<pre>\n# comment\n\n# comment\n</pre>",
        "# Run\r\n\r\nls\r\n",
    ],
    ids=["code in a line", "pre", "line breaks of Windows"],
)
def test_what_is_a_heading(text):
    assert split(text)[-1]["title"] == "Handbook > Run"


def test_a_title_that_is_the_first_heading_counts_once():
    assert split("# Handbook\n## Hours\ntext")[0]["title"] == "Handbook > Hours"


def test_a_long_section_is_split_within_the_size():
    dice = random.Random(1)
    text = text_of(handbook(dice, 3))
    chunks = split(text, 300)
    assert max(len(chunk["content"]) for chunk in chunks) <= 300
    kept = "".join(chunk["content"] for chunk in chunks)
    # A long sentence is split at any word, so only the characters are compared.
    assert "".join(kept.split()) == "".join("".join(one.text for one in sections_of(text)).split())


def test_sizes_in_tokens_and_an_overlap():
    def tokens(text: str) -> int:
        return len(text.split())

    chunks = split("One two three four. Five six seven eight. Nine ten.", 6, overlap=2, length=tokens)
    assert max(tokens(chunk["content"]) for chunk in chunks) <= 6
    assert sum(tokens(chunk["content"]) for chunk in chunks) >= 10


def test_equal_texts_below_the_same_headings_are_one_chunk():
    assert [chunk["content"] for chunk in split("# A\nsame\n# B\nsame\n# A\nsame")] == ["same", "same"]


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_changes_few_keys(seed):
    """Of the chunks of a handbook of 1,000 pages, an edit of 1 % of its pages changes at most 2 %."""
    dice = random.Random(seed)
    pages = handbook(dice, 1000)
    before = {chunk["key"] for chunk in split(text_of(pages), 1000)}
    for page in dice.sample(pages, 10):
        match dice.choice(["insert", "change", "delete"]):
            case "insert":
                page.insert(dice.randrange(1, 10), "A new paragraph.")
            case "change":
                page[dice.randrange(1, 10)] += " As of today."
            case "delete":
                del page[dice.randrange(1, 10)]
    after = {chunk["key"] for chunk in split(text_of(pages), 1000)}
    assert 10 <= len(after - before) <= 0.02 * len(before)
    assert len(before - after) <= 0.02 * len(before)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(LINES, max_size=30))
def test_no_text_is_lost(lines):
    text = "\n".join(lines)
    kept = [word for section in sections_of(text) for word in (*section.headings, *section.text.split())]
    assert kept.count("text") == lines.count("text")
    assert all(section.text.strip() for section in sections_of(text))


@pytest.mark.parametrize(
    "text",
    ["# " * 500_000, "#" * 300_000, "# " + "#" * 1_000_000 + "x", "`" * 300_000, "```\n" * 100_000, "[" * 100_000,
     "<!--\n" * 60_000, "text<!--" * 10_000],
    ids=["hashes", "one word", "closing", "backticks", "fences", "brackets", "comments", "comments in a line"],
)  # fmt: skip
def test_hostile_texts_take_linear_time(text):
    """With quadratic time, this would take hours."""
    assert all(len(chunk["content"]) <= 2000 for chunk in split(text, 2000))
    assert without_comments(text) == text
    assert absolute_links(f"[a](b)\n\n{text}", "https://x.org/") == f"[a](https://x.org/b)\n\n{text}"


@pytest.mark.parametrize("options", [{"size": 0}, {"size": 10, "overlap": 10}, {"size": 10, "overlap": -1}])
def test_impossible_sizes_are_refused_at_once(options):
    with pytest.raises(AssistantInputError, match="size must be at least 1"):
        split_documents([], **options)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "semantic_text_splitter", None)
    with pytest.raises(AssistantInputError, match=r"airflow-provider-assistant\[knowledge\]"):
        split_documents([])


def test_the_source_is_appended_to_the_text():
    rows = [row("{a} {content}", url="https://x/a", date="2026-11-22"), row("b", url="https://x/b"), row("c")]
    assert [one["content"] for one in with_source(rows)] == [
        "{a} {content}\n\nSource: https://x/a, 2026-11-22",
        "b\n\nSource: https://x/b",
        "c",
    ]
    assert [one["content"] for one in with_source(rows[1:2], "{source}: {content}")] == ["https://x/b: b"]
