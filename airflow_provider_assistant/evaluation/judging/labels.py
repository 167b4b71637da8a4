"""What judges are asked; and labels, the verdicts of people with which a judge is compared before it may decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    single_rubrics = [rubric for rubric in rubrics if not rubric.is_pairwise]
    requests, labels = _of_cases(cases, single_rubrics)
    labels_of_files, ties = _labels_of_files(file_labels, single_rubrics)
    requests += [label.request for label in labels_of_files]
    # An answer may also have a label in the golden set.
    known = {label.request.content_hash("") for label in labels_of_files}
    labels_of_cases = [label for label in labels if label.request.content_hash("") not in known]
    pairs: list[Pair] = []
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
                f"gate: {rule.text!r} needs {counted(rule.labels, 'label')}, and only "
                f"{counted(count, 'question has', 'questions have')} one in the column {HUMAN} with an answer to "
                f"judge, or in a label file{tied}",
                todo="Label more answers, or require fewer.",
                field="gate",
            )


def _of_cases(cases: Sequence[Case], rubrics: Sequence[Rubric]) -> tuple[list[JudgeRequest], list[Label]]:
    """Return the requests for the answers of an evaluation, and for those that the golden set has labels for."""
    requests: list[JudgeRequest] = []
    # By key of the question, rubric, and text of the answer.
    labels: dict[tuple[str, Rubric, str], Label] = {}
    for case in cases:
        for rubric in rubrics:
            request = JudgeRequest.of(case, rubric, case.answer)
            if request is not None:
                requests.append(request)
            passes = _passes_by_label(case, rubric, is_only=len(rubrics) == 1)
            if passes is None:
                continue
            labelled_answer = case.row.get(HUMAN_ANSWER)
            if not is_missing(labelled_answer) and labelled_answer != case.answer:
                request = JudgeRequest.of(case, rubric, str(labelled_answer), is_label=True)
            if request is None or (case.key, rubric, request.answer) in labels:
                continue
            labels[case.key, rubric, request.answer] = Label(request=request, passes=passes)
            # The request for the answer of this evaluation is in the list.
            if request.is_label:
                requests.append(request)
    return requests, list(labels.values())


def _labels_of_files(
    file_labels: Sequence[FileLabel], rubrics: Sequence[Rubric]
) -> tuple[list[Label], Mapping[str, int]]:
    """Return what most people say about each answer, and the number of ties by scorer."""
    labels = []
    ties: Counter[str] = Counter()
    for majority in majorities(file_labels):
        rubric = _rubric_of(majority.label, rubrics)
        case = _case_of(majority.label.row)
        request = JudgeRequest.of(case, rubric, case.answer, is_label=True)
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


def _case_of(row: Mapping[str, str]) -> Case:
    """Return the question and the answer of a row of a label file."""
    return Case(
        key=row.get("key") or row["question"],
        message=row["question"],
        answer=row["answer"],
        expected=row.get("expected") or None,
        expect_no_answer=passes_of(row.get("expect_no_answer"), "a label file: expect_no_answer"),
        transcript=turns_in(row.get("earlier_turns", "")),
        row=row,
    )


def _passes_by_label(case: Case, rubric: Rubric, *, is_only: bool) -> bool | None:
    """
    Return whether the labelled answer passes, or None without a label.

    :param is_only: Whether there is only one rubric, so that the column ``human`` must be about it.
    """
    column = f"{HUMAN}.{rubric.name}"
    if column not in case.row:
        if not is_only and not is_missing(case.row.get(HUMAN)):
            raise AssistantInputError(
                f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
                todo=f"Name it {column!r}.",
                field=HUMAN,
            )
        column = HUMAN
    return passes_of(as_text(case.row.get(column)), f"question {case.key!r}: {column}")
