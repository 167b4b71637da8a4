"""Evaluate answers: score them, compare them with earlier runs, check the gate, and write the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_provider_assistant.evaluation_new.rules import Criteria
from airflow_provider_assistant.evaluation_new.summary import Agreement, JudgeFacts, OnFail, Summary

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

    from airflow_provider_assistant.evaluation_new.golden import Case
    from airflow_provider_assistant.evaluation_new.runs import RunFolder
    from airflow_provider_assistant.evaluation_new.scorers import Scorer
    from airflow_provider_assistant.evaluation_new.scores import Scores


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

    def agreement(self, name: str, cases: Sequence[Case], passes: Sequence[bool | None]) -> Agreement | None:
        """
        Return how well a judge agrees with the labels of people; None without labels.

        :param passes: Whether each case passes by what the gate decides on; None if not judged.
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
    :param trend: Summaries of the earlier runs, earliest first.
    """

    job: EvaluationJob
    summary: Summary
    scores: Scores
    judgements: Mapping[str, Sequence[Judgement]]
    trend: Sequence[Summary] = ()

    @property
    def cases(self) -> Sequence[Case]:
        """The answers, in the order of the rows of the matrix."""
        return self.job.cases


def evaluate(job: EvaluationJob) -> Evaluation:
    """
    Evaluate answers, and write scores, report and summary into the folder of the run.

    :raises AssistantInputError: The baseline or a file of an earlier try cannot be read. Nothing was written.
    """
    raise NotImplementedError
