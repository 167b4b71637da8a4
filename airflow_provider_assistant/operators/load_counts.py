"""What the counts of a load mean for its task: whether it fails, and what its log says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from airflow_provider_assistant.exceptions import (
    NOTHING_SENT,
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.loading.options import LoadOptions, OnAmbiguous
from airflow_provider_assistant.parameters import tolerance
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.counts import LedgerGap, LoadCounts
    from airflow_provider_assistant.loading.engine import Load


UNRECORDED: Final = "None of them is recorded, because ledger=False: a retry creates them again."
# What the next run does with documents that exist and are only claimed in the ledger, by ``on_ambiguous``.
_NEXT_RUN: Final[dict[OnAmbiguous, str]] = {
    "retry": "The next run sends such a row again, and lists it as possibly duplicated.",
    "skip": "The next run lists such a row as ambiguous, and does not send it.",
    "fail": "The next run stops at such a row.",
}


def load_failure(
    counts: LoadCounts, options: LoadOptions, listed: str = "", *, cause: AssistantError | None = None
) -> AssistantError | None:
    """
    Return the error that makes a finished load fail, or None if it succeeded.

    :param counts: The outcomes of its rows.
    :param options: Options of the load. Ambiguous rows fail it only with ``on_ambiguous="retry"``.
    :param listed: Sentence with the path of the findings, appended to the message.
    :param cause: Error of the last request whose row failed or is ambiguous. Default: None.
    :return: The error, which is not raised, or None.
    """
    ambiguous = counts.ambiguous if options.on_ambiguous == "retry" else 0
    if counts.failed or ambiguous:
        problems = []
        if counts.failed:
            problems.append(f"{counted(counts.failed, 'row')} failed")
        if ambiguous:
            problems.append(counted(ambiguous, "row is ambiguous", "rows are ambiguous"))
        happened = f"{' and '.join(problems)} ({counts})"
        todo = f"A retry sends those and no others.{listed}"
        if cause:
            happened += f". The last reason is: {cause.happened}"
            todo = f"{cause.todo or ''} {todo}".strip()
        return AssistantIncompleteError(happened, todo=todo)
    unchanged_site = []
    if counts.not_activated:
        unchanged_site.append(f"{counted(counts.not_activated, 'document')} could not be activated")
    if counts.not_removed:
        unchanged_site.append(f"{counted(counts.not_removed, 'outdated document')} could not be removed yet")
    if unchanged_site:
        return AssistantIncompleteError(
            f"{' and '.join(unchanged_site)} ({counts})",
            safe="All rows of the source are loaded, and nothing was removed that they need.",
            todo=f"The findings give a reason for each; a retry goes on with them.{listed}",
        )
    if counts.rejected > tolerance(options.max_rejected, counts.rows):
        todo = f"Fix these rows in the source and re-run the task.{listed}"
        if counts.requests and not (counts.created or counts.unchanged):
            todo = f"No row was accepted: check the base URL in the Airflow connection, too. {todo}"
        return AssistantInputError(
            f"{counted(counts.rejected, 'row was', 'rows were')} rejected, more than max_rejected="
            f"{options.max_rejected:g} allows ({counts})",
            safe="The others are loaded." if counts.created or counts.unchanged else "No document was created.",
            todo=todo,
            field="source",
        )
    return None


class Attention(NamedTuple):
    """Hold what a person should know about a load that succeeded: the three lines of the log."""

    happened: str
    safe: str
    todo: str


def drafts_attention(counts: LoadCounts, listed: str = "") -> Attention | None:
    """
    Return what to say about documents that were created and that the service does not use.

    :param counts: The counts of the load.
    :param listed: Sentence with the path of the findings, appended to the advice.
    :return: None if there are none.
    """
    if not counts.drafts:
        return None
    return Attention(
        happened=f"{counted(counts.drafts, 'created document')} not in use: according to the reply a draft or not "
        f"processed, or with a status that is not known ({counts})",
        safe="The service has stored the documents. A further run does not create them again.",
        todo="Activate these documents at the service, or have it activate documents that the API "
        f"creates. Findings of the kind draft name each document and its status.{listed}",
    )


def load_progress(load: Load | None, on_ambiguous: OnAmbiguous, *, has_ledger: bool = True) -> str:
    """
    Return the progress of a load that failed, for the log: what exists, what is recorded, and what is left.

    :param load: None if it failed before it began.
    :param on_ambiguous: Option of the load.
    :param has_ledger: Whether the load uses the ledger. Default: True.
    """
    if load is None:
        return NOTHING_SENT
    counts = load.counts
    changes = _named(counts, "activated", "deactivated", "deleted")
    if not (counts.requests or changes):
        return NOTHING_SENT
    sentences = [f"This try created {counts.created:,} of {counted(counts.rows, 'row')}."]
    if counts.created:
        known = recorded(counts.created, load.gap, on_ambiguous) if has_ledger else UNRECORDED
        sentences.append(known)
    if load.gap.others:
        others = counted(load.gap.others, "other row")
        sentences.append(f"The ledger could not record the outcome of {others}: the next run takes them for ambiguous.")
    if load.gap.lease_seconds and (load.gap.created or load.gap.others):
        sentences.append(f"Another run that starts in the next {load.gap.lease_seconds:g} s skips these rows.")
    if counts.unchanged:
        before = ("row was created before or repeats another one", "rows were created before or repeat others")
        sentences.append(f"{counted(counts.unchanged, *before)}.")
    left = counts.failed + counts.ambiguous
    if left:
        may_exist = f", of which {counts.ambiguous:,} may exist" if counts.ambiguous else ""
        sentences.append(f"{counted(left, 'row is', 'rows are')} left{may_exist}.")
    sentences += [f"{others}." for others in _named(counts, "rejected", "skipped")]
    if changes:
        sentences.append(f"Documents on the site: {', '.join(changes)}; a retry repeats only what is not recorded.")
    return " ".join(sentences)


def _named(counts: LoadCounts, *names: str) -> list[str]:
    """Return the counts that are not 0 with their names, such as ``3 rejected``."""
    return [f"{getattr(counts, name):,} {name}" for name in names if getattr(counts, name)]


def recorded(created: int, gap: LedgerGap, on_ambiguous: OnAmbiguous) -> str:
    """
    Return what the ledger knows of what a load has created.

    :param created: Number of rows that the service has acknowledged.
    """
    number = created - gap.created
    known = "The ledger has recorded none of them."
    if gap.is_unreadable:
        known = f"The ledger had recorded {number:,} of them, and cannot be read now."
    elif not gap.created:
        return "The ledger has recorded all of them, and a retry does not send them again."
    elif number:
        known = f"The ledger has recorded {number:,} of them, and a retry does not send these again."
    if not gap.created:
        return known
    unrecorded = counted(gap.created, "document is", "documents are")
    return f"{known} {unrecorded} at the service but not recorded. {_NEXT_RUN[on_ambiguous]}"
