"""Rebuild a lost ledger: find the document of each row in the list of the site, and record it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.ledger import (
    Claim,
    ClaimOutcome,
    DocumentGroup,
    DocumentScope,
    ScopeLedger,
)
from airflow_provider_assistant.ledger.site_queries import site_entries
from airflow_provider_assistant.loading.preflight import LoadPlan, RowAction, plan_load
from airflow_provider_assistant.loading.rows import PreparedRow, Rows
from airflow_provider_assistant.loading.site_match import (
    Match,
    RowIndex,
    one_to_one,
    texts_of_call,
    texts_of_document,
)
from airflow_provider_assistant.texts import counted, storable

# Entries that are read and written at a time.
GROUP = 200


@dataclass(frozen=True, slots=True)
class UnmatchedRow:
    """
    A row without a document.

    :param number: Number of the row in the source, from 1.
    :param key: Key as readable text.
    """

    number: int
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnmatchedDocument:
    """A document without a row, which the ledger does not know either."""

    document_id: str
    title: str | None


@dataclass(slots=True)
class Rebuild:
    """
    The result of a rebuild.

    ``rows = matched + duplicates + unmatched rows``, and
    ``documents = matched + in_ledger + unmatched documents``.

    :param matched: Rows with exactly one document, which fits no other row.
    :param by_title: Number of these whose content could not be compared, because the list does not
        show it.
    :param recorded: Number of these that the ledger did not have yet.
    :param duplicates: Rows that repeat another row.
    :param documents: Number of documents that the list shows.
    :param in_ledger: Number of these that the ledger knows already, from other sources or as
        superseded.
    """

    rows: int = 0
    matched: int = 0
    by_title: int = 0
    recorded: int = 0
    duplicates: int = 0
    documents: int = 0
    in_ledger: int = 0
    unmatched_rows: list[UnmatchedRow] = field(default_factory=list)
    unmatched_documents: list[UnmatchedDocument] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Planned:
    """An entry to write."""

    key: str
    label: str
    content_hash: str
    group: DocumentGroup | None
    document_id: str
    status: str | None


def rebuild(
    rows: Rows,
    ledger: ScopeLedger,
    scope: DocumentScope,
    documents: Iterable[SiteDocument],
    *,
    dry_run: bool = False,
) -> Rebuild:
    """
    Record the rows of a source as created whose documents are on the site.

    :param ledger: The ledger of the scope, for the source.
    :param documents: The list of the site.
    :param dry_run: Whether to match only, without changes.
    :raises AssistantInputError: The source cannot be loaded, or the ledger has other entries of it.
    """
    plan = plan_load(rows, None)
    result = Rebuild(rows=plan.rows, duplicates=plan.count(RowAction.DUPLICATE))
    index, problems = _indexed(rows, plan)
    matches = _matches(index, documents, _other_ids(ledger, scope), result)
    certain = {match.row: match for match in one_to_one(matches)}
    result.matched = len(certain)
    result.by_title = sum(match.how == "title" for match in certain.values())
    planned: list[_Planned] = []
    reasons = _Reasons(matches, problems)
    for row in rows.prepared(plan.to_send):
        match = certain.get(row.number)
        if match is None:
            unmatched_row = UnmatchedRow(row.number, row.readable_key, reasons.of(row))
            result.unmatched_rows.append(unmatched_row)
        else:
            planned.append(_planned(row, match))
    matched_ids = {match.document_id for match in certain.values()}
    documents_of_source = result.unmatched_documents
    result.unmatched_documents = [
        document for document in documents_of_source if document.document_id not in matched_ids
    ]
    new_entries = _new_entries(ledger, planned)
    result.recorded = len(new_entries)
    if not dry_run:
        _write(ledger, new_entries)
    return result


def _indexed(rows: Rows, plan: LoadPlan) -> tuple[RowIndex[int], dict[int, str]]:
    """Return the rows by their texts, and why a row is bad, both by its number."""
    index = RowIndex[int]()
    problems: dict[int, str] = {}
    for row in rows.prepared(plan.to_send):
        if row.call is None:
            problems[row.number] = row.problem or ""
        else:
            index.add(row.number, texts_of_call(row.call))
    return index, problems


def _other_ids(ledger: ScopeLedger, scope: DocumentScope) -> set[str]:
    """Return the ids that the ledger has from other sources, or as superseded."""
    other_ids: set[str] = set()
    own = (scope.endpoint, scope.namespace, ledger.source)
    for entry in site_entries(ledger.engine, scope.site):
        other_ids.update(entry.superseded_ids)
        is_own = (entry.endpoint, entry.namespace, entry.source) == own
        if entry.document_id is not None and not is_own:
            other_ids.add(entry.document_id)
    return other_ids


def _matches(
    index: RowIndex[int], documents: Iterable[SiteDocument], other_ids: set[str], result: Rebuild
) -> list[Match[int]]:
    """Return the documents that fit rows, and count all. All are unmatched at first."""
    matches: list[Match[int]] = []
    listed_ids: set[str] = set()
    for document in documents:
        if document.document_id in listed_ids:
            # A page repeats a document if the list has changed.
            continue
        listed_ids.add(document.document_id)
        if storable(document.document_id) in other_ids:
            result.in_ledger += 1
            continue
        result.unmatched_documents.append(UnmatchedDocument(document.document_id, document.title))
        for number, how in index.fits(texts_of_document(document)).items():
            matches.append(Match(number, document.document_id, how, status=document.status))
    result.documents = len(listed_ids)
    return matches


class _Reasons:
    """Say why a row has no document."""

    def __init__(self, matches: Sequence[Match[int]], problems: dict[int, str]) -> None:
        self._problems = problems
        self._documents_by_row = Counter(match.row for match in matches)

    def of(self, row: PreparedRow) -> str:
        """Return why a row has no document."""
        if row.number in self._problems:
            return self._problems[row.number]
        documents = self._documents_by_row[row.number]
        if documents == 0:
            return "no document fits"
        if documents == 1:
            return "its document fits other rows, too"
        return f"{counted(documents, 'document')} fit"


def _planned(row: PreparedRow, match: Match[int]) -> _Planned:
    return _Planned(
        key=row.fingerprint.key,
        label=row.readable_key,
        content_hash=row.fingerprint.content_hash,
        group=row.fingerprint.group,
        document_id=match.document_id,
        status=match.status,
    )


def _new_entries(ledger: ScopeLedger, planned: Sequence[_Planned]) -> list[_Planned]:
    """
    Return the entries that the ledger does not have yet.

    :raises AssistantInputError: The ledger has other entries of these keys or of this source.
    """
    new_entries: list[_Planned] = []
    conflicts: list[str] = []
    for start in range(0, len(planned), GROUP):
        group = planned[start : start + GROUP]
        entries = ledger.entries([one.key for one in group])
        for one in group:
            entry = entries.get(one.key)
            if entry is None:
                new_entries.append(one)
                continue
            recorded: tuple[Any, ...] = (
                entry.state,
                entry.source,
                entry.content_hash,
                entry.created_id,
            )
            if recorded != ("created", ledger.source, one.content_hash, storable(one.document_id)):
                conflicts.append(one.label)
    same = len(planned) - len(new_entries) - len(conflicts)
    others = ledger.size() - same
    if conflicts or others > 0:
        examples = ", ".join(conflicts[:5])
        listed = f", such as {examples}" if examples else ""
        raise AssistantInputError(
            f"the ledger already has entries of source {ledger.source!r} that differ from the site{listed}",
            safe=NOTHING_CHANGED,
            todo="A rebuild is for a source that the ledger has lost. Run the load instead, or "
            "check --source-name and --namespace.",
            field="source_name",
        )
    return new_entries


def _write(ledger: ScopeLedger, entries: Sequence[_Planned]) -> None:
    for start in range(0, len(entries), GROUP):
        outcomes = []
        for one in entries[start : start + GROUP]:
            claim = Claim(key=one.key, label=one.label, entry=None, group=one.group)
            outcome = ClaimOutcome(
                claim=claim,
                outcome="created",
                content_hash=one.content_hash,
                created_id=one.document_id,
                attempts=0,
                status=one.status,
            )
            outcomes.append(outcome)
        ledger.commit_and_claim(outcomes, ())
