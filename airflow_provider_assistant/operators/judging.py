"""An evaluation in a task: its judges with their connection and file of verdicts, its steps, and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant import lake
from airflow_provider_assistant.evaluation.judging.rubrics import JudgeOptions
from airflow_provider_assistant.evaluation.rules import PAIRWISE
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.evaluation.baseline import Baseline
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.criteria import Criteria
    from airflow_provider_assistant.evaluation.evaluate import Evaluation, Reasons
    from airflow_provider_assistant.evaluation.judge_summary import JudgeSummary
    from airflow_provider_assistant.evaluation.judging.judging import Judging
    from airflow_provider_assistant.evaluation.judging.labels import Assignment
    from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
    from airflow_provider_assistant.evaluation.judging.verdicts import Verdict
    from airflow_provider_assistant.evaluation.rules import OnFail, Rule
    from airflow_provider_assistant.evaluation.run_directory import RunDirectory
    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.hooks.judge import JudgeConnection


@dataclass(frozen=True, slots=True)
class Judged:
    """
    What the judges said.

    :param scorers: The scorers of the evaluation; those that are judges look up their verdicts.
    :param summaries: Model, rubric, tokens and agreement by scorer. Default: none.
    :param reasons: Reasons by key of the question, number of its repetition, and scorer. Default: none.
    """

    scorers: Sequence[Scorer]
    summaries: Mapping[str, JudgeSummary] = field(default_factory=dict)
    reasons: Reasons = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OtherAnswers:
    """
    The answers of another site or another day, to compare with.

    :param cases: The questions with these answers.
    :param name: Name of the answers, such as their site. Default: None.
    :param path: Path of the answers. Default: None.
    """

    cases: Sequence[Case]
    name: str | None = None
    path: str | None = None


class JudgeTask:
    """
    The judges of one task.

    :param given: The parameter ``judge`` of the operator.
    :param scorers: Names of the scorers.
    :raises AssistantInputError: An option or a rubric is invalid.
    """

    def __init__(self, given: Mapping[str, Any] | None, scorers: Sequence[str]) -> None:
        self._options = JudgeOptions.parse(given)
        self._rubrics = self._options.rubrics_of(scorers)
        self._judging: Judging | None = None
        self._is_cancelled = False
        self.kept: ObjectStoragePath | None = None
        """The file of verdicts; None before any request is sent."""

    def check(self, cases: Sequence[Case], rules: Sequence[Rule]) -> None:
        """
        Check labels and connection before the questions are asked; nothing is sent.

        :param cases: The questions, with any answers.
        :raises AssistantInputError: There are fewer labels than a rule requires, or the connection is incomplete.
        """
        if self._rubrics:
            self._prepared(cases, self._rubrics, rules)

    def judged(
        self,
        cases: Sequence[Case],
        scorers: Sequence[Scorer],
        rules: Sequence[Rule],
        file: ObjectStoragePath,
        others: Sequence[Case] | None = None,
        *,
        is_baseline: bool = False,
    ) -> Judged:
        """
        Ask the judges about the answers, if there are any judges.

        :param cases: The questions.
        :param scorers: The scorers.
        :param rules: The rules of the gate.
        :param file: The file of verdicts. Verdicts that it has already are not asked for again.
        :param others: The questions with the answers of the baseline, for ``judge.pairwise``. Default: None, that judge
            is not asked.
        :param is_baseline: Whether these are the answers of the baseline: label files count only once. Default: False.
        :raises AssistantInputError: There are fewer labels than a rule requires, or the connection is incomplete.
            Nothing was sent.
        :raises AssistantError: See :meth:`.Judging.run`.
        """
        rubrics = self._rubrics
        if others is None:
            rubrics = [rubric for rubric in rubrics if not rubric.is_pairwise]
        if not rubrics:
            return Judged(scorers)
        from airflow_provider_assistant.client.rate_limited import RateLimitedClient
        from airflow_provider_assistant.evaluation.judging.judging import Judging

        assignment, (settings, model) = self._prepared(
            cases, rubrics, rules, others or (), has_label_files=not is_baseline
        )
        # Verdicts that cannot be saved would be paid for again.
        lake.check_writable(file.parent)
        known = _saved_verdicts(file)
        judging = Judging(assignment, model, self._options, known=known, save=lambda table: lake.replace(table, file))
        self._judging = judging
        self.kept = file
        if self._is_cancelled:
            judging.cancel()
        judging.run(lambda: RateLimitedClient(settings))
        judge_names = {rubric.scorer for rubric in rubrics}
        bound = [judging.bound(scorer) if scorer.name in judge_names else scorer for scorer in scorers]
        return Judged(bound, judging.summaries(rubrics), judging.reasons())

    def _prepared(
        self,
        cases: Sequence[Case],
        rubrics: Sequence[Rubric],
        rules: Sequence[Rule],
        others: Sequence[Case] = (),
        *,
        has_label_files: bool = True,
    ) -> tuple[Assignment, JudgeConnection]:
        """Return what the judges are asked, and the connection to their model."""
        from airflow_provider_assistant.evaluation.judging.label_files import read_label_files
        from airflow_provider_assistant.evaluation.judging.labels import assign, check_labels
        from airflow_provider_assistant.hooks.judge import judge_connection

        options = self._options
        file_labels = read_label_files(options.labels) if has_label_files and options.labels else []
        assignment = assign(cases, rubrics, others, file_labels)
        check_labels(assignment, rules)
        return assignment, judge_connection(options.conn_id, options.model, options.max_concurrency)

    def baseline(self, other: OtherAnswers, judged: Judged, file: ObjectStoragePath) -> Baseline:
        """
        Score the answers of another site or another day with the scorers of the evaluation, to compare with.

        :param other: The other answers.
        :param judged: The result of :meth:`judged` for the answers of the evaluation and these.
        :param file: The file of verdicts on the other answers.
        :raises AssistantError: See :meth:`.Judging.run`.
        """
        from airflow_provider_assistant.evaluation.evaluate import baseline_of

        scorers = [_zero_scorer(scorer) if scorer.name == PAIRWISE else scorer for scorer in judged.scorers]
        judged_baseline = self.judged(other.cases, scorers, rules=(), file=file, is_baseline=True)
        return baseline_of(
            other.cases,
            judged_baseline.scorers,
            name=other.name,
            path=other.path,
            judges={**judged.summaries, **judged_baseline.summaries},
        )

    def cancel(self) -> None:
        """Stop asking. The verdicts so far are saved. A signal handler may call this."""
        self._is_cancelled = True
        if self._judging:
            self._judging.cancel()


def evaluate(
    cases: Sequence[Case],
    scorers: Sequence[Scorer],
    criteria: Criteria,
    judges: JudgeTask,
    directory: RunDirectory,
    *,
    name: str,
    baseline: Baseline | None = None,
    other: OtherAnswers | None = None,
    run: Mapping[str, str | None] | None = None,
    site: str | None = None,
    tag: str | None = None,
    on_fail: OnFail = "fail",
) -> Evaluation:
    """
    Ask the judges, score the answers, compare them with the baseline, and check the gate.

    :param cases: The questions.
    :param scorers: The scorers.
    :param criteria: Condition for passing, and rules of the gate.
    :param judges: The judges among the scorers.
    :param directory: Folder of the files of verdicts.
    :param name: Name of the evaluation.
    :param baseline: An earlier evaluation to compare with. Default: None.
    :param other: Other answers to compare with, instead of an earlier evaluation. Default: None.
    :param run: Ids of the task instance. Default: None.
    :param site: Id of the site that answered. Default: None, not known.
    :param tag: Tag of this evaluation. Default: None.
    :param on_fail: What a failed gate does. Default: ``fail``.
    :raises AssistantError: See :meth:`JudgeTask.judged`.
    """
    from airflow_provider_assistant.evaluation.evaluate import Evaluation, summarise
    from airflow_provider_assistant.evaluation.scored import with_passed
    from airflow_provider_assistant.evaluation.scoring import score_cases

    other_cases = other.cases if other else None
    judged = judges.judged(cases, scorers, criteria.rules, directory.verdicts, other_cases)
    judge_summaries = judged.summaries
    if other:
        baseline = judges.baseline(other, judged, directory.baseline_verdicts)
        judge_summaries = _with_cost_of(judged.summaries, baseline.runs[0].judges)
    earlier_name = None
    if baseline is None and any(rule.needs_baseline for rule in criteria.rules):
        earlier_name = directory.name_before({case.key for case in cases})
    scores = with_passed(score_cases(cases, judged.scorers), criteria.pass_if)
    summary = summarise(
        cases,
        scores,
        scorers,
        name=name,
        run=run,
        site=site,
        tag=tag,
        pass_if=criteria.pass_if,
        rules=criteria.rules,
        on_fail=on_fail,
        baseline=baseline,
        earlier_name=earlier_name,
        judges=judge_summaries,
    )
    return Evaluation(
        summary=summary,
        cases=cases,
        scores=scores,
        pass_if=criteria.pass_if,
        reasons=judged.reasons,
        baseline_cases=baseline.cases if baseline else (),
    )


def write(evaluation: Evaluation, directory: RunDirectory, page: str) -> None:
    """
    Write scores, report and summary.

    The summary marks a complete evaluation: it is deleted first and written last.

    :param evaluation: The evaluation.
    :param directory: The folder.
    :param page: The report.
    """
    directory.summary.unlink(missing_ok=True)
    lake.replace(evaluation.scores, directory.scores)
    lake.replace_bytes(page.encode(), directory.report)
    lake.replace_bytes(evaluation.summary.as_json(), directory.summary)


def _with_cost_of(judges: Mapping[str, JudgeSummary], others: Mapping[str, JudgeSummary]) -> dict[str, JudgeSummary]:
    """Return the summaries of the judges, with the cost of their verdicts on the answers of the baseline."""
    summaries = {}
    for name, judge in judges.items():
        other = others.get(name, judge)
        # The judge of pairs has asked about both answers at once.
        summaries[name] = judge if other is judge else judge.with_cost_of(other)
    return summaries


def _zero_scorer(pairwise: Scorer) -> Scorer:
    """
    Return the scorer of the baseline's answers for a scorer that compares with the baseline.

    It scores the same questions with 0, because an answer is not better than itself.
    """

    def score(case: Case) -> float | None:
        if pairwise.score(case) is None:
            return None
        return 0.0

    return replace(pairwise, score=score)


def _saved_verdicts(file: ObjectStoragePath) -> dict[str, Verdict]:
    """Return the verdicts that an earlier attempt of the task saved."""
    import pyarrow.parquet as pq

    from airflow_provider_assistant.evaluation.judging.verdicts import known_verdicts

    try:
        with file.open("rb") as parquet_file:
            return known_verdicts(pq.ParquetFile(parquet_file).read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise AssistantInputError(
            f"{str(file)!r} cannot be read: {error}", todo="Delete it to judge all answers again."
        ) from error
