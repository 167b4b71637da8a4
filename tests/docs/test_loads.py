"""Check the pages on loads: second runs, changed rows, shards and the ledger."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_assistant.ledger import SCHEMA_VERSION, Ledger, leases, sqlite_engine
from airflow_provider_assistant.ledger.queries import page_of_ambiguous
from airflow_provider_assistant.ledger.resolution import resolve
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.loading import engine, file_readers, report
from airflow_provider_assistant.provider_info import get_provider_info
from tests.docs.conftest import FAQ, write_csv
from tests.docs.pages import ROOT, blocks_of, codes, prose, section, table
from tests.docs.test_code_blocks import dags_of, documents_sent, in_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow.sdk import DAG

    from tests.conftest import RunningService
    from tests.task_runs.run import Run

INCREMENTAL, FILES = "docs/load/incremental-loads.md", "docs/load/load-files-of-rows.md"
LEDGER, PACE = "docs/internals/ledger.md", "docs/internals/rate-limiting.md"
pytestmark = pytest.mark.usefixtures("files")


def dag_on(page: str, name: str, folder: Path) -> DAG:
    (block,) = [block for block in blocks_of(ROOT / page) if f"def {name}(" in block.code]
    (dag,) = dags_of(in_folder(block, folder))
    return dag


NIGHTS = [
    lambda rows: rows,
    lambda rows: rows,
    lambda rows: [
        {**rows[0], "answer": "Within three working days."},
        *rows[1:],
        {**rows[0], "id": 20, "headline": "Gifts", "question": "Do you wrap gifts?"},
    ],
    lambda rows: [row for row in rows if row["id"] != 18],
]


def test_four_nights(
    connect: Callable[..., None],
    run_dag: Callable[..., Run],
    service: RunningService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import duckdb

    connect()
    dag = dag_on(INCREMENTAL, "load_faq_nightly", tmp_path)
    rows: list[dict[str, Any]] = FAQ
    text = (ROOT / INCREMENTAL).read_text()
    said = table(text[text.index("\n| Night ") :])
    assert len(said) == len(NIGHTS)
    for night, change in zip(said, NIGHTS, strict=True):
        rows = change(rows)
        write_csv(tmp_path / "faq.csv", rows)
        before = documents_sent(service)
        run = run_dag(dag)
        assert run.state == "success"
        counts = run.xcom("load")
        columns = [name for name in night if name in counts]
        assert len(columns) == 6
        assert {name: str(counts[name]) for name in columns} == {name: night[name] for name in columns}, night
        assert documents_sent(service) - before == counts["requests"]
        # A person must delete the superseded and the stale documents.
        assert run.xcom("what_is_left_to_do") == counts["changed"] + counts["stale"]

    monkeypatch.chdir(tmp_path)
    (query,) = [block.code for block in blocks_of(ROOT / INCREMENTAL) if block.language == "sql"]
    left = duckdb.sql(query).fetchall()
    ids = {document["title"]: document["id"] for document in service.documents()[:3]}
    assert sorted(left) == [("stale", "18", ids["Shipping"]), ("superseded", "17", ids["Refunds"])]


def test_shards_share_a_ledger_and_a_whole_load_judges_them(
    connect: Callable[..., None], run_dag: Callable[..., Run], service: RunningService, tmp_path: Path
) -> None:
    from airflow.sdk import DAG

    from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator

    connect()
    run = run_dag(dag_on(FILES, "load_faq_shards", tmp_path))
    counts = [run.xcom("load", map_index=index) for index in range(3)]
    assert [(one["created"], one["stale"]) for one in counts] == [(2, None)] * 3
    (tmp_path / "parquet" / "2.parquet").unlink()
    assert "`load_faq_shards.load`" in (ROOT / FILES).read_text()
    with DAG("whole", schedule=None) as dag:
        AssistantLoadQAOperator(
            task_id="load",
            source=str(tmp_path / "parquet"),
            columns={"title": "headline"},
            constants={"category": "faq"},
            key_columns=["id"],
            source_name="load_faq_shards.load",
        )
    counts = run_dag(dag).xcom("load")
    assert (counts["created"], counts["unchanged"], counts["stale"]) == (0, 4, 2)
    assert documents_sent(service) == 6


def test_kinds_of_files() -> None:
    text = (ROOT / FILES).read_text()
    said = [codes(row["Name ends in"]) for row in table(text[text.index("\n| Name ends in") :])]
    assert [suffix for row in said for suffix in row] == list(file_readers.SUFFIXES)
    assert all(len({file_readers.SUFFIXES[suffix] for suffix in row}) == 1 for row in said)
    compressed = re.search(r"may be compressed \((.*?)\)", text)
    assert compressed
    assert {f".{name.rsplit('.', 1)[1]}" for name in codes(compressed[1])} <= set(file_readers.COMPRESSED)


# -- the ledger ------------------------------------------------------------------------------------


def queries(page: str) -> list[str]:
    return [block.code for block in blocks_of(ROOT / page) if block.language == "sql"]


def test_queries_on_the_ledger(
    connect: Callable[..., None],
    run_dag: Callable[..., Run],
    service: RunningService,
    ledger_home: Path,
    tmp_path: Path,
) -> None:
    connect()
    on_site, in_doubt = [query for query in queries(LEDGER) if "assistant_documents" in query]
    (loads,) = [query for query in queries(LEDGER) if "assistant_loads" in query]
    (leased,) = [query for query in queries(LEDGER) if "assistant_leases" in query]
    dag = dag_on(INCREMENTAL, "load_faq_nightly", tmp_path)
    run_dag(dag)
    path = ledger_home / "assistant_ledger.db"
    with closing(sqlite3.connect(path)) as ledger, ledger:
        found = ledger.execute(on_site).fetchall()
        assert [(row[0], row[1]) for row in found] == [("load_faq_nightly.load", key) for key in ("17", "18", "19")]
        assert {row[2] for row in found} == {document["id"] for document in service.documents()}
        assert ledger.execute(in_doubt).fetchall() == []
        assert ledger.execute(loads).fetchall() == ledger.execute(leased).fetchall() == []
        ledger.execute("UPDATE assistant_loads SET outcome = NULL, ended_at = NULL")
        assert [row[2] for row in ledger.execute(loads)] == ["load_faq_nightly"]
        ledger.execute("UPDATE assistant_documents SET outcome = 'ambiguous', content_hash = NULL WHERE label = '17'")
        assert [row[:2] for row in ledger.execute(in_doubt)] == [("load_faq_nightly.load", "17")]
    with Ledger(sqlite_engine(path)) as opened:
        (entry,) = opened.read(page_of_ambiguous, opened.leases, Selection(), ALL).rows
        resolve(opened, entry, "failed")
    counts = run_dag(dag).xcom("load")
    assert (counts["created"], counts["unchanged"], counts["possibly_duplicated"]) == (1, 2, 0)


@pytest.mark.parametrize("choice", ["retry", "skip", "fail"])
def test_rows_in_doubt(
    choice: str, connect: Callable[..., None], run_operator: Callable[..., Run], service: RunningService
) -> None:
    """The service stores the second row and answers 502."""
    from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator

    rows = {codes(row["`on_ambiguous`"])[0]: row for row in table(section(LEDGER, "Retry, skip or fail"))}
    assert list(rows) == ["retry", "skip", "fail"]
    connect()
    service.answer("store-then-status:502", path="documents/text", skip=1, times=1)
    source = [{"title": f"T{number}", "content": "C", "category": "faq"} for number in range(3)]
    arguments = {"source": source, "on_ambiguous": choice, "max_concurrency": 1}
    run = run_operator(AssistantLoadTextOperator, retries=1, **arguments)
    stored = len(service.documents())
    if choice == "retry":
        assert (run.state, run.tries(), stored) == ("success", 2, 4)
        assert run.xcom()["possibly_duplicated"] == 1
        assert codes(rows[choice]["You may get"]) == ["possibly_duplicated"]
    elif choice == "skip":
        assert (run.state, run.tries(), stored) == ("success", 1, 3)
        assert run.xcom()["ambiguous"] == 1
        assert codes(rows[choice]["You may get"]) == ["ambiguous"]
        assert run_operator(AssistantLoadTextOperator, **arguments).xcom()["ambiguous"] == 1
        assert len(service.documents()) == 3
    else:
        assert (run.state, stored) == ("failed", 2)


def words(page: str) -> str:
    return " ".join(prose(ROOT / page).split())


def test_numbers_in_the_text() -> None:
    ledger, pace = words(LEDGER), words(PACE)
    assert "writes no heartbeat for 60 seconds" in ledger
    assert leases.DEFAULT_SECONDS == 60
    assert "writes a heartbeat every 15 seconds" in ledger
    assert leases.DEFAULT_SECONDS / leases.BEATS == 15
    assert f"from {leases.SHORTEST:g} to {leases.LONGEST:g}," in words("docs/reference/configuration.md")
    assert f"from {leases.SHORTEST:g} to {leases.LONGEST:g}," in str(get_provider_info()["config"])
    assert "expires after 60 seconds" in words("docs/operate/command-line.md")
    assert "within 60 seconds of a kill" in words("docs/internals/faults.md")
    assert "gives what is in flight two seconds" in ledger
    assert engine.GRACE == 2
    assert "a line every ten seconds" in pace
    assert report.PROGRESS == 10
    assert "first twenty in the log" in words("docs/load/load-dataframe.md")
    assert report.LOGGED == 20
    assert f"The schema has a version, now {SCHEMA_VERSION}." in words("docs/reference/configuration.md")


def test_tables_of_the_ledger_are_named() -> None:
    schema = importlib.import_module("airflow_provider_assistant.ledger.schema")
    said = set(re.findall(r"`(assistant_\w+)`", prose(ROOT / "docs/reference/configuration.md")))
    assert set(schema.metadata.tables) <= said


# -- why a load fails ------------------------------------------------------------------------------

TEXTS = [{"title": f"T{number}", "content": "C", "category": "faq"} for number in range(4)]
# Key: beginning of the table row. Value: fault from the third request on, arguments, number of documents.
ENDS: dict[str, tuple[str | None, dict[str, Any], int]] = {
    "The source cannot be loaded": (None, {"source": [{"title": "T"}]}, 0),
    "More rejected rows": (None, {"source": [{**TEXTS[0], "content": " "}, *TEXTS[1:]]}, 3),
    "Rows failed": ("status:503", {"source": TEXTS}, 2),
    "401, 403, 404 or 405": ("status:403", {"source": TEXTS}, 2),
    "The service answers nothing": (
        "status:503",
        {"source": [{**TEXTS[0], "title": f"T{number}"} for number in range(40)]},
        2,
    ),
    "A gateway or proxy": ("html:404", {"source": TEXTS}, 2),
    "The service asks for a pause": ("retry-after:600", {"source": TEXTS}, 2),
    'A row is ambiguous and `on_ambiguous="fail"`': ("status:502", {"source": TEXTS, "on_ambiguous": "fail"}, 2),
    'A row has changed and `on_change="fail"`': (
        None,
        {"source": [{**TEXTS[0], "content": "D"}], "key_columns": "title", "on_change": "fail"},
        1,
    ),
    "The ledger cannot be used": (None, {"source": TEXTS}, 0),
}


@pytest.mark.parametrize(
    "row", table(section("docs/reference/errors.md", "Why a load fails")), ids=lambda row: row["What happened"][:30]
)
def test_why_a_load_fails(
    row: dict[str, str],
    connect: Callable[..., None],
    run_operator: Callable[..., Run],
    service: RunningService,
    ledger_home: Path,
) -> None:
    from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator

    ((name, (fault, arguments, stored)),) = [end for end in ENDS.items() if row["What happened"].startswith(end[0])]
    connect()
    arguments = {"max_concurrency": 1, **arguments}
    if "has changed" in name:
        run_operator(AssistantLoadTextOperator, source=TEXTS[:1], key_columns="title")
    if "ledger" in name:
        (ledger_home / "assistant_ledger.db").write_text("This is no database, but long enough to be looked at." * 99)
    if fault:
        service.answer(fault, path="documents/text", skip=2, times=None)
    run = run_operator(AssistantLoadTextOperator, retries=1, **arguments)
    assert run.state == "failed"
    assert len(service.documents()) == stored
    assert type(run.error).__name__ in codes(row["Exception"]), run.error
    assert row["Airflow retries"] == ("yes" if run.tries() == 2 else "no")


def test_which_file_is_which(
    connect: Callable[..., None], run_operator: Callable[..., Run], service: RunningService, tmp_path: Path
) -> None:
    from airflow_provider_assistant.exceptions import AssistantInputError
    from airflow_provider_assistant.operators.documents import AssistantUploadFilesOperator

    def upload(files: Any) -> Run:
        return run_operator(AssistantUploadFilesOperator, files=files, source_name="handbook")

    connect()
    old, new = tmp_path / "handbook", tmp_path / "moved"
    (old / "faq").mkdir()
    (old / "faq" / "gifts.md").write_text("We wrap gifts.")
    assert upload(str(old)).xcom()["created"] == 3
    old.rename(new)
    assert upload(f"{new}/**/*.md").xcom()["unchanged"] == 3, "the folder may move, and be a glob"
    (new / "refunds.md").rename(new / "money.md")
    counts = upload(str(new)).xcom()
    assert (counts["created"], counts["stale"]) == (1, 1), "a renamed file is another"
    assert upload([str(new / "money.md")]).xcom()["created"] == 1, "a single path is known by the whole of it"

    other = tmp_path / "other"
    other.mkdir()
    (other / "money.md").write_text("Something else.")
    before = documents_sent(service)
    run = upload([str(new), str(other)])
    assert isinstance(run.error, AssistantInputError)
    assert documents_sent(service) == before
    (new / "empty.md").touch()
    (new / "new.md").write_text("New.")
    run = upload(str(new))
    assert isinstance(run.error, AssistantInputError)
    assert documents_sent(service) == before + 1, "all others are uploaded"


def test_when_a_row_has_changed(
    connect: Callable[..., None], run_operator: Callable[..., Run], service: RunningService, tmp_path: Path
) -> None:
    from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator

    said = [codes(row["`on_change`"])[0] for row in table(section(INCREMENTAL, "When a row has changed"))]
    assert said == ["create", "replace", "skip", "fail"]
    connect(manage_documents=True)
    changed = [{**TEXTS[0], "content": "Changed"}, TEXTS[1], {**TEXTS[2], "title": "New"}]

    def load(source: list[dict[str, str]], **arguments: Any) -> Run:
        return run_operator(
            AssistantLoadTextOperator, source=source, key_columns=["title"], source_name="faq", **arguments
        )

    load(TEXTS[:2])
    run = load(changed, on_change="fail", max_concurrency=1)
    assert (run.state, len(service.documents())) == ("failed", 2)
    for _ in range(2):
        counts = load(changed, on_change="skip").xcom()
        assert (counts["skipped"], len(service.documents())) == (1, 3), "every night"
    counts = load(changed).xcom()
    assert (counts["created"], counts["changed"], len(service.documents())) == (1, 1, 4)
    counts = load([{**changed[0], "content": "Changed again"}, *changed[1:]], on_change="replace").xcom()
    # Both older documents of the row are deleted.
    assert (counts["created"], counts["deleted"], len(service.documents())) == (1, 2, 3)


def test_a_key_of_another_type_is_the_same_key(connect: Callable[..., None], run_operator: Callable[..., Run]) -> None:
    from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator

    connect()
    for key, created in ((7, 1), (7.0, 0), ("7", 0), (" 7.0 ", 0), ("007", 1)):
        run = run_operator(AssistantLoadTextOperator, source=[{**TEXTS[0], "id": key}], key_columns="id")
        assert run.xcom()["created"] == created
