"""What judges are asked; and labels, the verdicts of people with which a judge is compared before it may decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cases import truth
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
    labels: dict[tuple[str, Rubric, str], Label] = {}
    pairs: list[Pair] = []
    single = [rubric for rubric in rubrics if not rubric.is_pairwise]
    for case in cases:
        for rubric in single:
            request = None if case.answer is None else JudgeRequest.of(case, rubric, case.answer)
            if request:
                requests.append(request)
            passes = _label(case, rubric, is_only=len(single) == 1)
            if passes is None:
                continue
            labelled = _labelled(case, rubric, request)
            if labelled and (labelled.key, rubric, labelled.answer) not in labels:
                if labelled.is_label:
                    requests.append(labelled)
                labels[labelled.key, rubric, labelled.answer] = Label(labelled, passes)
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


def _labelled(case: Case, rubric: Rubric, request: JudgeRequest | None) -> JudgeRequest | None:
    """Return the request for the labelled answer: that of the evaluation if the answers are equal."""
    answer = case.row.get(HUMAN_ANSWER)
    if is_missing(answer) or answer == case.answer:
        return request
    return JudgeRequest.of(case, rubric, str(answer), is_label=True)


def _label(case: Case, rubric: Rubric, *, is_only: bool) -> bool | None:
    row: Mapping[str, Any] = case.row
    own = f"{HUMAN}.{rubric.name}"
    if own in row:
        return truth(case.key, own, row[own])
    if is_only or is_missing(row.get(HUMAN)):
        return truth(case.key, HUMAN, row.get(HUMAN))
    raise AssistantInputError(
        f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
        todo=f"Name it {own!r}.",
        field=HUMAN,
    )
