"""
The report of a load: the rows and documents that a person should look at, as the ledger knows them.

What a run did is a query of its attempts. So the report of a retry also has what an earlier, killed try did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api.document_state import DEFAULT_WORDS, DocumentWords, needs_attention
from airflow_provider_assistant.ledger import Filter, Ledger, Outcome, ScopeLedger, Which, queries
from airflow_provider_assistant.ledger.attempts import chunks
from airflow_provider_assistant.loading.findings import Finding, FindingsFile, Kind
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.plan import CHANGES, Plan
from airflow_provider_assistant.parsing.pages import Note
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
_LOST = "a request was sent, and its answer was lost"
_REASONS: Mapping[Kind, str] = {
    "ambiguous": _LOST,
    "possibly_duplicated": "an earlier attempt may have created it as well",
    "superseded": "its content has changed; the older document remains on the site",
    "stale": "no longer in the source; its document remains on the site",
}


@dataclass(slots=True)
class Report:
    """
    List findings in a file.

    :param words: What the status words of documents mean.
    :ivar reasons: Why a document could not be changed, by its id.
    """

    findings: FindingsFile
    words: DocumentWords = DEFAULT_WORDS
    reasons: Mapping[str, str] = field(default_factory=dict)

    def add(
        self,
        kind: Kind,
        key: str,
        reason: str,
        row: int | None = None,
        document_id: str | None = None,
        group: str | None = None,
    ) -> None:
        """Add a finding of at most one document."""
        self.findings.add(Finding(kind, key, reason, row, [document_id] if document_id else [], group))

    def notes(self, notes: Sequence[Note]) -> int:
        """List what the source left out and could hide lost content. Return the number of all that was left out."""
        for note in notes:
            if not note.is_expected:
                name = note.name if note.count == 1 else f"{note.name} and {note.count - 1} more"
                reason = f"this {note.unit} {note.reason}"
                if note.unit == "word":
                    name, reason = note.name, f"{counted(note.count, 'word')} left out: {note.reason}"
                self.add("left_out", name, reason)
        return sum(note.count for note in notes if note.unit != "word")

    def plan(self, plan: Plan) -> None:
        """List the rows that were not sent: bad ones, and those that the options leave as they are."""
        for row in plan.rows("rejected", "skipped", "ambiguous", "elsewhere"):
            kind: Kind = "skipped"
            if row.action in {"rejected", "ambiguous"}:
                kind = row.action
            self.add(kind, row.label or row.key, row.reason, row.number, row.remote_id, row.group_name)

    def prediction(self, plan: Plan, options: LoadOptions) -> None:
        """List the documents that a load would leave on the site although their rows are gone or have changed."""
        if options.on_change == "create":
            for row in plan.rows(*CHANGES):
                if row.has_changed:
                    label = row.label or row.key
                    self.add("superseded", label, _REASONS["superseded"], row.number, group=row.group_name)
        if options.removal is None:
            for gone in plan.gone():
                self.add("stale", gone.label, _REASONS["stale"], None, gone.remote_id, gone.group_name)

    def run(self, ledger: Ledger, scope_ledger: ScopeLedger, plan: Plan, unrecorded: Collection[str]) -> Counter[Kind]:
        """
        List what this run, by any of its tries, has left for a person.

        :param unrecorded: Keys of the rows whose outcome is known, but not recorded.
        :return: Number of findings by kind.
        """
        count: Counter[Kind] = Counter()
        run = scope_ledger.run
        lists: list[tuple[Which, dict[str, Any]]] = [(which, {"run": run}) for which in _KINDS if which != "superseded"]
        # Any run may have created the document; this one has superseded it, or could not remove it.
        lists.append(("superseded", {"superseded_by": run}))
        lists += [("superseded", {"remote_ids": ids}) for ids in chunks(self.reasons)]
        for which, conditions in lists:
            kind = _KINDS[which]
            selected = Filter(which=which, scope=scope_ledger.scope.id, source=scope_ledger.source, **conditions)
            with ledger.connect() as connection:
                for chunk in chunks(queries.all_entries(connection, ledger.clock, selected)):
                    numbers = plan.numbers_of([row["key"] for row in chunk])
                    # Those with a reason are in the list by their ids.
                    others = self.reasons if selected.superseded_by else ()
                    found = [row for row in chunk if row["key"] not in unrecorded and row["remote_id"] not in others]
                    count[kind] += len(found)
                    self.documents(kind, found, numbers)
        return count

    def documents(self, kind: Kind, rows: Iterable[Mapping[str, Any]], numbers: Mapping[str, int]) -> None:
        """
        List attempts of the ledger.

        :param numbers: Number of a row in the source by its key.
        """
        for row in rows:
            reason = _REASONS.get(kind) or row["error"] or ""
            if kind == "draft":
                reason = needs_attention(row["status"], self.words) or ""
            if kind == "ambiguous":
                reason = row["error"] or reason
            if row["remote_id"] in self.reasons:
                reason = f"its document remains as it is: {self.reasons[row['remote_id']]}"
            self.add(kind, row["label"], reason, numbers.get(row["key"]), row["remote_id"], row["group_name"])

    def unrecorded(self, outcomes: Sequence[Outcome]) -> None:
        """List documents that exist, or may exist, and that the ledger could not record."""
        reasons = {"created": "created, but the ledger could not record it", "ambiguous": _LOST}
        for outcome in outcomes:
            if outcome.state in reasons:
                claim = outcome.claim
                reason = outcome.error or reasons[outcome.state]
                self.add("ambiguous", claim.label, reason, None, outcome.remote_id, claim.group)
