"""Check which files can be uploaded, and how they are opened."""

from __future__ import annotations

import io
import os
from pathlib import Path, PurePosixPath

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.opening import storage_path
from airflow_provider_assistant.storage.uploads import as_upload


def content(upload):
    with upload.open() as file:
        return file.read()


@pytest.fixture
def guide(tmp_path):
    path = tmp_path / "guide.md"
    path.write_bytes(b"# Guide")
    return path


@pytest.mark.parametrize(
    "spelling",
    [
        str,
        Path,
        PurePosixPath,
        lambda path: f"file://{path}",
        lambda path: ObjectStoragePath(f"file://{path}"),
    ],
    ids=["str", "Path", "PurePath", "URL", "ObjectStoragePath"],
)
def test_paths(spelling, guide):
    upload = as_upload(spelling(guide))
    assert (upload.filename, upload.content_type, upload.rewindable) == ("guide.md", "text/markdown", True)
    assert content(upload) == content(upload) == b"# Guide"


def test_object_storage():
    attach("memory", fs=MemoryFileSystem())
    path = ObjectStoragePath("memory://guides/remote.txt")
    with path.open("wb") as file:
        file.write(b"far away")
    upload = as_upload("memory://guides/remote.txt")
    assert (upload.filename, upload.content_type) == ("remote.txt", "text/plain")
    assert content(upload) == b"far away"


def test_name_and_type_may_be_given(guide):
    upload = as_upload(guide, "named.html", "text/x-own")
    assert (upload.filename, upload.content_type) == ("named.html", "text/x-own")


@pytest.mark.parametrize(("name", "kind"), [("a.csv", "text/csv"), ("a.unheard", "application/octet-stream")])
def test_the_type_is_guessed_from_the_name(name, kind, guide):
    assert as_upload(guide, name).content_type == kind


def test_an_open_file_is_sent_from_its_beginning_and_left_open(guide):
    with guide.open("rb") as file:
        file.read(2)
        upload = as_upload(file)
        assert upload.filename == "guide.md"
        assert content(upload) == content(upload) == b"# Guide"
        assert not file.closed


def test_a_stream_that_cannot_go_back_is_sent_once():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    upload = as_upload(Pipe(b"flow"), "flow.txt")
    assert not upload.rewindable
    assert content(upload) == b"flow"


def undecodable(folder):
    path = folder / os.fsdecode(b"gr\xfcn.md")
    path.write_bytes(b"# Guide")
    return path


@pytest.mark.parametrize(
    ("make", "field", "part"),
    [
        (lambda folder: folder / "missing.md", "file", "missing.md"),
        (lambda folder: folder, "file", "not a file"),
        (lambda folder: folder / "empty.md", "file", "empty"),
        (lambda folder: "", "file", "empty"),
        (lambda folder: 3, "file", "int"),
        (lambda folder: b"bytes", "file", "bytes"),
        (lambda folder: io.StringIO("text"), "file", "binary"),
        (lambda folder: io.BytesIO(b"nameless"), "filename", "filename"),
        (undecodable, "filename", "not valid UTF-8"),
    ],
)
def test_refused(make, field, part, tmp_path):
    (tmp_path / "empty.md").touch()
    with pytest.raises(AssistantInputError, match=part) as caught:
        as_upload(make(tmp_path))
    assert caught.value.field == field


def test_nothing_is_read_before_it_is_sent(guide, monkeypatch):
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("opened"))
    as_upload(guide)


@pytest.mark.parametrize("path", [" ", None, 3, ["a"]])
def test_no_path(path):
    with pytest.raises(AssistantInputError):
        storage_path(path)
