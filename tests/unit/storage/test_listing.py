"""Files of folders and globs: links, names with odd characters, and folders that cannot be read."""

from __future__ import annotations

import errno
import os
import random
import uuid
from pathlib import Path

import fsspec
import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.source_account import SourceAccount
from airflow_provider_assistant.storage.listing import storage_files
from airflow_provider_assistant.storage.opening import open_inside, reading

ODD = ["How do I pay?.md", "a*b.md", "[draft] ü.md", "a b.md", "50%.md", "x#y.md", "[a].md", "!.md", "q?a=b.md"]


def names(source, **options):
    return [name for name, _path in storage_files(source, **options)]


def write(root, *files):
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(file)
    return root


class Stepwise(MemoryFileSystem):
    """A file system that is listed folder by folder, with a folder that cannot be listed."""

    protocol = "stepwise"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://"))

    def ls(self, path, detail=True, **kwargs):
        if path.rstrip("/").endswith("/secret"):
            raise PermissionError(errno.EACCES, "no rights", path)
        return super().ls(path, detail, **kwargs)


class Flat(Stepwise):
    """Object storage that lists everything below a folder at once, with an empty object for each folder."""

    protocol = "flat"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    _find = None

    def find(self, path, *args, **kwargs):
        return [*super().find(path, *args, **kwargs), f"{path}/"]


@pytest.fixture(params=["local", "file://", "stepwise://", "flat://"])
def root(request, tmp_path):
    """A new folder in each kind of storage."""
    if request.param == "local":
        return tmp_path
    if request.param == "file://":
        return ObjectStoragePath(f"file://{tmp_path}")
    kind = {"stepwise://": Stepwise, "flat://": Flat}[request.param]
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    attach(protocol=kind.protocol, fs=kind())
    return ObjectStoragePath(f"{request.param}{uuid.uuid4().hex}")


def test_a_file_whose_name_looks_like_a_glob_is_that_file(root):
    write(root, *ODD, "How do I pay!.md", "axb.md", "d.md")
    for name in ODD:
        ((_, path),) = storage_files(str(root / name), str(root))
        assert path.read_text() == name
    read = storage_files(root)
    assert sorted(name for name, _ in read) == sorted([*ODD, "How do I pay!.md", "axb.md", "d.md"])
    assert all(path.read_text() == name for name, path in read)


GLOBS = {
    "*.md": ["a.md", "b.md", "c[1].md"],
    "[ab].md": ["a.md", "b.md"],
    "[!a].md": ["b.md"],
    "c[[]1].md": ["c[1].md"],
    "*/*.md": ["x/a.md"],
    "x*/**/*.md": ["x/a.md", "x/y/a.md"],
    "**/a.md": ["a.md", "x/a.md", "x/y/a.md"],
    "**/y/*": ["x/y/a.md"],
    "x/**": ["a.md", "y/a.md"],
    "**": ["a.md", "b.md", "c[1].md", "n.csv", "x/a.md", "x/y/a.md"],
    "none/*.md": [],
    "*/none": [],
    "a.md/*": [],
}


def test_globs(root):
    write(root, "a.md", "b.md", "c[1].md", "n.csv", "x/a.md", "x/y/a.md", "_x/a.md", "x/.git/a.md")
    (root / "x" / "nothing").mkdir()
    for pattern, expected in GLOBS.items():
        # The names are below the last folder whose name is no pattern.
        prefix = "x" if pattern == "x/**" else ""
        found = storage_files(root / pattern, allow_empty=True)
        assert [name for name, _ in found] == sorted(expected), pattern
        assert all(str(path) == str(root / prefix / name) for name, path in found), pattern


def test_hidden_files_and_folders_are_counted(root):
    write(root, "a.md", "_SUCCESS", ".part", "x/_b.md", ".git/config", "_index/c.md")
    account = SourceAccount()
    assert names(root, account=account) == ["a.md"]
    assert account.count == 5
    assert not account.unexpected
    reason = {True: "begins with a dot", False: None}
    with_dot = names(root, reason_skipped=lambda name: reason[any(part[:1] == "." for part in name.split("/"))])
    assert with_dot == ["_SUCCESS", "_index/c.md", "a.md", "x/_b.md"]


@pytest.mark.promise("sources of documents", "A folder that cannot be read is an error, not an empty folder.")
def test_a_folder_that_cannot_be_read_is_an_error(root, monkeypatch):
    """Tests run as root, who may read every folder: the refusal is that of the system call."""
    write(root, "a.csv", "deep/secret/b.csv", "deep/c.csv")
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("/secret"):
            raise PermissionError(errno.EACCES, "no rights", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    if str(root).startswith("flat"):
        pytest.skip("such a storage has no folders")
    for source in [root, root / "deep", root / "**/*.csv", root / "*/*/*.csv"]:
        with pytest.raises(AssistantInputError, match=r"cannot be read: .*no rights.*/secret"):
            storage_files(source)
    # These do not need the folder.
    assert names(root / "*.csv") == ["a.csv"]
    assert names(root / "*/*.csv") == ["deep/c.csv"]
    assert names(root / "deep/c.csv") == [str(root / "deep/c.csv")]


@pytest.mark.parametrize("seed", range(3))
def test_every_file_is_listed_once_however_links_lead_to_it(seed, tmp_path):
    rng = random.Random(seed)
    root, outside = tmp_path / "root", tmp_path / "outside"
    folders_of_root = [root / f"{rng.choice('abz')}{number}" for number in range(5)]
    folders_of_root += [folder / "sub" for folder in folders_of_root]
    for folder in [*folders_of_root, outside, outside / "deep"]:
        write(folder, *(f"{number}.md" for number in range(rng.randint(0, 3))), "0.md")
    targets = [root, root.parent, outside, outside / "deep", *folders_of_root]
    for number in range(12):
        target = rng.choice(targets)
        link = rng.choice(folders_of_root) / f"{rng.choice('0z')}link{number}"
        link.symlink_to(target if rng.random() < 0.5 else os.path.relpath(target, link.parent))
    (folders_of_root[0] / "outside link").symlink_to(outside)
    files = storage_files(root)
    real = [os.path.realpath(path) for _name, path in files]
    assert len(set(real)) == len(real)
    written = {str(path) for path in tmp_path.rglob("*.md") if not path.is_symlink()}
    assert set(real) == written - {str(path) for path in tmp_path.glob("*.md")}
    # A file of the folder has its own name, not that of a link.
    own = {name for name, path in files if not Path(os.path.realpath(path)).is_relative_to(outside)}
    assert own >= {str(path.relative_to(root)) for folder in folders_of_root for path in folder.glob("*.md")}
    assert names(f"file://{root}") == [name for name, _ in files]
    with pytest.raises(AssistantInputError, match="not below allowed_root"):
        storage_files(root, str(root))


def test_links_into_hidden_folders(tmp_path):
    """Layouts of git-sync and of volumes of Kubernetes."""
    write(tmp_path, ".worktrees/abc/docs/a.md", "..2026/b.md")
    (tmp_path / "current").symlink_to(Path(".worktrees") / "abc")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "b.md").symlink_to(Path("..data") / "b.md")
    assert names(tmp_path) == ["b.md", "current/docs/a.md"]
    assert names(tmp_path / "current") == ["docs/a.md"]


def test_broken_links_are_listed_and_opening_names_them(tmp_path):
    write(tmp_path, "a.md", "x/b.csv")
    (tmp_path / ".#a.md").symlink_to("user@host.1234")
    (tmp_path / "x" / "gone.csv").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.md")
    assert names(tmp_path / "*.md") == names(tmp_path / "**/*.md") == ["a.md"]
    for source in (tmp_path, tmp_path / "x", tmp_path / "*/*.csv"):
        *_, (_, link) = storage_files(source, str(tmp_path))
        with (
            pytest.raises(AssistantInputError, match=r"x/gone\.csv' cannot be read: it is a link to .*nothing', which"),
            reading(link),
            open_inside(link, str(tmp_path)),
        ):
            pass
