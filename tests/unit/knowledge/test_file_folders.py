"""A generated folder in many formats: each word that is published is in one row, once; no other word is in a row."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import file_documents, split_documents
from tests.unit.parsing.samples import docx, pptx, xlsx


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
        f"# {w()} <!-- {gone()} -->",
        f"## [{w()}](../a/b.md) {{#id}}",
        f"{w()} *{w()}* `{w()} <!-- {w()} -->` ![{w()}](c.png)\n{w()} <!-- {gone()}\n{gone()} -->",
        f"<!--\n# {gone()}\n\n- {gone()}\n-->",
        f"- {w()}\n  - {w()} <!-- {gone()} -->\n\n    {w()}\n1. {w()}",
        f"> {w()}\n> <!-- {gone()}\n> {gone()} --> {w()}",
        f"| {w()} | {w()} |\n|---|---|\n| <!-- {gone()} --> | {w()} |",
        f"```python\n# {w()}\n<!-- {w()} -->\n```",
        f"$$\n# {w()}\n$$",
        f"```npm {w()}``` and {w()} ````",
        f"!!! note\n\n    {w()} <!-- {gone()} -->",
        f"[^1]: {w()} [{w()}]({{{{ site.url }}}}/x)",
        f"[//]: # ({gone()})",
        f"{{% comment %}} {gone()} {{% endcomment %}} {w()} {{# {gone()} #}}",
    ]
    return "\n\n".join([blocks[0], *writer.dice.sample(blocks[1:], 7)])


def mdx(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    blocks = [
        f'<Tabs items={{["{gone()}"]}}>\n  <Tab title="{w()}">\n    - {w()}\n  </Tab>\n</Tabs>',
        f'  <Tab label="{w()}">\n    ```js\n    <A>{w()}</A>\n    ```\n  </Tab>',
        f'<Accordion title="{w()} {w()}?">{w()} <Icon name="{gone()}" /></Accordion>',
        f"<Note>\n{w()} `<B>` {w()}\n</Note>",
        f"{{/* {gone()}\n\n<C title='{gone()}'> */}}",
        f"export const meta = {{\n  a: '{gone()}',\n\n  b: 1\n}}",
        f"<div style={{{{color: '{gone()}'}}}}>\n  {w()}\n</div>",
        f"import a {w()} into {w()}.",
    ]
    chosen = writer.dice.sample(blocks, 5)
    return "\n\n".join([f"import T from '{gone()}'", f"# {w()}", *chosen]) + "\n"


def rst(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    blocks = [
        f".. note:: {w()}\n\n   {w()}",
        f".. unknown-thing:: {w()}\n   :option: x\n\n   {w()} :ref:`{w()} <{gone()}>`",
        f".. code-block:: python\n   :emphasize-lines: 1\n\n   # {w()}",
        f".. toctree::\n\n   {gone()}",
        f".. {gone()}",
        f"- {w()}\n\n  - {w()}",
        f".. list-table:: {w()}\n   :bad-option: 1\n\n   * - {w()}",
        f"{w()} [1]_ |{w()}| :unknown:role:`{w()}`\n\n.. [1] {w()}",
        f"{w()}\n    {w()}",
    ]
    chosen = writer.dice.sample(blocks, 6)
    title = w()
    return "\n\n".join([f"{title}\n{'=' * len(title)}", f":author: {gone()}", *chosen]) + "\n"


def notebook(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    cells = [
        {"cell_type": "markdown", "source": [f"# {w()}\n", f"{w()} <!-- {gone()} -->"]},
        {"cell_type": "code", "source": f"# {w()}\nprint('```')", "outputs": [{"text": [gone()]}]},
        {"cell_type": "code", "source": gone(), "metadata": {"tags": ["remove-cell"]}},
    ]
    return json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4})


def html(writer: Writer) -> str:
    w, gone = writer.word, writer.gone
    return (
        f"<title>a</title><main><h1>{w()}</h1><p>{w()} <!-- {gone()} --><b>{w()}</b></p>"
        f"<ul><li>{w()}</li></ul><pre># {w()}</pre><script>{gone()}</script></main>"
    )


def word_file(writer: Writer) -> bytes:
    def write(document) -> None:
        document.add_heading(writer.word(), 1)
        document.add_paragraph(writer.word()).add_run(writer.gone()).font.hidden = True
        document.add_table(1, 1).cell(0, 0).text = writer.word()

    return docx(write)


WRITERS = {
    ".md": markdown, ".MARKDOWN": markdown, ".txt": markdown, ".mdx": mdx, ".rst": rst, ".ipynb": notebook,
    ".html": html, ".docx": word_file,
    ".pptx": lambda writer: pptx((writer.word(), f"{writer.word()}\n{writer.word()}")),
    ".xlsx": lambda writer: xlsx(Sheet=[[writer.word(), writer.word()], [writer.word()]]),
}  # fmt: skip


@pytest.mark.promise("sources of documents", "Each word of a folder that is published is in one document, once.")
def test_each_word_is_in_its_row_once(tmp_path):
    dice = random.Random(7)
    shown: dict[str, list[str]] = {}
    hidden: list[str] = []
    left_out: Counter[str] = Counter()
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
            left_out["asks not to be indexed"] += 1
            hidden += writer.shown
        else:
            shown[name] = writer.shown
        hidden += writer.hidden
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    documents = file_documents(tmp_path, base_url="https://x.org/", strict=True)
    rows = {row["key"]: row for row in documents}
    assert rows.keys() == shown.keys()
    for name, words in shown.items():
        text = rows[name]["content"]
        assert Counter(re.findall(r"f\d+w\d+z", text)) == Counter(words), (name, text)
    written = json.dumps(list(rows.values()))
    assert not [word for word in hidden if word in written]
    counted = {entry.reason: entry.count for entry in documents.account.left_out if entry.unit == "file"}
    assert counted == left_out
    assert documents.account.as_dict()["read"] == {"file": len(rows)}
    # Nothing is lost or repeated on the way to the chunks.
    chunks = "\n".join(f"{row['title']}\n{row['content']}" for row in split_documents(rows.values(), 300))
    words = {word for file in shown.values() for word in file}
    assert words <= set(re.findall(r"f\d+w\d+z", chunks))


def test_a_file_has_the_same_row_alone_and_in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path.parent)
    for name in ("page?.md", "page1.md", "a[b]*.md"):
        (tmp_path / name).write_text(f"# {name}\n\n[a](b.md)")
    in_folder = {row["key"]: row for row in file_documents(tmp_path, base_url="https://x.org/")}
    assert in_folder.keys() == {"page?.md", "page1.md", "a[b]*.md"}
    for name, row in in_folder.items():
        for source in (tmp_path / name, str(tmp_path / name), f"./{tmp_path.name}/{name}", f"file://{tmp_path}/{name}"):
            assert list(file_documents(source, base_url="https://x.org/")) == [row]


def test_files_with_one_key_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text("text")
    with pytest.raises(AssistantInputError, match=r"a/index.md' and .*b/index.md' have the same key 'index.md'"):
        list(file_documents([tmp_path / "a", tmp_path / "b"]))


BAD = {
    "b.md": (b"\xff", "is not UTF-8"),
    "c.md": (b"---\ntitle: [a\n---\ntext", "not valid YAML"),
    "d.md": (b"+++\na = \n+++\ntext", "not valid TOML"),
    "e.md": (b"---\nexpiryDate: soon\n---\ntext", "not a date"),
    "f.docx": (b"x", "is damaged"),
    "g.html": (b"<meta charset=utf-8><p>\xff", "is not utf-8"),
    "h.ipynb": (b"{}", "is damaged"),
    "i.rst": (b"\xff", "is not UTF-8"),
}


@pytest.mark.promise("sources of documents", "Files that cannot be read are all named.")
def test_files_that_cannot_be_read_are_all_named_or_become_rows_without_key(tmp_path):
    for name in ("a.md", "z.md"):
        (tmp_path / name).write_text("text")
    for name, (content, _) in BAD.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(AssistantInputError) as refused:
        list(file_documents(tmp_path))
    for name, (_, problem) in BAD.items():
        assert re.search(rf"{name}' [^;]*{problem}", str(refused.value))
    documents = file_documents(tmp_path, on_error="skip")
    rows = list(documents)
    assert [row["key"] for row in rows] == ["a.md", *[None] * len(BAD), "z.md"]
    assert [row["parent"] for row in rows if row["key"] is None] == list(BAD)
    (unread,) = documents.account.unexpected
    assert (unread.reason, unread.count) == ("cannot be read", len(BAD))
    with pytest.raises(AssistantInputError, match="on_error must be"):
        file_documents(tmp_path, on_error="ignore")


def test_a_function_names_the_addresses_of_pages_and_links(tmp_path):
    def address_of(key: str) -> str | None:
        if key.startswith("private/"):
            return None
        return key.removesuffix(".md").removesuffix("index")

    (tmp_path / "guide").mkdir()
    (tmp_path / "private").mkdir()
    links = "[a](../faq.md#top) [b](/index.md) [c](c.png) [d](https://w.org/x.md) [e](../private/f.md) [g](#h)"
    (tmp_path / "guide/office.md").write_text(links)
    (tmp_path / "private/f.md").write_text("[a](../faq.md)")
    (tmp_path / "faq.md").write_text("---\nurl: https://y.org/faq\n---\ntext")
    rows = {row["key"]: row for row in file_documents(tmp_path, base_url="https://x.org/docs/", url_of=address_of)}
    assert {key: row["url"] for key, row in rows.items()} == {
        "faq.md": "https://y.org/faq",
        "guide/office.md": "https://x.org/docs/guide/office",
        "private/f.md": None,
    }
    assert rows["guide/office.md"]["content"] == (
        "[a](https://x.org/docs/faq#top) [b](https://x.org/docs/) [c](https://x.org/docs/guide/c.png) "
        "[d](https://w.org/x.md) [e](https://x.org/docs/private/f.md) [g](https://x.org/docs/guide/office#h)"
    )
    assert rows["private/f.md"]["content"] == "[a](../faq.md)"
