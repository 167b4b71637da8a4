"""What the counts of a load mean for its task: whether it fails, and what its log says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.exceptions import AssistantError, AssistantIncompleteError, AssistantInputError
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.parameters import tolerance
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    from airflow_provider_assistant.loading.counts import LoadCounts


def load_failure(counts: LoadCounts, options: LoadOptions, listed: str = "") -> AssistantError | None:
    """
    Return the error that makes a finished load fail, or None if it succeeded.

    :param counts: The outcomes of its rows.
    :param options: Options of the load. Ambiguous rows fail it only with ``on_ambiguous="retry"``.
    :param listed: Sentence with the path of the findings, appended to the message.
    :return: The error, which is not raised, or None.
    """
    ambiguous = counts.ambiguous if options.on_ambiguous == "retry" else 0
    if counts.failed or ambiguous:
        problems = []
        if counts.failed:
            problems.append(f"{counts.failed} rows failed")
        if ambiguous:
            problems.append(f"{ambiguous} rows are ambiguous")
        return AssistantIncompleteError(
            f"{' and '.join(problems)} ({counts})",
            todo=f"A retry sends those and no others.{listed}",
        )
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
        return AssistantInputError(
            f"{counts.rejected} rows were rejected, more than max_rejected={options.max_rejected:g} allows ({counts})",
            safe="The others are loaded.",
            todo=f"Fix these rows in the source and re-run the task.{listed}",
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
        happened=f"{counted(counts.drafts, 'created document')} not in use: the service answered that "
        f"it is a draft or could not be processed, or a status that is not known ({counts})",
        safe="The service has stored the documents. A further run does not create them again.",
        todo="Activate these documents at the service, or have it activate documents that the API "
        f"creates. Findings of the kind draft name each document and its status.{listed}",
    )


def load_progress(counts: Mapping[str, Any]) -> str:
    """
    Return the progress of a load that failed, for the log: which rows are recorded, and which are left.

    :param counts: Its counts, see :meth:`.LoadCounts.as_dict`.
    """
    if not counts.get("requests"):
        return "Nothing was sent."
    left = counts["failed"] + counts["ambiguous"]
    return (
        f"{counts['created']} of {counts['rows']} rows were created by this try and {counts['unchanged']} before; they "
        f"are recorded and not sent again. {left} are left ({counts['ambiguous']} of them may exist), "
        f"{counts['rejected']} are rejected."
    )
