"""
The report of a load: the rows and documents that a person should look at, as the ledger knows them.

What a run did is a query of its attempts. So the report of a retry also has what an earlier, killed try did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_provider_assistant.api.document_state import DEFAULT_WORDS, DocumentWords, needs_attention
from airflow_provider_assistant.ledger import Filter, Ledger, Outcome, ScopeLedger, Which, queries
from airflow_provider_assistant.ledger.attempts import CHUNK
from airflow_provider_assistant.loading.findings import Finding, Findings, Kind
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.plan import CHANGES, Plan
from airflow_provider_assistant.tables import Note
from airflow_provider_assistant.texts import counted

# Lists of the ledger, and the kind of their findings.
_KINDS: Mapping[Which, Kind] = {
    "rejected": "rejected",
    "failed": "failed",
    "unresolved": "ambiguous",
    "doubled": "possibly_duplicated",
    "draft": "draft",
    "superseded": "superseded",
}
_REASONS: Mapping[Which, str] = {
    "unresolved": "a request was sent, and its answer was lost",
    "doubled": "an earlier attempt may have created it as well",
    "superseded": "its content has changed; the older document remains on the site",
}
STALE = "no longer in the source; its document remains on the site"


def report_notes(notes: Sequence[Note], findings: Findings) -> int:
    """List what the source left out and could hide lost content. Return the number of all that was left out."""
    for note in notes:
        if not note.expected:
            name = note.name if note.count == 1 else f"{note.name} and {note.count - 1} more"
            reason = f"this {note.unit} {note.reason}"
            if note.unit == "word":
                name, reason = note.name, f"{counted(note.count, 'word')} left out: {note.reason}"
            findings.add(Finding("left_out", name, reason))
    return sum(note.count for note in notes if note.unit != "word")


def report_plan(plan: Plan, findings: Findings) -> None:
    """List the rows that were not sent: bad ones, and those that the options leave as they are."""
    for row in plan.rows("rejected", "skipped", "ambiguous", "elsewhere"):
        kind: Kind = "skipped"
        if row.action in {"rejected", "ambiguous"}:
            kind = row.action
        ids = [row.remote_id] if row.remote_id else []
        findings.add(Finding(kind, row.label or row.key, row.reason or "", row.number, ids, row.group))


def report_prediction(plan: Plan, options: LoadOptions, findings: Findings) -> None:
    """List the documents that a load would leave on the site although their rows are gone or have changed."""
    if options.on_change == "create":
        for row in plan.rows(*CHANGES):
            if row.has_changed:
                findings.add(
                    Finding("superseded", row.label or row.key, _REASONS["superseded"], row.number, [], row.group)
                )
    if options.removal is None:
        for gone in plan.gone():
            ids = [gone.remote_id] if gone.remote_id else []
            findings.add(Finding("stale", gone.label, STALE, None, ids, gone.group))


def report_run(
    ledger: Ledger,
    scope_ledger: ScopeLedger,
    plan: Plan,
    findings: Findings,
    reasons: Mapping[str, str],
    unrecorded: Collection[str],
    words: DocumentWords = DEFAULT_WORDS,
) -> Counter[Kind]:
    """
    List what this run, by any of its tries, has left for a person.

    :param reasons: Why a document could not be changed, by its id.
    :param unrecorded: Keys of the rows whose outcome is known, but not recorded.
    :return: Number of findings by kind.
    """
    count: Counter[Kind] = Counter()
    for which, kind in _KINDS.items():
        selected = Filter(which=which, scope=scope_ledger.scope.id, source=scope_ledger.source)
        # A superseded document may have been created by any run; those that this run superseded are news.
        if which == "superseded":
            selected = replace(selected, superseded_by=scope_ledger.run)
        else:
            selected = replace(selected, run=scope_ledger.run)
        for chunk in _chunks(ledger, selected):
            numbers = plan.numbers_of([row["key"] for row in chunk])
            for row in chunk:
                if row["key"] in unrecorded:
                    continue
                count[kind] += 1
                findings.add(_finding(which, kind, row, numbers.get(row["key"]), reasons, words))
    return count


def _finding(
    which: Which,
    kind: Kind,
    row: Mapping[str, Any],
    number: int | None,
    reasons: Mapping[str, str],
    words: DocumentWords,
) -> Finding:
    remote_id = row["remote_id"]
    reason = _REASONS.get(which) or row["error"] or ""
    if which == "draft":
        reason = needs_attention(row["status"], words) or ""
    if which == "unresolved":
        reason = row["error"] or reason
    if remote_id in reasons:
        reason = f"its document remains as it is: {reasons[remote_id]}"
    return Finding(kind, row["label"], reason, number, [remote_id] if remote_id else [], row["group_name"])


def _chunks(ledger: Ledger, selected: Filter) -> Iterator[list[Mapping[str, Any]]]:
    chunk: list[Mapping[str, Any]] = []
    with ledger.connect() as connection:
        for row in queries.all_entries(connection, ledger.clock, selected):
            chunk.append(row)
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
    if chunk:
        yield chunk


def report_unrecorded(outcomes: Sequence[Outcome], findings: Findings) -> None:
    """List documents that exist, or may exist, and that the ledger could not record."""
    for outcome in outcomes:
        if outcome.state in {"created", "ambiguous"}:
            reason = "created, but the ledger could not record it"
            if outcome.state == "ambiguous":
                reason = outcome.error or _REASONS["unresolved"]
            ids = [outcome.remote_id] if outcome.remote_id else []
            findings.add(Finding("ambiguous", outcome.claim.label, reason, None, ids, outcome.claim.group))


def report_stale(stale: Sequence[Mapping[str, Any]], findings: Findings, reasons: Mapping[str, str]) -> None:
    """
    List documents whose rows are gone.

    :param stale: Their attempts, without those of removed documents.
    """
    for row in stale:
        reason = STALE
        remote_id = row["remote_id"]
        if remote_id in reasons:
            reason = f"its document remains as it is: {reasons[remote_id]}"
        findings.add(Finding("stale", row["label"], reason, None, [remote_id] if remote_id else [], row["group_name"]))
