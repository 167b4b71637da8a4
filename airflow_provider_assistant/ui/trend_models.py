"""What the page gets from the API server about the lake."""

from __future__ import annotations

from datetime import date, datetime

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
    tag: str | None
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


class Point(Model):
    """A value of a day."""

    day: date
    value: float


class Series(Model):
    """
    A number over time.

    :param name: Metric, such as ``chats.total``.
    :param site_id: Site, with its service if there are several; None for a number of the tenant.
    """

    name: str
    site_id: str | None
    points: list[Point]


class FeedbackDay(Model):
    """Ratings of one partition by word."""

    day: date
    ratings: dict[str, int]


class Statistics(Model):
    """
    Trends from the lake, of the last 30 partitions.

    :param metrics: Names of all numeric metrics of the latest capture; at most 500.
    :param series: The metrics that the request names; by default the first four.
    :param feedback: Ratings that were sent.
    :param gaps: Days without statistics among the last 30, between the first and the last that have some.
    """

    problem: Problem | None
    metrics: list[str]
    series: list[Series]
    feedback: list[FeedbackDay]
    gaps: list[date] = Field(default_factory=list)


class Limit(Model):
    """
    A limit of the tenant.

    :param name: Path of the limit in the reply, such as ``limits.documents``.
    :param used: Amount used; None if the service does not say.
    :param share: ``used / limit``, or None.
    :param captured_at: When the service said so.
    """

    tenant_id: str | None
    name: str
    used: float | None
    limit: float
    share: float | None
    resets_at: str | None
    captured_at: datetime


class Limits(Model):
    """
    Limits of the latest capture of each tenant, the most used first.

    :param gaps: Days without limits among the last 30, between the first and the last that have some.
    """

    problem: Problem | None
    rows: list[Limit]
    gaps: list[date] = Field(default_factory=list)
