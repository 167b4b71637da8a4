"""Build the summary of an evaluation from its scores: counts, figures, comparison and verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation import statistics
from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.comparison import Scored, by_question, compare, of_scorer
from airflow_provider_assistant.evaluation.gate import check_rules, verdict_of
from airflow_provider_assistant.evaluation.repetitions import Passed, repetitions_of
from airflow_provider_assistant.evaluation.scorers import CONFIDENCE
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.evaluation.summary import (
    Comparison,
    Confidence,
    Distribution,
    JudgeSummary,
    PassRate,
    Questions,
    ScorerSummary,
    Summary,
    TagSummary,
)
from airflow_provider_assistant.evaluation.verdict import Gate

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.rules import Condition, OnFail, Rule
    from airflow_provider_assistant.evaluation.scorers import Scorer


# Reasons of judges by key of the question, number of its repetition, and scorer.
Reasons: TypeAlias = Mapping[tuple[str, int, str], str]


class Baseline(NamedTuple):
    """
    An earlier evaluation to compare with.

    :param scores: Its table of scores.
    :param about: Its ``path``, ``name``, ``run_id``, ``tag`` and ``asked_at``, see
        :class:`~airflow_provider_assistant.evaluation.summary.Comparison`.
    :param judges: Its judges by scorer. Default: none are known, so no judge is compared.
    :param cases: Its questions with their answers, for the report. Default: not known.
    """

    scores: pa.Table
    about: Mapping[str, str | None]
    judges: Mapping[str, JudgeSummary] = MappingProxyType({})
    cases: Sequence[Case] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    A finished evaluation, of which its files, the result of its task, its events and its pages are made.

    :param summary: Its figures and its verdict, the content of ``summary.json``.
    :param reasons: Reasons of the judges by key of the question, number of its repetition, and
        scorer.
    :param baseline_cases: The questions with the answers of the baseline. Empty if not known.
    """

    summary: Summary
    cases: Sequence[Case]
    scores: pa.Table
    pass_if: Condition | None = None
    reasons: Reasons = field(default_factory=dict)
    baseline_cases: Sequence[Case] = ()


def baseline_of(cases: Sequence[Case], scorers: Sequence[Scorer], *, name: str | None, path: str | None) -> Baseline:
    """
    Score the answers of another site or another day, to compare with.

    :param cases: The other answers, with the same expectations.
    :param name: Name of the other answers, such as their site; or None.
    """
    about = {
        "path": path,
        "name": name,
        "run_id": None,
        "tag": None,
        "asked_at": _asked_at(cases),
    }
    scores = score_cases(cases, scorers)
    return Baseline(scores, about, cases=cases)


def summarise(
    cases: Sequence[Case],
    scores: pa.Table,
    scorers: Sequence[Scorer],
    *,
    name: str,
    run: Mapping[str, str | None] | None = None,
    tag: str | None = None,
    pass_if: Condition | None = None,
    rules: Sequence[Rule] = (),
    on_fail: OnFail = "report",
    baseline: Baseline | None = None,
    judges: Mapping[str, JudgeSummary] = MappingProxyType({}),
) -> Summary:
    """
    Return the summary of an evaluation. The same input gives the same summary.

    :param cases: The questions.
    :param scores: The table that :func:`~airflow_provider_assistant.evaluation.scoring.score_cases` returned.
    :param scorers: The scorers of that table.
    :param name: Name of the evaluation.
    :param run: Ids of the task instance: ``dag_id``, ``run_id``, ``task_id``, … Default: empty.
    :param tag: Tag of this evaluation, for later comparisons. Default: None.
    :param pass_if: Condition for a question to pass. Default: None, no pass rate.
    :param rules: Rules of the gate. Default: none.
    :param on_fail: What a failed gate does. The summary only records it. Default: ``report``.
    :param baseline: An earlier evaluation to compare with. Default: None.
    :param judges: Model, rubric, tokens and agreement of every scorer that is a judge. Default: none.
    :return: The summary, as written to ``summary.json``.
    :raises AssistantInputError: The baseline is not a table of scores.
    """
    rows_by_scorer = {}
    higher_is_better = {}
    scorer_summaries = {}
    for scorer in scorers:
        rows = of_scorer(scores, scorer.name)
        rows_by_scorer[scorer.name] = rows
        higher_is_better[scorer.name] = scorer.higher_is_better
        scorer_summaries[scorer.name] = _scorer_summary(scorer, rows, judges.get(scorer.name))
    passed: Passed = {}
    pass_rate = None
    if pass_if:
        passed = _passed(rows_by_scorer, pass_if)
        pass_rate = _pass_rate(pass_if, cases, passed)
    comparison = None
    if baseline:
        comparison = _comparison(scores, baseline, higher_is_better, judges)
    answered = [case for case in cases if case.answer is not None]
    summary = Summary(
        name=name,
        run=dict(run or {}),
        asked_at=_asked_at(cases),
        tag=tag,
        questions=_questions(cases),
        scorers=scorer_summaries,
        passes=pass_rate,
        latency=_distribution(case.seconds for case in answered),
        latency_error=_distribution(_measurement_error(case) for case in answered),
        noticed_after=_distribution(case.noticed_after for case in answered),
        confidence=_confidence(answered),
        tags=_tag_summaries(cases, rows_by_scorer, passed),
        repetitions=repetitions_of(cases, rows_by_scorer, higher_is_better, passed),
        comparison=comparison,
        gate=Gate(verdict="none", on_fail=on_fail, rules=[]),
    )
    # The rules check the figures above, so the gate replaces the empty one at the end.
    verdicts = check_rules(rules, summary, pass_if)
    gate = Gate(verdict=verdict_of(verdicts), on_fail=on_fail, rules=verdicts)
    return summary.model_copy(update={"gate": gate})


def _distribution(values: Iterable[float | None]) -> Distribution:
    return statistics.distribution([value for value in values if value is not None])


def _measurement_error(case: Case) -> float | None:
    """Return the seconds by which the latency may be too long; None if it was not measured."""
    if case.seconds is None or case.seconds_source != "measured":
        return None
    return case.seconds_error


def _confidence(answered: Sequence[Case]) -> Confidence | None:
    """Return the confidence in the answers; None if no reply has one."""
    confident = [case for case in answered if case.has_confidence]
    if not confident:
        return None
    return Confidence(
        answers=len(confident),
        low=sum(is_low(case.confidence_level) for case in confident),
        scores=_distribution(case.confidence_score for case in confident),
    )


def _questions(cases: Sequence[Case]) -> Questions:
    unanswered_by_status = Counter(case.status for case in cases if case.answer is None)
    answered = len(cases) - unanswered_by_status.total()
    return Questions(
        total=len(cases),
        answered=answered,
        unanswered=dict(sorted(unanswered_by_status.items())),
        coverage=answered / len(cases) if cases else 0.0,
    )


def _scorer_summary(
    scorer: Scorer,
    rows: Sequence[Scored],
    judge: JudgeSummary | None,
) -> ScorerSummary:
    outcomes = Counter(row.outcome for row in rows)
    scores = [row.score for row in rows if row.score is not None]
    # The service chooses the range of its confidence: often, but not always, it is a share.
    is_share = scorer.is_share
    if scorer.kind == CONFIDENCE:
        is_share = all(0 <= score <= 1 for score in scores)
    return ScorerSummary(
        kind=scorer.kind,
        higher_is_better=scorer.higher_is_better,
        scored=outcomes["scored"],
        unanswered=outcomes["unanswered"],
        not_applicable=outcomes["not_applicable"],
        errors=outcomes["error"],
        mean=_mean(rows),
        spread=statistics.distribution(scores),
        histogram=statistics.histogram(scores) if is_share else [],
        judge=judge,
        not_judged=outcomes["not_judged"],
    )


def _mean(rows: Sequence[Scored]) -> float | None:
    """Return the weighted mean of the questions. Errors and missing answers do not count as 0."""
    scores: list[float] = []
    weights: list[float] = []
    for row in by_question(rows):
        if row.score is not None:
            scores.append(row.score)
            weights.append(row.weight)
    return statistics.weighted_mean(scores, weights)


def _passed(rows_by_scorer: Mapping[str, Sequence[Scored]], condition: Condition) -> Passed:
    """Return whether each answer fulfils the condition, or None if it cannot be judged."""
    scores_by_answer: dict[Identity, dict[str, float | None]] = defaultdict(dict)
    for scorer in condition.names:
        for row in rows_by_scorer[scorer]:
            # Also an answer to which no scorer is applicable gets an entry.
            scores = scores_by_answer[row.identity]
            if row.outcome != "not_applicable":
                scores[scorer] = row.score
    return {answer: condition.holds(scores) for answer, scores in scores_by_answer.items()}


def _pass_rate(condition: Condition, cases: Sequence[Case], passed: Passed) -> PassRate:
    counts = Counter(passed[case.identity] for case in cases)
    return PassRate(
        condition=condition.text,
        passed=counts[True],
        failed=counts[False],
        not_judged=counts[None],
        rate=_share_of_passed(counts),
    )


def _share_of_passed(counts: Counter[bool | None]) -> float | None:
    judged = counts[True] + counts[False]
    return counts[True] / judged if judged else None


def _tag_summaries(
    cases: Sequence[Case],
    rows_by_scorer: Mapping[str, Sequence[Scored]],
    passed: Passed,
) -> dict[str, TagSummary]:
    cases_by_tag: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        for tag in case.tags:
            cases_by_tag[tag].append(case)
    rows_by_tag_and_scorer: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for scorer, rows in rows_by_scorer.items():
        for row in rows:
            for tag in row.tags:
                rows_by_tag_and_scorer[tag, scorer].append(row)
    summaries = {}
    for tag, tagged_cases in sorted(cases_by_tag.items()):
        means = {}
        scored = {}
        for scorer in rows_by_scorer:
            rows = rows_by_tag_and_scorer[tag, scorer]
            means[scorer] = _mean(rows)
            scored[scorer] = sum(row.score is not None for row in rows)
        counts = Counter(passed.get(case.identity) for case in tagged_cases)
        summaries[tag] = TagSummary(
            questions=len(tagged_cases),
            answered=sum(case.answer is not None for case in tagged_cases),
            means=means,
            pass_rate=_share_of_passed(counts),
            scored=scored,
            judged=counts[True] + counts[False],
        )
    return summaries


def _comparison(
    scores: pa.Table,
    baseline: Baseline,
    higher_is_better: Mapping[str, bool],
    judges: Mapping[str, JudgeSummary],
) -> Comparison:
    changed = []
    for name, judge in judges.items():
        if not judge.judges_like(baseline.judges.get(name)):
            changed.append(name)
    return compare(
        scores,
        baseline.scores,
        higher_is_better=higher_is_better,
        baseline=baseline.about,
        changed_judges=changed,
    )


def _asked_at(cases: Sequence[Case]) -> str | None:
    """Return the time when the first question was submitted, or None if the answers do not contain it."""
    submitted = [case.row.get("submitted_at") for case in cases]
    # Times without a time zone cannot be compared with the others.
    moments = [moment for moment in submitted if isinstance(moment, datetime) and moment.tzinfo]
    if not moments:
        return None
    return min(moments).astimezone(UTC).isoformat()
