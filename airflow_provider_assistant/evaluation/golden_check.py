"""Find what a person should look at in a golden set: questions without an expectation, and contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.text import has_phrase, regular_expression
from airflow_provider_assistant.texts import shortened

_EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer")
_QUOTED = 60


class GoldenSetFinding(NamedTuple):
    """Something in a golden set that a person should look at, with the keys and the numbers of the rows, from 1."""

    finding: Literal["no_expectation", "contradiction"]
    keys: tuple[str, ...]
    rows: tuple[int, ...]
    reason: str


def check_golden_set(cases: Sequence[Case]) -> Iterator[GoldenSetFinding]:
    """Yield what a person should look at, in the order of the rows."""
    for row, case in enumerate(cases, 1):
        if all(getattr(case, name) in {None, ()} for name in _EXPECTATIONS):
            reason = f"none of {', '.join(_EXPECTATIONS)} is given"
            yield GoldenSetFinding("no_expectation", (case.key,), (row,), reason)
        for reason in _contradictions(case):
            yield GoldenSetFinding("contradiction", (case.key,), (row,), reason)


def _contradictions(case: Case) -> Iterator[str]:
    """Yield the expectations that the expected answer itself does not fulfil, or no answer at all."""
    if case.expect_no_answer and case.expected:
        yield "expect_no_answer is true, and there is an expected answer"
    for answer in case.expected:
        for phrase in case.must_include:
            if not has_phrase(answer, phrase):
                yield f"the expected answer {shortened(answer, _QUOTED)!r} lacks {phrase!r} of must_include"
    phrases = [phrase for phrase in case.must_include if regular_expression(phrase) is None]
    for text in (*case.expected, *phrases):
        for forbidden in case.must_not_include:
            if has_phrase(text, forbidden):
                yield f"{shortened(text, _QUOTED)!r} is expected and has {forbidden!r} of must_not_include"
