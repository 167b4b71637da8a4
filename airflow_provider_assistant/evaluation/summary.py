"""What an evaluation came to: the content of ``summary.json``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1
# A score's place among so many equal parts of 0 to 1.
HISTOGRAM_BINS = 20


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Questions(_Model):
    """
    How many questions there were, and what became of them: ``total`` is the sum of the others.

    :param total: Questions.
    :param answered: Those that have an answer.
    :param unanswered: The others, by the status that the ask operator gave them.
    :param coverage: ``answered`` of ``total``; 0 if there were none.
    """

    total: int
    answered: int
    unanswered: dict[str, int]
    coverage: float


class Distribution(_Model):
    """
    Quantiles of a number over the questions that have it.

    :param count: Questions that have it.
    """

    count: int
    minimum: float | None = None
    p5: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    maximum: float | None = None


class ScorerSummary(_Model):
    """
    One scorer over all questions: ``scored``, ``unanswered``, ``not_applicable`` and ``errors`` add up to the total.

    :param kind: What sort of thing it measures, such as ``lexical similarity``.
    :param higher_is_better: False for latency.
    :param scored: Questions with a score; only these are in the figures below.
    :param unanswered: Questions without an answer to score.
    :param not_applicable: Questions that expect nothing of the kind.
    :param errors: Questions at which the scorer raised.
    :param mean: Mean weighted by the questions' weights; None if nothing was scored.
    :param spread: Unweighted quantiles.
    :param histogram: Scores in twenty equal parts of 0 to 1; empty for what is no share.
    """

    kind: str
    higher_is_better: bool
    scored: int
    unanswered: int
    not_applicable: int
    errors: int
    mean: float | None
    spread: Distribution
    histogram: list[int] = Field(default_factory=list)


class PassRate(_Model):
    """
    Questions that fulfil the condition for passing: ``passed``, ``failed`` and ``not_judged`` add up to the total.

    :param condition: The condition, as it was given.
    :param passed: Questions that fulfil it.
    :param failed: Those that do not.
    :param not_judged: Those that lack a score that the condition asks of them: unanswered, or an error; or of which it
        asks nothing, because no scorer that it names is applicable.
    :param rate: ``passed`` of ``passed`` and ``failed``; None if there are none.
    """

    condition: str
    passed: int
    failed: int
    not_judged: int
    rate: float | None


class TagSummary(_Model):
    """
    The questions of one tag.

    :param questions: Questions with the tag.
    :param answered: Those with an answer.
    :param means: Mean of every scorer, weighted.
    :param pass_rate: As in ``passes``.
    """

    questions: int
    answered: int
    means: dict[str, float | None]
    pass_rate: float | None = None


class Change(_Model):
    """A question whose score changed."""

    key: str
    before: float
    after: float


class Difference(_Model):
    """
    The paired difference of one scorer to the baseline, new minus old.

    :param paired: Questions that both evaluations scored.
    :param mean: Mean difference, weighted; None if nothing is paired.
    :param low: Lower end of the bootstrap interval of the mean.
    :param high: Its upper end.
    :param worse: How many questions got worse, whatever the direction of the scorer.
    :param better: How many got better.
    :param worst: The greatest losses, worst first; at most 50.
    :param best: The greatest gains; at most 50.
    """

    paired: int
    mean: float | None
    low: float | None
    high: float | None
    worse: int
    better: int
    worst: list[Change] = Field(default_factory=list)
    best: list[Change] = Field(default_factory=list)


class Comparison(_Model):
    """
    This evaluation and an earlier one, question by question.

    :param baseline: ``path`` of the earlier one; its ``name``, ``run_id``, ``tag`` and ``asked_at`` as far as they are
        known.
    :param confidence: Of the intervals, such as 0.95.
    :param same: Questions that stand in both and expect the same.
    :param changed: Keys that stand in both, but ask or expect something else; they are not compared.
    :param added: Keys that only this one has.
    :param removed: Keys that only the baseline has.
    :param coverage_before: Coverage of the baseline.
    :param scorers: Differences by scorer, of the scorers that both have.
    :param tags: The same by tag, then by scorer, without names of questions.
    """

    baseline: dict[str, str | None]
    confidence: float
    same: int
    changed: int
    added: int
    removed: int
    coverage_before: float
    scorers: dict[str, Difference]
    tags: dict[str, dict[str, Difference]] = Field(default_factory=dict)


class RuleVerdict(_Model):
    """
    What came of one rule of the gate.

    :param rule: The rule, as it was given.
    :param verdict: ``failed`` also if there was nothing to judge by. ``not_judged``, which does not fail the gate, is a
        comparison with what is not there yet: on a first run, or of a scorer that the baseline did not have.
    :param value: What the rule held against its threshold: of a ``drop``, the greatest loss that the interval of the
        mean difference leaves possible; None if there was nothing to judge by.
    :param reason: The verdict in words.
    """

    rule: str
    verdict: Literal["passed", "failed", "not_judged"]
    value: float | None
    reason: str


class Gate(_Model):
    """
    The verdict.

    :param verdict: ``passed`` or ``failed``; ``none`` if there are no rules.
    :param on_fail: What a failure does: ``fail``, ``skip_downstream`` or ``report``.
    :param rules: What came of each rule.
    """

    verdict: Literal["passed", "failed", "none"]
    on_fail: Literal["fail", "skip_downstream", "report"]
    rules: list[RuleVerdict]


class Summary(_Model):
    """
    An evaluation's outcome. It has no time of day of its own: the same answers give the same bytes.

    :param name: Name of the evaluation: by default the DAG's and task's.
    :param run: ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``logical_date`` and ``run_after`` of the task that
        evaluated; in a loop (Airflow 3.4) also its ``region``.
    :param asked_at: When the first question was submitted, ISO 8601 in UTC; None if none was.
    :param tag: Name given to this evaluation to be compared with later, or None.
    :param questions: Counts.
    :param scorers: By scorer, in the order given.
    :param passes: Pass rate, if there is a condition.
    :param latency: Seconds from question to answer, as long as the service took; of answers where that is known.
    :param noticed_after: Seconds until a poll noticed the answer: they depend on how often was polled.
    :param tags: By tag, in alphabetical order.
    :param comparison: With the baseline, if there is one.
    :param gate: The verdict.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    run: dict[str, str | None] = Field(default_factory=dict)
    asked_at: str | None = None
    tag: str | None = None
    questions: Questions
    scorers: dict[str, ScorerSummary]
    passes: PassRate | None = None
    latency: Distribution
    noticed_after: Distribution = Field(default_factory=lambda: Distribution(count=0))
    tags: dict[str, TagSummary] = Field(default_factory=dict)
    comparison: Comparison | None = None
    gate: Gate
