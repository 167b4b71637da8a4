"""Files that must be inside the allowed folder when they are opened, whatever changes at the same moment."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.knowledge import file_documents
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from airflow_provider_assistant.storage.allowed_root import check_inside, open_inside
from tests.task_runs.context import task_context

OUTSIDE = "outside text"


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
        ("s3://bucket/data/a.csv", "s3://conn@bucket/data/", False),
        ("s3://other_conn@bucket/data/a.csv", "s3://conn@bucket/data/", False),
        ("gs://bucket/data/a.csv", "s3://bucket/data/", False),
        ("file:///bucket/data/a.csv", "s3://bucket/data/", False),
        ("s3://bucket/data/a.csv", "/", False),
    ],
)
def test_object_storage_is_compared_by_connection_and_names(path, root, is_inside):
    if is_inside:
        check_inside(ObjectStoragePath(path), root)
        return
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        check_inside(ObjectStoragePath(path), root)


class Swapped:
    """A root with a file that is reached through a link or a folder, each of which is inside or leads outside."""

    def __init__(self, folder: Path, name: str, content: str) -> None:
        self.root, self.outside = folder / "root", folder / "outside"
        for place, text in ((self.root / "real", "inside text"), (self.outside, OUTSIDE)):
            place.mkdir(parents=True)
            (place / name).write_text(content.replace("TEXT", text))
        self.name = name
        # Each name, and what it is inside and outside.
        self.swaps = {
            self.root / f"link-{name}": (self.root / "real" / name, self.outside / name),
            self.root / "linked": (self.root / "real", self.outside),
            self.root / "moved": (None, self.outside),
        }
        self.swap(0)
        self.files = [str(self.root / f"link-{name}"), f"{self.root}/linked/{name}", f"{self.root}/moved/{name}"]

    def swap(self, side: int) -> None:
        for path, targets in self.swaps.items():
            self._replace(path, targets[side])

    def _replace(self, path: Path, target: Path | None) -> None:
        new = path.with_name(f".{path.name}.new")
        if target is not None:
            new.symlink_to(target)
        else:
            new.mkdir()
            os.link(self.root / "real" / self.name, new / self.name)
        if path.is_dir() and not path.is_symlink():
            # A folder is not replaced by a link in one step.
            (path / self.name).unlink()
            path.rmdir()
        elif path.is_symlink() and target is None:
            path.unlink()
        new.replace(path)


@pytest.fixture
def swapped(tmp_path, monkeypatch):
    """Return a function that prepares files, which lead outside after each check of a path, and inside before."""

    def prepared(name, content):
        files = Swapped(tmp_path, name, content)
        resolve = Path.resolve

        def resolved(path):
            if not path.name.endswith(name):
                return resolve(path)
            files.swap(0)
            try:
                return resolve(path)
            finally:
                files.swap(1)

        monkeypatch.setattr(Path, "resolve", resolved)
        return files

    return prepared


READERS = [
    (AssistantLoadQAOperator, "a.csv", "title,question,answer\na,TEXT?,TEXT\n", {}),
    (AssistantLoadTextOperator, "a.jsonl", '{"title": "a", "content": "TEXT"}\n', {}),
    (AssistantUploadFilesOperator, "a.txt", "TEXT", {}),
    (AssistantChatBatchOperator, "a.json", '[{"message": "TEXT"}]', {"timeout": 30, "poll_interval": 0.05}),
]


@pytest.mark.promise("security", "No file outside allowed_root is sent, even if it is swapped after the check.")
@pytest.mark.parametrize(("kind", "name", "content", "options"), READERS, ids=lambda value: getattr(value, "kind", ""))
def test_no_file_from_outside_is_sent(kind, name, content, options, swapped, service, connection, tmp_path):
    files = swapped(name, content)
    if kind is AssistantChatBatchOperator:
        options = options | {"output_path": str(tmp_path / "answers.parquet")}
    argument = "files" if kind is AssistantUploadFilesOperator else "source"
    # The retry of an upload opens the file again.
    connection(retries=3)
    service.answer("retry-after:0", path="documents", times=2)
    loaded = 0
    for number, path in enumerate(files.files):
        files.swap(0)
        operator = kind(task_id=f"t{number}", allowed_root=str(files.root), **{argument: path}, **options)
        with contextlib.suppress(AssistantError):
            operator.execute(task_context(f"t{number}"))
            loaded += 1
    received = str([service.documents(), service.chats()])
    assert OUTSIDE not in received
    # A link to a file or a folder inside is read as it was, but a folder that became a link is not read at all.
    assert loaded == 2
    assert "inside text" in received


def test_no_document_is_from_outside(swapped):
    files = swapped("a.txt", "# TEXT")
    read = []
    for path in files.files:
        files.swap(0)
        with contextlib.suppress(AssistantInputError):
            read += list(file_documents(path, allowed_root=str(files.root)))
    assert [row["content"] for row in read] == ["# inside text"] * 2


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="regular file"):
            open_inside(tmp_path / name, str(tmp_path))
