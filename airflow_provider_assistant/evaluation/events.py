"""
The scores of an evaluation as OpenTelemetry events.

Names and attributes are those of OpenTelemetry's semantic conventions for generative AI, whose status is *development*.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.scoring import ERROR, SCORED
from airflow_provider_assistant.observability.events import LOWEST_SDK, send_events

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.rules import Condition
    from airflow_provider_assistant.evaluation.summary import Summary

EVENT = "gen_ai.evaluation.result"
# Values of ``[assistant] evaluation_events``.
OFF, SCORES, EXPLANATIONS = MODES = ("off", "scores", "explanations")
EXPLANATION = "gen_ai.evaluation.explanation"
# What identifies an answer and its evaluation; Airflow's spans use the same names for the ids of the task instance.
RUN = {
    "dag_id": "airflow.dag_id",
    "run_id": "airflow.dag_run.run_id",
    "task_id": "airflow.task_id",
    "map_index": "airflow.task_instance.map_index",
    "region": "assistant.region",
}
_ROWS_PER_SLICE = 5000

log = logging.getLogger(__name__)


def send_scores(evaluation: Evaluation) -> None:
    """
    Send an event for each score and each error of a scorer, if ``[assistant] evaluation_events`` is set.

    A collector that cannot be reached is a warning in the log, never an error: the evaluation is complete without it.
    The reasons of the judges are sent only if the option is ``explanations``, because they may quote the answer.
    """
    from airflow.providers.common.compat.sdk import conf

    mode = conf.get("assistant", "evaluation_events", fallback=OFF) or OFF
    if mode == OFF:
        return
    if mode not in MODES:
        log.warning("[assistant] evaluation_events is %r, not one of %s: no events are sent.", mode, ", ".join(MODES))
        return
    if mode != EXPLANATIONS:
        evaluation = replace(evaluation, reasons={})
    summary = evaluation.summary
    # Each score and each error is an event.
    total = sum(scorer.scored + scorer.errors for scorer in summary.scorers.values())
    try:
        sent = send_events(EVENT, events_of(evaluation))
    except Exception as error:  # noqa: BLE001 (telemetry must not fail an evaluation)
        # Without the text of the error, which may contain the collector's address with a password.
        log.warning(
            "%s: the evaluation events could not be sent: %s. They need OpenTelemetry's SDK and its OTLP/HTTP exporter "
            "from version %s on, and valid OTEL_EXPORTER_OTLP_… variables.",
            summary.name,
            type(error).__name__,
            LOWEST_SDK,
        )
        return
    if sent == total:
        log.info("%s: %d evaluation events were sent.", summary.name, sent)
    else:
        log.warning(
            "%s: %d of %d evaluation events were not sent, because the collector did not accept them in time. The "
            "evaluation is complete. Check OTEL_EXPORTER_OTLP_LOGS_ENDPOINT, or OTEL_EXPORTER_OTLP_ENDPOINT.",
            summary.name,
            total - sent,
            total,
        )


def events_of(evaluation: Evaluation) -> Iterator[dict[str, str | float]]:
    """
    Yield the attributes of the events, one for each score and each error of a scorer.

    ``assistant.event.id`` is a hash of all attributes but the explanation, so an evaluation of the same answers by the
    same task instance yields the same ids.
    """
    run = _run_attributes(evaluation.summary)
    request_id_by_answer = {case.identity: case.request_id for case in evaluation.cases}
    for row in _scores_and_errors(evaluation.scores):
        error_type = None
        if row["error"]:
            # The error is "TypeError: text"; the text may quote the answer.
            error_type = row["error"].partition(":")[0]
        attributes = {
            "gen_ai.evaluation.name": row["scorer"],
            "gen_ai.evaluation.score.value": row["score"],
            "gen_ai.evaluation.score.label": _label(evaluation.pass_if, row["scorer"], row["score"]),
            "gen_ai.response.id": request_id_by_answer[row["key"], row["repetition"]],
            "error.type": error_type,
            "assistant.question.key": row["key"],
            "assistant.question.repetition": row["repetition"],
            "assistant.answer.seconds": row["seconds"],
        }
        known_attributes = {name: value for name, value in attributes.items() if value is not None}
        event = run | known_attributes
        event["assistant.event.id"] = _hash_of(event)
        reason = evaluation.reasons.get((row["key"], row["repetition"], row["scorer"]))
        if reason:
            event[EXPLANATION] = reason
        yield event


def _scores_and_errors(scores: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the scores and errors. In pieces: as Python objects, a table takes ten times the memory."""
    for start in range(0, scores.num_rows, _ROWS_PER_SLICE):
        for row in scores.slice(start, _ROWS_PER_SLICE).to_pylist():
            if row["outcome"] in {SCORED, ERROR}:
                yield row


def _run_attributes(summary: Summary) -> dict[str, str | float]:
    attributes: dict[str, str | float] = {"assistant.evaluation.name": summary.name}
    for name, attribute in RUN.items():
        value = summary.run.get(name)
        if value:
            attributes[attribute] = value
    # As in Airflow, -1 is the index of a task that is not mapped.
    map_index = summary.run.get("map_index")
    attributes[RUN["map_index"]] = int(map_index) if map_index else -1
    return attributes


def _label(pass_if: Condition | None, scorer: str, score: float | None) -> str | None:
    if score is None or pass_if is None:
        return None
    verdict = pass_if.holds({scorer: score})
    if verdict is None:
        return None
    return "pass" if verdict else "fail"


def _hash_of(event: Mapping[str, str | float]) -> str:
    return hashlib.blake2b(json.dumps(event, sort_keys=True).encode(), digest_size=16).hexdigest()
