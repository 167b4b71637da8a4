"""The questions that failed and what they failed: the one selection for report, JUnit, log and terminal."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.rules import COVERAGE, OF_PASSING
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.golden import Case
    from airflow_provider_assistant.evaluation.run import Evaluation
    from airflow_provider_assistant.evaluation.summary import Deciding

# Number of questions that the log and the terminal list, and limits of a line and of a text in it.
LINES, LINE_LENGTH, NAME_LENGTH = 20, 240, 60


@dataclass(frozen=True, slots=True)
class FailingTurn:
    """
    A question, or a turn of a conversation.

    :param reasons: What it failed, such as ``must_include >= 1: 0``. Empty for a turn that did not fail.
    """

    case: Case
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class FailingQuestion:
    """
    A question that failed; of a conversation, all its turns.

    :param is_new: Whether it usually passed before.
    """

    turns: Sequence[FailingTurn]
    is_new: bool

    @property
    def key(self) -> str:
        """Key of the question, or of the first turn."""
        return self.turns[0].case.key


def failing_questions(evaluation: Evaluation, limit: int) -> tuple[list[FailingQuestion], int]:
    """
    Return the failing questions, newly failing ones first, and how many more there are.

    If there are too many, each failed rule keeps its worst questions.
    """
    unit_of = {case.key: case.unit for case in evaluation.cases}
    units = dict.fromkeys(unit_of.get(key, key) for key in _keys_in_order(evaluation))
    rows = _rows_by_unit(evaluation, units)
    reasons = _Reasons(evaluation)
    is_new = set(evaluation.newly_failing)
    questions = [_question(rows[unit], reasons, is_new=unit in is_new) for unit in list(units)[:limit]]
    deciding = [rule.deciding for rule in evaluation.summary.gate.failed]
    total = max([len(units), len(evaluation.failing), *deciding])
    return sorted(questions, key=lambda question: not question.is_new), total - len(questions)


def failing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each of the first failing questions: its key, its text, and what it failed."""
    questions, more = failing_questions(evaluation, LINES)
    lines = []
    for question in questions:
        number, turn = next(((n, turn) for n, turn in enumerate(question.turns, 1) if turn.reasons), (1, None))
        turn = turn or question.turns[0]
        key = shortened(question.key, NAME_LENGTH) + (f" (turn {number})" if len(question.turns) > 1 else "")
        start = "newly failing" if question.is_new else "failing"
        what = "; ".join(turn.reasons) or "it decided a rule that failed"
        lines.append(shortened(f"{start}: {key} — {shortened(turn.case.message, NAME_LENGTH)} — {what}", LINE_LENGTH))
    return [*lines, f"and {more} more"] if more else lines


def _keys_in_order(evaluation: Evaluation) -> Iterable[str]:
    """Return the newly failing questions and the worst ones of each failed rule in turn, then the others."""
    lists = [evaluation.newly_failing]
    lists += [[question.key for question in rule.questions] for rule in evaluation.summary.gate.failed]
    in_turn = chain.from_iterable(zip_longest(*lists))
    return [key for key in (*in_turn, *evaluation.failing) if key is not None]


def _rows_by_unit(evaluation: Evaluation, units: Iterable[str]) -> dict[str, dict[int, list[int]]]:
    """Return the rows of the matrix by unit and repetition; of a conversation, in the order of its turns."""
    rows: dict[str, dict[int, list[int]]] = {unit: defaultdict(list) for unit in units}
    for row, case in enumerate(evaluation.cases):
        if case.unit in rows:
            rows[case.unit][case.repetition].append(row)
    for repetitions in rows.values():
        for turns in repetitions.values():
            turns.sort(key=lambda row: len(evaluation.cases[row].transcript))
    return rows


def _question(repetitions: dict[int, list[int]], reasons: _Reasons, *, is_new: bool) -> FailingQuestion:
    """Return the repetition that failed most."""
    rows = max(repetitions.values(), key=lambda turns: (sum(len(reasons.of(row)) for row in turns), -turns[0]))
    return FailingQuestion([FailingTurn(reasons.evaluation.cases[row], reasons.of(row)) for row in rows], is_new)


class _Reasons:
    """What an answer failed: rules of the gate that name it, and terms of ``pass_if``."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self._rules: defaultdict[str, list[str]] = defaultdict(list)
        pass_if = evaluation.job.criteria.pass_if
        self._terms = pass_if.terms if pass_if else ()
        for rule in evaluation.summary.gate.failed:
            # The terms of the condition say more than a rule on the pass rate, and a missing answer says it itself.
            if not rule.figure.startswith((COVERAGE, *OF_PASSING)):
                for question in rule.questions:
                    self._rules[question.key].append(_reason(rule.rule, question))

    def of(self, row: int) -> list[str]:
        """Return what an answer failed. A missing answer explains everything."""
        case = self.evaluation.cases[row]
        if case.answer is None:
            return [f"no answer: {case.status.replace('_', ' ')}{f': {case.error}' if case.error else ''}"]
        reasons = list(self._rules[case.key])
        for term in self._terms:
            score = float(self.evaluation.scores.values[term.name][row])
            if not math.isnan(score) and not term.holds(score):
                reasons.append(f"{term}: {score:.4g}")
        return list(dict.fromkeys(reasons))


def _reason(rule: str, question: Deciding) -> str:
    if question.value is None:
        return rule
    before = "" if question.before in {None, question.value} else f"{question.before:.4g} → "
    return f"{rule}: {before}{question.value:.4g}"
