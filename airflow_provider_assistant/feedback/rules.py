"""Ratings by rule: choose a rating for each answer by its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.evaluation.rules import Condition, is_measured, parse_condition
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.feedback.counts import RatingCounts
from airflow_provider_assistant.feedback.ratings import Rating
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

# The columns of the table of scores that are not scores.
FACTS = {
    "key", "repetition", "conversation", "case", "request_id", "status", "weight", "tags", "passed", "errors",
}  # fmt: skip


class Rated(NamedTuple):
    """
    The ratings of the answers of an evaluation.

    :param counts: Counts the rows that get no rating.
    :param left_out: Key and reason of the answers that cannot be rated, although a rule might hold.
    """

    ratings: list[Rating]
    counts: RatingCounts
    left_out: list[tuple[str, str]]


def rate(answers: pa.Table, scores: pa.Table, rules: Mapping[str, str]) -> Rated:
    """
    Choose for each answer the rating of the first rule that holds for its scores.

    :param answers: The answers of a chat batch.
    :param scores: Their scores, a row per answer and a column per scorer.
    :param rules: Mapping from a rating to a condition, such as ``{"good": "token_f1 >= 0.8"}``.
    :raises AssistantInputError: A rule is invalid or names an unknown scorer, or the scores belong to other answers.
    """
    _check_columns(answers, {"request_id", "session_id"}, "answers")
    _check_columns(scores, {"key", "request_id", "status"}, "scores")
    scorers = [name for name in scores.column_names if name not in FACTS]
    conditions = _conditions(rules, scorers)
    sessions = dict(zip(answers["request_id"].to_pylist(), answers["session_id"].to_pylist(), strict=True))
    _check_same_answers(sessions, scores)
    rated = Rated([], RatingCounts(), [])
    requests: set[str] = set()
    for row in scores.to_pylist():
        if row["status"] != "complete":
            rated.counts.outcomes["not_answered"] += 1
            continue
        key = row["key"]
        if (row.get("repetition") or 1) > 1:
            key += f" (repetition {row['repetition']})"
        request_id = row["request_id"]
        session_id = sessions.get(request_id)
        word = next((word for word, condition in conditions.items() if _holds(condition, row)), None)
        problem = _problem(row, conditions)
        if word and not (request_id and session_id):
            problem = problem or "its request or its session is not known"
        elif word and request_id in requests:
            problem = problem or "another question has the same request"
        if word and not problem:
            requests.add(request_id)
            rated.ratings.append(Rating(str(session_id), request_id, word, key))
            continue
        rated.counts.outcomes["not_rated"] += 1
        if problem:
            rated.left_out.append((key, problem))
    return rated


def _conditions(rules: Mapping[str, str], scorers: list[str]) -> dict[str, Condition]:
    conditions = {}
    for word, text in rules.items():
        try:
            conditions[word] = parse_condition(text, scorers)
        except AssistantInputError as error:
            happened = f"rules[{word!r}]: {error.happened}"
            raise AssistantInputError(happened, safe=NOTHING_SENT, todo=error.todo, field="rules") from None
    return conditions


def _holds(condition: Condition, row: Mapping[str, Any]) -> bool:
    """
    Return whether the condition holds, as in ``pass_if``.

    Scorers that do not apply to the question are ignored. A measured value that is missing could be any.
    """
    is_applied = False
    for term in condition.terms:
        value = row[term.name]
        if value is None:
            if is_measured(term.name):
                return False
            continue
        if not term.holds(value):
            return False
        is_applied = True
    return is_applied


def _problem(row: Mapping[str, Any], conditions: Mapping[str, Condition]) -> str:
    """Return why an answer cannot be rated: a scorer of a rule failed, so that the score means nothing."""
    names = {term.name for condition in conditions.values() for term in condition.terms}
    errors = (row.get("errors") or "").splitlines()
    return "; ".join(error for error in errors if error.partition(": ")[0] in names)


def _check_columns(table: pa.Table, names: set[str], field: str) -> None:
    if missing := sorted(names - set(table.column_names)):
        raise AssistantInputError(
            f"{field} lack the columns {', '.join(missing)}",
            safe=NOTHING_SENT,
            todo="Give the file of answers of AssistantChatBatchOperator, and the scores.parquet of their evaluation.",
            field=field,
        )


def _check_same_answers(sessions: Mapping[Any, Any], scores: pa.Table) -> None:
    """Raise if the scores belong to other answers, which have other requests."""
    scored = dict(zip(scores["request_id"].to_pylist(), scores["key"].to_pylist(), strict=True))
    differing = (scored.keys() ^ sessions.keys()) - {None}
    if not differing:
        return
    example = min(differing, key=str)
    name = f"that of {scored[example]!r}" if example in scored else repr(example)
    raise AssistantInputError(
        f"scores belong to other answers: {counted(len(differing), 'request')} in one of the files only, "
        f"such as {name}",
        safe=NOTHING_SENT,
        todo="Give the answers that were evaluated, and their scores.",
        field="scores",
    )
