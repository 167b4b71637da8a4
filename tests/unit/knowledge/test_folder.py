"""Rows from a folder: which files are read, what each document says, and what the account counts."""

from __future__ import annotations

import re
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import file_documents, split_documents
from tests.unit.parsing.samples import docx, pdf, pptx, xlsx

BASE = "https://docs.example.com/guide"
FRONT = """---
title: "The office: hours"
category: [hr, all]
draft: false
date: 2026-11-22
---
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes a file below a folder, and returns the folder."""
    root = tmp_path / "handbook"

    def write_file(name: str, content: str | bytes = "text"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write_file


def only(*arguments, **options):
    (row,) = file_documents(*arguments, **options)
    return row


def test_front_matter_gives_the_fields(write):
    assert only(write("a/hours.md", FRONT + "# Hours\nFrom 9."), base_url=BASE) == {
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
        ("a.txt", "# 7 is the shelf", "a"),
        ("a.md", "\ufeff# Hours\r\n\r\nFrom 9.", "Hours"),
        ("a.md", "---\ntitle: 007\n---\n# Hours\ntext", "007"),
        ("a.md", "---\nquestion: Since when?\n---\nSince 9.", "Since when?"),
        ("a.md", "---\n\nA rule, not front matter.\n\n---\n", "a"),
        ("hours/README.md", "From 9.", "hours"),
        ("_index.md", "From 9.", "index"),
    ],
)
def test_the_title(write, name, text, title):
    assert only(write(name, text))["title"] == title


def test_text_is_not_markdown(write):
    write("a.txt", "# 7 is the shelf\n\n    *not* code\n---\n<b>tag</b>\n")
    (chunk,) = split_documents(file_documents(write("b.png")))
    assert chunk["title"] == "a"
    for word in ("7 is the shelf", "not", "code", "b", "tag"):
        assert word in chunk["content"]


def test_names_decide_what_is_read(write):
    """Every file is a row or in the account, with whether it could hold content."""
    read = ["a.md", "B.MARKDOWN", "c.TXT", "d.mdx", "_index.md", "_posts/e.md", "page?[1].md"]
    expected = ["p.png", "q.JPG", "r.css", "s.mp4", "u.woff2"]
    hidden = [".git/w.md", "x/.y/z.md", "_templates/a.html", "_drafts/d.md", "node_modules/e/README.md", "~$f.docx"]
    lost = ["a.adoc", "b.doc", "c.rst", "d.RTF", "e.ipynb", "f.csv", "mkdocs.yml", "README", "Plan v1.5 final"]
    for name in (*read, *expected, *hidden, *lost):
        write(name)
    rows = file_documents(write("a.md"))
    assert [row["key"] for row in rows] == sorted(read)
    assert rows.account.as_dict()["read"] == {"file": len(read)}
    counts = Counter()
    for left_out in rows.account.left_out:
        counts[left_out.is_expected] += left_out.count
    assert counts == {True: len(expected) + len(hidden), False: len(lost)}
    with pytest.raises(AssistantInputError, match=r"not read \(\.adoc\) \(a\.adoc\).*has no suffix \(README\)"):
        list(file_documents(write("a.md"), strict=True))


def test_every_format_is_a_row(write):
    def document(page):
        page.add_heading("Parking", 1)
        page.add_paragraph("Behind the house.")

    head = "<link rel=canonical href=/guide/b/hours.html><meta name=category content=hr>"
    head += "<meta name=date content=2026-11-22>"
    write("a.md", "# Office\n\n[a](b.md) [bad](http://[)")
    write("b/b.html", f"<title>Hours</title>{head}<h1>Hours</h1><p>From <a href='c.html'>9</a>.</p>")
    write("c.PDF", pdf("From 9.", info=b"/Title (Handbook)"))
    write("d.docx", docx(document))
    write("e.pptx", pptx(("Party", "On Friday.")))
    write("g.txt", "Plain words.")
    folder = write("f.xlsx", xlsx(Days=[["Day"], ["Monday"]]))
    rows = list(file_documents(folder, base_url=BASE))
    assert [row["title"] for row in rows] == ["Office", "Hours", "Handbook", "Parking", "Party", "Days", "g"]
    assert rows[1]["content"] == f"# Hours\n\nFrom [9]({BASE}/b/c.html)."
    assert (rows[1]["category"], rows[1]["date"], rows[1]["url"]) == ("hr", "2026-11-22", f"{BASE}/b/hours.html")
    assert [row["url"] for row in rows if row != rows[1]] == [f"{BASE}/{row['key']}" for row in rows if row != rows[1]]
    texts = ["Behind the house.", "On Friday.", "| Day |\n| --- |\n| Monday |", "Plain words."]
    assert [row["content"] for row in split_documents(rows[3:])] == texts
    # Without an address, links stay as they are.
    assert next(file_documents(folder))["content"].endswith("[a](b.md) [bad](http://[)")


def test_selectors_say_what_is_content(write):
    folder = write("a.html", "<main><p>one</p><p class=ad>two</p><p class=b>three</p></main>")
    assert only(folder, remove=".ad")["content"] == "one\n\nthree"
    assert only(folder, select=".b")["content"] == "three"
    for name in ("select", "remove"):
        with pytest.raises(AssistantInputError, match=f"{name}='p>' is not a selector of CSS"):
            file_documents(folder, **{name: "p>"})


def test_front_matter_above_html(write):
    write("a.html", "---\r\ntitle: Öffnungszeiten\r\ncategory: hr\r\n---\r\n<title>x</title><p>From 9 à 5.")
    row = only(write("b.html", "+++\ndraft = true\n+++\n<p>text"))
    assert (row["title"], row["category"], row["content"]) == ("Öffnungszeiten", "hr", "From 9 à 5.")


@pytest.mark.parametrize(
    ("name", "content", "reason", "is_expected"),
    [
        ("scan.pdf", pdf(""), "has no text", False),
        ("empty.md", "", "has no text", True),
        ("draft.md", "---\ndraft: true\n---\ntext", "draft", True),
        ("old.html", "<meta http-equiv=refresh content='0; url=new.html'><p>Moved.", "leads to another page", True),
    ],
)
def test_a_file_without_a_document_is_counted(write, name, content, reason, is_expected):
    write("a.md")
    rows = file_documents(write(name, content))
    assert [row["key"] for row in rows] == ["a.md"]
    (left_out,) = (one for one in rows.account.left_out if one.unit == "file")
    assert reason in left_out.reason
    assert (left_out.count, left_out.is_expected, left_out.examples) == (1, is_expected, [name])


BAD = {
    "b.md": (b"\xff", "is not UTF-8 at byte 0"),
    "c.md": (b"---\ntitle: [a\n---\ntext", "not valid YAML"),
    "d.md": (b"+++\na = \n+++\ntext", "not valid TOML"),
    "e.md": (b"x" * 10_000_001, "is larger than 10,000,000 bytes"),
    "f.docx": (b"x", "is damaged"),
    "g.md": (b"---\ntitle: " + b"[" * 19_000 + b"\n---\ntext", "not valid YAML"),
    "h.md": (b"---\ntitle: " + b"x" * 9_000_000, "does not end within"),
    "i.html": (b'{\n "draft": true\n}\n<p>text', "begins with '{'; write it in YAML"),
    "i.md": (b'{"draft": true}\ntext', "begins with '{'; write it in YAML"),
    "j.txt": (b"a\0b\0", "is not text: it has 2 NUL bytes"),
    "k.md": ("a\0b".encode("utf-16"), "is not text: it has 1 NUL byte"),
    "l.md": (None, "cannot be opened: it is a link to '/gone/x.md', which does not exist"),
}


@pytest.mark.promise("sources of documents", "Files that cannot be read are all named.")
def test_files_that_cannot_be_read_are_all_named_or_become_rows_without_key(write):
    problems = {name: problem for name, (_, problem) in BAD.items()}
    write("z.md")
    folder = write("a.md")
    for name, (content, _) in BAD.items():
        if content is None:
            (folder / name).symlink_to("/gone/x.md")
        else:
            write(name, content)
    with pytest.raises(AssistantInputError) as error:
        list(file_documents(folder))
    for name, problem in problems.items():
        assert re.search(rf"{name}' [^;]*{problem}", str(error.value))
    documents = file_documents(folder, on_error="skip")
    rows = list(documents)
    assert [row["key"] for row in rows] == ["a.md", *[None] * len(problems), "z.md"]
    assert [row["parent"] for row in rows if row["key"] is None] == list(problems)
    (unread,) = documents.account.unexpected
    assert (unread.reason, unread.count) == ("cannot be read", len(problems))
    with pytest.raises(AssistantInputError, match="on_error must be"):
        file_documents(folder, on_error="ignore")


def test_a_file_that_vanishes_while_the_folder_is_read_does_not_stop_it(write):
    for name in ("a.md", "b.md", "c.md"):
        folder = write(name)
    rows = file_documents(folder, on_error="skip")
    assert next(rows)["key"] == "a.md"
    (folder / "b.md").unlink()
    assert [(row["key"], row["parent"]) for row in rows] == [(None, "b.md"), ("c.md", "c.md")]
    (left_out,) = rows.account.unexpected
    assert re.search(r"b.md' cannot be opened: No such file", left_out.examples[0])


def test_without_the_extra_markdown_is_read_and_others_are_refused(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert only(write("a.md"))["content"] == "text"
    with pytest.raises(AssistantInputError, match=r"pypdf is not installed.*assistant\[files"):
        list(file_documents(write("b.pdf", pdf("text"))))


def test_a_link_out_of_the_folder_fails_also_if_errors_are_skipped(write, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    folder = write("a.md")
    (folder / "b.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        list(file_documents(folder, on_error="skip"))


def test_a_file_has_the_same_row_alone_and_in_its_folder(write, monkeypatch):
    for name in ("page?.md", "page1.md", "a[b]*.md"):
        folder = write(name, f"# {name}\n\n[a](b.md)")
    monkeypatch.chdir(folder.parent)
    in_folder = {row["key"]: row for row in file_documents(folder, base_url=BASE)}
    assert in_folder.keys() == {"page?.md", "page1.md", "a[b]*.md"}
    for name, row in in_folder.items():
        for source in (folder / name, str(folder / name), f"./{folder.name}/{name}", f"file://{folder}/{name}"):
            assert list(file_documents(source, base_url=f"{BASE}/")) == [row]


def test_an_address_without_a_protocol_is_refused(write):
    with pytest.raises(AssistantInputError, match=r"base_url must begin with .*not 'example\.com'"):
        file_documents(write("a.md"), base_url="example.com")


def test_files_with_one_key_are_refused(write):
    write("a/index.md")
    folder = write("b/index.md")
    with pytest.raises(AssistantInputError, match=r"a/index.md' and .*b/index.md' have the same key 'index.md'"):
        list(file_documents([folder / "a", folder / "b"]))


def test_a_function_names_the_addresses_of_pages_and_links(write):
    def address_of(key: str) -> str | None:
        if key.startswith("private/"):
            return None
        return key.removesuffix(".md").removesuffix("index")

    links = "[a](../faq.md#top) [b](/index.md) [c](c.png) [d](https://w.org/x.md) [e](../private/f.md) [g](#h)"
    write("guide/office.md", links)
    write("private/f.md", "[a](../faq.md)")
    write("index.md")
    folder = write("faq.md", "---\nurl: https://y.org/faq\n---\ntext")
    rows = {row["key"]: row for row in file_documents(folder, base_url="https://x.org/docs", url_of=address_of)}
    assert {key: row["url"] for key, row in rows.items()} == {
        "faq.md": "https://y.org/faq",
        "guide/office.md": "https://x.org/docs/guide/office",
        "index.md": "https://x.org/docs/",
        "private/f.md": None,
    }
    assert rows["guide/office.md"]["content"] == (
        "[a](https://x.org/docs/faq#top) [b](https://x.org/docs/) [c](https://x.org/docs/guide/c.png) "
        "[d](https://w.org/x.md) [e](https://x.org/docs/private/f.md) [g](https://x.org/docs/guide/office#h)"
    )
    assert rows["private/f.md"]["content"] == "[a](../faq.md)"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(alphabet="#-`~[](): \nab<>\"'&*!|{}%", max_size=200))
def test_any_text_is_a_document_or_refused_with_its_name(tmp_path_factory, text):
    root = tmp_path_factory.mktemp("any")
    (root / "a.md").write_text(text, encoding="utf-8", newline="")
    rows = file_documents(root, base_url=BASE, on_error="skip")
    assert len(list(rows)) + rows.account.count >= 1
