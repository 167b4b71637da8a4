"""Documents as a Parquet file, and their load."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.knowledge import (
    COLUMNS,
    documents_of,
    file_documents,
    split_documents,
    write_documents,
)
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator


def rows(count: int):
    return documents_of({"text": f"text {n}", "url": f"https://x/{n}"} for n in range(count))


@pytest.mark.parametrize("count", [0, 1, 2500])
def test_the_file_has_all_rows(tmp_path, count):
    path = tmp_path / "new" / "documents.parquet"
    assert write_documents(rows(count), path) == {"path": str(path), "rows": count, "left_out": 0}
    table = pq.read_table(path)
    assert table.column_names == list(COLUMNS)
    assert table["content"].to_pylist() == [f"text {n}" for n in range(count)]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "documents.parquet"
    write_documents(rows(1), path)
    before = path.read_bytes()

    def broken():
        yield from rows(1500)
        raise RuntimeError("the source is away")

    with pytest.raises(RuntimeError, match="away"):
        write_documents(broken(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["documents.parquet"]


@pytest.mark.promise("sources of documents", "An edit of a page replaces the documents of that passage only.")
def test_an_edited_page_changes_only_its_chunks(tmp_path, connection, service, ran):
    folder = tmp_path / "handbook"
    folder.mkdir()
    page = folder / "office.md"
    page.write_text("# Office\n\n## Hours\n\nFrom 9.\n\n## Parking\n\nBehind the house.\n")
    (folder / "home.md").write_text("# Home\n\nAsk first.\n")
    path = str(tmp_path / "chunks.parquet")

    def load():
        write_documents(split_documents(file_documents(folder)), path)
        done, _ = ran(AssistantLoadTextOperator, source=path, key_columns=["key"], source_name="handbook")
        found = done.xcom()
        return {name: found[name] for name in ("rows", "created", "unchanged", "stale")}

    assert load() == {"rows": 3, "created": 3, "unchanged": 0, "stale": 0}
    assert load() == {"rows": 3, "created": 0, "unchanged": 3, "stale": 0}
    page.write_text("# Office\n\nWelcome.\n\n## Hours\n\nFrom 10.\n\n## Parking\n\nBehind the house.\n")
    assert load() == {"rows": 4, "created": 2, "unchanged": 2, "stale": 1}
    titles = sorted(document["title"] for document in service.documents())
    assert titles == ["Home", "Office", "Office > Hours", "Office > Hours", "Office > Parking"]
