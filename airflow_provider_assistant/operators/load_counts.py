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
    from airflow_provider_assistant.loading.counts import LoadCounts
    from airflow_provider_assistant.loading.load import Load


# What the next run does with documents that exist and are only claimed in the ledger, by ``on_ambiguous``.
_NEXT_RUN: Final[dict[OnAmbiguous, str]] = {
    "retry": "The next run sends such a row again, and lists it as possibly duplicated.",
    "skip": "The next run lists such a row as ambiguous, and does not send it.",
}
# What to do if the service has refused every row that was sent.
_REFUSED = (
    "The service has accepted no row: look at its reasons, at the mapping of the columns, and at the base URL of the "
    "connection."
)


def load_failure(load: Load, options: LoadOptions, listed: str = "") -> AssistantError | None:
    """
    Return the error that makes a load fail that ran to its end, or None if it succeeded.

    :param options: Options of the load. Ambiguous rows fail it only with ``on_ambiguous="retry"``.
    :param listed: Sentence with the path of the findings, appended to the message.
    :return: The error, which is not raised, or None.
    """
    counts = load.counts
    problems = _left(load, options)
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
    if counts.rejected > tolerance(options.max_rejected, counts.rows):
        todo = f"Fix these rows in the source and re-run the task.{listed}"
        if load.unreadable:
            todo = f"{load.unreadable} {todo}"
        if counts.requests and not (counts.created or counts.unchanged):
            todo = f"{_REFUSED} {todo}"
        return AssistantInputError(
            f"{counted(counts.rejected, 'row was', 'rows were')} rejected, more than max_rejected="
            f"{options.max_rejected:g} allows ({counts})",
            safe="The others are loaded." if counts.created or counts.unchanged else "No document was created.",
            todo=todo,
            field="source",
        )
    return None


def _left(load: Load, options: LoadOptions) -> list[str]:
    """Return which rows a retry has to send, by reason."""
    counts = load.counts
    left = []
    if counts.failed:
        left.append(f"{counted(counts.failed, 'row')} failed")
    if counts.ambiguous and options.on_ambiguous == "retry":
        left.append(counted(counts.ambiguous, "row is ambiguous", "rows are ambiguous"))
    if load.left_to_others:
        others = counted(load.left_to_others, "row was", "rows were")
        left.append(f"{others} left to another task, which has not loaded them")
    return left


class Attention(NamedTuple):
    """Hold what a person should know about a load that succeeded: the parts of one warning."""

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


def load_progress(load: Load, on_ambiguous: OnAmbiguous) -> str:
    """
    Return the progress of a load that failed, for the log: what exists, what is recorded, and what is left.

    :param on_ambiguous: Option of the load.
    """
    counts = load.counts
    changes = _named(counts, "activated", "deactivated", "deleted")
    if not (counts.requests or changes):
        return NOTHING_SENT
    sentences = [f"This try created {counts.created:,} of {counted(counts.rows, 'row')}."]
    if counts.created:
        sentences.append(_recorded(load, on_ambiguous))
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
    sentences += [f"{named}." for named in _named(counts, "rejected", "skipped")]
    if changes:
        sentences.append(f"Documents on the site: {', '.join(changes)}; a retry goes on with the others.")
    return " ".join(sentences)


def _named(counts: LoadCounts, *names: str) -> list[str]:
    """Return the counts that are not 0 with their names, such as ``3 rejected``."""
    return [f"{getattr(counts, name):,} {name}" for name in names if getattr(counts, name)]


def _recorded(load: Load, on_ambiguous: OnAmbiguous) -> str:
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
    return f"{known} {documents} at the service but not recorded. {_NEXT_RUN[on_ambiguous]}"
