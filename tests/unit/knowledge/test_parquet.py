"""Documents as a Parquet file."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import COLUMNS, documents_of, write_documents


def rows(count: int):
    return documents_of({"text": f"text {n}", "url": f"https://x/{n}"} for n in range(count))


@pytest.mark.parametrize("count", [0, 1, 2500])
def test_the_file_has_all_rows(tmp_path, count):
    path = tmp_path / "new" / "documents.parquet"
    assert write_documents(rows(count), path) == {"path": str(path), "rows": count, "left_out": 0}
    table = pq.read_table(path)
    assert table.column_names == list(COLUMNS)
    assert table["content"].to_pylist() == [f"text {n}" for n in range(count)]


def test_further_columns_are_kept(tmp_path):
    path = tmp_path / "documents.parquet"
    given = [{**row, "language": "de", "pages": number, "notes": None} for number, row in enumerate(rows(1500))]
    write_documents(given, path)
    assert pq.read_table(path).to_pylist() == given


@pytest.mark.parametrize("later", [{"language": 7}, {"other": "x"}])
def test_a_column_that_only_later_rows_have_is_refused(tmp_path, later):
    given = [{**row, "language": "de"} for row in rows(1100)]
    given[1050].update(later)
    with pytest.raises(AssistantInputError, match="rows 1001 to 1100 do not have the columns of the rows before"):
        write_documents(given, tmp_path / "documents.parquet")
    assert not list(tmp_path.iterdir())


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
