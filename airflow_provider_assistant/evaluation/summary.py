"""Models of the summary of an evaluation, the content of ``summary.json``."""

from __future__ import annotations

from pydantic import Field, computed_field

from airflow_provider_assistant.evaluation.judge_summary import JudgeSummary, PairCounts
from airflow_provider_assistant.evaluation.rules import PAIRWISE
from airflow_provider_assistant.evaluation.verdict import Gate, Model, NamedQuestions

SCHEMA_VERSION = 1
# Number of equal bins from 0 to 1 in a histogram of scores.
HISTOGRAM_BINS = 20


class Questions(Model):
    """
    Counts of the questions. ``total`` is the sum of ``answered`` and ``unanswered``.

    :param unanswered: Number of questions without an answer, by status of the chat batch.
    :param coverage: Share of questions with an answer; 0 without questions.
    """

    total: int
    answered: int
    unanswered: dict[str, int]
    coverage: float


class Distribution(Model):
    """
    Quantiles of a number over the questions that have it.

    :param count: Number of questions that have the number. The quantiles are None if it is 0.
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


class Confidence(Model):
    """
    Confidence of the service in its answers.

    :param answers: Number of answers whose reply has a level or a score.
    :param low: Number of answers with the level ``low``.
    :param scores: Quantiles of the scores.
    """

    answers: int
    low: int
    scores: Distribution


class ScorerSummary(Model):
    """
    One scorer over all questions.

    ``scored``, ``unanswered``, ``not_applicable``, ``not_judged`` and ``errors`` add up to the total.

    :param kind: Kind of the scorer: ``lexical similarity``, ``check``, ``latency``, ``confidence``,
        ``judge`` or ``custom``.
    :param scored: Number of questions with a score. The figures below include only these.
    :param not_applicable: Number of questions without an expectation for this scorer.
    :param mean: Weighted mean of the scores; None if no question was scored.
    :param mean_with_errors: The same if every answer on which the scorer failed had the worst score.
    :param spread: Unweighted quantiles of the scores.
    :param histogram: Number of scores in 20 equal bins from 0 to 1; empty for scorers with another range.
    :param judge: None for scorers that are not judges.
    :param not_judged: Number of answers whose latency or confidence is not known.
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
    judge: JudgeSummary | None = None
    not_judged: int = 0
    mean_with_errors: float | None = None


class PassRate(Model):
    """
    Counts of the condition ``pass_if``, in which a conversation counts once: it passes if all its turns pass.

    ``passed``, ``failed`` and ``not_judged`` add up to the number of questions and conversations.

    :param condition: The condition as the user wrote it.
    :param not_judged: Number of questions without a required score (no answer, an error of the scorer, or
        an unknown latency or confidence), or for which no scorer of the condition is applicable.
    :param answered: Number of questions and conversations that have all their answers.
    :param rate: ``passed / (passed + failed)``; None if no question was judged.
    :param rate_with_errors: The same if every answer on which a scorer failed had failed.
    """

    condition: str
    passed: int
    failed: int
    not_judged: int
    answered: int = 0
    rate: float | None
    rate_with_errors: float | None = None


class TagSummary(Model):
    """
    The questions of one tag.

    :param means: Weighted mean by scorer.
    :param scored: Number of questions with a score by scorer.
    :param passes: Pass rate; None without a condition.
    :param means_with_errors: Weighted mean by scorer if every answer on which the scorer failed had the worst score.
    """

    questions: int
    answered: int
    means: dict[str, float | None]
    passes: PassRate | None = None
    scored: dict[str, int] = Field(default_factory=dict)
    means_with_errors: dict[str, float | None] = Field(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pass_rate(self) -> float | None:
        """Pass rate; None without a condition, or if no question was judged."""
        return self.passes.rate if self.passes else None


class Change(Model):
    """A question whose score changed."""

    key: str
    before: float
    after: float


class Difference(Model):
    """
    The difference of one figure from the baseline, new minus old. The old value of a question is the mean of the runs.

    :param paired: Number of questions that have a value now and in the baseline. A conversation counts once.
    :param comparable: Number of questions that have a value now or in the latest run of the baseline.
    :param mean: Weighted mean of the differences; None without paired questions.
    :param low: Lower end of the interval of the mean; None with fewer than two paired questions.
    :param error: Standard error of the mean, from how much the values vary from run to run.
    :param freedom: Degrees of freedom of ``error``.
    :param together: Difference of the last three runs together from the runs before them; None with fewer than three
        runs before them.
    :param together_error: Standard error of ``together``.
    :param worse: Number of questions that are worse than in every run of the baseline. This respects
        ``higher_is_better``.
    :param worst: The greatest losses among these, largest first; at most 50.
    :param best: The greatest gains, largest first; at most 50.
    """

    paired: int
    comparable: int = 0
    mean: float | None
    low: float | None
    high: float | None
    error: float | None = None
    freedom: float | None = None
    together: float | None = None
    together_error: float | None = None
    worse: int
    better: int
    unchanged: int = 0
    worst: list[Change] = Field(default_factory=list)
    best: list[Change] = Field(default_factory=list)


class Comparison(Model):
    """
    The comparison of an evaluation with its baseline, question by question.

    :param baseline: ``path`` of the baseline's scores; its ``name``, ``run_id``, ``tag`` and ``asked_at``, None if not
        known. Of several runs, those of the latest.
    :param runs: Number of runs that the baseline consists of.
    :param passes: Difference of the pass rate; None without a condition.
    :param coverage: Difference of the coverage.
    :param confidence: Confidence level of the intervals, such as 0.95.
    :param same: Number of questions that are the same in both, with the same expectations.
    :param changed: Number of keys in both whose question or expectations differ. These are not compared.
    :param scorers: Differences by scorer, for the scorers of both evaluations.
    :param tags: Differences by tag and scorer, without lists of questions.
    :param changed_judges: Judges of both evaluations whose model, rubric or prompt differ. These are not compared.
    :param changed_latency: Whether the latencies of both come from different sources: the service's times
        and measurements. These are not compared.
    """

    baseline: dict[str, str | None]
    confidence: float
    same: int
    changed: int
    added: int
    removed: int
    coverage_before: float
    scorers: dict[str, Difference]
    runs: int = 1
    passes: Difference | None = None
    coverage: Difference | None = None
    tags: dict[str, dict[str, Difference]] = Field(default_factory=dict)
    changed_judges: list[str] = Field(default_factory=list)
    changed_latency: bool = False


class RepeatedScorer(Model):
    """
    One scorer over the repetitions of the questions. Every question counts once.

    :param mean: Weighted mean over the questions of their mean score; None if no question was scored.
    :param low: Lower end of the interval of the mean. It is over questions, each with all its repetitions.
    :param worst: Weighted mean over the questions of their worst repetition.
    :param varying: Share of the questions with at least two scores whose scores differ; None if there are none.
    """

    mean: float | None
    low: float | None
    high: float | None
    worst: float | None
    varying: float | None


class Repetitions(Model):
    """
    The repetitions of the questions.

    :param most: Greatest number of repetitions of a question.
    :param questions: Number of questions; ``questions`` of the summary counts every repetition.
    :param repeated: Number of questions with at least two answers.
    :param disagreement: Share of these whose answers differ after normalisation; None if there are none.
    :param unstable: Share of the questions with at least two judged repetitions that pass in some repetitions and fail
        in others; None if there are none.
    """

    most: int
    questions: int
    repeated: int
    disagreement: float | None
    unstable: float | None
    scorers: dict[str, RepeatedScorer]


class Summary(Model):
    """
    The result of an evaluation. It does not contain the time of the evaluation: the same answers give the same bytes.

    :param name: Name of the evaluation. Default of the operator: ``<dag_id>.<task_id>``.
    :param run: ``dag_id``, ``run_id``, ``task_id``, ``map_index``, ``logical_date`` and ``run_after`` of the task
        instance that evaluated; in a loop (Airflow 3.4) also its ``region``.
    :param site: Id of the site that answered; None if not known.
    :param asked_at: Time when the first question was submitted, ISO 8601 in UTC; None if not known.
    :param scorers: Figures by scorer, in the order of the parameter.
    :param passes: Pass rate; None without a condition.
    :param latency: Latency in seconds, for the answers that have it.
    :param latency_error: Seconds by which latencies may be too long, for those that were measured because
        the replies have no times.
    :param confidence: Confidence of the service in its answers; None if no reply has one.
    :param noticed_after: Seconds from submission to the poll that found the answer. They depend on the poll interval.
    :param part: What the questions are a part of the golden set by, such as ``tag billing``; None for
        all of it. Such an evaluation is no baseline.
    :param tags: Figures by tag, in alphabetical order.
    :param repetitions: Figures of the repetitions; None if every question was asked once.
    :param comparison: Comparison with the baseline; None without a baseline.
    :param earlier_name: Name of another evaluation of the same questions, whose runs would be the baseline if this one
        was renamed; None if there is a baseline or no such evaluation.
    :param errors: Answers on which a scorer failed.
    :param failing: Questions that do not fulfil the condition; None without a condition.
    :param newly_failing: Those of them that fulfilled it in nine of ten runs of the baseline; None without a condition
        or without a baseline.
    """

    schema_version: int = SCHEMA_VERSION
    name: str
    run: dict[str, str | None] = Field(default_factory=dict)
    site: str | None = None
    asked_at: str | None = None
    tag: str | None = None
    part: str | None = None
    questions: Questions
    scorers: dict[str, ScorerSummary]
    passes: PassRate | None = None
    latency: Distribution
    latency_error: Distribution = Field(default_factory=lambda: Distribution(count=0))
    noticed_after: Distribution = Field(default_factory=lambda: Distribution(count=0))
    confidence: Confidence | None = None
    tags: dict[str, TagSummary] = Field(default_factory=dict)
    repetitions: Repetitions | None = None
    comparison: Comparison | None = None
    earlier_name: str | None = None
    errors: NamedQuestions = Field(default_factory=lambda: NamedQuestions(count=0))
    failing: NamedQuestions | None = None
    newly_failing: NamedQuestions | None = None
    gate: Gate

    def as_json(self) -> bytes:
        """Return the content of ``summary.json``."""
        return f"{self.model_dump_json(indent=1)}\n".encode()

    @property
    def pass_rate(self) -> float | None:
        """Pass rate; None without a condition, or if no question was judged."""
        return self.passes.rate if self.passes else None

    @property
    def judges(self) -> list[JudgeSummary]:
        """The judges among the scorers."""
        return [scorer.judge for scorer in self.scorers.values() if scorer.judge]

    @property
    def judge_tokens(self) -> int | None:
        """Number of tokens of all judges, of prompts and replies; None without judges, or if it is not reported."""
        return sum(judge.input_tokens + judge.output_tokens for judge in self.judges) or None

    @property
    def judge_cost(self) -> float | None:
        """Cost of these tokens; None without judges or without a price."""
        costs = [judge.cost for judge in self.judges if judge.cost is not None]
        return sum(costs) if costs else None

    @property
    def is_worse(self) -> bool:
        """Whether a comparison failed because the answers got worse."""
        return any(rule.is_worse for rule in self.gate.rules)

    @property
    def means(self) -> dict[str, float | None]:
        """Weighted mean by scorer."""
        return {name: scorer.mean for name, scorer in self.scorers.items()}

    @property
    def pairs(self) -> PairCounts | None:
        """Counts of the judge that compares answers; None if it was not asked."""
        scorer = self.scorers.get(PAIRWISE)
        return scorer.judge.pairs if scorer and scorer.judge else None
