"""Find and erase the rows of a person in the ledger, in Parquet files and in the warehouse, and record it."""

from __future__ import annotations

import getpass
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from airflow_provider_assistant.erasure.person import DOCUMENTS, REQUEST, SESSION, Person
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantError, AssistantInputError
from airflow_provider_assistant.lake.datasets import DATASETS, dataset_of
from airflow_provider_assistant.lake.files import is_own
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.clock import Clock
from airflow_provider_assistant.ledger.database import ledger_errors, transaction
from airflow_provider_assistant.ledger.schema import DOCUMENT_KINDS, attempts, findings
from airflow_provider_assistant.storage.opening import StoragePath, object_storage_path, reading, usable_path
from airflow_provider_assistant.storage.private import create_private, make_folder
from airflow_provider_assistant.storage.write import replace

# Readings of all places: each may find sessions that name further requests.
PASSES = 10
# What replaces the readable key of a document, whose entry stays as long as the document exists.
ERASED = "(erased)"
# Files of an evaluation, and the end of the name of the state of a chat batch that has not ended.
SCORES, SUMMARY, STATE = "scores.parquet", "summary.json", ".chat-batch"
_c = attempts.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """
    Where to look.

    :param ledger: The ledger.
    :param roots: Folders of the datasets, of answers, findings and evaluations: local paths or object storage URLs.
    :param warehouse: Engine of the PostgreSQL warehouse. None if there is none.
    :param schema: Schema of the warehouse.
    """

    ledger: Ledger
    roots: Sequence[str] = ()
    warehouse: sa.Engine | None = None
    schema: str = "assistant"


@dataclass(slots=True)
class Report:
    """
    What was found or erased.

    :param counts: Numbers by place, such as ``{"ledger": {"entries": 3}}``.
    :param not_reached: Reason by path that could not be read or changed.
    """

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    not_reached: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of rows, entries and files in all places."""
        return sum(count.total() for count in self.counts.values())


def find(person: Person, places: Places) -> Report:
    """
    Count what would be erased. The person learns from what is found.

    :raises AssistantInputError: A path does not exist, or a task is sending a request of the person right now.
    """
    for _ in range(PASSES):
        known = person.size
        report = _run(person, places, dry_run=True)
        if person.size == known:
            break
    return report


def erase(person: Person, places: Places) -> tuple[Report, Report]:
    """
    Erase what :func:`find` has found.

    :return: What was erased, and what is there afterwards, because a task wrote it meanwhile.
    """
    return _run(person, places, dry_run=False), _run(person, places, dry_run=True)


def _run(person: Person, places: Places, *, dry_run: bool) -> Report:
    report = Report()
    # The ledger is first: an export that runs meanwhile reads it, and would write the rows again.
    report.counts["ledger"] = _erase_from_ledger(places.ledger, person, dry_run=dry_run)
    for root in places.roots:
        report.counts[root] = _erase_from_files(root, person, report.not_reached, dry_run=dry_run)
    if places.warehouse is not None:
        rows = _erase_from_warehouse(places.warehouse, places.schema, person, dry_run=dry_run)
        report.counts["warehouse"] = +Counter({"rows": rows})
    return report


# -- ledger ----------------------------------------------------------------------------------------


def _erase_from_ledger(ledger: Ledger, person: Person, *, dry_run: bool) -> Counter[str]:
    """Delete a person's chat requests, ratings and findings, and the person's name as the key of a document."""

    def change(connection: sa.Connection) -> Counter[str]:
        counts = Counter(entries=_erase_entries(connection, ledger.clock, person, dry_run=dry_run))
        label_columns = ("label", "group_name")
        is_document = _c.kind.in_(DOCUMENT_KINDS) & person.condition(attempts, label_columns, request="")
        erased_label = {"label": ERASED, "group_name": None, "error": None}
        counts["documents"] = _count(connection, is_document)
        is_finding = person.condition(findings, ("key",), request="key") | _names_request(connection, person)
        counts["findings"] = _count(connection, is_finding)
        if not dry_run:
            connection.execute(sa.update(attempts).where(is_document).values(erased_label))
            connection.execute(sa.delete(findings).where(is_finding))
        return +counts

    counts = transaction(ledger.engine, change, writes=not dry_run)
    if ledger.engine.dialect.name == "sqlite" and not dry_run:
        # Rewrite the file without the bytes of deleted entries, and empty its log.
        with ledger_errors(ledger.engine, "cannot be rewritten"), ledger.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return counts


def _erase_entries(connection: sa.Connection, clock: Clock, person: Person, *, dry_run: bool) -> int:
    """Delete a person's chat requests and ratings, learn their ids, and return their number."""
    is_person = person.condition(attempts, ("session_id", "label"), request="remote_id")
    is_entry = _c.kind.not_in(DOCUMENT_KINDS) & is_person
    is_alive = sa.func.coalesce(clock.is_alive(clock.read(connection)), sa.false())
    query = sa.select(_c.session_id.label(SESSION), _c.remote_id.label(REQUEST), is_alive.label("is_alive"))
    entries = connection.execute(query.where(is_entry)).mappings().all()
    if any(entry["is_alive"] for entry in entries):
        raise AssistantInputError(
            "a task is sending a request of this person right now",
            safe=NOTHING_CHANGED,
            todo="Wait until it has ended.",
        )
    person.learn(dict(entry) for entry in entries)
    if not dry_run:
        connection.execute(sa.delete(attempts).where(is_entry))
    return len(entries)


def _names_request(connection: sa.Connection, person: Person) -> sa.ColumnElement[bool]:
    """Return the condition for the findings that name a request of a person."""
    elements = sa.func.json_each if connection.dialect.name == "sqlite" else sa.func.json_array_elements_text
    ids = elements(findings.c[DOCUMENTS]).table_valued("value")
    return sa.exists().where(ids.c.value.in_(person.requests))


def _count(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> int:
    return connection.scalar(sa.select(sa.func.count()).where(condition)) or 0


# -- files -----------------------------------------------------------------------------------------


def _erase_from_files(root: str, person: Person, not_reached: dict[str, str], *, dry_run: bool) -> Counter[str]:
    """Erase rows from the Parquet files of this package, and the evaluations of the person's answers."""
    counts: Counter[str] = Counter()
    for path in _files(root):
        try:
            with reading(path):
                _erase_from_file(path, person, counts, dry_run=dry_run)
        except AssistantError as error:
            not_reached[str(path)] = str(error)
    return +counts


def _files(root: str) -> Iterator[StoragePath]:
    folder = usable_path(root)
    if folder.is_file():
        return iter([folder])
    if not folder.is_dir():
        raise AssistantInputError(f"{root!r} does not exist", safe=NOTHING_CHANGED, field="path")
    return iter(sorted(folder.rglob("*.parquet"), key=str))


def _erase_from_file(path: StoragePath, person: Person, counts: Counter[str], *, dry_run: bool) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    is_evaluation = path.name == SCORES and (path.parent / SUMMARY).is_file()
    with path.open("rb") as file:
        parquet = pq.ParquetFile(file)
        if not is_evaluation and not is_own(parquet.schema_arrow):
            # Of another program.
            return
        table = parquet.read()
    dataset = DATASETS.get(path.parent.parent.name) if path.parent.name.startswith("date=") else None
    mask = person.mask(table, dataset.personal() if dataset else table.column_names)
    rows = pc.sum(mask).as_py() or 0
    if not rows:
        return
    ids = [name for name in (SESSION, REQUEST) if name in table.column_names]
    person.learn(table.select(ids).filter(mask).to_pylist())
    if path.parent.name.endswith(STATE):
        raise AssistantInputError(
            "a chat batch may still wait for answers to this person",
            safe=NOTHING_CHANGED,
            todo="Wait until its task has ended. If no task waits any more, delete the folder.",
        )
    if is_evaluation:
        # Its report and its figures have texts of the person as well.
        files = [file for file in path.parent.iterdir() if file.is_file()]
        counts["files"] += len(files)
        for file in () if dry_run else files:
            file.unlink()
        return
    counts["rows"] += rows
    if not dry_run:
        replace(table.filter(pc.invert(mask)), object_storage_path(str(path)))


# -- warehouse -------------------------------------------------------------------------------------


def _erase_from_warehouse(engine: sa.Engine, schema: str, person: Person, *, dry_run: bool) -> int:
    """Delete the rows of the tables of the datasets. Return their number."""
    rows = 0
    try:
        with engine.begin() as connection:
            there = set(sa.inspect(connection).get_table_names(schema))
            # Those of other routes are known from what was loaded.
            query = sa.select(sa.column("dataset", sa.Text)).select_from(sa.table("partitions", schema=schema))
            loaded = set(connection.scalars(query.distinct())) if "partitions" in there else set()
            for name in sorted(there & {*DATASETS, *loaded}):
                dataset = dataset_of(name)
                texts = [field.name for field in dataset.schema() if str(field.type) == "string"]
                personal = dataset.personal() if name in DATASETS else texts
                if not personal:
                    continue
                names = {*personal, *({SESSION, REQUEST} & dataset.columns.keys())}
                table = sa.table(name, *map(sa.column, sorted(names)), schema=schema)
                is_person = person.condition(table, personal)
                ids = [table.c[name] for name in (SESSION, REQUEST) if name in table.c]
                found = connection.execute(sa.select(sa.literal(1), *ids).where(is_person)).mappings().all()
                person.learn(dict(row) for row in found)
                rows += len(found)
                if not dry_run:
                    connection.execute(sa.delete(table).where(is_person))
    finally:
        engine.dispose()
    return rows


def record(file: Path, person: Mapping[str, Sequence[str]], report: Report | None) -> None:
    """
    Append a line about an erasure to a file, without the data.

    :param person: What was given, by option. The line has a short salted hash of each: it confirms that a known address
        was erased, but matches one of four billion others as well.
    :param report: What was erased; None if the erasure ended early.
    """
    salt = secrets.token_bytes(8)
    hashes = {
        option: [hashlib.blake2b(value.encode(), digest_size=4, salt=salt).hexdigest() for value in values]
        for option, values in person.items()
    }
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "by": getpass.getuser(),
        "salt": salt.hex(),
        "hashes": hashes,
        "counts": as_json(report)["counts"] if report else None,
        "not_reached": len(report.not_reached) if report else None,
    }
    make_folder(file.parent)
    create_private(file)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{json.dumps(line)}\n")


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON types."""
    counts = {place: dict(found) for place, found in report.counts.items()}
    return {"counts": counts, "not_reached": report.not_reached}
