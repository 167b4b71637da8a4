"""A file that changes during its upload, or has the same name as another, does not affect other files."""

from __future__ import annotations

import os

import pytest
from airflow_provider_assistant.loading.file_rows import FileRows, shortest_names

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.storage.uploads import as_upload

SIZE = 3_000_000


def upload_of(path):
    rows = FileRows(
        [(path.name, path)], upload=as_upload, call=lambda upload: endpoints.upload_document("docs", upload)
    )
    list(rows.fingerprints())
    (row,) = rows.prepared(lambda _: True)
    return row.call.upload


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "guide.txt"
    path.write_bytes(b"x" * SIZE)
    return path


def test_a_file_that_grows_while_it_is_sent_is_sent_as_it_was(path):
    with upload_of(path).open() as file:
        first = file.read(10)
        with path.open("ab") as opened:
            opened.write(b"more")
        assert first + file.read() == b"x" * SIZE
        assert file.seek(0, os.SEEK_END) == SIZE
        file.seek(SIZE - 2)
        assert file.read() == b"xx"


@pytest.mark.parametrize(
    ("names", "sent_as"),
    [
        (["a/b.txt", "c/b.txt"], ["a-b.txt", "c-b.txt"]),
        (["b.txt", "a/b.txt"], ["b.txt", "a-b.txt"]),
        (["a/b.txt", "c/b.txt", "a-b.txt"], ["a-b-*.txt", "c-b.txt", "a-b.txt"]),
        (["a/b", "c/b", "a-b"], ["a-b-*", "c-b", "a-b"]),
        (["x/a/b-c", "y/a/b-c", "x/a-b/c", "z/c"], ["x-a-b-c-*", "y-a-b-c", "x-a-b-c-*", "z-c"]),
    ],
)
def test_the_service_sees_a_name_of_its_own_for_every_file(names, sent_as):
    found = shortest_names(names)
    assert len(set(found.values())) == len(names)
    for name, pattern in zip(names, sent_as, strict=True):
        start, _, end = pattern.partition("*")
        assert found[name].startswith(start), found
        assert found[name].endswith(end), found
