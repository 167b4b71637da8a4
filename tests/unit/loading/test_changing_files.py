"""A file that changes during its upload, or has the same name as another, does not affect other files."""

from __future__ import annotations

import asyncio
import os

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.file_rows import FileRows, shortest_names
from airflow_provider_assistant.storage.uploads import as_upload
from tests.wire import ScriptedService, client_of

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


def test_a_file_that_shrinks_while_it_is_sent_is_an_input_error(path):
    with upload_of(path).open() as file:
        assert len(file.read(10)) == 10
        os.truncate(path, SIZE // 2)
        with pytest.raises(AssistantInputError, match=r"guide\.txt.*changed from 3000000 to 1500000"):
            file.read()


def test_a_file_that_grows_while_it_is_sent_is_sent_as_it_was(path):
    with upload_of(path).open() as file:
        first = file.read(10)
        with path.open("ab") as opened:
            opened.write(b"more")
        assert first + file.read() == b"x" * SIZE
        assert file.seek(0, os.SEEK_END) == SIZE
        file.seek(SIZE - 2)
        assert file.read() == b"xx"


def test_the_client_raises_what_is_wrong_with_the_file_and_not_with_the_connection(path, monkeypatch):
    upload = upload_of(path)

    async def send(url):
        async with client_of(url) as client:
            await client.asend(endpoints.upload_document("docs", upload))

    with upload.open() as file:
        kind = type(file)
        read = kind.readinto

    def readinto(self, buffer):
        os.truncate(path, SIZE // 2)
        return read(self, buffer)

    monkeypatch.setattr(kind, "readinto", readinto)
    with ScriptedService() as service, pytest.raises(AssistantInputError, match="has changed"):
        asyncio.run(send(service.url))


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
