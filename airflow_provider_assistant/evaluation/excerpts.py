"""Excerpts of a summary: for XCom, for the datasets, for log lines and for errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.scored import passed_in
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.run_directory import RunDirectory
    from airflow_provider_assistant.evaluation.summary import Difference, Summary
    from airflow_provider_assistant.evaluation.verdict import Gate, RuleVerdict

# Number of failed rules that are listed, and of questions for each of them.
FAILED_RULES_NAMED = 10
QUESTIONS_NAMED = 10
QUESTIONS_IN_ERROR = 3
# Length limits in characters.
REASON_LENGTH = 300
KEY_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Figures:
    """
    The main figures of an evaluation. Without answers, the defaults.

    :param verdict: ``passed``, ``failed`` or ``none``.
    :param pass_rate: Share of the judged questions that passed; None without a condition.
    :param means: Weighted mean by scorer.
    """

    name: str
    verdict: str = "none"
    questions: int = 0
    answered: int = 0
    coverage: float | None = None
    pass_rate: float | None = None
    means: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskResult(Figures):
    """
    What the task returns: a few kilobytes, whatever the size of the evaluation.

    The operator describes the fields. The paths are None if no files were written.
    """

    failed_rules: list[dict[str, Any]] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    failing: int | None = None
    newly_failing: list[str] | None = None
    judge_tokens: int | None = None
    judge_cost: float | None = None
    baseline: str | None = None
    scores_path: str | None = None
    summary_path: str | None = None
    report_path: str | None = None
    lake_path: str | None = None


def figures_of(summary: Summary) -> dict[str, Any]:
    """Return the fields of :class:`Figures`."""
    return {
        "name": summary.name,
        "verdict": summary.gate.verdict,
        "questions": summary.questions.total,
        "answered": summary.questions.answered,
        "coverage": summary.questions.coverage,
        "pass_rate": summary.pass_rate,
        "means": summary.means,
    }


def task_result(summary: Summary, directory: RunDirectory, lake_file: str | None) -> TaskResult:
    """Return the result of a task that has written the files of an evaluation."""
    failed_rules = [_failed_rule(rule) for rule in _failed(summary.gate.rules)[:FAILED_RULES_NAMED]]
    newly_failing = None
    if summary.newly_failing:
        newly_failing = _shortened_keys(summary.newly_failing.keys)
    return TaskResult(
        **figures_of(summary),
        failed_rules=failed_rules,
        worse=_worse(summary),
        failing=summary.failing.count if summary.failing else None,
        newly_failing=newly_failing,
        judge_tokens=summary.judge_tokens,
        judge_cost=summary.judge_cost,
        baseline=summary.comparison.baseline["path"] if summary.comparison else None,
        scores_path=str(directory.scores),
        summary_path=str(directory.summary),
        report_path=str(directory.report),
        lake_path=lake_file,
    )


def baseline_text(summary: Summary) -> str | None:
    """Return which run an evaluation is compared with, as a sentence; None without a comparison."""
    if summary.comparison is None:
        return None
    baseline = summary.comparison.baseline
    run = baseline["run_id"] or baseline["path"]
    of_day = f" of {baseline['asked_at']}" if baseline["asked_at"] else ""
    earlier = summary.comparison.runs - 1
    others = f" and {counted(earlier, 'run')} before" if earlier else ""
    return f"Compared with {run}{of_day}{others}."


def verdict_word(gate: Gate) -> str:
    """Return the verdict of the gate in the words of its rules, such as ``worse`` or ``too few questions to say``."""
    if gate.verdict == "none":
        return "no gate"
    words = [rule.word for rule in gate.rules]
    # The first of these words decides.
    return next(word for word in ("worse", "failed", "passed", *words) if word in words)


def told(difference: Difference, *, higher_is_better: bool) -> str:
    """Return in words what a difference to the baseline says. Chance explains it if its interval includes 0."""
    if difference.mean is None or difference.low is None or difference.high is None:
        return "too few questions to say"
    if difference.low <= 0 <= difference.high:
        return "no change is proven" if difference.worse or difference.better else "no change"
    return "better" if (difference.mean > 0) == higher_is_better else "worse"


def _worse(summary: Summary) -> list[str]:
    """Return the scorers that got worse by more than chance explains."""
    worse = []
    differences = summary.comparison.scorers if summary.comparison else {}
    for name, difference in differences.items():
        if told(difference, higher_is_better=summary.scorers[name].higher_is_better) == "worse":
            worse.append(name)
    return worse


def _failed_rule(rule: RuleVerdict) -> dict[str, Any]:
    return {
        "rule": shortened(rule.rule, REASON_LENGTH),
        "verdict": rule.word,
        "reason": shortened(rule.reason, REASON_LENGTH),
        "questions": _shortened_keys([question.key for question in rule.questions]),
    }


def _shortened_keys(keys: Sequence[str]) -> list[str]:
    return [shortened(key, KEY_LENGTH) for key in keys[:QUESTIONS_NAMED]]


def rows_of(summary: Summary, path: str, logical_date: datetime | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the dataset ``evaluations``, one per scorer."""
    figures = figures_of(summary)
    # The mean of a scorer is a column of its row.
    means = figures.pop("means")
    run = summary.run
    evaluation_columns = {
        **figures,
        "tag": summary.tag,
        "dag_id": run["dag_id"],
        "run_id": run["run_id"],
        "task_id": run["task_id"],
        "map_index": int(run["map_index"] or -1),
        "logical_date": logical_date,
        "asked_at": datetime.fromisoformat(summary.asked_at) if summary.asked_at else None,
        "low_confidence": summary.confidence.low if summary.confidence else None,
        "path": path,
    }
    for name, scorer in summary.scorers.items():
        row = {
            **evaluation_columns,
            "scorer": name,
            "scored": scorer.scored,
            "mean": means[name],
        }
        if summary.comparison:
            row["baseline"] = summary.comparison.baseline["path"]
            difference = summary.comparison.scorers.get(name)
            if difference:
                row["difference"] = difference.mean
                row["difference_low"] = difference.low
                row["difference_high"] = difference.high
        yield row


def answer_rows_of(evaluation: Evaluation, path: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of the dataset ``evaluation_answers``, one per answer."""
    passed = passed_in(evaluation.scores, evaluation.pass_if)
    for case in evaluation.cases:
        yield {
            "name": evaluation.summary.name,
            "tag": evaluation.summary.tag,
            "key": case.key,
            "repetition": case.repetition,
            "question": case.message,
            "answer": case.answer,
            "status": case.status,
            "passed": passed.get(case.identity),
            "request_id": case.request_id,
            "session_id": case.session_id,
            "path": path,
        }


def failures_of(rules: Sequence[RuleVerdict]) -> str:
    """Return the failed rules with their reasons and their worst questions, as text."""
    failed = _failed(rules)
    texts = []
    for verdict in failed[:FAILED_RULES_NAMED]:
        rule = shortened(verdict.rule, REASON_LENGTH)
        reason = shortened(verdict.reason, REASON_LENGTH)
        texts.append(f"{rule!r} ({reason}{_worst_questions(verdict)})")
    if len(failed) > FAILED_RULES_NAMED:
        texts.append(f"and {len(failed) - FAILED_RULES_NAMED} more, see the log")
    return f"{len(failed)} of {counted(len(rules), 'rule')} failed: {', '.join(texts)}"


def _worst_questions(verdict: RuleVerdict) -> str:
    worst = verdict.questions[:QUESTIONS_IN_ERROR]
    if not worst:
        return ""
    text = ": " + ", ".join(shortened(question.key, KEY_LENGTH) for question in worst)
    if verdict.concerned > len(worst):
        text += f" and {verdict.concerned - len(worst)} more"
    return text


def means_of(means: Mapping[str, float | None]) -> str:
    """Return the means by scorer, as text."""
    texts = []
    for name, mean in means.items():
        if mean is None:
            texts.append(f"{name} none")
        else:
            texts.append(f"{name} {mean:.4g}")
    return ", ".join(texts)


def cost_of(summary: Summary) -> str:
    """Return what the judges cost, as text; empty without judges."""
    if summary.judge_tokens is None:
        return ""
    text = f"the judges used {counted(summary.judge_tokens, 'token')}"
    if summary.judge_cost is not None:
        text += f", which cost {summary.judge_cost:.4g}"
    return text


def _failed(rules: Sequence[RuleVerdict]) -> list[RuleVerdict]:
    return [verdict for verdict in rules if verdict.verdict == "failed"]
