"""The cards of the report: failing questions, each with its answer and the expected answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.failing import (
    FailingTurn,
    ScoresByCase,
    failing_questions,
    lowest_questions,
    scores_by_case,
)
from airflow_provider_assistant.evaluation.report import word_diff
from airflow_provider_assistant.evaluation.scorers import token_f1

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.evaluate import Evaluation

MAX_CARDS = 30
MAX_LOWEST = 10


@dataclass(frozen=True, slots=True)
class Turn:
    """
    A question with its answer and expected answer, side by side, or a turn of a conversation.

    :param reasons: What it fails. Empty for a turn that does not fail.
    :param expected: The expected answer, or None if there are only other expectations.
    :param answer: None without an answer.
    """

    case: Case
    reasons: Sequence[str]
    scores: Mapping[str, float | None]
    expected: word_diff.Side | None
    answer: word_diff.Side | None


@dataclass(frozen=True, slots=True)
class Card:
    """
    A question, or a conversation with all its turns.

    :param anchor: Id of the card in the page.
    :param is_new: Whether it passed in the baseline.
    """

    anchor: str
    turns: Sequence[Turn]
    is_new: bool


@dataclass(frozen=True, slots=True)
class Cards:
    """
    The cards of the report.

    :param rows: The cards.
    :param more: Number of failing questions without a card.
    :param are_failing: Whether these questions fail. Otherwise, no question fails, and these have the lowest scores.
    """

    rows: Sequence[Card]
    more: int
    are_failing: bool

    @property
    def anchors(self) -> Mapping[str, str]:
        """Ids of the cards by key of the question."""
        return {turn.case.key: card.anchor for card in self.rows for turn in card.turns}


def cards(evaluation: Evaluation) -> Cards:
    """Return the failing questions, or if none fails, those with the lowest mean score."""
    scores = scores_by_case(evaluation.scores)
    questions = failing_questions(evaluation, MAX_CARDS)
    are_failing = bool(questions.rows)
    if not are_failing:
        questions = lowest_questions(evaluation, MAX_LOWEST)
    rows = []
    for number, question in enumerate(questions.rows, start=1):
        turns = [_turn(turn, scores) for turn in question.turns]
        rows.append(Card(f"q{number}", turns, question.is_new))
    return Cards(rows, questions.more, are_failing)


def _turn(turn: FailingTurn, scores: ScoresByCase) -> Turn:
    case = turn.case
    expected = answer = None
    if case.answer is not None and case.expected is not None:
        text = case.answer
        closest = max(case.accepted, key=lambda accepted: token_f1(text, accepted))
        expected, answer = word_diff.compare(closest, text)
    elif case.answer is not None:
        answer = word_diff.plain(case.answer)
    elif case.reference is not None:
        expected = word_diff.plain(case.reference)
    return Turn(case, turn.reasons, scores[case.identity], expected, answer)
