"""Scorers: functions that turn an answer into a number, the columns of the matrix of scores."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation.cells import as_phrases, as_text
from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.refusals import refuses
from airflow_provider_assistant.evaluation.rules import (
    COLUMN,
    CONFIDENCE_SCORE,
    JUDGE,
    LATENCY,
    LOW_CONFIDENCE,
    Criteria,
    is_measured,
    is_share,
)
from airflow_provider_assistant.evaluation.text import address, addresses_in, has_phrase, normalise, tokens
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import did_you_mean

Score = Callable[[Case], float | bool | None]


@dataclass(frozen=True, slots=True)
class Scorer:
    """
    A scorer, a column of the matrix.

    :param score: Returns None if the scorer is not applicable. A judge has no function.
    :param expectation: Column of the golden set that the scorer needs; None if it needs none.
    """

    name: str
    score: Score | None
    expectation: str | None = None
    higher_is_better: bool = True

    @property
    def is_share(self) -> bool:
        """Whether scores are from 0 to 1."""
        return is_share(self.name)

    @property
    def is_measured(self) -> bool:
        """Whether every answer should have a value."""
        return is_measured(self.name)

    @property
    def worst(self) -> float:
        """The score of an answer that cannot be scored."""
        return 0.0 if self.higher_is_better else 1.0

    @property
    def is_judge(self) -> bool:
        """Whether the scorer asks a model."""
        return self.name.startswith(JUDGE)


def exact_match(answer: str, expected: str) -> bool:
    """Return whether the normalised texts are equal, as in SQuAD v1.1."""
    return normalise(answer) == normalise(expected)


def token_f1(answer: str, expected: str) -> float:
    """Return the harmonic mean of precision and recall of the words, in any order, as in SQuAD v1.1."""
    answer_words, expected_words = tokens(answer), tokens(expected)
    common = (Counter(answer_words) & Counter(expected_words)).total()
    return 2 * common / (len(answer_words) + len(expected_words)) if common else 0.0


def _best(compare: Callable[[str, str], float | bool], case: Case) -> float | bool | None:
    return max((compare(case.answer or "", accepted) for accepted in case.expected), default=None)


def _must_include(case: Case) -> float | None:
    found = [has_phrase(case.answer or "", phrase) for phrase in case.must_include]
    return sum(found) / len(found) if found else None


def _must_not_include(case: Case) -> bool | None:
    if not case.must_not_include:
        return None
    return not any(has_phrase(case.answer or "", phrase) for phrase in case.must_not_include)


def _cites(case: Case) -> float | None:
    expected = {address(url) for url in case.expected_url}
    return len(expected & addresses_in(case.answer or "")) / len(expected) if expected else None


def _refusal(phrases: Sequence[str], case: Case) -> bool | None:
    if case.expect_no_answer is None:
        return None
    return refuses(case.answer or "", phrases) == case.expect_no_answer


def _low_confidence(case: Case) -> bool | None:
    is_known = case.confidence_level is not None or case.confidence_score is not None
    return is_low(case.confidence_level) if is_known else None


SCORERS = {
    scorer.name: scorer
    for scorer in (
        Scorer("exact_match", partial(_best, exact_match), "expected"),
        Scorer("token_f1", partial(_best, token_f1), "expected"),
        Scorer("must_include", _must_include, "must_include"),
        Scorer("must_not_include", _must_not_include, "must_not_include"),
        Scorer("cites", _cites, "expected_url"),
        Scorer("refusal", partial(_refusal, ()), "expect_no_answer"),
        Scorer(LATENCY, lambda case: case.seconds, higher_is_better=False),
        Scorer(CONFIDENCE_SCORE, lambda case: case.confidence_score),
        Scorer(LOW_CONFIDENCE, _low_confidence, higher_is_better=False),
    )
}


def scorers_of(names: Sequence[str], refusal_phrases: Sequence[str] = ()) -> list[Scorer]:
    """
    Return the scorers of the given names.

    :param names: Names in ``SCORERS``; ``column:<name>`` for a numeric column of the answers, higher is better; judges
        such as ``judge.correctness``; or dotted paths of functions ``score(question, expected, answer, row)``, which
        return a bool, a number from 0 to 1, or None if they are not applicable.
    :param refusal_phrases: Further sentences with which the assistant refuses. Default: none.
    :raises AssistantInputError: A name is unknown or repeated, a phrase is invalid, or a function cannot be called.
    """
    if isinstance(names, str) or not names:
        raise AssistantInputError(f"scorers must be a list of at least one name, not {names!r}", field="scorers")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise AssistantInputError(f"scorers name {', '.join(repeated)} more than once", field="scorers")
    return [_scorer_of(name, checked_phrases(refusal_phrases)) for name in names]


def check_columns(
    scorers: Sequence[Scorer], criteria: Criteria, cases: Sequence[Case], to_come: Collection[str] = ()
) -> None:
    """
    Check that there are the columns of ``column:``, and the expectations of the scorers that decide.

    :param to_come: Columns that only the answers will have. Default: none.
    :raises AssistantInputError: A column is missing; the error names similar ones.
    """
    needed = set(criteria.pass_if.names if criteria.pass_if else ())
    for rule in criteria.rules:
        needed.update(criteria.scorers_of(rule.base))
    columns = [*dict.fromkeys(column for case in cases for column in case.row), *to_come]
    for scorer in scorers:
        name = scorer.name.removeprefix(COLUMN)
        if name != scorer.name and name not in columns:
            raise AssistantInputError(
                f"the answers have no column {name!r}{did_you_mean(name, columns)}", field="scorers"
            )
        column = scorer.expectation
        if column is None or column in columns or scorer.name not in needed:
            continue
        close = [name for name in columns if set(name.split("_")) & set(column.split("_"))]
        but = f", but {', '.join(map(repr, close))}" if close else ""
        raise AssistantInputError(
            f"the gate needs {scorer.name}, and the golden set has no column {column!r}{but}",
            todo=f"Rename or add the column {column!r}, or take {scorer.name} out of gate and pass_if.",
            field="expectations",
        )


def check_name(name: str) -> None:
    """Check that a name may be one of a scorer, without importing the function of a dotted path."""
    if name not in SCORERS and "." not in name and not name.startswith(COLUMN):
        raise AssistantInputError(
            f"there is no scorer {name!r}, only {', '.join(SCORERS)}",
            todo=f"Use a dotted path for your own function, and {COLUMN}<name> for a column of the answers.",
            field="scorers",
        )


def checked_phrases(phrases: Sequence[str]) -> tuple[str, ...]:
    """Return phrases of refusals, or raise if one of them can never be found."""
    try:
        return as_phrases(list(phrases))
    except ValueError as error:
        raise AssistantInputError(f"refusal_phrases {phrases!r}: {error}", field="refusal_phrases") from None


def _scorer_of(name: str, refusal_phrases: tuple[str, ...]) -> Scorer:
    check_name(name)
    if name == "refusal":
        return Scorer(name, partial(_refusal, refusal_phrases), "expect_no_answer")
    if name in SCORERS:
        return SCORERS[name]
    if name.startswith(JUDGE):
        return Scorer(name, None)
    if name.startswith(COLUMN):
        return Scorer(name, partial(_number_in, name.removeprefix(COLUMN)))
    return Scorer(name, _function_at(name))


def _number_in(column: str, case: Case) -> float | None:
    """Return the number in a column of the user, or None if the cell is empty."""
    text = as_text(case.row.get(column))
    try:
        number = None if text is None else float(text)
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        cell = case.row[column]
        raise AssistantInputError(f"question {case.key!r}: {column} must be a number, not {cell!r}", field=column)
    return number


def _function_at(path: str) -> Score:
    """Return the function of the user as one of a case: of several accepted answers, the best score counts."""
    module, _, function_name = path.rpartition(".")
    try:
        function = getattr(import_module(module), function_name)
    except Exception as error:
        raise AssistantInputError(
            f"scorer {path!r} cannot be imported: {type(error).__name__}: {error}", field="scorers"
        ) from error
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise AssistantInputError(f"scorer {path!r} must be a function, and not an async one", field="scorers")
    try:
        inspect.signature(function).bind(None, None, None, None)
    except TypeError as error:
        raise AssistantInputError(
            f"scorer {path!r} must be called as score(question, expected, answer, row): {error}", field="scorers"
        ) from error

    def score(case: Case) -> Any:
        scores = [function(case.message, expected, case.answer, case.row) for expected in case.expected or (None,)]
        if len(scores) == 1:
            return scores[0]
        return max([score for score in scores if score is not None], default=None)

    return score
