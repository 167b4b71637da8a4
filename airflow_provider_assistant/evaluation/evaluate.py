"""Build the summary of an evaluation from its scores: counts, figures, comparison and verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.evaluation import statistics
from airflow_provider_assistant.evaluation.comparison import Scored, by_question, compare, of_scorer
from airflow_provider_assistant.evaluation.gate import Findings, judge, verdict_of
from airflow_provider_assistant.evaluation.repetitions import repetitions_of
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.evaluation.summary import (
    Gate,
    JudgeSummary,
    PassRate,
    Questions,
    ScorerSummary,
    Summary,
    TagSummary,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.cases import Case
    from airflow_provider_assistant.evaluation.rules import Condition, OnFail, Rule
    from airflow_provider_assistant.evaluation.scorers import Scorer


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


def baseline_of(cases: Sequence[Case], scorers: Sequence[Scorer], *, name: str | None, path: str | None) -> Baseline:
    """
    Score the answers of another site or another day, to compare with.

    :param cases: The other answers, with the same expectations.
    :param scorers: The scorers of the evaluation.
    :param name: Name of the other answers, such as their site; or None.
    :param path: Path of the other answers, or None.
    """
    about = {"path": path, "name": name, "run_id": None, "tag": None, "asked_at": _asked_at(cases)}
    return Baseline(score_cases(cases, scorers), about, cases=cases)


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
    by_scorer = {scorer.name: of_scorer(scores, scorer.name) for scorer in scorers}
    passed = _passed(by_scorer, pass_if) if pass_if else {}
    higher_is_better = {scorer.name: scorer.higher_is_better for scorer in scorers}
    findings = Findings(
        _questions(cases),
        {scorer.name: _scorer(scorer, by_scorer[scorer.name], judges.get(scorer.name)) for scorer in scorers},
        _passes(pass_if, [passed[_identity(case)] for case in cases]) if pass_if else None,
        statistics.distribution(_known(case.seconds for case in cases if case.answer is not None)),
        _tags(cases, by_scorer, passed),
        compare(
            scores,
            baseline.scores,
            higher_is_better=higher_is_better,
            baseline=baseline.about,
            changed_judges=[name for name, own in judges.items() if not own.judges_like(baseline.judges.get(name))],
        )
        if baseline
        else None,
        statistics.distribution(_known(case.noticed_after for case in cases if case.answer is not None)),
        repetitions_of(cases, by_scorer, higher_is_better, passed),
    )
    verdicts = judge(rules, findings, pass_if)
    return Summary(
        name=name,
        run=dict(run or {}),
        asked_at=_asked_at(cases),
        tag=tag,
        **findings._asdict(),
        gate=Gate(verdict=verdict_of(verdicts), on_fail=on_fail, rules=verdicts),
    )


def _identity(one: Case | Scored) -> tuple[str, int]:
    return one.key, one.repetition


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _questions(cases: Sequence[Case]) -> Questions:
    unanswered = Counter(case.status for case in cases if case.answer is None)
    answered = len(cases) - unanswered.total()
    return Questions(
        total=len(cases),
        answered=answered,
        unanswered=dict(sorted(unanswered.items())),
        coverage=answered / len(cases) if cases else 0.0,
    )


def _scorer(scorer: Scorer, rows: Sequence[Scored], judged: JudgeSummary | None) -> ScorerSummary:
    outcomes = Counter(row.outcome for row in rows)
    values, _ = _scored(rows)
    return ScorerSummary(
        kind=scorer.kind,
        higher_is_better=scorer.higher_is_better,
        scored=outcomes["scored"],
        unanswered=outcomes["unanswered"],
        not_applicable=outcomes["not_applicable"],
        errors=outcomes["error"],
        mean=statistics.weighted_mean(*_scored(by_question(rows))),
        spread=statistics.distribution(values),
        histogram=statistics.histogram(values) if scorer.is_share else [],
        judge=judged,
    )


def _scored(rows: Sequence[Scored]) -> tuple[list[float], list[float]]:
    """Return the scores and the weights of the scored questions. Errors and missing answers do not count as 0."""
    found = [(row.score, row.weight) for row in rows if row.score is not None]
    return [score for score, _ in found], [weight for _, weight in found]


def _passed(by_scorer: Mapping[str, Sequence[Scored]], condition: Condition) -> dict[tuple[str, int], bool | None]:
    """Return whether each question fulfils the condition, or None if it cannot be judged, by key and repetition."""
    found: dict[tuple[str, int], dict[str, float | None]] = defaultdict(dict)
    for scorer in condition.names:
        for row in by_scorer[scorer]:
            scores = found[_identity(row)]
            if row.outcome != "not_applicable":
                scores[scorer] = row.score
    return {identity: condition.holds(scores) for identity, scores in found.items()}


def _passes(condition: Condition, results: Sequence[bool | None]) -> PassRate:
    passed, failed, not_judged = (results.count(result) for result in (True, False, None))
    return PassRate(
        condition=condition.text, passed=passed, failed=failed, not_judged=not_judged, rate=_rate(passed, failed)
    )


def _rate(passed: int, failed: int) -> float | None:
    return passed / (passed + failed) if passed or failed else None


def _tags(
    cases: Sequence[Case],
    by_scorer: Mapping[str, Sequence[Scored]],
    passed: Mapping[tuple[str, int], bool | None],
) -> dict[str, TagSummary]:
    tagged: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        for tag in case.tags:
            tagged[tag].append(case)
    scored: dict[tuple[str, str], list[Scored]] = defaultdict(list)
    for scorer, rows in by_scorer.items():
        for row in rows:
            for tag in row.tags:
                scored[tag, scorer].append(row)
    return {
        tag: TagSummary(
            questions=len(found),
            answered=sum(case.answer is not None for case in found),
            means={
                scorer: statistics.weighted_mean(*_scored(by_question(scored[tag, scorer]))) for scorer in by_scorer
            },
            pass_rate=_rate(*_counts(passed.get(_identity(case)) for case in found)),
        )
        for tag, found in sorted(tagged.items())
    }


def _counts(results: Any) -> tuple[int, int]:
    counts = Counter(results)
    return counts[True], counts[False]


def _asked_at(cases: Sequence[Case]) -> str | None:
    """Return the time when the first question was submitted, or None if the answers do not contain it."""
    moments = [case.row.get("submitted_at") for case in cases]
    known = [moment for moment in moments if isinstance(moment, datetime) and moment.tzinfo]
    return min(known).astimezone(UTC).isoformat() if known else None
