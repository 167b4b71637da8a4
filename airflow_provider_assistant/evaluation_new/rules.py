"""
Parse conditions on the scores of an answer, and rules of a gate. The text is never evaluated as code.

::

    condition = term { "and" term }         token_f1 >= 0.5 and must_include >= 1
    rule      = figure [ "drop" ] comparison number [ "on" ">=" number "labels" ]
    figure    = name [ "[" tag "]" ] [ "p50" | "p95" | "p99" | "agreement" ]
                                            token_f1[billing] >= 0.5, latency p95 <= 20, token_f1 drop <= 0.02,
                                            judge.correctness agreement >= 0.6 on >= 50 labels
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

COVERAGE, PASS_RATE, NEWLY_FAILING = "coverage", "pass_rate", "newly_failing"
LATENCY = "latency"
QUANTILES = ("p50", "p95", "p99")
AGREEMENT, DROP = "agreement", "drop"
# Scorers whose name begins like this ask a model.
JUDGE = "judge."
# Binary floats cannot represent most decimal means exactly.
TOLERANCE = 1e-9
EXAMPLES = (
    "'coverage >= 0.98', 'pass_rate >= 0.8', 'token_f1[billing] >= 0.5', 'latency p95 <= 20', "
    "'token_f1 drop <= 0.02', 'newly_failing <= 2' or 'judge.correctness agreement >= 0.6 on >= 50 labels', with a "
    "number without % or unit"
)
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_NAME = r"[A-Za-z_][\w.:-]*"
_LIMIT = rf"\s*(?P<comparison>{'|'.join(_COMPARISONS)})\s*(?P<limit>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
# Compiled on first use: importing an operator in a DAG file must stay fast.
_TERM = rf"\s*(?P<name>{_NAME}){_LIMIT}"
_RULE = (
    rf"\s*(?P<name>{_NAME})\s*(?:\[\s*(?P<tag>[^\[\]]*?)\s*\])?\s*(?P<of>\b(?:p\d+|{AGREEMENT})\b)?"
    rf"\s*(?P<drop>\b{DROP}\b)?{_LIMIT}(?:\bon\s*>=\s*(?P<labels>\d{{1,9}})\s*labels\s*)?"
)


@dataclass(frozen=True, slots=True)
class Term:
    """A comparison of a score or a figure with a limit."""

    name: str
    comparison: str
    limit: float

    def holds(self, value: float) -> bool:
        """Return whether a number fulfils the comparison. A difference of up to 1e-9 counts as equal."""
        if abs(value - self.limit) <= TOLERANCE:
            value = self.limit
        return _COMPARISONS[self.comparison](value, self.limit)

    @property
    def is_upper(self) -> bool:
        """Whether the limit is an upper one."""
        return self.comparison in {"<=", "<"}

    def __str__(self) -> str:
        return f"{self.name} {self.comparison} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the scores of one answer: all terms must hold."""

    text: str
    terms: tuple[Term, ...]

    @property
    def names(self) -> list[str]:
        """Names of the scorers in the condition."""
        return list(dict.fromkeys(term.name for term in self.terms))


@dataclass(frozen=True, slots=True)
class Rule:
    """
    A rule of the gate: a limit of a figure, or of the loss of a figure since the earlier runs.

    :param text: The rule as the user wrote it.
    :param figure: Name of the figure, such as ``token_f1[billing]``.
    :param base: The same without tag and quantile.
    :param labels: Number of labels that an agreement needs; 0 for other rules.
    """

    text: str
    figure: str
    base: str
    tag: str | None
    is_drop: bool
    term: Term
    labels: int = 0

    @property
    def is_agreement(self) -> bool:
        """Whether the rule limits the agreement of a judge with people."""
        return self.figure.endswith(f" {AGREEMENT}")


class Criteria(NamedTuple):
    """What an evaluation checks."""

    pass_if: Condition | None = None
    rules: Sequence[Rule] = ()


def parse_condition(text: Any, scorers: Collection[str] | None = None) -> Condition:
    """
    Parse a condition such as ``token_f1 >= 0.5 and must_include >= 1``.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    raise NotImplementedError


def parse_rule(text: Any, scorers: Collection[str] | None = None) -> Rule:
    """
    Parse a rule such as ``token_f1[billing] >= 0.5``.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    raise NotImplementedError


def parse_criteria(
    pass_if: str | None, gate: Sequence[str], scorers: Collection[str] | None = None, *, has_baseline: bool = True
) -> Criteria:
    """
    Parse the condition for passing and the rules of the gate, and check them together.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    raise NotImplementedError
