"""Folders that are loaded on several nights: what the service stores, and what a second night changes."""

from __future__ import annotations

import random
import re
from collections import Counter

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.knowledge import file_documents, split_documents, write_documents
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from tests.markdown_pages import Pages
from tests.traps import knowledge_traps


@pytest.fixture
def loaded(tmp_path, connection, ran):
    """A function that reads and loads a folder like the DAG of the docs, and returns the result of the load."""
    path = str(tmp_path / "chunks.parquet")

    def load(folder, on_error="fail", **options):
        pages = file_documents(folder, base_url="https://x.example/", on_error=on_error)
        write_documents(split_documents(pages, 500, cite="Source: {url}"), path)
        operator = {"source": path, "key_columns": ["key"], "group_columns": ["parent"], "source_name": "handbook"}
        done, _ = ran(AssistantLoadTextOperator, **operator, **options)
        return done.xcom()

    return load


def test_every_word_is_stored_once_and_a_second_night_changes_nothing(tmp_path, loaded, service):
    traps = knowledge_traps()
    folder = tmp_path / "traps"
    traps.write(folder)
    first = loaded(folder)
    assert (first["rejected"], first["failed"]) == (0, 0)
    stored = Counter()
    for document in service.documents():
        stored.update(re.findall(r"(?:keep|drop)\w+", f"{document['title']} {document['content']}"))
    lost = [word for word in traps.kept if not stored[word]]
    leaked = [word for word in traps.dropped if stored[word]]
    assert (lost, leaked) == ([], [])
    # Lines end in spaces and another kind of line break: the content is the same.
    page = folder / "comments.md"
    page.write_bytes(page.read_bytes().replace(b"\n", b"  \r\n"))
    second = loaded(folder)
    assert (second["created"], second["unchanged"], second["stale"]) == (0, first["rows"], 0)


@pytest.mark.promise("sources of documents", "Night after night, only chunks whose text or title changed are created.")
def test_only_what_was_edited_is_created_again(tmp_path, loaded, service):
    folder = tmp_path / "handbook"
    folder.mkdir()
    pages = Pages(random.Random(5))
    texts = {f"page-{number}.md": pages.page(8) for number in range(3)}

    def write(change=lambda text: text):
        for name, text in texts.items():
            (folder / name).write_bytes(change(text).encode())

    write()
    first = loaded(folder)
    shown = "".join(document["title"] + document["content"] for document in service.documents())
    assert set(re.findall(r"u\d+u", "".join(texts.values()))) <= set(re.findall(r"u\d+u", shown))
    write(lambda text: text.replace("\n", "  \r\n") + "\r\n\r\n")
    second = loaded(folder)
    assert (second["created"], second["unchanged"], second["stale"]) == (0, first["rows"], 0)
    texts["page-1.md"] += "\n\n## A new passage\n\nWith a new text.\n"
    write()
    third = loaded(folder)
    assert (third["created"], third["unchanged"], third["stale"]) == (1, first["rows"], 0)
    texts["page-1.md"] = texts["page-1.md"].replace("a new text", "another text")
    write()
    fourth = loaded(folder)
    assert (fourth["created"], fourth["unchanged"], fourth["stale"]) == (1, first["rows"], 1)


@pytest.mark.promise("sources of documents", "Files that were left out are counted and named in the findings.")
def test_the_load_reports_what_could_hide_lost_content(tmp_path, loaded, service):
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "page.md").write_text("# Page\n\nText.\n")
    (folder / "draft.md").write_text("---\ndraft: true\n---\nText.\n")
    (folder / "contract.doc").write_bytes(b"an old format")
    findings = str(tmp_path / "findings.parquet")
    result = loaded(folder, findings_path=findings)
    assert (result["created"], result["left_out"]) == (1, 2)
    (finding,) = pq.read_table(findings).to_pylist()
    assert (finding["kind"], finding["key"]) == ("left_out", "contract.doc")
    assert ".doc" in finding["reason"]


@pytest.mark.promise("sources of documents", "The documents of a page that cannot be read tonight stay.")
def test_the_documents_of_a_page_that_cannot_be_read_stay(tmp_path, loaded, service):
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(f"# {name}\n\n## One\n\nText.\n\n## Two\n\nText.\n")
    assert loaded(tmp_path)["created"] == 6
    (tmp_path / "a.md").write_text("# a.md\n\n## One\n\nText.\n\n## Two\n\nNew.\n")
    (tmp_path / "b.md").write_bytes(b"\xff")
    second = loaded(tmp_path, on_error="skip", missing_in="groups", max_rejected=1)
    assert (second["created"], second["unchanged"], second["rejected"]) == (1, 3, 1)
    # That of the old section of the first page.
    assert second["stale"] == 1
