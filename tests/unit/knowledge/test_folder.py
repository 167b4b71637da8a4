"""Rows from a folder: which files are read, what each document says, and what the account counts."""

from __future__ import annotations

import json
import random
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
}


@pytest.mark.promise("sources of documents", "Files that cannot be read are all named.")
def test_files_that_cannot_be_read_are_all_named_or_become_rows_without_key(write):
    problems = {name: problem for name, (_, problem) in BAD.items()}
    for name, (content, _) in BAD.items():
        write(name, content)
    write("z.md")
    folder = write("a.md")
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
    with pytest.raises(AssistantInputError, match=r"b.pdf' .* pypdf is not installed.*assistant\[files"):
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


class Writer:
    """Writes texts whose words occur nowhere else."""

    def __init__(self, dice: random.Random, prefix: str) -> None:
        self.dice = dice
        self.shown: list[str] = []
        self.hidden: list[str] = []
        self._prefix = prefix

    def word(self) -> str:
        self.shown.append(f"{self._prefix}w{len(self.shown)}z")
        return self.shown[-1]

    def gone(self) -> str:
        self.hidden.append(f"{self._prefix}h{len(self.hidden)}z")
        return self.hidden[-1]


def markdown(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    blocks = [
        f"## [{w()}](../a/b.md) {{#id}}",
        f"{w()} *{w()}* `{w()} <!-- {w()} -->` ![{w()}](c.png)\n{w()} <!-- {gone()}\n{gone()} -->",
        f"<!--\n# {gone()}\n\n- {gone()}\n-->",
        f"- {w()}\n  - {w()} <!-- {gone()} -->\n\n    {w()}\n1. {w()}",
        f"| {w()} | {w()} |\n|---|---|\n| <!-- {gone()} --> | {w()} |",
        f"```python\n# {w()}\n<!-- {w()} -->\n```",
        f"$$\n# {w()}\n$$",
        f"!!! note\n\n    {w()} <!-- {gone()} -->",
        f"[^1]: {w()} [{w()}]({{{{ site.url }}}}/x)",
        f"Jinja writes a comment as {{# {w()} #}}",
    ]
    return "\n\n".join([f"# {w()} <!-- {gone()} -->", *writer.dice.sample(blocks, 7)])


def mdx(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    blocks = [
        f'<Tabs items={{["{gone()}"]}}>\n  <Tab title="{w()} {w()}">\n    - {w()}\n  </Tab>\n</Tabs>',
        f"<Note>\n{w()} `<B>` {w()}\n</Note>",
        f"{{/* {gone()}\n\n<C title='{gone()}'> */}}",
        f"export const meta = {{\n  a: '{gone()}',\n\n  b: 1\n}}",
        f"import a {w()} from {w()}.",
    ]
    return "\n\n".join([f"import T from '{gone()}'", f"# {w()}", *writer.dice.sample(blocks, 4)]) + "\n"


def html(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    return (
        f"<title>a</title><main><h1>{w()}</h1><p>{w()} <!-- f0h0z --><b>{w()}</b></p><nav>{gone()}</nav>"
        f"<ul><li>{w()}</li></ul><pre># {w()}</pre><script>f0h1z</script></main>"
    )


def word_file(writer: Writer) -> bytes:
    def document(page) -> None:
        page.add_heading(writer.word(), 1)
        page.add_paragraph(writer.word()).add_run(writer.gone()).font.hidden = True
        page.add_table(1, 1).cell(0, 0).text = writer.word()

    return docx(document)


WRITERS = {
    ".md": markdown, ".MARKDOWN": markdown, ".mdx": mdx, ".html": html, ".docx": word_file,
    ".txt": lambda writer: f"# {writer.word()} <!-- {writer.word()} -->\n---\n    {writer.word()}\n",
    ".pptx": lambda writer: pptx((writer.word(), f"{writer.word()}\n{writer.word()}")),
    ".xlsx": lambda writer: xlsx(Sheet=[[writer.word(), writer.word()], [writer.word()]]),
}  # fmt: skip


@pytest.mark.promise("sources of documents", "Each word of a folder that is published is in one document, once.")
def test_each_word_is_in_its_row_once(tmp_path):
    dice = random.Random(7)
    shown: dict[str, list[str]] = {}
    hidden = ["f0h0z", "f0h1z"]
    not_indexed = 0
    for number in range(45):
        suffix = dice.choice([*WRITERS, ".md"])
        writer = Writer(dice, f"f{number}")
        content = WRITERS[suffix](writer)
        if isinstance(content, str):  # some blocks were left out
            writer.shown = [word for word in writer.shown if word in content]
        folder = dice.choice(["", "a/", "_posts/", "b/c d/", "Ü/", "page?/", "[x]/"])
        name = f"{folder}{dice.choice(['', '_'])}p{number}{suffix}"
        if suffix == ".html" and dice.random() < 0.5:
            content = f"<meta name=robots content=noindex>{content}"
            not_indexed += 1
            hidden += writer.shown
        else:
            shown[name] = writer.shown
        hidden += writer.hidden
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    documents = file_documents(tmp_path, base_url="https://x.org/")
    rows = {row["key"]: row for row in documents}
    assert rows.keys() == shown.keys()
    for name, words in shown.items():
        text = rows[name]["content"]
        assert Counter(re.findall(r"f\d+w\d+z", text)) == Counter(words), (name, text)
    written = json.dumps(list(rows.values()))
    assert not [word for word in hidden if word in written]
    counted = {entry.reason: entry.count for entry in documents.account.left_out if entry.unit == "file"}
    assert sum(counted.values()) == not_indexed
    assert documents.account.as_dict()["read"] == {"file": len(rows)}
    # Nothing is lost or repeated on the way to the chunks.
    chunks = "\n".join(f"{row['title']}\n{row['content']}" for row in split_documents(rows.values(), 300))
    words = {word for file in shown.values() for word in file}
    assert words <= set(re.findall(r"f\d+w\d+z", chunks))


@pytest.mark.promise("sources of documents", "A word of a file is in its document, or the account counts it.")
@pytest.mark.parametrize("suffix", [".md", ".txt", ".html", ".docx", ".xlsx"])
def test_each_word_that_is_not_in_the_document_is_counted(tmp_path, suffix):
    path = tmp_path / f"page{suffix}"
    for seed in range(3):
        writer = Writer(random.Random(seed), "f1")
        content = WRITERS[suffix](writer)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        hidden = [word for word in writer.hidden if not isinstance(content, str) or word in content]
        rows = file_documents(path)
        list(rows)
        words = [left_out.count for left_out in rows.account.left_out if left_out.unit == "word"]
        assert sum(words) == len(hidden), (content, rows.account.left_out)
