"""A ledger that fails before or during a load."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.integration.faults.attempts import CONCURRENCY, listed
from tests.integration.faults.setups import FILE_LIMIT

ROWS = range(300)


def with_a_first_load(case):
    """Load some rows, so that the ledger exists."""
    case.run(case.attempt(range(20), run_id="first"))


def test_no_folder(case):
    attempt = case.attempt(ROWS, options={"findings_path": str(case.home.parent / "findings.parquet")})
    case.home.mkdir()
    loader = case.attempt(ROWS, setup="loses_its_home", options=attempt.options)
    ended = case.run_apart(loader)
    assert ended.error.startswith("AssistantLedgerPermanentError")
    assert "Nothing was sent" in ended.error
    assert case.service.count_documents() == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system that is large enough for a small ledger only."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system needs more rights")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def ends_with_what_it_has(case, ended, attempt, measured, ledger=None):
    """The error names the problem; every document at the service is in the ledger or in the findings."""
    assert ended.error, "a load without a ledger does not succeed"
    assert ended.error.startswith("AssistantLedgerError: the ledger cannot be written"), ended.trace
    case.agree(ledger)
    there = set(case.documents())
    done = {row for row, (outcome, _) in case.outcomes(ledger).items() if outcome == "created"}
    unrecorded = there - done
    assert unrecorded <= listed(attempt.findings_path, "ambiguous")
    assert len(unrecorded) <= CONCURRENCY
    measured(error=ended.error, ended_at=len(there), unrecorded=len(unrecorded))
    return unrecorded


def is_completed(case, attempt, unrecorded, measured):
    case.run(attempt)
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert set(audit.duplicated) <= unrecorded
    measured(listed=len(audit.suspected), duplicates=audit.duplicates)


def test_disk_full(small_disk, case, measured):
    attempt = case.attempt(ROWS)
    case.home.mkdir()
    (case.home / "assistant_ledger.db").symlink_to(small_disk / "ledger.db")
    ended = case.run_apart(attempt)
    unrecorded = ends_with_what_it_has(case, ended, attempt, measured)
    case.ledger.unlink()
    for file in small_disk.iterdir():
        shutil.copy(file, case.home / file.name.replace("ledger.db", "assistant_ledger.db"))
    is_completed(case, attempt, unrecorded, measured)


def test_files_may_not_grow(case, measured):
    attempt = case.attempt(ROWS)
    with_a_first_load(case)
    ended = case.run_apart(case.attempt(ROWS, setup="files_may_not_grow"))
    assert case.ledger.stat().st_size < 2 * FILE_LIMIT
    unrecorded = ends_with_what_it_has(case, ended, attempt, measured)
    is_completed(case, attempt, unrecorded, measured)


def test_locked_by_another_process(case, measured):
    attempt = case.attempt(ROWS)
    with_a_first_load(case)
    loader = case.start_and_hold(case.attempt(ROWS, setup="does_not_wait_for_locks"), 100)
    with closing(sqlite3.connect(case.ledger, timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        case.service.faults(rules=[])
        ended = loader.wait()
        other.execute("ROLLBACK")
    unrecorded = ends_with_what_it_has(case, ended, attempt, measured)
    assert "locked" in ended.error
    is_completed(case, attempt, unrecorded, measured)


def test_locked_for_a_while(case, measured):
    attempt = case.attempt(ROWS)
    with_a_first_load(case)
    loader = case.start_and_hold(attempt, 100)
    with closing(sqlite3.connect(case.ledger, timeout=60, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (claimed,) = other.execute("SELECT count(*) FROM assistant_documents").fetchone()
        case.service.faults(rules=[])
        case.wait_for(claimed)
        assert not loader.ends_within(0.3)
        assert case.service.count_documents() == claimed, "nothing is sent without a claim"
        other.execute("ROLLBACK")
    assert loader.wait().result["created"] == len(ROWS) - 20
    audit = case.audit(ROWS, attempt)
    audit.complete()
    assert not audit.duplicates
    measured(duplicates=0)


def test_locked_before_the_load(case):
    with_a_first_load(case)
    with closing(sqlite3.connect(case.ledger, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        ended = case.run_apart(case.attempt(ROWS, setup="does_not_wait_for_locks"))
    assert ended.error.startswith("AssistantLedgerError"), ended.trace
    assert case.service.count_documents() == 20


def test_read_only(case, tmp_path, measured):
    with_a_first_load(case)
    attempt = case.attempt(ROWS)
    ended = case.run_apart(case.attempt(ROWS, setup="opens_its_ledger_read_only"))
    assert ended.error.startswith("AssistantLedgerPermanentError"), ended.trace
    assert "readonly" in ended.error
    assert case.service.count_documents() == 20
    assert case.run(attempt)["created"] == len(ROWS) - 20
    measured(error=ended.error)
