"""What the counts of a chat batch mean for its task: whether it fails, and what its log says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.loading.options import OnAmbiguous
from airflow_provider_assistant.parameters import tolerance
from airflow_provider_assistant.texts import counted

# What the task fails with if most of its unanswered questions have a status, and what a retry does with them.
_ENDS: dict[str, tuple[type[AssistantError], str]] = {
    "failed": (AssistantRequestFailedError, "asks those again that failed"),
    "lost": (AssistantRequestLostError, "asks those again that were lost"),
    "timed_out": (AssistantRequestTimeoutError, "waits for those that are open"),
    "ambiguous": (AssistantIncompleteError, "asks those again that may have been asked"),
    "not_submitted": (AssistantIncompleteError, "submits the rest"),
}


def batch_summary(result: Mapping[str, Any]) -> str:
    """Return the number of questions by status, as text."""
    statuses = [status for status in STATUSES if result[status]]
    counts = [f"{result[status]:,} {status.replace('_', ' ')}" for status in statuses]
    return ", ".join(counts) or "none"


def batch_failure(
    result: Mapping[str, Any],
    max_failed: float,
    on_ambiguous: OnAmbiguous,
    *,
    silence: str | None = None,
    reason: str | None = None,
) -> AssistantError | None:
    """
    Return the error that makes a finished batch fail, or None if at most ``max_failed`` questions have no answer.

    :param result: What the task returns.
    :param max_failed: A count, or a fraction below 1.
    :param on_ambiguous: Parameter of the task.
    :param silence: Polls without an answer at the end of the wait. Default: None.
    :param reason: Why questions were not submitted. Default: None, it is not known.
    :return: The error, which is not raised, or None.
    """
    unanswered = result["rows"] - result["complete"]
    if unanswered <= tolerance(max_failed, result["rows"]):
        return None
    questions = counted(result["rows"], "question")
    allowed = f"({batch_summary(result)}), more than max_failed={max_failed:g} allows"
    if unanswered == result["rejected"]:
        return AssistantInputError(
            f"{unanswered:,} of {questions} cannot be asked {allowed}",
            todo="Fix these rows in the source, or the options with which it is read, and run the task again; "
            f"the reasons are in {result['output_path']}.",
            field="source",
        )
    # A retry cannot fix rejected rows.
    counts = {**result, "not_submitted": result["not_submitted"] - result["rejected"] - result["ambiguous"]}
    most_frequent = max(_ENDS, key=lambda status: counts[status])
    plans = {status: plan for status, (_, plan) in _ENDS.items() if counts[status]}
    if "ambiguous" in plans and on_ambiguous != "retry":
        plans["ambiguous"] = "does not ask those again that may have been asked"
    happened = f"{unanswered:,} of {questions} without an answer {allowed}"
    if silence is not None:
        happened += f"; {silence}"
    if reason is not None:
        happened += f". The last reason is: {reason}"
    error, _ = _ENDS[most_frequent]
    retry = f"keeps the answers and {' and '.join(plans.values())}"
    return error(happened, todo=f"A retry {retry}. All questions are in {result['output_path']}.")
