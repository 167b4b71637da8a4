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
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import did_you_mean

# Values of ``on_fail``: what a failed gate does.
OnFail: TypeAlias = Literal["fail", "skip_downstream", "report"]
DEFAULT_SCORERS = (
    *("exact_match", "token_f1", "must_include", "must_not_include"),
    *("refusal", "latency", "confidence_score"),
)
COVERAGE, PASS_RATE, NEWLY_FAILING = "coverage", "pass_rate", "newly_failing"
LATENCY, CONFIDENCE_SCORE, LOW_CONFIDENCE = "latency", "confidence_score", "low_confidence"
# Figures of the condition for passing.
OF_PASSING = (PASS_RATE, NEWLY_FAILING)
QUANTILES = ("p50", "p95", "p99")
AGREEMENT, DROP = "agreement", "drop"
# Scorers whose name begins like this ask a model.
JUDGE = "judge."
# Scorers whose name begins like this are a numeric column of the answers.
COLUMN = "column:"
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

    def scorers_of(self, figure: str) -> list[str]:
        """Return the scorers from which a figure without tag is computed."""
        if figure in OF_PASSING:
            return self.pass_if.names if self.pass_if else []
        return [] if figure == COVERAGE else [figure]

    def judges_of(self, rule: Rule) -> list[str]:
        """Return the judges whose scores decide a rule."""
        names = [] if rule.is_agreement else self.scorers_of(rule.base)
        return [name for name in names if name.startswith(JUDGE)]


def parse_condition(text: Any, scorers: Collection[str] | None = None) -> Condition:
    """
    Parse a condition such as ``token_f1 >= 0.5 and must_include >= 1``.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    terms = []
    for part in re.split(r"\band\b", _checked_text(text, "condition", "pass_if")):
        match = re.fullmatch(_TERM, part)
        if not match:
            raise AssistantInputError(
                f"invalid condition {text!r}: {part.strip()!r} is not 'scorer >= number'",
                todo="Write it like 'token_f1 >= 0.5 and must_include >= 1'.",
                field="pass_if",
            )
        term = Term(match["name"], match["comparison"], float(match["limit"]))
        if scorers is not None and term.name not in scorers:
            raise AssistantInputError(
                f"invalid condition {text!r}: there is no scorer {term.name!r}{did_you_mean(term.name, scorers)}",
                todo=f"The scorers are {', '.join(scorers)}.",
                field="pass_if",
            )
        if problem := _not_a_share(term.name, term.limit):
            raise AssistantInputError(f"invalid condition {text!r}: {problem}", field="pass_if")
        terms.append(term)
    return Condition(text, tuple(terms))


def parse_rule(text: Any, scorers: Collection[str] | None = None) -> Rule:
    """
    Parse a rule such as ``token_f1[billing] >= 0.5``.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    match = re.fullmatch(_RULE, _checked_text(text, "rule", "gate"))
    if not match:
        raise AssistantInputError(f"invalid rule {text!r}", todo=f"Write it like {EXAMPLES}.", field="gate")
    base, tag, of = match["name"], match["tag"], match["of"]
    figure = base if tag is None else f"{base}[{tag}]"
    if of:
        figure = f"{figure} {of}"
    term = Term(figure, match["comparison"], float(match["limit"]))
    rule = Rule(text, figure, base, tag, match["drop"] is not None, term, int(match["labels"] or 0))
    names = [base] if scorers is None else list(scorers)
    with_tags = [COVERAGE, PASS_RATE, *names]
    quantiles = [f"{LATENCY} {quantile}" for quantile in QUANTILES]
    agreements = [f"{name} {AGREEMENT}" for name in names if name.startswith(JUDGE)]
    known = sorted({*with_tags, NEWLY_FAILING, *quantiles, *agreements})
    is_known = figure in known if tag is None else bool(tag) and base in with_tags and not of
    if not is_known:
        raise AssistantInputError(
            f"invalid rule {text!r}: there is no figure {figure!r}{did_you_mean(figure, known)}",
            todo=f"The figures are {', '.join(known)}; coverage, pass_rate and scorers also for a tag, such as "
            "'pass_rate[billing]'.",
            field="gate",
        )
    if problem := _problem(rule):
        raise AssistantInputError(f"invalid rule {text!r}: {problem}", field="gate")
    return rule


def _problem(rule: Rule) -> str | None:
    """Return why a rule is not valid although its figure is, or None."""
    term, is_count = rule.term, rule.figure == NEWLY_FAILING
    has_no_drop = rule.is_agreement or is_count or rule.figure.startswith(f"{LATENCY} ")
    problems = [
        (rule.is_drop and has_no_drop, f"{rule.figure} has no drop"),
        (rule.is_drop and (not term.is_upper or term.limit < 0), "the limit of a drop is an upper one, from 0: use <="),
        (is_count and not term.is_upper, f"{NEWLY_FAILING} can only be limited with <= or <"),
        (rule.is_agreement and term.comparison not in {">=", ">"}, "an agreement can only be limited with >= or >"),
        (rule.is_agreement and not rule.labels, "end it with the number of labels that are enough: 'on >= 50 labels'"),
        (rule.labels and not rule.is_agreement, "only the agreement of a judge is 'on' labels"),
    ]
    found = next((text for is_wrong, text in problems if is_wrong), None)
    return found or _not_a_share(rule.base, term.limit)


def is_share(name: str) -> bool:
    """Return whether a figure or the scores of a scorer are from 0 to 1."""
    return name not in {NEWLY_FAILING, LATENCY, CONFIDENCE_SCORE} and not name.startswith(COLUMN)


def is_measured(name: str) -> bool:
    """Return whether a scorer should have a value for every answer, such as its latency."""
    return name in {LATENCY, CONFIDENCE_SCORE, LOW_CONFIDENCE} or name.startswith(COLUMN)


def _not_a_share(name: str, limit: float) -> str | None:
    if is_share(name) and not 0 <= limit <= 1:
        return f"{name} is from 0 to 1; write {limit / 100:g} for {limit:g} %"
    return None


def parse_criteria(
    pass_if: str | None, gate: Sequence[str], scorers: Collection[str] | None = None, *, has_baseline: bool = True
) -> Criteria:
    """
    Parse the condition for passing and the rules of the gate, and check them together.

    :param scorers: Names of the known scorers. Default: None, not known yet.
    """
    if not isinstance(gate, list | tuple):
        raise AssistantInputError(f"gate must be a list of rules, not {gate!r}", field="gate")
    rules = [parse_rule(rule, scorers) for rule in gate]
    criteria = Criteria(None if pass_if is None else parse_condition(pass_if, scorers), rules)
    calibrated = {rule.base for rule in rules if rule.is_agreement}
    for rule in rules:
        if rule.base in OF_PASSING and criteria.pass_if is None:
            raise AssistantInputError(
                f"gate: {rule.text!r} needs pass_if, the condition for a question to pass", field="pass_if"
            )
        if (rule.is_drop or rule.figure == NEWLY_FAILING) and not has_baseline:
            raise AssistantInputError(
                f"gate: {rule.text!r} needs a baseline",
                todo="Set baseline='previous', or --against on the command line.",
                field="baseline",
            )
        for judge in criteria.judges_of(rule):
            if judge not in calibrated:
                raise AssistantInputError(
                    f"gate: {rule.text!r}: the verdicts of {judge} may decide only if they agree with those of people",
                    todo=f"Add a rule such as '{judge} agreement >= 0.6 on >= 50 labels', and labels in the column "
                    "human.",
                    field="gate",
                )
    return criteria


def _checked_text(text: Any, what: str, parameter: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise AssistantInputError(f"invalid {what} {text!r}: it must be text", field=parameter)
    return text
