"""Files that must be inside the allowed folder, whatever changes at the same moment, and storages that fail."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import fsspec
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import (
    check_folder,
    check_inside,
    object_storage_path,
    open_inside,
    writable_file,
)
from airflow_provider_assistant.tables import Columns, read_rows
from tests.task_runs.context import task_context

OUTSIDE = "outside text"


@pytest.fixture
def folders(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "root-and-more"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "a.md").write_text("a")
    (root / "sub" / "b.md").write_text("b")
    (outside / "secret.md").write_text("secret")
    return root, outside


def linked(link, target):
    link.symlink_to(target)
    return link


def test_what_lies_inside_is_found(folders, tmp_path, monkeypatch):
    root, outside = folders
    linked(root / "c.md", root / "a.md")
    linked(root / "d.md", Path("sub") / "b.md")
    alias = linked(tmp_path / "alias", root)
    monkeypatch.chdir(root)
    for allowed_root in (str(root), f"file://{root}", str(alias), "."):
        for source in (str(root), f"{root}/**/*.md", f"file://{root}", str(alias), f"{root}/sub/../*.md", "*.md"):
            assert len(storage_files(source, allowed_root)) >= 3
        with pytest.raises(AssistantInputError, match="not below allowed_root"):
            storage_files(str(outside), allowed_root)
    for none in (root / "missing", root / "a.md"):
        with pytest.raises(AssistantInputError, match="not a folder"):
            storage_files(str(root), str(none))


def escapes(root, outside):
    """Return sources outside the root, one for each way to leave it."""
    yield str(outside / "secret.md")
    yield [str(root / "a.md"), str(outside / "secret.md")]
    yield str(root / ".." / outside.name / "secret.md")
    yield f"{root}/../{outside.name}/*.md"
    yield str(linked(root / "link.md", outside / "secret.md"))
    yield str(linked(root / "relative.md", Path("..") / outside.name / "secret.md"))
    yield str(linked(root / "chain.md", root / "link.md"))
    yield str(linked(root / "folder", outside) / "secret.md")
    yield f"{root}/folder/*.md"
    yield f"file://{root}/link.md"
    yield str(root)


def test_what_leads_outside_is_refused(folders):
    root, outside = folders
    for source in escapes(root, outside):
        assert storage_files(source)
        with pytest.raises(AssistantInputError, match="not below allowed_root") as caught:
            storage_files(source, str(root))
        assert caught.value.field == "allowed_root"
        assert outside.name in str(caught.value)


@pytest.mark.parametrize(
    ("path", "root", "is_inside"),
    [
        ("s3://bucket/data/a.csv", "s3://bucket/data/", True),
        ("s3://conn@bucket/data/deep/a.csv", "s3://conn@bucket/data", True),
        ("s3://conn@bucket/a.csv", "s3://conn@bucket", True),
        ("s3://bucket/database/a.csv", "s3://bucket/data/", False),
        ("s3://bucket/data/../secret/a.csv", "s3://bucket/data/", False),
        ("s3://bucket/data/%2e%2E/secret/a.csv", "s3://bucket/data/", False),
        ("s3://other/data/a.csv", "s3://bucket/data/", False),
        ("s3://conn@bucket/data/a.csv", "s3://bucket/data/", False),
        ("s3://other_conn@bucket/data/a.csv", "s3://conn@bucket/data/", False),
        ("gs://bucket/data/a.csv", "s3://bucket/data/", False),
        ("file:///bucket/data/a.csv", "s3://bucket/data/", False),
        ("s3://bucket/data/a.csv", "/", False),
    ],
)
def test_object_storage_is_compared_by_connection_and_names(path, root, is_inside):
    with contextlib.nullcontext() if is_inside else pytest.raises(AssistantInputError, match="not below allowed_root"):
        check_inside(ObjectStoragePath(path), root)


READERS = [
    (AssistantLoadTextOperator, "source", "a.jsonl", '{"title": "a", "content": "TEXT"}\n', {}),
    (AssistantUploadFilesOperator, "files", "a.txt", "TEXT", {}),
    (AssistantChatBatchOperator, "source", "a.json", '[{"message": "TEXT"}]', {"timeout": 30, "poll_interval": 0.05}),
]


@pytest.mark.promise("security", "No file outside allowed_root is sent, even if it is swapped after the check.")
@pytest.mark.parametrize(
    ("kind", "argument", "name", "content", "options"), READERS, ids=["rows", "files", "questions"]
)
@pytest.mark.parametrize("way", ["file", "folder"])
def test_no_file_from_outside_is_sent(
    kind, argument, name, content, options, way, service, connection, tmp_path, monkeypatch
):
    """A link leads inside while its path is checked, and outside after that."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for place, text in ((root / "real", "inside text"), (outside, OUTSIDE)):
        place.mkdir(parents=True)
        (place / name).write_text(content.replace("TEXT", text))
    link = root / "link" if way == "folder" else root / f"link-{name}"
    target = [root / "real", outside] if way == "folder" else [root / "real" / name, outside / name]
    resolve = Path.resolve

    def swap(side):
        link.unlink(missing_ok=True)
        link.symlink_to(target[side])

    def resolved(path):
        swap(0)
        try:
            return resolve(path)
        finally:
            swap(1)

    swap(0)
    monkeypatch.setattr(Path, "resolve", resolved)
    if kind is AssistantChatBatchOperator:
        options = options | {"output_path": str(tmp_path / "answers.parquet")}
    # The retry of an upload opens the file again.
    connection(retries=3)
    service.answer("retry-after:0", path="documents", times=2)
    path = link / name if way == "folder" else link
    operator = kind(task_id="t", allowed_root=str(root), **{argument: str(path)}, **options)
    with pytest.raises(AssistantError, match=r"allowed_root|1 rejected"):
        operator.execute(task_context("t"))
    assert OUTSIDE not in str([service.documents(), service.chats()])


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="regular file"):
            open_inside(tmp_path / name, str(tmp_path))


class NoCredentialsError(Exception):
    """As of the client of an object storage."""


class FailingFileSystem(MemoryFileSystem):
    """A storage that fails when files are listed, or when they are opened."""

    protocol = ("failing",)
    error = None

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("failing://", "memory://"))

    def info(self, path, **options):
        if self.error and "list" in path:
            raise self.error
        return super().info(path, **options)

    def _open(self, path, mode="rb", **options):
        if self.error and "r" in mode:
            raise self.error
        return super()._open(path, mode, **options)


STORAGE = FailingFileSystem()
fsspec.register_implementation("failing", FailingFileSystem)
attach("failing", fs=STORAGE)


@pytest.mark.parametrize("path", ["failing://list/faq.csv", "failing://open/faq.csv", "failing://open/faq.jsonl.gz"])
@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (PermissionError("Access Denied"), False),
        (ValueError("not a bucket"), False),
        (NoCredentialsError("Unable to locate credentials"), True),
        (TimeoutError("read timed out"), True),
        (ConnectionResetError(104, "reset"), True),
        (OSError(5, "SlowDown"), True),
    ],
)
def test_a_storage_that_fails_is_named_with_what_a_retry_can_do(error, retryable, path):
    STORAGE.error = None
    STORAGE.pipe_file(path, b"title\n")
    STORAGE.error = error
    with pytest.raises(Exception, match=r"faq.*' cannot be read: ") as caught:
        list(read_rows(path, Columns(("title",))))
    assert caught.value.retryable == retryable


@pytest.mark.parametrize("path", ["a.txt", "b/c.txt", "./d.txt", "b/../e.txt", "ä/ö ü.txt"])
def test_a_relative_path_is_below_the_working_directory(path, tmp_path, monkeypatch):
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path)
    file = object_storage_path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(path)
    assert (tmp_path / path).read_text() == path
    assert object_storage_path(str(tmp_path / path)).read_text() == path


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path):
    (tmp_path / "file").write_text("")
    linked(tmp_path / "broken", tmp_path / "nothing")
    check_folder(None, "lake_path")
    check_folder(str(tmp_path / "new" / "folder"), "lake_path")
    assert writable_file(tmp_path / "new" / "a", "output_path") == tmp_path / "new" / "a"
    for path in ("file/a", "broken/a"):
        with pytest.raises(AssistantInputError, match="output_path: no folder can be at"):
            writable_file(tmp_path / path, "output_path")
    with pytest.raises(AssistantInputError, match="is a folder; it must be the path of a file"):
        writable_file(tmp_path, "output_path")
