"""Files are created for their owner alone, unless the umask was set to share them."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.questions import Questions
from airflow_provider_assistant.asking.state import Answer, BatchState
from airflow_provider_assistant.lake import duckdb
from airflow_provider_assistant.lake.files import write
from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from airflow_provider_assistant.storage import private
from airflow_provider_assistant.storage.private import create_private, make_folder, open_to_write
from airflow_provider_assistant.storage.write import replace_bytes

# By umask, the modes of files and folders.
MODES = {
    0o022: (0o600, 0o700),
    0o077: (0o600, 0o700),
    0o002: (0o664, 0o775),
    0o007: (0o660, 0o770),
    0o027: (0o640, 0o750),
    0o026: (0o640, 0o751),
    0o037: (0o640, 0o740),
}


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def write_each_kind(root: Path, mask: int) -> None:
    """Write a file of each kind, each in a folder of its own."""
    table = pa.table({"a": [1]})
    write(table, str(root / "lake"), "feedback", date(2026, 1, 2), ("part",), {})
    replace_bytes(b"page", ObjectStoragePath((root / "evaluations" / "report.html").as_uri()))
    with FindingsFile(root / "findings" / "found" / "file.parquet") as findings:
        findings.add(Finding("rejected", "key", "reason"))
    record = BatchState(str(root / "answers" / ".state"))
    record.write_questions(Questions([], pa.table({})))
    record.add([Answer("question", "lost")])
    # The folder of a warehouse is the user's.
    make_folder(root / "warehouse")
    duckdb.load(str(root / "warehouse" / "file.duckdb"), "assistant", str(root / "lake"), {})
    folder = root / "ledger"
    make_folder(folder)
    with Ledger(sqlite_engine(folder / "ledger.db"), warn_if_new=False) as ledger, ledger.engine.connect():
        # While the database is open, its log exists beside it.
        assert len(list(folder.iterdir())) > 1
        check_modes(folder, mask)


def check_modes(root: Path, mask: int) -> None:
    file_mode, folder_mode = MODES[mask]
    for path in [root, *root.rglob("*")]:
        expected = folder_mode if path.is_dir() else file_mode
        assert path.stat().st_mode & 0o777 == expected, (oct(mask), path)


@pytest.mark.promise("security", "Files are created for their owner alone, unless the umask shares them.")
def test_modes_follow_the_umask(umask, tmp_path):
    for mask in (0o022, 0o007, 0o027):
        umask(mask)
        root = tmp_path / oct(mask)
        write_each_kind(root, mask)
        check_modes(root, mask)
        assert os.umask(mask) == mask


def test_a_system_that_does_not_show_its_umask(umask, tmp_path, monkeypatch):
    monkeypatch.setattr(private, "STATUS", tmp_path / "none")
    for mask, (mode, _) in MODES.items():
        umask(mask)
        create_private(tmp_path / f"{mask}")
        assert (tmp_path / f"{mask}").stat().st_mode & 0o777 == mode
        assert os.umask(mask) == mask


def test_an_existing_folder_keeps_its_mode(umask, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    make_folder(folder / "own")
    with open_to_write(folder / "own" / "file") as file:
        file.write(b"1")
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "own" / "file").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        make_folder(folder / "own" / "file")
