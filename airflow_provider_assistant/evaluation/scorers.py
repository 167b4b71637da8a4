"""
Scorers: functions that turn an answer into a number.

Lexical similarities compare the text of an answer with the expected answer; they do not compare meaning. Checks look
for given phrases, addresses or refusals.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from airflow_provider_assistant.api.confidence import is_low
from airflow_provider_assistant.evaluation.addresses import address, addresses_in
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.chrf import chrf
from airflow_provider_assistant.evaluation.extra import require_extra
from airflow_provider_assistant.evaluation.phrases import has_phrase
from airflow_provider_assistant.evaluation.refusals import refuses
from airflow_provider_assistant.evaluation.rules import CONFIDENCE_SCORE, JUDGE, LOW_CONFIDENCE, PAIRWISE
from airflow_provider_assistant.evaluation.text import has_turkish_capitals, normalise, tokens, turkish
from airflow_provider_assistant.exceptions import AssistantInputError

LEXICAL, CHECK, CUSTOM, JUDGED = "lexical similarity", "check", "custom", "judge"
LATENCY, CONFIDENCE = "latency", "confidence"


@dataclass(frozen=True, slots=True)
class Scorer:
    """
    A scorer.

    :param name: Name of the scorer, or dotted path of a user's function.
    :param kind: ``lexical similarity``, ``check``, ``latency``, ``confidence``, ``judge`` or ``custom``.
    :param score: Function that scores a question with an answer. It returns None if the scorer is not applicable.
    :param is_share: Whether scores are between 0 and 1.
    :param library: Module of the extra ``evaluation`` that the scorer needs.
    """

    name: str
    kind: str
    score: Callable[[Case], float | bool | None]
    higher_is_better: bool = True
    is_share: bool = True
    library: str | None = None

    @property
    def worst(self) -> float | None:
        """The worst score, which an answer gets where an error must not hide a loss; None if it gets none."""
        if self.name == PAIRWISE:
            # A pair without a verdict has an error on both sides, and no rule is about pairs.
            return None
        return 0.0 if self.higher_is_better else 1.0


def scorers_of(names: Sequence[str]) -> list[Scorer]:
    """
    Return the scorers of the given names.

    :param names: Names in ``SCORERS``, names of judges, such as ``judge.correctness``, or dotted paths of functions
        ``score(question, expected, answer, row)`` that return a bool, a number from 0 to 1, or None if they are not
        applicable to the question. A question with several accepted answers gets the best score of them.
    :return: The scorers, in the order of ``names``.
    :raises AssistantInputError: A name is unknown or a duplicate, a function cannot be imported or called, or a library
        is not installed.
    """
    if isinstance(names, str) or not names:
        raise AssistantInputError(f"scorers must be a list of at least one name, not {names!r}", field="scorers")
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise AssistantInputError(
            f"scorers name {', '.join(duplicates)} more than once",
            field="scorers",
        )
    scorers = [_scorer_of(name) for name in names]
    for scorer in scorers:
        if scorer.library:
            require_extra(scorer.library)
    return scorers


def check_name(name: str) -> None:
    """
    Check that a name may be one of a scorer, without importing the function of a dotted path.

    :raises AssistantInputError: There is no such scorer.
    """
    if name not in SCORERS and "." not in name:
        raise AssistantInputError(
            f"there is no scorer {name!r}, only {', '.join(SCORERS)}",
            todo="Use a dotted path for your own function.",
            field="scorers",
        )


def _scorer_of(name: str) -> Scorer:
    check_name(name)
    if name in SCORERS:
        return SCORERS[name]
    if name.startswith(JUDGE):
        # Judging.bound() replaces the function by one that looks up the verdict of the judge.
        return Scorer(name, JUDGED, score=_raise_not_asked, is_share=name != PAIRWISE)
    return _scorer_of_function(name)


def exact_match(answer: str, expected: str) -> bool:
    """Return whether the normalised texts are equal, as in SQuAD v1.1."""
    return normalise(answer) == normalise(expected)


def token_f1(answer: str, expected: str) -> float:
    """Return the harmonic mean of precision and recall of the words, in any order, as in SQuAD v1.1."""
    answer_words = tokens(answer)
    expected_words = tokens(expected)
    common_words = Counter(answer_words) & Counter(expected_words)
    common = common_words.total()
    if not common:
        return 0.0
    return 2 * common / (len(answer_words) + len(expected_words))


def ratio(answer: str, expected: str) -> float:
    """Return the similarity of the normalised texts: 1 minus the share of characters to insert or delete."""
    fuzz = require_extra("rapidfuzz.fuzz")
    percent = float(fuzz.ratio(normalise(answer), normalise(expected)))
    return percent / 100


def token_set_ratio(answer: str, expected: str) -> float:
    """Return the ``token_set_ratio`` of rapidfuzz on normalised words: 1 if one text has all words of the other."""
    fuzz = require_extra("rapidfuzz.fuzz")
    answer_words = " ".join(tokens(answer))
    expected_words = " ".join(tokens(expected))
    percent = float(fuzz.token_set_ratio(answer_words, expected_words))
    return percent / 100


def _best(compare: Callable[[str, str], float | bool]) -> Callable[[Case], float | bool | None]:
    """Return a function that compares the answer of a case with each accepted answer, and returns the best score."""

    def score(case: Case) -> float | bool | None:
        scores = [compare(case.answer or "", accepted) for accepted in case.accepted]
        return max(scores, default=None)

    return score


def _folded(compare: Callable[[str, str], float | bool]) -> Callable[[Case], float | bool | None]:
    """Return the same for a function that ignores case, which Turkish has in its own way."""

    def compare_casings(answer: str, expected: str) -> float | bool:
        score = compare(answer, expected)
        if has_turkish_capitals(answer + expected):
            score = max(score, compare(turkish(answer), turkish(expected)))
        return score

    return _best(compare_casings)


def _must_include(case: Case) -> float | None:
    if not case.must_include:
        return None
    answer = case.answer or ""
    is_included = [has_phrase(answer, phrase) for phrase in case.must_include]
    return sum(is_included) / len(is_included)


def _must_not_include(case: Case) -> bool | None:
    if not case.must_not_include:
        return None
    answer = case.answer or ""
    return not any(has_phrase(answer, phrase) for phrase in case.must_not_include)


def _cites(case: Case) -> float | None:
    expected_addresses = {address(url) for url in case.expected_url}
    if not expected_addresses:
        return None
    cited_addresses = expected_addresses & addresses_in(case.answer or "")
    return len(cited_addresses) / len(expected_addresses)


def _refusal(case: Case) -> bool | None:
    if case.expect_no_answer is None:
        return None
    return refuses(case.answer or "") == case.expect_no_answer


def _low_confidence(case: Case) -> bool | None:
    if not case.has_confidence:
        return None
    return is_low(case.confidence_level)


SCORERS = {
    scorer.name: scorer
    for scorer in (
        Scorer("exact_match", LEXICAL, _folded(exact_match)),
        Scorer("token_f1", LEXICAL, _folded(token_f1)),
        Scorer("ratio", LEXICAL, _folded(ratio), library="rapidfuzz.fuzz"),
        Scorer("token_set_ratio", LEXICAL, _folded(token_set_ratio), library="rapidfuzz.fuzz"),
        Scorer("chrf", LEXICAL, _best(chrf)),
        Scorer("must_include", CHECK, _must_include),
        Scorer("must_not_include", CHECK, _must_not_include),
        Scorer("cites", CHECK, _cites),
        Scorer("refusal", CHECK, _refusal),
        Scorer("latency", LATENCY, lambda case: case.seconds, higher_is_better=False, is_share=False),
        Scorer(CONFIDENCE_SCORE, CONFIDENCE, lambda case: case.confidence_score, is_share=False),
        Scorer(LOW_CONFIDENCE, CONFIDENCE, _low_confidence, higher_is_better=False),
    )
}


def _raise_not_asked(case: Case) -> float:
    raise AssistantInputError(f"no judge was asked about question {case.key!r}")


def _scorer_of_function(path: str) -> Scorer:
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
        # Check that the function takes four arguments, without calling it.
        inspect.signature(function).bind(None, None, None, None)
    except TypeError as error:
        raise AssistantInputError(
            f"scorer {path!r} must be called as score(question, expected, answer, row): {error}", field="scorers"
        ) from error

    def score(case: Case) -> Any:
        scores = [function(case.message, expected, case.answer, case.row) for expected in case.accepted or (None,)]
        if len(scores) == 1:
            return scores[0]
        return max([score for score in scores if score is not None], default=None)

    return Scorer(path, CUSTOM, score)
