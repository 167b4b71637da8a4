"""Rows from a folder: Markdown and text files, and which others are read."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import file_documents, split_documents
from tests.unit.parsing.samples import docx, pdf, pptx, xlsx

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
    (row,) = file_documents(*arguments, **options)
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
        ("a.md", "---\nNote that https://x.org\n---\n", "a"),
        ("a.md", "#\ntext", "a"),
    ],
)
def test_the_title(folder, name, text, title):
    assert only(folder(name, text))["title"] == title


def test_names_decide_what_is_read(folder):
    """Every file is a row or in the account, with whether it could hold content."""
    read = [
        "a.md", "B.MARKDOWN", "c.TXT", "d.mdx", "_index.md", "_posts/e.md",
        "f.qmd", "_f/_g.rst", "page?[1].md", "h.mkd",
    ]  # fmt: skip
    expected = [
        "p.png", "q.JPG", "r.css", "s.js", "t.zip", "u.woff2",
        "_category_.json", "mkdocs.yml", "LICENSE", "v.md~",
    ]  # fmt: skip
    hidden = [
        ".git/w.md", "x/.y/z.md", "_templates/a.html", "_build/b/c.md", "_drafts/d.md", "node_modules/e/README.md",
        "~$f.docx",
    ]  # fmt: skip
    lost = [
        "a.adoc", "b.doc", "c.odt", "d.RTF", "e.epub", "f.csv",
        "g.json", "h.tex", "i.org", "README", "Plan v1.5 final",
    ]  # fmt: skip
    for name in (*read, *expected, *hidden, *lost):
        folder(name, "text")
    rows = file_documents(folder.root)
    assert [row["key"] for row in rows] == sorted(read)
    held = rows.account.as_dict()
    assert held["read"] == {"file": len(read)}
    by_expectation = {True: set(), False: set()}
    for left_out in rows.account.left_out:
        assert len(left_out.examples) == left_out.count
        by_expectation[left_out.is_expected].update(left_out.examples)
    # A folder that is skipped counts as one.
    folders = {".git/", "x/.y/", "_templates/", "_build/", "_drafts/", "node_modules/"}
    assert by_expectation == {True: {*expected, *folders, "~$f.docx"}, False: set(lost)}
    with pytest.raises(AssistantInputError, match=r"\.adoc.*a\.adoc"):
        list(file_documents(folder.root, strict=True))


def test_front_matter_above_html(folder):
    folder("a.html", "---\r\ntitle: Öffnungszeiten\r\ncategory: hr\r\n---\r\n<title>x</title><p>From 9 à 5.")
    folder("b.html", "+++\ndraft = true\n+++\n<p>text")
    row = only(folder.root)
    assert (row["key"], row["title"], row["category"], row["content"]) == (
        "a.html",
        "Öffnungszeiten",
        "hr",
        "From 9 à 5.",
    )


def test_a_comment_without_an_end_is_a_warning(folder):
    for number, text in enumerate(
        ["a\n\n<!-- b\n\nc", "a -->\n\n<!-- b", "a <!-- b", "```\n<!-- b\n```", "<!-- b -->a"]
    ):
        folder(f"{number}.md", text)
    rows = file_documents(folder.root)
    assert [row["content"].strip()[:1] for row in rows] == ["a", "a", "a", "`", "a"]
    (left_out,) = rows.account.unexpected
    assert (left_out.unit, left_out.examples) == ("passage", ["0.md", "1.md"])
    assert left_out.reason == "is in a comment without an end"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "is not UTF-8 at byte 0"),
        (b"x" * 10_000_001, "is larger than 10,000,000 bytes"),
        (b"---\ntitle: " + b"x" * 9_000_000, "does not end within 20,000 characters"),
        (b"---\ntitle: [a\n---\ntext", "not valid YAML"),
        (b"---\ntitle: " + b"[" * 19_000 + b"\n---\ntext", "not valid YAML"),
    ],
)
def test_an_unreadable_file_is_named(folder, content, message):
    folder("a.md", "text")
    with pytest.raises(AssistantInputError, match=message) as refused:
        list(file_documents(folder("b.md", content)))
    assert "b.md" in str(refused.value)


def test_every_format_is_a_row(folder):
    def write(document):
        document.add_heading("Parking", 1)
        document.add_paragraph("Behind the house.")

    head = "<link rel=canonical href=/guide/b/hours.html><meta name=category content=hr>"
    head += "<meta name=date content=2026-11-22>"
    folder("a.md", "# Office\n\n[a](b.md) [bad](http://[)")
    folder("b/b.html", f"<title>Hours</title>{head}<h1>Hours</h1><p>From <a href='c.html'>9</a>.</p>")
    folder("c.PDF", pdf("From 9.", info=b"/Title (Handbook)"))
    folder("d.docx", docx(write))
    folder("e.pptx", pptx(("Party", "On Friday.")))
    folder("f.xlsx", xlsx(Days=[["Day"], ["Monday"]]))
    rows = list(file_documents(folder.root, base_url=BASE))
    titles = ("Office", "Hours", "Handbook", "Parking", "Party", "Days")
    assert tuple(row["title"] for row in rows) == titles
    assert rows[1]["content"] == f"# Hours\n\nFrom [9]({BASE}b/c.html)."
    assert (rows[1]["category"], rows[1]["date"], rows[1]["url"]) == ("hr", "2026-11-22", f"{BASE}b/hours.html")
    assert [row["url"] for row in rows if row != rows[1]] == [BASE + row["key"] for row in rows if row != rows[1]]
    texts = ["Behind the house.", "On Friday.", "| Day |\n| --- |\n| Monday |"]
    assert [row["content"] for row in split_documents(rows[3:])] == texts
    # Without an address, links stay as they are.
    assert next(iter(file_documents(folder.root)))["content"].endswith("[a](b.md) [bad](http://[)")


def test_a_file_without_text_is_skipped_with_a_warning(folder, caplog):
    folder("scan.pdf", pdf(""))
    folder("a.md", "text")
    assert [row["key"] for row in file_documents(folder.root)] == ["a.md"]
    assert "1 file left out: has no text (scan.pdf)" in caplog.text


def test_without_the_extra_markdown_is_read_and_others_are_refused(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert only(folder("a.md", "text"))["content"] == "text"
    with pytest.raises(
        AssistantInputError, match=r"b.pdf' .* pypdf is not installed.*airflow-provider-assistant\[files"
    ):
        list(file_documents(folder("b.pdf", pdf("text"))))


def test_aliases_that_multiply_are_harmless(folder):
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    row = only(folder("a.md", f"---\na0: &a0 x\n{levels}\ntitle: *a11\n---\ntext"))
    assert (row["title"], row["content"].strip()) == ("a", "text")


def test_a_link_out_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    folder("a.md", "text")
    (folder.root / "b.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        list(file_documents(folder.root))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(alphabet="#-`~[](): \nab<>\"'&*!|{}%", max_size=200))
def test_any_text_is_a_document_or_refused_with_its_name(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("any")
    (root / "a.md").write_text(text, encoding="utf-8", newline="")
    try:
        rows = list(file_documents(root, base_url=BASE))
    except AssistantInputError as error:
        assert "a.md" in str(error)  # noqa: PT017 (both outcomes are right)
    else:
        assert len(rows) == bool(text.strip() and rows)
