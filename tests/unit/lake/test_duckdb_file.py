"""The file of a DuckDB warehouse: locks, other files, and a worker without DuckDB."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import warehouse
from airflow_provider_assistant.lake.warehouse import stores
from tests.unit.lake.nights import FIRST, capture, write_statistics


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "new" / "warehouse.duckdb")


@pytest.fixture
def load(tmp_path, database):
    def loaded(*days, datasets=("statistics",), path=database, **options):
        with warehouse.duckdb_transaction(path, **options) as store:
            return warehouse.load(store, str(tmp_path / "lake"), datasets, days or None)

    return loaded


@pytest.mark.promise("lake and warehouse", "A file that is not a DuckDB database is never overwritten.")
def test_files_that_are_not_a_warehouse_are_left_alone(load, tmp_path):
    load(datasets=())
    whole = (tmp_path / "new" / "warehouse.duckdb").read_bytes()
    contents = {
        "text": b"a,b\n" * 5000,
        "empty": b"",
        "sqlite": b"SQLite format 3\0" + b"\1" * 4000,
        "truncated": whole[: len(whole) // 2],
        "changed": whole[:5000] + b"?" * 9000 + whole[14_000:],
    }
    for name, content in contents.items():
        path = tmp_path / f"{name}.db"
        path.write_bytes(content)
        with pytest.raises(AssistantWarehouseError, match=rf"{name}\.db.*Nothing was changed.*Give the path") as caught:
            load(datasets=(), path=str(path))
        assert "extension" not in str(caught.value)
        assert path.read_bytes() == content
    for path in (tmp_path, "/proc/none/warehouse.duckdb"):
        with pytest.raises(AssistantWarehouseError, match=r"Nothing was changed.*Give the path"):
            load(datasets=(), path=str(path))


HOLDS = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def holder(tmp_path, load, database):
    """Another process that keeps the warehouse open."""
    write_statistics(tmp_path / "lake", FIRST, capture(FIRST, {"a": 1}))
    load(FIRST)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.communicate()


def test_a_lock_is_waited_for(holder, load):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        holder.communicate()

    assert load(FIRST, lock_timeout=60, sleep=sleep).replaced == 1
    assert len(waited) == 1


def test_a_lock_that_stays_is_an_error(holder, load):
    now, naps = 0.0, []

    def sleep(seconds):
        nonlocal now
        now += seconds
        naps.append(seconds)

    with pytest.raises(AssistantWarehouseError, match=r"another process has had it open for 5 s.*Nothing was changed"):
        load(FIRST, lock_timeout=5, sleep=sleep, clock=lambda: now)
    assert len(naps) == 5


def test_without_duckdb_the_error_says_what_to_install(load, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(AssistantInputError, match=r"pip install 'airflow-provider-assistant\[warehouse\]'"):
        load(FIRST)
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs Linux")
def test_a_look_at_a_file_keeps_the_locks_of_this_process_on_it(tmp_path):
    files = {"free": b"SQLite format 3\0 and more", "short": b"SQL", "other": b"DUCK", "empty": b""}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert stores._is_sqlite(tmp_path / name) == (name == "free")
    assert not stores._is_sqlite(tmp_path / "absent")
    path = tmp_path / "other"
    with path.open("rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        assert not stores._is_sqlite(path)
        assert f":{path.stat().st_ino} " in Path("/proc/locks").read_text()
