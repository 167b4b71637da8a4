"""Run a load as a task or a command does: its try in the ledger, its findings, and the error that makes it fail."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.ledger import Ledger, RunRef, Scope
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.load import Load, LoadJob
from airflow_provider_assistant.loading.options import OnAmbiguous
from airflow_provider_assistant.parameters import tolerance
from airflow_provider_assistant.texts import counted, shortened

log = logging.getLogger(__name__)

# What the next run does with documents that exist and are only claimed in the ledger, by ``on_ambiguous``.
_NEXT_RUN: dict[OnAmbiguous, str] = {
    "retry": "The next run sends such a row again, and lists it as possibly duplicated.",
    "skip": "The next run lists such a row as ambiguous, and does not send it.",
}
# Characters of the reason why a row was rejected, in the message of a load.
REASON_LENGTH = 300
NONE_ACCEPTED = (
    "The service has accepted no row: look at its reasons, at the mapping of the columns, and at the base URL of the "
    "connection."
)


@contextlib.contextmanager
def opened_load(job: LoadJob, scope: Scope, source: str, run: RunRef, findings: FindingsFile) -> Iterator[Load]:
    """
    Provide a load for a ``with`` block that runs it. The ledger records the block as a try, but for a dry run.

    :param source: Name of the source in the ledger.
    :raises AssistantLedgerError: The ledger cannot be used.
    :raises AssistantStorageError: The findings cannot be written, and nothing else failed.
    """
    with contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger.open())
        attempts = stack.enter_context(ledger.of(scope, source, run))
        load = Load(job, ledger, attempts, findings)
        if job.dry_run:
            yield load
            return
        this_try = stack.enter_context(ledger.record_try(attempts, "load"))
        try:
            with findings:
                yield load
        finally:
            this_try.counts = load.counts.as_dict()
            this_try.findings = findings.listed
            this_try.first_findings = findings.head
            this_try.needs_person = load.counts.need_person
            this_try.documents = load.documents


def end_of_load(load: Load) -> AssistantError | None:
    """
    Close the findings of a load that ran to its end.

    :return: The error that makes the load fail; None if it succeeded.
    """
    unlisted = load.findings.close()
    failure = load_failure(load)
    if failure and unlisted:
        log.error("%s", unlisted)
    return failure or unlisted


def load_failure(load: Load) -> AssistantError | None:
    """
    Return the error that makes a load fail that ran to its end, or None if it succeeded.

    Ambiguous rows make it fail only with ``on_ambiguous="retry"``.
    """
    counts = load.counts
    listed = _listed(load)
    problems = _left(load)
    if problems:
        happened = f"{' and '.join(problems)} ({counts})"
        todo = f"A retry sends those and no others.{listed}"
        if load.cause:
            happened += f". The last reason is: {load.cause.happened}"
            todo = f"{load.cause.todo or ''} {todo}".strip()
        return AssistantIncompleteError(happened, todo=todo)
    if counts.not_activated:
        problems.append(f"{counted(counts.not_activated, 'document')} could not be activated")
    if counts.not_removed:
        problems.append(f"{counted(counts.not_removed, 'outdated document')} could not be removed yet")
    if problems:
        return AssistantIncompleteError(
            f"{' and '.join(problems)} ({counts})",
            safe="All rows of the source are loaded, and nothing was removed that they need.",
            todo=f"The findings give a reason for each; a retry goes on with them.{listed}",
        )
    if counts.rejected > tolerance(load.options.max_rejected, counts.rows):
        has_loaded = counts.created or counts.unchanged
        advice = f"Fix these rows in the source, or the options with which it is read, and run the task again.{listed}"
        if counts.requests and not has_loaded:
            advice = f"{NONE_ACCEPTED} {advice}"
        rejected = (finding for finding in load.findings.first if finding.kind == "rejected")
        first = next((f". Row {one.row}: {shortened(one.reason, REASON_LENGTH)}" for one in rejected), "")
        return AssistantInputError(
            f"{counted(counts.rejected, 'row was', 'rows were')} rejected, more than max_rejected="
            f"{load.options.max_rejected:g} allows ({counts}){first}",
            safe="The others are loaded." if has_loaded else "No document was created.",
            todo=advice,
            field="source",
        )
    return None


def _listed(load: Load) -> str:
    return f" Findings: {load.findings.listed}." if load.findings.listed else ""


def _left(load: Load) -> list[str]:
    """Return which rows a retry has to send, by reason."""
    counts = load.counts
    left = []
    if counts.failed:
        left.append(f"{counted(counts.failed, 'row')} failed")
    if counts.ambiguous and load.options.on_ambiguous == "retry":
        left.append(counted(counts.ambiguous, "row is ambiguous", "rows are ambiguous"))
    if load.left_to_others:
        others = counted(load.left_to_others, "row was", "rows were")
        left.append(f"{others} left to another task, which has not loaded them")
    return left


def drafts_warning(load: Load) -> str | None:
    """Return what to say about created documents that the service does not use; None if there are none."""
    if not load.counts.drafts:
        return None
    return (
        f"{counted(load.counts.drafts, 'created document')} not in use: according to the reply a draft or not "
        f"processed, or with a status that is not known ({load.counts}). The service has stored the documents. A "
        "further run does not create them again. Activate these documents at the service, or have it activate "
        "documents that the API creates. Findings of the kind draft name each document and its status."
        f"{_listed(load)}"
    )


def load_progress(load: Load) -> str:
    """Return the progress of a load that failed, for the log: what exists, what is recorded, and what is left."""
    counts = load.counts
    changes = [f"{getattr(counts, name):,} {name}" for name in ("activated", "deactivated", "deleted")]
    changes = [change for change in changes if not change.startswith("0 ")]
    if not (counts.requests or changes):
        return NOTHING_SENT
    sentences = [f"This try created {counts.created:,} of {counted(counts.rows, 'row')}."]
    if counts.created:
        sentences.append(_recorded(load))
    others = sum(1 for outcome in load.unrecorded if outcome.state != "created")
    if others:
        sentences.append(
            f"The ledger could not record the outcome of {counted(others, 'other row')}: the next run takes them for "
            "ambiguous."
        )
    if counts.unchanged:
        before = ("row was created before or repeats another one", "rows were created before or repeat others")
        sentences.append(f"{counted(counts.unchanged, *before)}.")
    left = counts.failed + counts.ambiguous
    if left:
        may_exist = f", of which {counts.ambiguous:,} may exist" if counts.ambiguous else ""
        sentences.append(f"{counted(left, 'row is', 'rows are')} left{may_exist}.")
    outcomes = {outcome: counts.outcomes[outcome] for outcome in ("rejected", "skipped")}
    sentences += [f"{count:,} {outcome}." for outcome, count in outcomes.items() if count]
    if changes:
        sentences.append(f"Documents on the site: {', '.join(changes)}; a retry goes on with the others.")
    return " ".join(sentences)


def _recorded(load: Load) -> str:
    """Return what the ledger knows of what a load has created."""
    unrecorded = sum(1 for outcome in load.unrecorded if outcome.state == "created")
    recorded = load.counts.created - unrecorded
    known = "The ledger has recorded none of them."
    if load.is_unreadable:
        known = f"The ledger had recorded {recorded:,} of them, and cannot be read now."
    elif not unrecorded:
        known = "The ledger has recorded all of them, and a retry does not send them again."
    elif recorded:
        known = f"The ledger has recorded {recorded:,} of them, and a retry does not send these again."
    if not unrecorded:
        return known
    documents = counted(unrecorded, "document is", "documents are")
    return f"{known} {documents} at the service but not recorded. {_NEXT_RUN[load.options.on_ambiguous]}"
