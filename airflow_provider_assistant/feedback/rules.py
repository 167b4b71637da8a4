"""Ratings by rule: choose a rating for each answer by its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.rules import Condition, parse_condition
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Rating:
    """
    The rating of an answer.

    :param word: Such as ``good``.
    """

    key: str
    session_id: str
    request_id: str
    word: str


@dataclass(slots=True)
class Ratings:
    """
    The ratings of all questions. ``ratings``, ``not_rated`` and ``not_answered`` add up to the total.

    :param ratings: In the order of the questions.
    :param not_rated: Number of questions with an answer for which no rule holds or whose request id is not known.
    :param not_answered: Number of questions without an answer.
    """

    ratings: list[Rating] = field(default_factory=list)
    not_rated: int = 0
    not_answered: int = 0

    @property
    def total(self) -> int:
        """Number of all questions."""
        return len(self.ratings) + self.not_rated + self.not_answered


class _EvaluatedAnswer(NamedTuple):
    """The status and the duration of an answer, as in the table of scores."""

    status: str
    seconds: float | None


def rate(cases: Sequence[Case], scores: pa.Table, rules: Mapping[str, str]) -> Ratings:
    """
    Choose for each answer the rating of the first rule that holds for its scores.

    :param scores: Table of scores of the evaluation of these answers.
    :param rules: Mapping from a rating to a condition, such as ``{"good": "token_f1 >= 0.8"}``. The first that holds
        wins.
    :raises AssistantInputError: A rule is invalid or names an unknown scorer, or the scores belong to other answers.
    """
    if missing := sorted({"key", "scorer", "score", "outcome", "status", "seconds"} - set(scores.column_names)):
        raise AssistantInputError(
            f"scores lack the columns {', '.join(missing)}",
            safe=NOTHING_SENT,
            todo="Give the scores.parquet of AssistantEvaluateOperator.",
            field="scores",
        )
    conditions = _conditions(rules, sorted(set(scores["scorer"].to_pylist())))
    scores_by_key: dict[str, dict[str, float | None]] = {}
    evaluated_by_key: dict[str, _EvaluatedAnswer] = {}
    columns = ["key", "scorer", "score", "outcome", "status", "seconds"]
    for row in scores.select(columns).to_pylist():
        key = row["key"]
        evaluated_by_key[key] = _EvaluatedAnswer(row["status"], row["seconds"])
        # Conditions ignore scorers that are not applicable to a question.
        if row["outcome"] != "not_applicable":
            scores_by_key.setdefault(key, {})[row["scorer"]] = row["score"]
    _check_same_answers(cases, evaluated_by_key)
    ratings = Ratings()
    # A question of the scores without a case has no answer: _check_same_answers() has checked that.
    keys_of_cases = {case.key for case in cases}
    ratings.not_answered = len(evaluated_by_key.keys() - keys_of_cases)
    for case in cases:
        rating = _first_rating(conditions, scores_by_key.get(case.key, {}))
        if case.answer is None:
            ratings.not_answered += 1
        elif rating and case.session_id and case.request_id:
            ratings.ratings.append(Rating(case.key, case.session_id, case.request_id, word=rating))
        else:
            ratings.not_rated += 1
    return ratings


def _conditions(rules: Mapping[str, str], scorers: Sequence[str]) -> dict[str, Condition]:
    # A template may have rendered to another type.
    rendered: Any = rules
    if not isinstance(rendered, Mapping) or not rendered:
        raise AssistantInputError(
            f"rules must map each rating to a condition, such as {{'good': 'token_f1 >= 0.8'}}, not {rendered!r}",
            field="rules",
        )
    for rating in rendered:
        if not isinstance(rating, str) or not rating.strip():
            raise AssistantInputError(
                f"rules: a rating must be a non-empty word, not {rating!r}",
                field="rules",
            )
    conditions = {}
    for rating, text in rules.items():
        try:
            conditions[rating] = parse_condition(text, scorers)
        except AssistantInputError as error:
            raise AssistantInputError(
                f"rules[{rating!r}]: {error.happened}",
                safe=NOTHING_SENT,
                todo=error.todo,
                field="rules",
            ) from None
    return conditions


def _check_same_answers(
    cases: Sequence[Case],
    evaluated_by_key: Mapping[str, _EvaluatedAnswer],
) -> None:
    """Raise if the scores belong to other answers, which differ in ``status`` or ``seconds``."""
    differing = []
    for case in cases:
        evaluated = evaluated_by_key.get(case.key)
        if evaluated is not None and evaluated != (case.status, case.seconds):
            differing.append(case.key)
    keys_of_cases = {case.key for case in cases}
    for key, evaluated in evaluated_by_key.items():
        # Only an answer has seconds, so this question was answered and is missing from the cases.
        if key not in keys_of_cases and evaluated.seconds is not None:
            differing.append(key)
    if not differing and not keys_of_cases & evaluated_by_key.keys():
        # No key is in both, so the scores cannot belong to these answers.
        differing = list(evaluated_by_key)
    if differing:
        raise AssistantInputError(
            f"scores belong to other answers: {counted(len(differing), 'question')} with another answer, such as "
            f"{differing[0]!r}",
            safe=NOTHING_SENT,
            todo="Give the answers that were evaluated, and the same key.",
            field="scores",
        )


def _first_rating(
    conditions: Mapping[str, Condition],
    scores: Mapping[str, float | None],
) -> str | None:
    """Return the first rating whose condition holds for the scores; None if there is none."""
    for rating, condition in conditions.items():
        if condition.holds(scores):
            return rating
    return None
