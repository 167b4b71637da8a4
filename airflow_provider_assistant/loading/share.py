"""Rows that get the document of another row with equal content, which this load or another task has sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from airflow_provider_assistant.ledger import Outcome, ScopeLedger
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.decide import PlannedRow
from airflow_provider_assistant.loading.plan import Plan
from airflow_provider_assistant.loading.report import Report

# Seconds between looks for the document of a row that the service has already.
CONFLICT_PAUSES = (0.0, 0.5, 1.5)


def share(ledger: ScopeLedger, rows: Iterable[PlannedRow]) -> None:
    """Record rows whose document exists."""
    ledger.share([Outcome(row.claim(), "created", remote_id=row.remote_id) for row in rows])


async def settle_conflicts(conflicts: Sequence[PlannedRow], ledger: ScopeLedger, counts: LoadCounts) -> None:
    """
    Give rows that another task has sent under another key at the same time the document that it created.

    :param conflicts: Rows that the service rejected because it has their content.
    """
    waiting = conflicts
    # The other task records it a moment after the service has it.
    for pause in CONFLICT_PAUSES:
        if not waiting:
            return
        await asyncio.sleep(pause)
        shared, waiting = _found(waiting, ledger)
        share(ledger, shared)
        counts.rejected -= len(shared)
        counts.unchanged += len(shared)


def settle_twins(
    plan: Plan, ledger: ScopeLedger, counts: LoadCounts, report: Report, rejected: Mapping[str, str]
) -> None:
    """
    Give rows of equal content the document of the row that was sent for all of them.

    :param rejected: Why the service rejected a content, by its hash.
    """
    shared, others = _found(list(plan.rows("twin")), ledger)
    share(ledger, shared)
    counts.unchanged += len(shared)
    for row in others:
        # Those that are not rejected are counted as failed, as rows that were not reached.
        if row.content_hash in rejected:
            counts.rejected += 1
            report.add("rejected", row.label, rejected[row.content_hash], row.number, group=row.group_name)


def _found(rows: Sequence[PlannedRow], ledger: ScopeLedger) -> tuple[list[PlannedRow], list[PlannedRow]]:
    """Return the rows whose content has a document, with its id; and the others."""
    found = ledger.with_content({row.content_hash for row in rows})
    shared = [row._replace(remote_id=found[row.content_hash]) for row in rows if row.content_hash in found]
    return shared, [row for row in rows if row.content_hash not in found]
