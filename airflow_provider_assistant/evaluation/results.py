"""What an evaluation returns and publishes: result of the task, rows of the datasets, texts of the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.rules import COVERAGE, PASS_RATE
from airflow_provider_assistant.evaluation.summary import QuestionCounts, Summary
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.run import Evaluation
    from airflow_provider_assistant.evaluation.runs import RunFolder
    from airflow_provider_assistant.evaluation.summary import RuleVerdict

# Number of failed rules in the result of the task, and of questions of each; of questions in the error.
RULES_NAMED, QUESTIONS_NAMED, QUESTIONS_IN_ERROR = 10, 10, 3
REASON_LENGTH, KEY_LENGTH = 300, 60


def empty_result(name: str, scorers: Sequence[str]) -> dict[str, Any]:
    """Return the result of a task without answers."""
    summary = Summary(name=name, questions=QuestionCounts(total=0, answered=0), scorers={}, figures={})
    return {**task_result(summary, None, None), "means": dict.fromkeys(scorers)}


def task_result(summary: Summary, folder: RunFolder | None, lake_file: str | None) -> dict[str, Any]:
    """
    Return the result of a task: a few kilobytes, whatever the size of the evaluation.

    :param folder: Where the files are; None if none are written.
    """
    failed = [
        {
            "rule": shortened(rule.rule, REASON_LENGTH),
            "verdict": rule.word,
            "reason": shortened(rule.reason, REASON_LENGTH),
            "questions": _keys([question.key for question in rule.questions]),
        }
        for rule in summary.gate.failed[:RULES_NAMED]
    ]
    return {
        **figures_of(summary),
        "failed_rules": failed,
        "worse": list(dict.fromkeys(rule.figure for rule in summary.gate.failed if rule.is_worse)),
        "failing": summary.failing.count if summary.failing else None,
        "newly_failing": _keys(summary.newly_failing.keys) if summary.newly_failing else None,
        "judge_tokens": summary.judge_tokens,
        "baseline": summary.earlier.path if summary.earlier else None,
        "scores_path": str(folder.scores) if folder else None,
        "summary_path": str(folder.summary) if folder else None,
        "report_path": str(folder.report) if folder else None,
        "lake_path": lake_file,
    }


def figures_of(summary: Summary) -> dict[str, Any]:
    """Return the main figures."""
    return {
        "name": summary.name,
        "verdict": summary.gate.verdict,
        "questions": summary.questions.total,
        "answered": summary.questions.answered,
        "coverage": summary.value(COVERAGE),
        "pass_rate": summary.value(PASS_RATE),
        "means": summary.means,
    }


def evaluation_rows(evaluation: Evaluation, logical_date: datetime | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the dataset ``evaluations``, one per scorer."""
    summary = evaluation.summary
    figures = figures_of(summary)
    means = figures.pop("means")
    for name, scorer in summary.scorers.items():
        change = summary.figures[name].change
        yield {
            **figures,
            "logical_date": logical_date,
            "asked_at": datetime.fromisoformat(summary.asked_at) if summary.asked_at else None,
            "low_confidence": summary.low_confidence,
            "path": str(evaluation.job.folder.summary),
            "scorer": name,
            "scored": scorer.scored,
            "mean": means[name],
            "baseline": summary.earlier.path if summary.earlier else None,
            "difference": change.mean if change else None,
            "difference_low": change.low if change else None,
            "difference_high": change.high if change else None,
        }


def failures_text(rules: Sequence[RuleVerdict]) -> str:
    """Return the failed rules with their reasons and their worst questions."""
    failed = [rule for rule in rules if rule.verdict == "failed"]
    texts = []
    for rule in failed[:RULES_NAMED]:
        worst = [shortened(question.key, KEY_LENGTH) for question in rule.questions[:QUESTIONS_IN_ERROR]]
        named = f": {', '.join(worst)}" if worst else ""
        if rule.deciding > len(worst):
            named += f" and {rule.deciding - len(worst)} more"
        texts.append(f"{shortened(rule.rule, REASON_LENGTH)!r} ({shortened(rule.reason, REASON_LENGTH)}{named})")
    if len(failed) > RULES_NAMED:
        texts.append(f"and {len(failed) - RULES_NAMED} more, see the log")
    return f"{len(failed)} of {counted(len(rules), 'rule')} failed: {', '.join(texts)}"


def notes_of(summary: Summary) -> list[str]:
    """Return which runs an evaluation is compared with, and what its judges used, as sentences."""
    notes = []
    if earlier := summary.earlier:
        of_day = f" of {earlier.asked_at}" if earlier.asked_at else ""
        others = f" and {counted(earlier.runs - 1, 'run')} before" if earlier.runs > 1 else ""
        notes.append(f"Compared with {earlier.run_id or earlier.path}{of_day}{others}.")
    if summary.judge_tokens:
        notes.append(f"The judges used {counted(summary.judge_tokens, 'token')}.")
    return notes


def means_text(summary: Summary) -> str:
    """Return the means by scorer."""
    return ", ".join(f"{name} {'none' if mean is None else f'{mean:.4g}'}" for name, mean in summary.means.items())


def _keys(keys: Sequence[str]) -> list[str]:
    return [shortened(key, KEY_LENGTH) for key in keys[:QUESTIONS_NAMED]]
