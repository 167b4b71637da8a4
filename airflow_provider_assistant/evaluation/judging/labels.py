"""What judges are asked; and labels, the verdicts of people with which a judge is compared before it may decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cells import as_text
from airflow_provider_assistant.evaluation.judging.label_files import (
    LABEL,
    FileLabel,
    majorities,
    passes_of,
    turns_in,
)
from airflow_provider_assistant.evaluation.judging.pairs import Pair, pairs_of
from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest
from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
from airflow_provider_assistant.evaluation.rules import Rule
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import counted

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
        of the label files and of the pairs follow.
    :param ties: Number of answers by scorer which as many people pass as fail. They are no labels.
    """

    requests: Sequence[JudgeRequest]
    labels: Sequence[Label]
    pairs: Sequence[Pair] = ()
    ties: Mapping[str, int] = field(default_factory=dict)


def assign(
    cases: Sequence[Case],
    rubrics: Sequence[Rubric],
    others: Sequence[Case] = (),
    file_labels: Sequence[FileLabel] = (),
) -> Assignment:
    """
    Return what the judges have to judge.

    A label is about one answer, and the next evaluation gets other answers. So the column ``human_answer`` holds the
    answer that the person has labelled, and the judge gets this one as well. Without it, the label is about the answer
    of this evaluation. All repetitions of a question have its label, which counts once for each answer.

    :param others: The questions with the answers of the baseline, for ``judge.pairwise``.
    :param file_labels: The labels of label files. What most people say about an answer counts.
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
    labels_of_files, ties = _labels_of_files(file_labels, single_rubrics)
    requests += [label.request for label in labels_of_files]
    # An answer may also have a label in the golden set.
    known = {label.request.content_hash("") for label in labels_of_files}
    labels_of_cases = [label for label in labels.values() if label.request.content_hash("") not in known]
    for rubric in rubrics:
        if rubric.is_pairwise:
            pairs += pairs_of(cases, others, rubric)
    for pair in pairs:
        requests += pair.requests
    return Assignment(requests, [*labels_of_cases, *labels_of_files], pairs, ties)


def check_labels(assignment: Assignment, rules: Sequence[Rule]) -> None:
    """Check that there are as many labels as the gate requires, before the judges cost anything."""
    for rule in rules:
        count = sum(label.request.rubric.scorer == rule.name for label in assignment.labels)
        if rule.labels is not None and count < rule.labels:
            ties = assignment.ties.get(rule.name or "", 0)
            tied = f"; {counted(ties, 'answer')} of label files are ties" if ties else ""
            raise AssistantInputError(
                f"gate: {rule.text!r} needs {rule.labels} labels, and only {count} questions have one in the column "
                f"{HUMAN} with an answer to judge, or in a label file{tied}",
                todo="Label more answers, or require fewer.",
                field="gate",
            )


def _labels_of_files(
    file_labels: Sequence[FileLabel], rubrics: Sequence[Rubric]
) -> tuple[list[Label], Mapping[str, int]]:
    """Return what most people say about each answer, and the number of ties by scorer."""
    labels = []
    ties: Counter[str] = Counter()
    for majority in majorities(file_labels):
        rubric = _rubric_of(majority.label, rubrics)
        request = _request_of_file_label(majority.label, rubric)
        if request is None:
            continue
        if majority.passes is None:
            ties[rubric.scorer] += 1
        else:
            labels.append(Label(request=request, passes=majority.passes))
    return labels, ties


def _rubric_of(label: FileLabel, rubrics: Sequence[Rubric]) -> Rubric:
    """Return the rubric that a label of a label file is about."""
    _, _, name = label.column.partition(".")
    found = [rubric for rubric in rubrics if name in {"", rubric.name}]
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{LABEL}.{rubric.name}" for rubric in rubrics)
    raise AssistantInputError(
        f"labels: the column {label.column} is about no judge, or could be about any of several",
        todo=f"Name it {names}.",
        field="labels",
    )


def _request_of_file_label(label: FileLabel, rubric: Rubric) -> JudgeRequest | None:
    row = label.row
    request = JudgeRequest.about(
        rubric,
        key=row.get("key") or row["question"],
        question=row["question"],
        answer=row["answer"],
        expected=row.get("expected") or None,
        expect_no_answer=passes_of(row.get("expect_no_answer"), "a label file: expect_no_answer"),
        passages=row.get("passages"),
        earlier_turns=turns_in(row.get("earlier_turns", "")),
    )
    return replace(request, is_label=True) if request else None


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
        return _passes(case.key, column_of_rubric, row[column_of_rubric])
    if is_only or is_missing(row.get(HUMAN)):
        return _passes(case.key, HUMAN, row.get(HUMAN))
    raise AssistantInputError(
        f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
        todo=f"Name it {column_of_rubric!r}.",
        field=HUMAN,
    )


def _passes(key: str, column: str, value: Any) -> bool | None:
    return passes_of(as_text(value), f"question {key!r}: {column}")
