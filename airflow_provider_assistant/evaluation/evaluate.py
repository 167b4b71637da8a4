"""Build the summary of an evaluation from its scores: counts, figures, comparison and verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation import statistics
from airflow_provider_assistant.evaluation.baseline import Baseline, EarlierRun
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.comparison import compare
from airflow_provider_assistant.evaluation.concerned import Concerned
from airflow_provider_assistant.evaluation.gate import check_rules, verdict_of
from airflow_provider_assistant.evaluation.judge_summary import JudgeSummary
from airflow_provider_assistant.evaluation.passing import Passing
from airflow_provider_assistant.evaluation.repetitions import repetitions_of
from airflow_provider_assistant.evaluation.scored import Scored, by_question, of_scorer
from airflow_provider_assistant.evaluation.scorers import CONFIDENCE
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.evaluation.summary import (
    Confidence,
    Distribution,
    Questions,
    ScorerSummary,
    Summary,
    TagSummary,
)
from airflow_provider_assistant.evaluation.units import Unit, units_of
from airflow_provider_assistant.evaluation.verdict import Gate, NamedQuestions

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.rules import Condition, OnFail, Rule
    from airflow_provider_assistant.evaluation.scorers import Scorer


# Reasons of judges by key of the question, number of its repetition, and scorer.
Reasons: TypeAlias = Mapping[tuple[str, int, str], str]


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


def baseline_of(
    cases: Sequence[Case],
    scorers: Sequence[Scorer],
    *,
    name: str | None,
    path: str | None,
    judges: Mapping[str, JudgeSummary] = MappingProxyType({}),
) -> Baseline:
    """
    Score the answers of another site or another day, to compare with.

    :param cases: The other answers, with the same expectations.
    :param name: Name of the other answers, such as their site; or None.
    :param judges: Judges among the scorers. Default: none.
    """
    about = {
        "path": path,
        "name": name,
        "run_id": None,
        "tag": None,
        "asked_at": _asked_at(cases),
    }
    run = EarlierRun(score_cases(cases, scorers), judges)
    return Baseline([run], about, cases=cases)


def summarise(
    cases: Sequence[Case],
    scores: pa.Table,
    scorers: Sequence[Scorer],
    *,
    name: str,
    run: Mapping[str, str | None] | None = None,
    site: str | None = None,
    tag: str | None = None,
    pass_if: Condition | None = None,
    rules: Sequence[Rule] = (),
    on_fail: OnFail = "report",
    baseline: Baseline | None = None,
    earlier_name: str | None = None,
    judges: Mapping[str, JudgeSummary] = MappingProxyType({}),
) -> Summary:
    """
    Return the summary of an evaluation. The same input gives the same summary.

    :param cases: The questions.
    :param scores: The table that :func:`~airflow_provider_assistant.evaluation.scoring.score_cases` returned.
    :param scorers: The scorers of that table.
    :param name: Name of the evaluation.
    :param run: Ids of the task instance: ``dag_id``, ``run_id``, ``task_id``, … Default: empty.
    :param site: Id of the site that answered. Default: None, not known.
    :param tag: Tag of this evaluation, for later comparisons. Default: None.
    :param pass_if: Condition for a question to pass. Default: None, no pass rate.
    :param rules: Rules of the gate. Default: none.
    :param on_fail: What a failed gate does. The summary only records it. Default: ``report``.
    :param baseline: An earlier evaluation to compare with. Default: None.
    :param earlier_name: Name of another evaluation with the same questions, which may be the old name of this one.
        Default: None.
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
    units = units_of(cases)
    passing = Passing.of(pass_if, cases, units, rows_by_scorer)
    compared = newly_failing = None
    if baseline:
        compared = compare(EarlierRun(scores, judges), units, baseline, scorers, pass_if)
        if compared.newly_failing is not None:
            newly_failing = NamedQuestions.of(compared.newly_failing)
    answered = [case for case in cases if case.answer is not None]
    summary = Summary(
        name=name,
        run=dict(run or {}),
        site=site,
        asked_at=_asked_at(cases),
        tag=tag,
        questions=_questions(cases),
        scorers=scorer_summaries,
        passes=passing.rate(),
        latency=_distribution(case.seconds for case in answered),
        latency_error=_distribution(_measurement_error(case) for case in answered),
        noticed_after=_distribution(case.noticed_after for case in answered),
        confidence=_confidence(answered),
        tags=_tag_summaries(cases, units, scorers, rows_by_scorer, passing),
        repetitions=repetitions_of(cases, rows_by_scorer, higher_is_better, passing.answers),
        comparison=compared.comparison if compared else None,
        earlier_name=earlier_name,
        errors=_errors(rows_by_scorer),
        failing=NamedQuestions.of(passing.failing) if pass_if else None,
        newly_failing=newly_failing,
        gate=Gate(verdict="none", on_fail=on_fail, rules=[]),
    )
    # The rules check the figures above, so the gate replaces the empty one at the end.
    concerned = Concerned(cases, rows_by_scorer, passing, compared)
    verdicts = [concerned.named(verdict) for verdict in check_rules(rules, summary, pass_if)]
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
        mean_with_errors=_mean(_with_errors(rows, scorer)),
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


def _tag_summaries(
    cases: Sequence[Case],
    units: Sequence[Unit],
    scorers: Sequence[Scorer],
    rows_by_scorer: Mapping[str, Sequence[Scored]],
    passing: Passing,
) -> dict[str, TagSummary]:
    cases_by_tag: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        for tag in case.tags:
            cases_by_tag[tag].append(case)
    rows_by_tag_and_scorer: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for name, rows in rows_by_scorer.items():
        for row in rows:
            for tag in row.tags:
                rows_by_tag_and_scorer[tag, name].append(row)
    summaries = {}
    for tag, tagged_cases in sorted(cases_by_tag.items()):
        means = {}
        means_with_errors = {}
        scored = {}
        for scorer in scorers:
            tagged_rows = rows_by_tag_and_scorer[tag, scorer.name]
            means[scorer.name] = _mean(tagged_rows)
            means_with_errors[scorer.name] = _mean(_with_errors(tagged_rows, scorer))
            scored[scorer.name] = sum(row.score is not None for row in tagged_rows)
        rate = passing.rate(tag, units)
        summaries[tag] = TagSummary(
            questions=len(tagged_cases),
            answered=sum(case.answer is not None for case in tagged_cases),
            means=means,
            passes=rate,
            scored=scored,
            means_with_errors=means_with_errors,
        )
    return summaries


def _with_errors(rows: Sequence[Scored], scorer: Scorer) -> list[Scored]:
    """Return the rows with the worst score where the scorer failed."""
    return [row._replace(score=scorer.worst) if row.outcome == "error" else row for row in rows]


def _errors(rows_by_scorer: Mapping[str, Sequence[Scored]]) -> NamedQuestions:
    failed = {row.identity: None for rows in rows_by_scorer.values() for row in rows if row.outcome == "error"}
    keys = dict.fromkeys(key for key, _repetition in failed)
    return NamedQuestions.of(list(keys)).model_copy(update={"count": len(failed)})


def _asked_at(cases: Sequence[Case]) -> str | None:
    """Return the time when the first question was submitted, or None if the answers do not contain it."""
    submitted = [case.row.get("submitted_at") for case in cases]
    # Times without a time zone cannot be compared with the others.
    moments = [moment for moment in submitted if isinstance(moment, datetime) and moment.tzinfo]
    if not moments:
        return None
    return min(moments).astimezone(UTC).isoformat()
