"""Rows from Markdown and text files."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import markdown_documents

BASE = "https://docs.example.com/guide/"
FRONT = """---
title: "The office: hours"
category: hr
draft: false
date: 2026-11-22
tags: [a, b]
---
"""


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "handbook"
    root.mkdir()

    def write(name: str, content: str | bytes):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    write.root = root
    return write


def only(*arguments, **options):
    (row,) = markdown_documents(*arguments, **options)
    return row


def test_front_matter_gives_the_fields(folder):
    assert only(folder("a/hours.md", FRONT + "# Hours\nFrom 9."), base_url=BASE) == {
        "key": "a/hours.md",
        "parent": "a/hours.md",
        "title": "The office: hours",
        "content": "\n# Hours\nFrom 9.",
        "category": "hr",
        "url": "https://docs.example.com/guide/a/hours.md",
        "date": "2026-11-22",
    }


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "# Hours\n\nFrom 9.", "Hours"),
        ("a.md", "From 9.\n\n# Later", "a"),
        ("a.txt", "From 9.", "a"),
        ("a.md", "\ufeff# Hours\r\n\r\nFrom 9.", "Hours"),
        ("a.md", "---\ntitle: 007\n---\n# Hours\ntext", "007"),
        ("a.md", "---\n\nA rule, not front matter.\n\n---\n", "a"),
        ("a.md", "#\ntext", "a"),
    ],
)
def test_the_title(folder, name, text, title):
    assert only(folder(name, text))["title"] == title


def test_drafts_other_files_and_hidden_ones_are_skipped(folder):
    for name in ("a.md", "b.MARKDOWN", "c.txt"):
        folder(name, "text")
    for name in ("d.rst", ".git/e.md", "_drafts/f.md", "g.png"):
        folder(name, "text")
    folder("draft.md", "---\ndraft: True\n---\ntext")
    folder("empty.md", " \n")
    assert [row["key"] for row in markdown_documents(folder.root)] == ["a.md", "b.MARKDOWN", "c.txt"]


def test_relative_links_become_absolute(folder):
    text = """[a](../b.md#c) ![x](img/x.png "title") [w](https://w.org) [m](mailto:a@b.c) [h](#top)

[ref]: <other.md>
```
[code](../b.md)
```
"""
    content = only(folder("d/a b.md", text), base_url=BASE)["content"]
    assert "[a](https://docs.example.com/guide/b.md#c)" in content
    assert '![x](https://docs.example.com/guide/d/img/x.png "title")' in content
    assert "[w](https://w.org) [m](mailto:a@b.c) [h](https://docs.example.com/guide/d/a%20b.md#top)" in content
    assert "[ref]: <https://docs.example.com/guide/d/other.md>" in content
    assert "```\n[code](../b.md)\n```" in content


def test_links_stay_as_they_are_without_an_address(folder):
    row = only(folder("a.md", "[a](b.md) [bad](http://[)"))
    assert (row["content"], row["url"]) == ("[a](b.md) [bad](http://[)", None)
    folder("a.md", "---\nurl: https://x.org/a/\n---\n[a](b.md) [bad](http://[)")
    row = only(folder.root)
    assert (row["content"].strip(), row["url"]) == ("[a](https://x.org/a/b.md) [bad](http://[)", "https://x.org/a/")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe", "is not UTF-8 at byte 0"),
        (b"x" * 10_000_001, "is larger than 10,000,000 bytes"),
        (b"---\ntitle: " + b"x" * 9_000_000, "does not end within 20,000 characters"),
        (b"---\ntitle: [a\n---\ntext", "not valid YAML"),
        (b"---\ntitle: " + b"[" * 19_000 + b"\n---\ntext", "not valid YAML"),
    ],
)
def test_an_unreadable_file_is_named(folder, content, message):
    folder("a.md", "text")
    with pytest.raises(AssistantInputError, match=message) as refused:
        list(markdown_documents(folder("b.md", content)))
    assert "b.md" in str(refused.value)


def test_aliases_that_multiply_are_harmless(folder):
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    row = only(folder("a.md", f"---\na0: &a0 x\n{levels}\ntitle: *a11\n---\ntext"))
    assert (row["title"], row["content"].strip()) == ("a", "text")


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    folder("a.md", "text")
    (folder.root / "b.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        list(markdown_documents(folder.root))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(alphabet="#-`~[](): \nab<>\"'&*!|{}%", max_size=200))
def test_any_text_is_a_document_or_refused_with_its_name(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("any")
    (root / "a.md").write_text(text, encoding="utf-8", newline="")
    try:
        rows = list(markdown_documents(root, base_url=BASE))
    except AssistantInputError as error:
        assert "a.md" in str(error)  # noqa: PT017 (both outcomes are right)
    else:
        assert len(rows) == bool(text.strip() and rows)
