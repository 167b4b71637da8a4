"""Evaluate answers: score them, compare them with earlier runs, check the gate, and write the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation.figures import EarlierScores, Figures
from airflow_provider_assistant.evaluation.gate import check_gate, scorers_of_rule
from airflow_provider_assistant.evaluation.rules import Criteria, OnFail
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
from airflow_provider_assistant.storage.write import replace, replace_bytes

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
    # Read before the judges are asked, because an earlier file may be damaged.
    earlier = _read_earlier(job)
    judged = _judge(job)
    scores = score_cases(job.cases, job.scorers, judged.judgements)
    figures = Figures(
        scores=scores,
        scorers=job.scorers,
        pass_if=job.criteria.pass_if,
        earlier=[one.as_scores(judged.facts) for one in earlier],
        removed=next((one.removed for one in earlier if one.run.is_compared), 0),
        agreements=judged.agreements,
    )
    computed = figures.compute(job.criteria.rules)
    verdicts = check_gate(job.criteria.rules, computed, figures)
    evaluation = Evaluation(
        job=job,
        summary=_summary(job, figures, computed, verdicts, judged.facts, earlier),
        scores=scores,
        judgements=judged.judgements,
        failing=figures.failing() or (),
        newly_failing=figures.newly_failing() or (),
        trend=[one.run.summary for one in earlier[::-1]],
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
    needed = set(pass_if.names if pass_if else ())
    needed.update(name for rule in rules for name in scorers_of_rule(rule, pass_if))
    columns = {column: None for case in job.cases for column in case.row}
    check_expectations(job.scorers, needed, columns)
    if job.judges:
        job.judges.check(job.cases, rules)


class _Earlier(NamedTuple):
    """
    An earlier run, and its scores for the questions of this one.

    :param changed: Number of its questions whose text or expectations are different now.
    :param removed: Number of its questions that this run does not have.
    """

    run: EarlierRun
    scores: Scores
    changed: int
    removed: int

    def as_scores(self, facts: Mapping[str, JudgeFacts]) -> EarlierScores:
        """Return what is compared: not the judges that had another model, rubric or prompt."""
        before = {name: one.judge.fingerprint for name, one in self.run.summary.scorers.items() if one.judge}
        other = frozenset(name for name, judge in facts.items() if before.get(name) != judge.fingerprint)
        return EarlierScores(self.scores, self.run.is_compared, other)


def _read_earlier(job: EvaluationJob) -> list[_Earlier]:
    """Return the earlier runs, latest first; of each one, only the scores for the questions of this one are kept."""
    questions = Questions.of(job.cases)
    measured = frozenset(scorer.name for scorer in job.scorers if scorer.is_measured)
    now = dict(zip(questions.keys, questions.hashes, strict=True))

    def read(run: EarlierRun) -> _Earlier:
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
        return _Earlier(run, scores, changed, len(before) - len(common))

    return side_by_side(read, earlier_runs(job.folder, job.baseline))


class _Judged(NamedTuple):
    """What the judges said, what they are, and how well they agree with people."""

    judgements: Mapping[str, Sequence[Judgement]]
    facts: Mapping[str, JudgeFacts]
    agreements: Mapping[str, Agreement]


def _judge(job: EvaluationJob) -> _Judged:
    names = [scorer.name for scorer in job.scorers if scorer.is_judge]
    if not names or job.judges is None:
        return _Judged({}, {}, {})
    judgements = job.judges.judge(names, job.cases, job.folder.verdicts)
    facts = {name: job.judges.facts(name) for name in names}
    terms = job.criteria.pass_if.terms if job.criteria.pass_if else ()
    # The terms of the condition decide, so the agreement is measured on them.
    found = {name: job.judges.agreement(name, [term for term in terms if term.name == name]) for name in names}
    return _Judged(judgements, facts, {name: agreement for name, agreement in found.items() if agreement})


def _summary(
    job: EvaluationJob,
    figures: Figures,
    computed: Mapping[str, Figure],
    verdicts: Sequence[RuleVerdict],
    facts: Mapping[str, JudgeFacts],
    earlier: Sequence[_Earlier],
) -> Summary:
    unanswered = Counter(case.status for case in job.cases if case.answer is None)
    confident = [case for case in job.cases if case.confidence_level or case.confidence_score is not None]
    tags = Counter(tag for case in job.cases for tag in case.tags)
    failing, newly_failing = figures.failing(), figures.newly_failing()
    verdict: Literal["passed", "failed", "none"] = "passed" if verdicts else "none"
    if any(one.verdict == "failed" for one in verdicts):
        verdict = "failed"
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
        scorers=_scorers(job, figures, facts),
        tags=dict(sorted(tags.items())),
        figures=dict(computed),
        low_confidence=sum(is_low(case.confidence_level) for case in confident) if confident else None,
        failing=None if failing is None else Keys.of(failing),
        newly_failing=None if newly_failing is None else Keys.of(newly_failing),
        earlier=_about(earlier, figures),
        gate=Gate(verdict=verdict, on_fail=job.on_fail, rules=list(verdicts)),
    )


def _scorers(job: EvaluationJob, figures: Figures, facts: Mapping[str, JudgeFacts]) -> dict[str, ScorerSummary]:
    import numpy as np

    errors = Counter(name for texts in figures.scores.errors.values() for name in texts)
    return {
        scorer.name: ScorerSummary(
            higher_is_better=scorer.higher_is_better,
            is_share=scorer.is_share,
            scored=int((~np.isnan(figures.scores.values[scorer.name])).sum()),
            errors=errors[scorer.name],
            judge=facts.get(scorer.name),
            agreement=figures.agreements.get(scorer.name),
        )
        for scorer in job.scorers
    }


def _about(earlier: Sequence[_Earlier], figures: Figures) -> EarlierRuns | None:
    """Return what is known of the runs that are compared; None without any."""
    compared = [one for one in earlier if one.run.is_compared]
    if not compared:
        return None
    latest = compared[0]
    known = len(set(latest.scores.question_of.tolist())) + latest.changed
    return EarlierRuns(
        path=str(latest.run.folder.path),
        name=latest.run.summary.name,
        run_id=latest.run.summary.run.get("run_id"),
        asked_at=latest.run.summary.asked_at,
        runs=len(compared),
        changed=latest.changed,
        added=max(0, len(figures.scores.questions.keys) - known),
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
    replace(to_table(evaluation.scores, job.cases, job.criteria.pass_if), job.folder.scores)
    replace_bytes(page.encode(), job.folder.report)
    replace_bytes(evaluation.summary.as_json(), job.folder.summary)
