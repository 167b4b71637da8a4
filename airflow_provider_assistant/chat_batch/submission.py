"""Submit the questions of one turn: each is claimed, sent and recorded, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.chat_batch.question_findings import QuestionFindings
from airflow_provider_assistant.chat_batch.questions import Questions
from airflow_provider_assistant.ledger import Claim, Known, Outcome, ScopeLedger
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decide import ELSEWHERE, Action
from airflow_provider_assistant.loading.findings import Finding, Kind
from airflow_provider_assistant.loading.options import LoadOptions, OnAmbiguous
from airflow_provider_assistant.loading.plan import Plan, PlannedRow
from airflow_provider_assistant.loading.rows import RowBatch, RowStream
from airflow_provider_assistant.sending.client import SendingClient
from airflow_provider_assistant.sending.decide import Item
from airflow_provider_assistant.sending.sender import Sender

# Questions of one batch of the plan.
BATCH = 1000
# Findings of the questions that are not sent, by their action.
NOT_SENT: Mapping[Action, Kind] = {"rejected": "rejected", "ambiguous": "ambiguous", "elsewhere": "skipped"}


class QuestionRows:
    """Give questions to the plan as rows; the content hash of a row is its ``question_id``."""

    # Two equal questions under two keys are two questions.
    can_share = False

    def __init__(self, questions: Questions, call: Callable[[ChatMessage], Call[Any]]) -> None:
        self._questions = questions
        self._call = call

    def batches(self) -> RowStream:
        """Yield key and identity of all questions."""
        questions = self._questions
        for start in range(0, len(questions), BATCH):
            part = slice(start, start + BATCH)
            problems = {
                position - start: problem
                for position, problem in questions.problems.items()
                if start <= position < start + BATCH
            }
            yield RowBatch(
                start=start + 1,
                keys=questions.keys[part],
                hashes=questions.question_ids[part],
                problems=problems,
                text=lambda position, start=start: questions.text(start + position),  # type: ignore[misc]
            )

    def call(self, payload: str) -> Call[Any]:
        """Return the call that asks a question."""
        return self._call(ChatMessage.model_validate_json(payload))


class Submission:
    """
    Submit questions.

    :param on_accepted: Called with the id of each question that the service has accepted, and the reply.
    :ivar counts: Counts of the questions by outcome, also while they are submitted.
    :ivar unrecorded: Accepted questions that the ledger could not record.
    """

    def __init__(
        self,
        client: SendingClient,
        ledger: ScopeLedger,
        findings: QuestionFindings,
        *,
        mode: str,
        on_ambiguous: OnAmbiguous,
        on_accepted: Callable[[str, ApiReply], None],
    ) -> None:
        self.counts = LoadCounts()
        self.unrecorded = 0
        self._ledger = ledger
        self._findings = findings
        self._mode = mode
        self._options = LoadOptions(on_ambiguous=on_ambiguous)
        self._on_accepted = on_accepted
        # Keys of questions that an earlier attempt may have asked, also in another session.
        self._maybe_asked: set[str] = set()
        self._sender = Sender(ledger, client, on_outcome=self._count, on_lost=self._lost)

    def cancel(self) -> None:
        """Stop sending and end :meth:`run` within a few seconds."""
        self._sender.cancel()

    async def run(self, rows: QuestionRows) -> None:
        """
        Submit the questions that no earlier try has submitted.

        :raises AssistantError: An error stopped the submission. :attr:`counts` and the ledger contain everything up to
            that point.
        """
        counts = self.counts
        with Plan(self._ledger.source) as plan:
            plan.add(rows, self._ledger, self._options)
            counts.rows = plan.size
            actions = plan.actions()
            counts.unchanged = sum(actions[name] for name in ("unchanged", "repeated", "revive", "share"))
            self._ledger.renumber([(row.key, row.existing or 0, row.latest + 1) for row in plan.rows("revive")])
            for row in plan.rows(*NOT_SENT):
                self._add(NOT_SENT[row.action], row, row.reason or "")
            known = self._ledger.known([row.key for row in plan.rows("send") if row.latest])
            self._maybe_asked = {key for key, attempts in known.items() if _is_unresolved(attempts)}
            try:
                if actions["send"]:
                    await self._sender.run(self._items(plan, rows))
            finally:
                # A stopped submission counts the questions that it did not reach as failed.
                counts.failed += counts.rows - counts.done
                self.unrecorded = sum(1 for outcome in self._sender.unrecorded if outcome.state == "created")
        if self._sender.breaker.error:
            raise self._sender.breaker.error

    def _items(self, plan: Plan, rows: QuestionRows) -> Iterator[Item]:
        for row in plan.rows("send"):
            session = json.loads(row.payload or "{}").get("session_id")
            details = {"mode": self._mode, "session_id": session}
            claim = Claim(row.key, row.label or row.key, row.latest + 1, row.content_hash, details=details)
            # A question has no content that could exist already, but may be asked twice.
            yield Item(claim, rows.call(row.payload or ""), row=row)

    def _count(self, item: Item, outcome: Outcome, reply: ApiReply | None) -> None:
        row: PlannedRow = item.row
        counts = self.counts
        counts.requests += item.requests
        if reply is None:
            self._add(outcome.state, row, outcome.error or "")  # type: ignore[arg-type]
            return
        counts.created += 1
        if outcome.ambiguous or row.key in self._maybe_asked:
            counts.possibly_duplicated += 1
            reason = "an earlier attempt may have created it as well"
            ids = [outcome.remote_id] if outcome.remote_id else []
            self._findings.add(Finding("possibly_duplicated", row.label or row.key, reason, row.number, ids))
        self._on_accepted(row.content_hash, reply)

    def _lost(self, item: Item) -> None:
        self._add("skipped", item.row, ELSEWHERE)

    def _add(self, kind: Kind, row: PlannedRow, reason: str) -> None:
        """Count a question that was not submitted, and list it."""
        setattr(self.counts, kind, getattr(self.counts, kind) + 1)
        self._findings.add(Finding(kind, row.label or row.key, reason, row.number))


def _is_unresolved(attempts: Sequence[Known]) -> bool:
    """Return whether an attempt without an outcome follows the last one that the service accepted."""
    accepted = [attempt.number for attempt in attempts if attempt.state == "created"]
    unresolved = [attempt.number for attempt in attempts if attempt.state in {"claimed", "ambiguous"}]
    return max(unresolved, default=0) > max(accepted, default=0)
