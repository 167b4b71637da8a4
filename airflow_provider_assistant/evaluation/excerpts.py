"""Excerpts of a summary: for XCom, for the dataset ``evaluations``, for log lines and for errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.run_directory import RunDirectory
    from airflow_provider_assistant.evaluation.summary import RuleVerdict, Summary

# Number of failed rules that are listed, and length limit of each text in characters.
FAILED_RULES_NAMED = 10
REASON_LENGTH = 300


def xcom_summary(summary: Summary, place: RunDirectory, lake_file: str | None) -> dict[str, Any]:
    """Return the result of the task for XCom: a few kilobytes, whatever the size of the evaluation."""
    return {
        "name": summary.name,
        "verdict": summary.gate.verdict,
        "questions": summary.questions.total,
        "answered": summary.questions.answered,
        "coverage": summary.questions.coverage,
        "pass_rate": summary.passes.rate if summary.passes else None,
        "means": {name: scorer.mean for name, scorer in summary.scorers.items()},
        "failed_rules": [
            {"rule": shortened(found.rule, REASON_LENGTH), "reason": shortened(found.reason, REASON_LENGTH)}
            for found in _failed(summary.gate.rules)[:FAILED_RULES_NAMED]
        ],
        "baseline": summary.comparison.baseline["path"] if summary.comparison else None,
        "scores_path": str(place.scores),
        "summary_path": str(place.summary),
        "report_path": str(place.report),
        "lake_path": lake_file,
    }


def empty_head(name: str, scorers: Sequence[str]) -> dict[str, Any]:
    """Return the result of the task for XCom if there are no answers."""
    return {
        "name": name,
        "verdict": "none",
        "questions": 0,
        "answered": 0,
        "coverage": None,
        "pass_rate": None,
        "means": dict.fromkeys(scorers),
        "failed_rules": [],
        "baseline": None,
        "scores_path": None,
        "summary_path": None,
        "report_path": None,
        "lake_path": None,
    }


def rows_of(summary: Summary, path: str, logical_date: datetime | None) -> Iterable[dict[str, Any]]:
    """
    Yield the rows of the dataset ``evaluations``, one per scorer.

    :param summary: The summary.
    :param path: Path of the summary.
    :param logical_date: Logical date of the DAG run, or None.
    """
    comparison = summary.comparison
    index = summary.run["map_index"]
    for name, scorer in summary.scorers.items():
        difference = comparison.scorers.get(name) if comparison else None
        yield {
            "name": summary.name,
            "tag": summary.tag,
            **{item: summary.run[item] for item in ("dag_id", "run_id", "task_id")},
            "map_index": -1 if index is None else int(index),
            "logical_date": logical_date,
            "asked_at": datetime.fromisoformat(summary.asked_at) if summary.asked_at else None,
            "verdict": summary.gate.verdict,
            "questions": summary.questions.total,
            "answered": summary.questions.answered,
            "coverage": summary.questions.coverage,
            "pass_rate": summary.passes.rate if summary.passes else None,
            "scorer": name,
            "scored": scorer.scored,
            "mean": scorer.mean,
            "baseline": comparison.baseline["path"] if comparison else None,
            "difference": difference.mean if difference else None,
            "difference_low": difference.low if difference else None,
            "difference_high": difference.high if difference else None,
            "path": path,
        }


def _failed(rules: Sequence[RuleVerdict]) -> list[RuleVerdict]:
    return [found for found in rules if found.verdict == "failed"]


def failures_of(rules: Sequence[RuleVerdict]) -> str:
    """Return the failed rules with their reasons, as text."""
    failed = _failed(rules)
    named = []
    for found in failed[:FAILED_RULES_NAMED]:
        reason = shortened(found.reason, REASON_LENGTH)
        named.append(f"{shortened(found.rule, REASON_LENGTH)!r} ({reason})")
    if more := len(failed) - len(named):
        named.append(f"and {more} more, see the log")
    return f"{len(failed)} of {len(rules)} rules failed: {', '.join(named)}"


def means_of(head: Mapping[str, Any]) -> str:
    """Return the means by scorer, as text."""
    return ", ".join(f"{name} {'none' if mean is None else f'{mean:.4g}'}" for name, mean in head["means"].items())
