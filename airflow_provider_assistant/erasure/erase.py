"""Find and erase the data of a person in all places, and record that it was done."""

from __future__ import annotations

import getpass
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_assistant.erasure.databases import erase_from_ledger, erase_from_postgres
from airflow_provider_assistant.erasure.files import FOREIGN, FileEraser
from airflow_provider_assistant.erasure.person import Person
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantError, AssistantInputError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.storage.private import create_private, make_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog

# Readings of all places: each may find sessions that name further requests.
PASSES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """
    Where to look.

    :param ledger: The ledger.
    :param roots: Folders and files: local paths or object storage URLs.
    :param warehouse: Returns an engine of the PostgreSQL warehouse. None if there is none.
    :param schema: Schema of the warehouse, and namespace of the Iceberg tables.
    :param catalog: Iceberg catalog. None if there is none.
    """

    ledger: Ledger
    roots: Sequence[str] = ()
    warehouse: Callable[[], sa.Engine] | None = None
    schema: str = "assistant"
    catalog: Catalog | None = None


@dataclass(slots=True)
class Report:
    """
    What was found or erased.

    :param sessions: Sessions of the person, which the service still has.
    :param requests: Number of their requests.
    :param counts: Numbers by place, such as ``{"ledger": {"entries": 3}}``.
    :param not_reached: Reason by path or place that could not be read or changed.
    :param waiting: Folders of chat batches that still wait for an answer to the person.
    """

    sessions: Sequence[str] = ()
    requests: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    not_reached: dict[str, str] = field(default_factory=dict)
    waiting: Sequence[str] = ()

    @property
    def total(self) -> int:
        """Number of rows, entries, texts and files in all places."""
        return sum(count.total() for count in self.counts.values())


class Erasure:
    """
    Find or erase the data of a person.

    :param person: Learns from the places.
    """

    def __init__(self, person: Person, places: Places) -> None:
        self._person = person
        self._places = places
        self._files = FileEraser(person)

    def find(self) -> Report:
        """
        Count what would be erased.

        :raises AssistantInputError: A path does not exist, or a task is sending a request of the person right now.
        """
        for _ in range(PASSES):
            known = self._person.size + self._files.size
            report = self._run(dry_run=True)
            if self._person.size + self._files.size == known:
                break
        return report

    def erase(self, *, force: bool = False) -> tuple[Report, Report]:
        """
        Erase what :meth:`find` has found.

        :param force: Whether to erase the state of a chat batch that still waits for an answer. It may write the answer
            later.
        :return: What was erased, and what is there afterwards, because a task wrote it meanwhile.
        :raises AssistantInputError: A chat batch still waits for an answer to the person.
        """
        if self._files.waiting and not force:
            raise AssistantInputError(
                f"a chat batch may still wait for answers to this person: {', '.join(sorted(self._files.waiting))}",
                safe=NOTHING_CHANGED,
                todo="Wait until its task has ended. If no task waits any more, use --force.",
            )
        return self._run(dry_run=False), self._run(dry_run=True)

    def _run(self, *, dry_run: bool) -> Report:
        places, person = self._places, self._person
        report = Report()
        self._files.not_reached.clear()
        self._files.waiting.clear()
        # The ledger is first: an export that runs meanwhile reads it, and would write the rows again.
        report.counts["ledger"] = erase_from_ledger(places.ledger, person, dry_run=dry_run)
        for root in places.roots:
            report.counts[root] = self._files.run(root, dry_run=dry_run)
        report.not_reached |= self._files.not_reached
        if places.warehouse is not None:
            engine = places.warehouse()
            try:
                counts, foreign_tables = erase_from_postgres(engine, places.schema, person, dry_run=dry_run)
            except AssistantInputError:
                raise
            except AssistantError as error:
                report.not_reached["warehouse"] = str(error)
            else:
                report.counts["warehouse"] = counts
                for table in foreign_tables:
                    report.not_reached[f"warehouse: {table}"] = FOREIGN
        if places.catalog is not None:
            try:
                report.counts["iceberg"] = self._iceberg(places.catalog, dry_run=dry_run)
            except AssistantError as error:
                report.not_reached["iceberg"] = str(error)
        report.sessions = sorted(person.sessions)
        report.requests = len(person.requests)
        report.waiting = sorted(self._files.waiting)
        return report

    def _iceberg(self, catalog: Catalog, *, dry_run: bool) -> Counter[str]:
        import pyarrow.compute as pc

        from airflow_provider_assistant.lake.iceberg import delete_rows

        def without_person(_dataset: str, table: pa.Table) -> tuple[pa.Table, int]:
            is_erased = self._person.learn(table)
            return table.filter(pc.invert(is_erased)), pc.sum(is_erased).as_py() or 0

        counts = delete_rows(catalog, self._places.schema, without_person, dry_run=dry_run)
        return +Counter({"rows": sum(counts.values())})


def record(file: Path, person: Mapping[str, Sequence[str]], report: Report | None) -> None:
    """
    Append a line about an erasure to a file, without the data.

    :param person: What was given, by option. The line has a short salted hash of each: it confirms that a known address
        was erased, but matches one of four billion others as well.
    :param report: What was erased; None if the erasure was refused or ended early.
    """
    salt = secrets.token_bytes(8)
    hashes = {}
    for option, values in person.items():
        hashes[option] = [hashlib.blake2b(value.encode(), digest_size=4, salt=salt).hexdigest() for value in values]
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
    return {
        "sessions": list(report.sessions),
        "requests": report.requests,
        "counts": {place: dict(counts) for place, counts in report.counts.items()},
        "not_reached": report.not_reached,
    }
