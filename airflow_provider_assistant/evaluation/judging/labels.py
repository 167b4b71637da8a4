"""What judges are asked; and labels, the verdicts of people with which a judge is compared before it may decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cells import truth
from airflow_provider_assistant.evaluation.judging.pairs import Pair, pairs_of
from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest
from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
from airflow_provider_assistant.evaluation.rules import Rule
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing

HUMAN, HUMAN_ANSWER = "human", "human_answer"


@dataclass(frozen=True, slots=True)
class Label:
    """
    The verdict of a person on one answer.

    :param request: The request that gets the verdict of the judge on the same answer.
    """

    request: JudgeRequest
    passes: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """
    Everything that the judges of an evaluation have to judge.

    :param requests: The requests, by question, then by rubric: for its answer, and for another labelled answer. Those
        of the pairs follow.
    """

    requests: Sequence[JudgeRequest]
    labels: Sequence[Label]
    pairs: Sequence[Pair] = ()


def assign(
    cases: Sequence[Case],
    rubrics: Sequence[Rubric],
    others: Sequence[Case] = (),
) -> Assignment:
    """
    Return what the judges have to judge.

    A label is about one answer, and the next evaluation gets other answers. So the column ``human_answer`` holds the
    answer that the person has labelled, and the judge gets this one as well. Without it, the label is about the answer
    of this evaluation. All repetitions of a question have its label, which counts once for each answer.

    :param others: The questions with the answers of the baseline, for ``judge.pairwise``.
    :raises AssistantInputError: A label is not true, false or empty, or it is not clear which rubric it is about.
    """
    requests: list[JudgeRequest] = []
    # By key of the question, rubric, and text of the answer.
    labels: dict[tuple[str, Rubric, str], Label] = {}
    pairs: list[Pair] = []
    single_rubrics = [rubric for rubric in rubrics if not rubric.is_pairwise]
    is_only = len(single_rubrics) == 1
    for case in cases:
        for rubric in single_rubrics:
            request = _request_of_answer(case, rubric)
            if request is not None:
                requests.append(request)
            label = _label(case, rubric, request, is_only=is_only)
            if label is None:
                continue
            identity = (label.request.key, rubric, label.request.answer)
            if identity in labels:
                continue
            labels[identity] = label
            # The request of any other label is that of this evaluation's answer: it is in the list.
            if label.request.is_label:
                requests.append(label.request)
    for rubric in rubrics:
        if rubric.is_pairwise:
            pairs += pairs_of(cases, others, rubric)
    for pair in pairs:
        requests += pair.requests
    return Assignment(requests, list(labels.values()), pairs)


def check_labels(labels: Sequence[Label], rules: Sequence[Rule]) -> None:
    """Check that there are as many labels as the gate requires, before the judges cost anything."""
    for rule in rules:
        count = sum(label.request.rubric.scorer == rule.name for label in labels)
        if rule.labels is not None and count < rule.labels:
            raise AssistantInputError(
                f"gate: {rule.text!r} needs {rule.labels} labels, and only {count} questions have one in the column "
                f"{HUMAN} with an answer to judge",
                todo="Label more answers, or require fewer.",
                field="gate",
            )


def _request_of_answer(case: Case, rubric: Rubric) -> JudgeRequest | None:
    """Return the request for the answer of this evaluation, if there is one."""
    if case.answer is None:
        return None
    return JudgeRequest.of(case, rubric, case.answer)


def _label(
    case: Case,
    rubric: Rubric,
    request: JudgeRequest | None,
    *,
    is_only: bool,
) -> Label | None:
    """Return the label of a question; None if it has none, or no answer to judge."""
    passes = _passes_by_label(case, rubric, is_only=is_only)
    if passes is None:
        return None
    labelled = _request_of_label(case, rubric, request)
    if labelled is None:
        return None
    return Label(request=labelled, passes=passes)


def _request_of_label(
    case: Case,
    rubric: Rubric,
    request: JudgeRequest | None,
) -> JudgeRequest | None:
    """Return the request for the labelled answer: that of the evaluation if the answers are equal."""
    answer = case.row.get(HUMAN_ANSWER)
    if is_missing(answer) or answer == case.answer:
        return request
    return JudgeRequest.of(case, rubric, str(answer), is_label=True)


def _passes_by_label(case: Case, rubric: Rubric, *, is_only: bool) -> bool | None:
    """
    Return whether the labelled answer passes, or None without a label.

    :param is_only: Whether there is only one rubric, so that the column ``human`` must be about it.
    """
    row: Mapping[str, Any] = case.row
    column_of_rubric = f"{HUMAN}.{rubric.name}"
    if column_of_rubric in row:
        return truth(case.key, column_of_rubric, row[column_of_rubric])
    if is_only or is_missing(row.get(HUMAN)):
        return truth(case.key, HUMAN, row.get(HUMAN))
    raise AssistantInputError(
        f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
        todo=f"Name it {column_of_rubric!r}.",
        field=HUMAN,
    )
