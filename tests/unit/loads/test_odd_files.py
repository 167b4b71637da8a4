"""Files that vanish, change, cannot be opened or have odd names affect only themselves."""

from __future__ import annotations

import os
import re

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator
from tests.unit.loads.loads import counts, load
from tests.unit.loads.test_odd_sources import STORAGE

DOCUMENTS = "/documents$"


def upload(files, **options):
    return load(files, AssistantUploadFilesOperator, **options)


def rejected(home, run_id="run"):
    table = pq.read_table(home / "assistant_loads" / "dag" / "load" / f"{run_id}.parquet")
    return {row["key"]: row["reason"] for row in table.to_pylist() if row["kind"] == "rejected"}


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}")
    return str(folder)


def titles(service):
    return sorted(document["title"] for document in service.documents())


@pytest.fixture
def stored(request):
    """A folder whose files change after the first one has been read."""
    root = f"changing://{request.node.name.translate(str.maketrans('[]', '--'))}"
    for name in "abcde":
        STORAGE.pipe_file(f"{root}/{name}.txt", f"# {name}".encode())
    yield root
    STORAGE.change = None


CHANGES = {
    "vanishes": (STORAGE.rm, "does not exist|cannot be read"),
    "grows": (lambda file: STORAGE.pipe_file(file, b"# c, and more"), "has changed since"),
    "shrinks": (lambda file: STORAGE.pipe_file(file, b"#"), "has changed since"),
    "is emptied": (lambda file: STORAGE.pipe_file(file, b""), "is empty"),
}


@pytest.mark.parametrize("name", ["a", "c"])
@pytest.mark.parametrize("how", CHANGES)
def test_one_file_that_changes_costs_one_file(how, name, service, connection, stored, ledger_home):
    change, reason = CHANGES[how]
    # One file has been read at that time: the first file changes after its hash was computed, the third before.
    STORAGE.change = lambda: change(f"{stored}/{name}.txt")
    is_read_later = name == "c"
    if is_read_later and how in {"grows", "shrinks"}:
        assert counts(upload(stored)) == {"created": 5}
        return
    with pytest.raises(AssistantInputError, match="5 rows: 4 created, 1 rejected"):
        upload(stored)
    assert service.posts(DOCUMENTS) == 4
    assert list(rejected(ledger_home)) == [f"{name}.txt"]
    assert re.search(reason, rejected(ledger_home)[f"{name}.txt"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(service, connection, tmp_path, ledger_home):
    folder = write(tmp_path / "docs", "a.txt", "b.txt")
    (tmp_path / "docs" / "a.txt").chmod(0)
    assert counts(upload(folder, max_rejected=1)) == {"created": 1, "rejected": 1}


def test_a_link_that_leads_nowhere_and_a_name_that_is_not_utf_8(service, connection, tmp_path, ledger_home):
    folder = write(tmp_path / "docs", "a.txt", "ü 🕘 #1.txt")
    link = tmp_path / "docs" / "gone.txt"
    link.symlink_to(tmp_path / "nowhere.txt")
    assert counts(upload(folder, max_rejected=1)) == {"created": 2, "rejected": 1}
    assert "it is a link to" in rejected(ledger_home)["gone.txt"]
    link.unlink()
    (tmp_path / "docs" / os.fsdecode(b"gr\xfcn.txt")).write_text("# odd")
    assert counts(upload(folder, run_id="odd", max_rejected=1)) == {"unchanged": 2, "rejected": 1}
    ((key, reason),) = rejected(ledger_home, "odd").items()
    assert key == "gr\\udcfcn.txt"
    assert "is not valid UTF-8" in reason
    assert counts(upload(folder, run_id="again", max_rejected=1)) == {"unchanged": 2, "rejected": 1}


def test_names_that_several_folders_have_are_told_apart(service, connection, tmp_path):
    folder = write(tmp_path / "docs", "readme.txt", "a/readme.txt", "a/b/readme.txt", "guide.txt")
    assert counts(upload(folder)) == {"created": 4}
    assert titles(service) == ["a-b-readme.txt", "a-readme.txt", "guide.txt", "readme.txt"]
    (tmp_path / "docs").rename(tmp_path / "moved")
    assert counts(upload(str(tmp_path / "moved"), run_id="moved")) == {"unchanged": 4}


def test_rows_of_a_file_with_a_name_that_is_not_utf_8(service, connection, tmp_path, ledger_home):
    file = tmp_path / os.fsdecode(b"faq-\xff.csv")
    file.write_text("title,question,answer\na,Why?,Yes.\nb,Why?,\n")
    result = load(str(file), key_columns=["title"], max_rejected=1)
    assert counts(result) == {"created": 1, "rejected": 1}
    assert "faq-\\udcff.csv, line 3" in rejected(ledger_home)["b"]
