"""Evaluate answers: score them, compare them with earlier runs, check the gate, and write the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from airflow_provider_assistant import lake
from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation.figures import EarlierScores, Figures
from airflow_provider_assistant.evaluation.gate import check_gate
from airflow_provider_assistant.evaluation.rules import OF_PASSING, PASS_RATE, Criteria, OnFail
from airflow_provider_assistant.evaluation.runs import earlier_runs, side_by_side
from airflow_provider_assistant.evaluation.scorers import check_expectations
from airflow_provider_assistant.evaluation.scores import Questions, of_table, score_cases, to_table
from airflow_provider_assistant.evaluation.summary import (
    EarlierRuns,
    Gate,
    JudgeFacts,
    Keys,
    QuestionCounts,
    ScorerSummary,
    Summary,
)
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.evaluation.golden import Case
    from airflow_provider_assistant.evaluation.rules import Rule, Term
    from airflow_provider_assistant.evaluation.runs import EarlierRun, RunFolder
    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.scores import Scores
    from airflow_provider_assistant.evaluation.summary import Agreement, Figure, RuleVerdict


class Judgement(NamedTuple):
    """
    What a judge said about an answer.

    :param score: From 0 to 1; None if the rubric does not apply, or with an error.
    :param error: Why the answer could not be judged. It counts as the worst score.
    """

    score: float | None = None
    reason: str | None = None
    error: str | None = None


class Judges(Protocol):
    """The scorers of an evaluation that ask a model."""

    def check(self, cases: Sequence[Case], rules: Sequence[Rule] = ()) -> None:
        """Check everything that does not need a verdict, before anything is paid for."""

    def judge(
        self, names: Sequence[str], cases: Sequence[Case], saved: ObjectStoragePath
    ) -> Mapping[str, Sequence[Judgement]]:
        """
        Return the judgements of each judge, one per case; a case without answer has no score.

        :param names: Names of the judges, such as ``judge.correctness``.
        :param saved: File of the verdicts so far, from which a retry continues.
        """

    def facts(self, name: str) -> JudgeFacts:
        """Return the model, the rubric and the tokens of a judge that has judged."""

    def agreement(self, name: str, terms: Sequence[Term] = ()) -> Agreement | None:
        """
        Return how well a judge agrees with the labels of people; None without labels.

        :param terms: Conditions on the score of the judge by which an answer passes: these decide, so these are
            compared with the labels.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationJob:
    """
    What to evaluate, and how.

    :param cases: The answers with what is expected of them.
    :param folder: Where the files are written.
    :param baseline: ``previous``, the path of an evaluation's folder, or None.
    :param run: Ids and times of the task instance.
    :param site: Id of the site that answered; None if not known.
    :param judges: Needed if a scorer is a judge.
    """

    name: str
    cases: Sequence[Case]
    folder: RunFolder
    scorers: Sequence[Scorer]
    criteria: Criteria
    baseline: str | None = None
    judges: Judges | None = None
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
    :param trend: Summaries of the earlier runs, earliest first.
    """

    job: EvaluationJob
    summary: Summary
    scores: Scores
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)
    failing: Sequence[str] = ()
    newly_failing: Sequence[str] = ()
    trend: Sequence[Summary] = ()

    @property
    def cases(self) -> Sequence[Case]:
        """The answers, in the order of the rows of the matrix."""
        return self.job.cases


def evaluate(job: EvaluationJob) -> Evaluation:
    """
    Evaluate answers, and write scores, report and summary into the folder of the run.

    :raises AssistantInputError: An expectation is missing, or the baseline or a file of an earlier try cannot be read.
    :raises AssistantError: The model of the judges is away. The verdicts so far are saved, and a retry continues.
    """
    _check(job)
    runs = earlier_runs(job.folder, job.baseline)
    questions = Questions.of(job.cases)
    measured = frozenset(scorer.name for scorer in job.scorers if scorer.is_measured)
    # Read before the judges are asked, because an earlier file may be damaged.
    tables = side_by_side(lambda run: _aligned(run, questions, measured), runs)
    judges = [scorer.name for scorer in job.scorers if scorer.is_judge]
    judgements = job.judges.judge(judges, job.cases, job.folder.verdicts) if job.judges and judges else {}
    scores = score_cases(job.cases, job.scorers, judgements)
    facts = {name: job.judges.facts(name) for name in judges} if job.judges else {}
    latest = next((number for number, run in enumerate(runs) if run.is_compared), None)
    figures = Figures(
        scores=scores,
        scorers=job.scorers,
        pass_if=job.criteria.pass_if,
        earlier=[
            EarlierScores(aligned.scores, run.is_compared, _other_judges(run.summary, facts))
            for run, aligned in zip(runs, tables, strict=True)
        ],
        removed=0 if latest is None else tables[latest].removed,
        agreements=_agreements(job, judges),
    )
    computed = figures.compute(job.criteria.rules)
    verdicts = check_gate(job.criteria.rules, computed, figures)
    gate = Gate(verdict=_gate_verdict(verdicts), on_fail=job.on_fail, rules=verdicts)
    newly_failing = figures.newly_failing()
    failing = _failing(figures) if job.criteria.pass_if else None
    earlier = None
    if latest is not None:
        earlier = _about(runs, tables[latest], questions, sum(run.is_compared for run in runs))
    summary = _summary(job, figures, computed, facts).model_copy(
        update={
            "failing": None if failing is None else Keys.of(failing),
            "newly_failing": None if newly_failing is None else Keys.of(newly_failing),
            "earlier": earlier,
            "gate": gate,
        }
    )
    evaluation = Evaluation(
        job=job,
        summary=summary,
        scores=scores,
        judgements=judgements,
        failing=failing or (),
        newly_failing=newly_failing or (),
        trend=[run.summary for run in runs[::-1]],
    )
    _write(evaluation)
    return evaluation


def _check(job: EvaluationJob) -> None:
    """Check what can be checked before anything is paid for or written."""
    if find_spec("numpy") is None:
        raise AssistantInputError(
            "numpy is not installed", todo="Run pip install 'airflow-provider-assistant[evaluation]'."
        )
    pass_if, rules = job.criteria
    needed = [
        name for rule in rules for name in (pass_if.names if pass_if and rule.base in OF_PASSING else [rule.base])
    ]
    columns = {column: None for case in job.cases for column in case.row}
    check_expectations(job.scorers, [*needed, *(pass_if.names if pass_if else [])], columns)
    if job.judges:
        job.judges.check(job.cases, rules)


class _Aligned(NamedTuple):
    """
    The scores of an earlier run for the questions of this one.

    :param changed: Number of its questions whose text or expectations are different now.
    :param removed: Number of its questions that this run does not have.
    """

    scores: Scores
    changed: int
    removed: int


def _aligned(run: EarlierRun, questions: Questions, measured: frozenset[str]) -> _Aligned:
    table = run.folder.read_scores()
    try:
        scores = of_table(table, questions, measured)
    except ValueError as error:
        raise AssistantInputError(
            f"baseline {str(run.folder.scores)!r} is not a table of scores: {error}", field="baseline"
        ) from error
    before = dict(zip(table["key"].to_pylist(), table["case"].to_pylist(), strict=True))
    now = dict(zip(questions.keys, questions.hashes, strict=True))
    common = before.keys() & now.keys()
    changed = sum(before[key] != now[key] for key in common)
    return _Aligned(scores, changed, len(before) - len(common))


def _other_judges(earlier: Summary, facts: Mapping[str, JudgeFacts]) -> frozenset[str]:
    """Return the judges that had another model, rubric or prompt in an earlier run."""
    before = {name: scorer.judge.fingerprint for name, scorer in earlier.scorers.items() if scorer.judge}
    return frozenset(name for name, judge in facts.items() if before.get(name) != judge.fingerprint)


def _agreements(job: EvaluationJob, judges: Sequence[str]) -> dict[str, Agreement]:
    """Return the agreement of the judges with people, on what decides: the terms of ``pass_if``."""
    found = {}
    for name in judges if job.judges else ():
        terms = [term for term in (job.criteria.pass_if.terms if job.criteria.pass_if else ()) if term.name == name]
        agreement = job.judges.agreement(name, terms) if job.judges else None
        if agreement is not None:
            found[name] = agreement
    return found


def _gate_verdict(verdicts: Sequence[RuleVerdict]) -> Literal["passed", "failed", "none"]:
    if not verdicts:
        return "none"
    return "failed" if any(verdict.verdict == "failed" for verdict in verdicts) else "passed"


def _failing(figures: Figures) -> list[str]:
    parts = figures.parts(PASS_RATE)
    return [key for key, value in zip(parts.keys, parts.values.tolist(), strict=True) if value < 1]


def _about(runs: Sequence[EarlierRun], latest: _Aligned, questions: Questions, count: int) -> EarlierRuns:
    run = next(run for run in runs if run.is_compared)
    known = len(set(latest.scores.question_of.tolist())) + latest.changed
    return EarlierRuns(
        path=str(run.folder.path),
        name=run.summary.name,
        run_id=run.summary.run.get("run_id"),
        asked_at=run.summary.asked_at,
        runs=count,
        changed=latest.changed,
        added=max(0, len(questions.keys) - known),
        removed=latest.removed,
    )


def _summary(
    job: EvaluationJob, figures: Figures, computed: Mapping[str, Figure], facts: Mapping[str, JudgeFacts]
) -> Summary:
    import numpy as np

    unanswered = Counter(case.status for case in job.cases if case.answer is None)
    errors = Counter(name for texts in figures.scores.errors.values() for name in texts)
    confident = [case for case in job.cases if case.confidence_level or case.confidence_score is not None]
    tags = Counter(tag for case in job.cases for tag in case.tags)
    return Summary(
        name=job.name,
        run=dict(job.run),
        site=job.site,
        asked_at=_asked_at(job.cases),
        pass_if=job.criteria.pass_if.text if job.criteria.pass_if else None,
        questions=QuestionCounts(
            total=len(job.cases),
            answered=len(job.cases) - unanswered.total(),
            unanswered=dict(sorted(unanswered.items())),
        ),
        scorers={
            scorer.name: ScorerSummary(
                higher_is_better=scorer.higher_is_better,
                is_share=scorer.is_share,
                scored=int((~np.isnan(figures.scores.values[scorer.name])).sum()),
                errors=errors[scorer.name],
                judge=facts.get(scorer.name),
                agreement=figures.agreements.get(scorer.name),
            )
            for scorer in job.scorers
        },
        tags=dict(sorted(tags.items())),
        figures=dict(computed),
        low_confidence=sum(is_low(case.confidence_level) for case in confident) if confident else None,
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
    lake.replace(to_table(evaluation.scores, job.cases, job.criteria.pass_if), job.folder.scores)
    lake.replace_bytes(page.encode(), job.folder.report)
    lake.replace_bytes(evaluation.summary.as_json(), job.folder.summary)
