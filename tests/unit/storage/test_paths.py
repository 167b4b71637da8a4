"""Files that must be inside the allowed folder."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.cli.runner import exit_code
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import object_storage_path
from airflow_provider_assistant.storage.source_files import storage_files
from airflow_provider_assistant.tables import Columns, read_rows

TITLE = Columns(("title",))


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


def test_what_lies_inside_is_found(folders):
    root, _ = folders
    linked(root / "c.md", root / "a.md")
    linked(root / "d.md", Path("sub") / "b.md")
    for source in (
        str(root),
        f"{root}/**/*.md",
        [str(root / "a.md")],
        f"file://{root}",
        str(root / "sub" / ".." / "a.md"),
    ):
        assert storage_files(source, str(root))
    assert len(storage_files(str(root), f"file://{root}")) == 4


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


@pytest.mark.parametrize("number", range(11))
def test_what_leads_outside_is_refused(folders, number):
    root, outside = folders
    source = list(escapes(root, outside))[number]
    assert storage_files(source)
    with pytest.raises(AssistantInputError, match="not below allowed_root") as caught:
        storage_files(source, str(root))
    assert caught.value.field == "allowed_root"
    assert outside.name in str(caught.value)


def test_a_root_that_is_a_link_is_the_folder_it_leads_to(folders, tmp_path):
    root, outside = folders
    alias = linked(tmp_path / "alias", root)
    assert len(storage_files(str(root), str(alias))) == len(storage_files(str(alias), str(root))) == 2
    with pytest.raises(AssistantInputError):
        storage_files(str(outside), str(alias))


def test_a_root_that_is_relative(folders, monkeypatch):
    root, outside = folders
    monkeypatch.chdir(root)
    assert len(storage_files("*.md", ".")) == 1
    with pytest.raises(AssistantInputError):
        storage_files(str(outside), ".")


def test_a_root_that_is_none_is_refused(folders):
    root, _ = folders
    for none in (root / "missing", root / "a.md"):
        with pytest.raises(AssistantInputError, match="not a folder"):
            storage_files(str(root), str(none))


def test_rows_of_a_file_that_leads_elsewhere_by_the_second_look(folders):
    root, outside = folders
    for folder in (root, outside):
        (folder / "rows.csv").write_text("title\nx\n")
    links = [linked(root / f"{name}.csv", root / "rows.csv") for name in "ab"]
    parts = read_rows(links, TITLE, allowed_root=str(root))
    assert next(parts).columns == {"title": ["x"]}
    links[1].unlink()
    linked(links[1], outside / "rows.csv")
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        next(parts)


class NoCredentialsError(Exception):
    """As of the client of an object storage."""


class EndpointConnectionError(Exception):
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
    ("error", "code"),
    [
        (NoCredentialsError("Unable to locate credentials"), 2),
        (PermissionError("Access Denied"), 2),
        (EndpointConnectionError("Could not connect"), 4),
        (TimeoutError("read timed out"), 4),
        (ConnectionResetError(104, "reset"), 4),
        (OSError(5, "SlowDown"), 4),
    ],
)
def test_a_storage_that_fails_is_named_with_what_a_retry_can_do(error, code, path):
    STORAGE.error = None
    STORAGE.pipe_file(path, b"title\n")
    STORAGE.error = error
    with pytest.raises(Exception, match=r"faq.*' cannot be read: ") as caught:
        list(read_rows(path, TITLE))
    assert exit_code(caught.value) == code


@pytest.mark.parametrize("path", ["a.txt", "b/c.txt", "./d.txt", "b/../e.txt", "ä/ö ü.txt"])
def test_a_relative_path_is_below_the_working_directory(path, tmp_path, monkeypatch):
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path)
    file = object_storage_path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(path)
    assert (tmp_path / path).read_text() == path
    assert object_storage_path(str(tmp_path / path)).read_text() == path
