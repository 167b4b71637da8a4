"""The questions that failed and what they failed: the one selection for report, JUnit, log and terminal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_assistant.evaluation.rules import COVERAGE, OF_PASSING
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.golden import Case
    from airflow_provider_assistant.evaluation.run import Evaluation

# Number of questions that the log and the terminal list, and limits of a line and of a text in it.
LINES, LINE_LENGTH, NAME_LENGTH = 20, 240, 60


class FailingTurn(NamedTuple):
    """
    A question, or a turn of a conversation.

    :param row: Number of its row in the matrix of scores.
    :param reasons: What it failed, such as ``must_include >= 1: 0``. Empty for a turn that did not fail.
    """

    row: int
    case: Case
    reasons: Sequence[str]


class FailingQuestion(NamedTuple):
    """
    A question that failed; of a conversation, all its turns.

    :param key: Key of the question, or of the first turn.
    :param is_new: Whether it usually passed before.
    """

    key: str
    turns: Sequence[FailingTurn]
    is_new: bool

    @property
    def reasons(self) -> str:
        """What it failed, as one text."""
        return "; ".join(reason for turn in self.turns for reason in turn.reasons)


def failing_questions(evaluation: Evaluation, limit: int) -> tuple[list[FailingQuestion], int]:
    """
    Return the failing questions, newly failing ones first, and how many more there are.

    If there are too many, each failed rule keeps its worst questions.
    """
    failed = evaluation.summary.gate.failed
    lists = [evaluation.newly_failing, *([question.key for question in rule.questions] for rule in failed)]
    in_turn = chain.from_iterable(zip_longest(*lists))
    found = chain(in_turn, evaluation.failing, evaluation.deciding)
    units = [key for key in dict.fromkeys(found) if key is not None]
    by_rule = _reasons_by_rule(evaluation)
    turns: dict[str, dict[int, list[FailingTurn]]] = {unit: defaultdict(list) for unit in units[:limit]}
    for row, case in enumerate(evaluation.cases):
        if case.unit in turns:
            turn = FailingTurn(row, case, _reasons(evaluation, row, by_rule.get(case.key, ())))
            turns[case.unit][case.repetition].append(turn)
    is_new = set(evaluation.newly_failing)
    questions = [FailingQuestion(unit, _worst(turns[unit].values()), unit in is_new) for unit in turns]
    return sorted(questions, key=lambda question: not question.is_new), len(units) - len(questions)


def failing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each of the first failing questions: its key, its text, and what it failed."""
    questions, more = failing_questions(evaluation, LINES)
    lines = []
    for question in questions:
        number = next((number for number, turn in enumerate(question.turns) if turn.reasons), 0)
        turn = question.turns[number]
        key = shortened(question.key, NAME_LENGTH) + (f" (turn {number + 1})" if len(question.turns) > 1 else "")
        start = "newly failing" if question.is_new else "failing"
        what = "; ".join(turn.reasons) or "it decided a rule that failed"
        lines.append(shortened(f"{start}: {key} — {shortened(turn.case.message, NAME_LENGTH)} — {what}", LINE_LENGTH))
    return [*lines, f"and {more} more"] if more else lines


def _worst(repetitions: Iterable[list[FailingTurn]]) -> list[FailingTurn]:
    """Return the repetition that failed most; of a conversation, in the order of its turns."""
    worst = max(repetitions, key=lambda turns: sum(len(turn.reasons) for turn in turns))
    return sorted(worst, key=lambda turn: len(turn.case.transcript))


def _reasons_by_rule(evaluation: Evaluation) -> Mapping[str, list[str]]:
    """Return the failed rules that name a question, by its key."""
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for rule in evaluation.summary.gate.failed:
        # The terms of the condition say more than a rule on the pass rate, and a missing answer says it itself.
        if rule.figure.startswith((COVERAGE, *OF_PASSING)):
            continue
        for question in rule.questions:
            before = "" if question.before in {None, question.value} else f"{question.before:.4g} → "
            value = "" if question.value is None else f": {before}{question.value:.4g}"
            reasons[question.key].append(f"{rule.rule}{value}")
    return reasons


def _reasons(evaluation: Evaluation, row: int, by_rule: Sequence[str]) -> list[str]:
    """Return what an answer failed. A missing answer explains everything."""
    case = evaluation.cases[row]
    if case.answer is None:
        return [f"no answer: {case.status.replace('_', ' ')}{f': {case.error}' if case.error else ''}"]
    reasons = list(by_rule)
    pass_if = evaluation.job.criteria.pass_if
    for term in pass_if.terms if pass_if else ():
        score = float(evaluation.scores.values[term.name][row])
        if not math.isnan(score) and not term.holds(score):
            reasons.append(f"{term}: {score:.4g}")
    return list(dict.fromkeys(reasons))
