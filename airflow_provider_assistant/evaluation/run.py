"""Evaluate answers: score them, compare them with earlier runs, check the gate, and write the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation.arrays import np
from airflow_provider_assistant.evaluation.figures import Earlier, Figures
from airflow_provider_assistant.evaluation.gate import check_gate
from airflow_provider_assistant.evaluation.judge import Judged
from airflow_provider_assistant.evaluation.rules import Criteria, OnFail
from airflow_provider_assistant.evaluation.runs import PREVIOUS, earlier_runs, side_by_side
from airflow_provider_assistant.evaluation.scorers import check_columns
from airflow_provider_assistant.evaluation.scores import Questions, of_table, score_cases, to_table
from airflow_provider_assistant.evaluation.summary import (
    NAMED,
    EarlierRuns,
    Gate,
    Keys,
    QuestionCounts,
    RuleVerdict,
    ScorerSummary,
    Summary,
)
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.write import replace, replace_bytes

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.golden import Case
    from airflow_provider_assistant.evaluation.judge import Judge
    from airflow_provider_assistant.evaluation.runs import EarlierRun, RunFolder
    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.scores import Scores
    from airflow_provider_assistant.evaluation.verdicts import Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJob:
    """
    What to evaluate, and how: see the parameters of the operator.

    :param run: Ids and times of the task instance.
    :param site: Id of the site that answered; None if not known.
    """

    name: str
    cases: Sequence[Case]
    folder: RunFolder
    scorers: Sequence[Scorer]
    criteria: Criteria
    baseline: str | None = None
    judges: Judge | None = None
    on_fail: OnFail = "report"
    run: Mapping[str, str | None] = field(default_factory=dict)
    site: str | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """
    A finished evaluation.

    :param judgements: Judgements by scorer, one per case.
    :param failing: Questions and conversations that do not fulfil ``pass_if``.
    :param newly_failing: Those of them that usually passed before.
    :param deciding: Questions and conversations that decided a rule that failed.
    :param trend: Summaries of the earlier runs, earliest first.
    """

    job: EvaluationJob
    summary: Summary
    scores: Scores
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    failing: Sequence[str] = ()
    newly_failing: Sequence[str] = ()
    trend: Sequence[Summary] = ()
    deciding: Sequence[str] = ()

    @property
    def cases(self) -> Sequence[Case]:
        """The answers, in the order of the rows of the matrix."""
        return self.job.cases

    @property
    def table(self) -> pa.Table:
        """The content of ``scores.parquet``."""
        return to_table(self.scores, self.cases, self.job.criteria.pass_if)


def evaluate(job: EvaluationJob) -> Evaluation:
    """
    Evaluate answers, and write scores, report and summary into the folder of the run.

    :raises AssistantInputError: An expectation is missing, or the baseline or a file of an earlier try cannot be read.
    :raises AssistantError: The model of the judges is away. The verdicts so far are saved, and a retry continues.
    """
    _check(job)
    # Read before the judges are asked, because an earlier file may be damaged.
    earlier = _read_earlier(job)
    judged = Judged({}, {}, {})
    if job.judges:
        judged = job.judges.judge(job.cases, job.folder.verdicts, job.criteria.pass_if)
    scores = score_cases(job.cases, job.scorers, judged.judgements)
    figures = Figures(scores, job.scorers, job.criteria, earlier, judged.facts, judged.agreements)
    rules = check_gate(figures)
    failed = [rule for rule in rules if rule.verdict == "failed"]
    deciding = dict.fromkeys(question.key for rule in failed for question in rule.questions)
    evaluation = Evaluation(
        job=job,
        summary=_summary(job, figures, rules),
        scores=scores,
        judgements=judged.judgements,
        failing=figures.failing or (),
        newly_failing=figures.newly_failing or (),
        deciding=list(deciding),
        trend=[one.run.summary for one in earlier[::-1]],
    )
    _write(evaluation)
    return evaluation


def _check(job: EvaluationJob) -> None:
    """Check what can be checked before anything is paid for or written."""
    check_columns(job.scorers, job.criteria, job.cases)
    if job.judges:
        job.judges.check(job.cases, job.criteria.rules)


def _read_earlier(job: EvaluationJob) -> list[Earlier]:
    """Return the earlier runs, latest first; of each one, only the scores for the questions of this one are kept."""
    questions = Questions.of(job.cases)
    measured = frozenset(scorer.name for scorer in job.scorers if scorer.is_measured)
    now = dict(zip(questions.keys, questions.hashes, strict=True))

    def read(run: EarlierRun) -> Earlier:
        table = run.folder.read_scores()
        try:
            scores = of_table(table, questions, measured)
        except ValueError as error:
            raise AssistantInputError(
                f"baseline {str(run.folder.scores)!r} is not a table of scores: {error}", field="baseline"
            ) from error
        before = dict(zip(table["key"].to_pylist(), table["case"].to_pylist(), strict=True))
        common = before.keys() & now.keys()
        changed = sum(before[key] != now[key] for key in common)
        return Earlier(run, scores, changed, len(now) - len(common), len(before) - len(common))

    return side_by_side(read, earlier_runs(job.folder, job.baseline))


def _summary(job: EvaluationJob, figures: Figures, rules: Sequence[RuleVerdict]) -> Summary:
    unanswered = Counter(case.status for case in job.cases if case.answer is None)
    confident = [case for case in job.cases if case.confidence_level or case.confidence_score is not None]
    tags = Counter(tag for case in job.cases for tag in case.tags)
    asked_at = _asked_at(job.cases)
    return Summary(
        name=job.name,
        run=dict(job.run),
        site=job.site,
        asked_at=asked_at,
        pass_if=job.criteria.pass_if.text if job.criteria.pass_if else None,
        questions=QuestionCounts(
            total=len(job.cases),
            answered=len(job.cases) - unanswered.total(),
            unanswered=dict(sorted(unanswered.items())),
        ),
        scorers=_scorers(job, figures),
        tags=dict(sorted(tags.items())),
        figures=figures.by_name,
        low_confidence=sum(is_low(case.confidence_level) for case in confident) if confident else None,
        failing=Keys.of(figures.failing),
        newly_failing=Keys.of(figures.newly_failing),
        earlier=_about(figures),
        gate=_gate(job, figures, rules, asked_at),
    )


def _gate(job: EvaluationJob, figures: Figures, found: Sequence[RuleVerdict], asked_at: str | None) -> Gate:
    rules = [rule.model_copy(update={"questions": rule.questions[:NAMED]}) for rule in found]
    if not any(rule.verdict == "failed" for rule in rules):
        return Gate(verdict="passed" if rules else "none", on_fail=job.on_fail, rules=rules)
    failed_runs, since = 1, asked_at
    # The latest of the earlier runs is the one before this one, also if it is not compared.
    if job.baseline == PREVIOUS and figures.earlier:
        before = figures.earlier[0].run.summary.gate
        failed_runs += before.failed_runs
        since = before.since or since
    return Gate(verdict="failed", on_fail=job.on_fail, rules=rules, failed_runs=failed_runs, since=since)


def _scorers(job: EvaluationJob, figures: Figures) -> dict[str, ScorerSummary]:
    errors = Counter(name for texts in figures.scores.errors.values() for name in texts)
    return {
        scorer.name: ScorerSummary(
            higher_is_better=scorer.higher_is_better,
            is_share=scorer.is_share,
            scored=int((~np.isnan(figures.scores.values[scorer.name])).sum()),
            errors=errors[scorer.name],
            judge=figures.judges.get(scorer.name),
            agreement=figures.agreements.get(scorer.name),
        )
        for scorer in job.scorers
    }


def _about(figures: Figures) -> EarlierRuns | None:
    """Return what is known of the runs that are compared; None without any."""
    compared = [one for one in figures.earlier if one.run.is_compared]
    if not compared:
        return None
    latest = compared[0]
    summary = latest.run.summary
    return EarlierRuns(
        path=str(latest.run.folder.path),
        name=summary.name,
        run_id=summary.run.get("run_id"),
        asked_at=summary.asked_at,
        runs=len(compared),
        changed=latest.changed,
        added=latest.added,
        removed=latest.removed,
    )


def _asked_at(cases: Sequence[Case]) -> str | None:
    """Return the time when the first question was submitted, or None if the answers do not contain it."""
    submitted = [case.row.get("submitted_at") for case in cases]
    # Times without a time zone cannot be compared with the others.
    moments = [moment for moment in submitted if isinstance(moment, datetime) and moment.tzinfo]
    return min(moments).astimezone(UTC).isoformat() if moments else None


def _write(evaluation: Evaluation) -> None:
    """Write scores, report and summary. The summary marks a complete evaluation: it goes first and comes last."""
    from airflow_provider_assistant.evaluation.report import render

    job = evaluation.job
    page = render(evaluation)
    job.folder.summary.unlink(missing_ok=True)
    replace(evaluation.table, job.folder.scores)
    replace_bytes(page.encode(), job.folder.report)
    replace_bytes(evaluation.summary.as_json(), job.folder.summary)
