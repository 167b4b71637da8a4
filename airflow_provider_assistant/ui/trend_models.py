"""What the page gets from the API server about evaluations."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from airflow_provider_assistant.ui.models import Model, Problem, Task, Verdict


class FailedRule(Model):
    """
    A rule of the gate that failed.

    :param verdict: ``failed``, or ``worse`` for a comparison that failed because the answers got worse.
    :param questions: Keys of its worst questions; at most 10.
    """

    rule: str
    verdict: str = "failed"
    reason: str
    questions: list[str] = Field(default_factory=list)


class Evaluation(Model):
    """
    One evaluation.

    :param site_id: Site that answered; None if the answers do not say it, or are of several sites.
    :param at: When the first question was asked, else the logical date, else the day of the partition.
    :param coverage: Share of questions with an answer, 0 to 1; None without questions.
    :param pass_rate: Share of the judged questions that passed, 0 to 1; None without a condition.
    :param means: Weighted mean by scorer.
    :param worse: Scorers whose whole interval of the difference to the baseline is on the bad side of zero.
    :param failed_rules: Rules of the gate that failed; like the next one only for the evaluation of a task.
    :param newly_failing: Keys of questions that passed in the baseline and fail now; at most 10.
    :param report: Path of the report below Airflow's base URL.
    """

    name: str
    site_id: str | None = None
    at: datetime
    verdict: Verdict
    questions: int
    answered: int
    coverage: float | None
    pass_rate: float | None
    means: dict[str, float | None]
    worse: list[str]
    failed_rules: list[FailedRule] = Field(default_factory=list)
    newly_failing: list[str] = Field(default_factory=list)
    report: str | None
    task: Task


class Evaluations(Model):
    """
    The last evaluations, earliest first; at most 100.

    :param names: Names of all of them, for a filter.
    """

    problem: Problem | None
    names: list[str]
    rows: list[Evaluation]
