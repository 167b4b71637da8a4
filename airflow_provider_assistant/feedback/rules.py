"""Ratings by rule: choose a rating for each answer by its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    found: dict[str, dict[str, float | None]] = {}
    asked: dict[str, tuple[str, float | None]] = {}
    for row in scores.select(["key", "scorer", "score", "outcome", "status", "seconds"]).to_pylist():
        asked[row["key"]] = (row["status"], row["seconds"])
        # Conditions ignore scorers that are not applicable to a question.
        if row["outcome"] != "not_applicable":
            found.setdefault(row["key"], {})[row["scorer"]] = row["score"]
    _check_same(cases, asked)
    rated = Ratings(not_answered=len(asked.keys() - {case.key for case in cases}))
    for case in cases:
        word = _word(conditions, found.get(case.key, {}))
        if case.answer is None:
            rated.not_answered += 1
        elif word and case.session_id and case.request_id:
            rated.ratings.append(Rating(case.key, case.session_id, case.request_id, word))
        else:
            rated.not_rated += 1
    return rated


def _conditions(rules: Mapping[str, str], scorers: Sequence[str]) -> dict[str, Condition]:
    # A template may have rendered to another type.
    given: Any = rules
    if not isinstance(given, Mapping) or not given:
        raise AssistantInputError(
            f"rules must map each rating to a condition, such as {{'good': 'token_f1 >= 0.8'}}, not {given!r}",
            field="rules",
        )
    if bad := [word for word in given if not isinstance(word, str) or not word.strip()]:
        raise AssistantInputError(f"rules: a rating must be a non-empty word, not {bad[0]!r}", field="rules")
    conditions = {}
    for word, text in rules.items():
        try:
            conditions[word] = parse_condition(text, scorers)
        except AssistantInputError as error:
            raise AssistantInputError(
                f"rules[{word!r}]: {error.happened}", safe=NOTHING_SENT, todo=error.todo, field="rules"
            ) from None
    return conditions


def _check_same(cases: Sequence[Case], asked: Mapping[str, tuple[str, float | None]]) -> None:
    """Raise if the scores belong to other answers, which differ in ``status`` or ``seconds``."""
    other = [case.key for case in cases if asked.get(case.key, ()) not in {(), (case.status, case.seconds)}]
    known = {case.key for case in cases}
    other += [key for key, (_, seconds) in asked.items() if key not in known and seconds is not None]
    differing = other
    if not other and not known & asked.keys():
        differing = list(asked)
    if differing:
        raise AssistantInputError(
            f"scores belong to other answers: {counted(len(differing), 'question')} with another answer, such as "
            f"{differing[0]!r}",
            safe=NOTHING_SENT,
            todo="Give the answers that were evaluated, and the same key.",
            field="scores",
        )


def _word(conditions: Mapping[str, Condition], scores: Mapping[str, float | None]) -> str | None:
    return next((word for word, condition in conditions.items() if condition.holds(scores)), None)
