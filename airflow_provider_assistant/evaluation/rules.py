"""
Parse conditions on scores and rules of a gate. The text is never evaluated as code.

::

    condition = term { "and" term }           token_f1 >= 0.5 and must_include >= 1
    term      = name comparison number
    rule      = name [ "[" tag "]" ] [ "p95" | "drop" | "worst" ] comparison number
                                              token_f1[billing] >= 0.5, latency p95 <= 20, token_f1 drop <= 0.02,
                                              pass_rate drop <= 0.02, newly_failing <= 2, errors <= 0.01
              | name "agreement" comparison number "on" ">=" count "labels"
                                              judge.correctness agreement >= 0.6 on >= 50 labels
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.exceptions import AssistantInputError

# Values of ``on_fail``: what a failed gate does.
OnFail: TypeAlias = Literal["fail", "skip_downstream", "report"]
# Values of ``baseline``: a path, "previous", {"tag": name}, or {"answers": path}.
BaselineOf: TypeAlias = str | Mapping[str, str]
PREVIOUS = "previous"
ANSWERS = "answers"

# Names in rules that are not scorers.
COVERAGE, PASS_RATE, DISAGREEMENT = "coverage", "pass_rate", "disagreement"
ERRORS, COMPARED, NEWLY_FAILING = "errors", "compared", "newly_failing"
NO_SCORERS = (COVERAGE, PASS_RATE, DISAGREEMENT, ERRORS, COMPARED, NEWLY_FAILING)
# Figures that need a condition for passing, and figures that need a baseline.
OF_PASSING = (PASS_RATE, NEWLY_FAILING)
OF_BASELINE = (COMPARED, NEWLY_FAILING)
LATENCY, NOTICED_AFTER = "latency", "noticed_after"
CONFIDENCE_SCORE, LOW_CONFIDENCE = "confidence_score", "low_confidence"
# Scorers of what a reply contains or a poll measures. An answer without such a value is not judged.
MEASURED = (LATENCY, CONFIDENCE_SCORE, LOW_CONFIDENCE)
QUANTILES = ("p5", "p25", "p50", "p75", "p90", "p95", "p99")
DROP, AGREEMENT, WORST = "drop", "agreement", "worst"
# Scorers whose name begins like this ask a model, see :mod:`~airflow_provider_assistant.evaluation.judging`.
JUDGE = "judge."
# The judge that compares the answer with that of the baseline.
PAIRWISE = f"{JUDGE}pairwise"
NO_LABELS = (
    f"{PAIRWISE} has no labels of people, so it only informs; let another judge decide, such as "
    "'judge.correctness drop <= 0.02'"
)
# Compare with a tolerance: binary floats cannot represent most decimal means exactly.
TOLERANCE = 1e-9

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISONS_OF = {ERRORS: ("<=", "<"), NEWLY_FAILING: ("<=", "<"), COMPARED: (">=", ">")}
_COMPARISON = "|".join(_COMPARISONS)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NAME = r"[A-Za-z_][\w.:-]*"
# Compiled on first use: importing an operator in a DAG file must stay fast.
_TERM_PATTERN = (
    rf"\s*(?P<name>{_NAME})\s*"
    rf"(?P<comparison>{_COMPARISON})\s*(?P<threshold>{_NUMBER})\s*"
)
_RULE_PATTERN = (
    rf"\s*(?P<name>{_NAME})\s*(?:\[\s*(?P<tag>[^\[\]]*?)\s*\])?\s*(?P<of>\b(?:p\d+|{DROP}|{AGREEMENT}|{WORST})\b)?"
    rf"\s*(?P<comparison>{_COMPARISON})\s*(?P<threshold>{_NUMBER})\s*"
    r"(?:\bon\s*>=\s*(?P<labels>\d{1,9})\s*labels\s*)?"
)


@dataclass(frozen=True, slots=True)
class Term:
    """
    A comparison of a number with a threshold.

    :param name: Name of the number: a scorer, ``coverage``, ``pass_rate``, ``errors``, ``compared``, ``newly_failing``,
        ``disagreement``, ``latency`` or ``noticed_after``.
    :param comparison: ``>=``, ``<=``, ``==``, ``>`` or ``<``.
    """

    name: str
    comparison: str
    threshold: float

    def holds(self, value: float) -> bool:
        """Return whether a number fulfils the comparison. Differences of up to 1e-9 count as equal."""
        if abs(value - self.threshold) <= TOLERANCE:
            value = self.threshold
        compare = _COMPARISONS[self.comparison]
        return compare(value, self.threshold)


@dataclass(frozen=True, slots=True)
class Condition:
    """
    A condition on the scores of one question.

    :param text: The condition as the user wrote it.
    :param terms: The comparisons, all of which must hold.
    """

    text: str
    terms: tuple[Term, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scorers in the condition, without duplicates."""
        return tuple(dict.fromkeys(term.name for term in self.terms))

    def holds(self, scores: Mapping[str, float | None]) -> bool | None:
        """
        Return whether a question fulfils the condition.

        :param scores: Scores of the question by scorer. Scorers that are not in the mapping are not applicable and are
            ignored; None is a missing score: the question has no answer, or the scorer raised an error.
        :return: None if it cannot be judged: a score is missing and all others hold, or no scorer is applicable.
        """
        terms = [term for term in self.terms if term.name in scores]
        is_missing = False
        for term in terms:
            score = scores[term.name]
            if score is None:
                is_missing = True
            elif not term.holds(score):
                return False
        return None if is_missing or not terms else True


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One rule of a gate.

    :param text: The rule as the user wrote it.
    :param tag: Tag of the questions that the rule checks, or None for all questions.
    :param of: A quantile such as ``p95``, or ``drop``, ``agreement`` or ``worst``, or None for the mean or share.
    :param labels: Smallest number of labels that an ``agreement`` needs; None for other rules.
    """

    text: str
    term: Term
    tag: str | None = None
    of: str | None = None
    labels: int | None = None

    @property
    def name(self) -> str:
        """Name of the number, see :class:`Term`."""
        return self.term.name

    @property
    def is_drop(self) -> bool:
        """Whether the rule compares a figure with that of the baseline."""
        return self.of == DROP

    @property
    def needs_baseline(self) -> bool:
        """Whether there is nothing to check without a baseline."""
        return self.is_drop or self.name in OF_BASELINE

    @property
    def is_agreement(self) -> bool:
        """Whether the rule compares the verdicts of a judge with those of people."""
        return self.of == AGREEMENT


def parse_condition(text: str, scorers: Collection[str] | None = None) -> Condition:
    """
    Parse a condition such as ``token_f1 >= 0.5 and must_include >= 1``.

    :param text: The condition.
    :param scorers: Names of the scorers that it may use. Default: None, any name.
    :raises AssistantInputError: The text is not a condition, or names an unknown scorer.
    """
    parts = re.split(r"\band\b", _checked_text(text, "condition"))
    terms = [_term(part, text) for part in parts]
    for term in terms:
        if scorers is not None and term.name not in scorers:
            reason = f"there is no scorer {term.name!r}, only {_listed(scorers)}"
            raise _input_error(text, "condition", reason)
    return Condition(text, tuple(terms))


def parse_rule(text: str, scorers: Collection[str] | None = None) -> Rule:
    """
    Parse a rule such as ``token_f1[billing] >= 0.5``.

    :param text: The rule.
    :param scorers: Names of the scorers that it may use. Default: None, any name.
    :raises AssistantInputError: The text is not a rule, or names an unknown scorer, quantile or combination.
    """
    match = re.fullmatch(_RULE_PATTERN, _checked_text(text, "rule"))
    if not match:
        raise _input_error(
            text,
            "rule",
            "write it like 'coverage >= 0.98', 'pass_rate >= 0.8', 'token_f1 >= 0.6', 'token_f1[billing] >= 0.5', "
            "'latency p95 <= 20', 'token_f1 drop <= 0.02', 'newly_failing <= 2' or "
            "'judge.correctness agreement >= 0.6 on >= 50 labels', "
            "with a number without % or unit",
        )
    labels = int(match["labels"]) if match["labels"] else None
    rule = Rule(
        text=text,
        term=_term_of(match),
        tag=match["tag"],
        of=match["of"],
        labels=labels,
    )
    problem = _problem(rule, scorers)
    if problem:
        raise _input_error(text, "rule", problem)
    return rule


def check_baseline(baseline: Any) -> None:
    """
    Validate the parameter ``baseline``.

    :raises AssistantInputError: It is not a path, ``previous``, a mapping with ``tag`` or ``answers``, or None.
    """
    if baseline is None:
        return
    text = baseline
    if isinstance(baseline, Mapping) and set(baseline) in ({"tag"}, {ANSWERS}):
        # The mapping has one value: the tag or the path.
        (text,) = baseline.values()
    if not isinstance(text, str) or not text:
        raise AssistantInputError(
            f"baseline must be a path, 'previous', {{'tag': name}} or {{'answers': path}}, not {baseline!r}",
            field="baseline",
        )


def check_pairwise(scorers: Collection[str], baseline: BaselineOf | None) -> None:
    """
    Check that the judge of pairs has two answers to compare.

    :raises AssistantInputError: ``judge.pairwise`` is a scorer, and the baseline is not ``{"answers": path}``.
    """
    if PAIRWISE in scorers and not (isinstance(baseline, Mapping) and ANSWERS in baseline):
        raise AssistantInputError(
            f"scorers: {PAIRWISE!r} compares each answer with another answer to the same question",
            todo="Set baseline={'answers': path}, or --against-site on the command line.",
            field="scorers",
        )


def check_calibration(rules: Sequence[Rule], pass_if: Condition | None) -> None:
    """
    Check that every judge that decides the gate has a rule on its agreement with people.

    :raises AssistantInputError: A rule, or ``pass_if`` through a rule on the pass rate, uses a judge without such a
        rule, or the judge of pairs, which has no labels.
    """
    calibrated = {rule.name for rule in rules if rule.is_agreement}
    for rule in rules:
        for name in judges_of(rule, pass_if):
            if name == PAIRWISE:
                raise _input_error(rule.text, "rule", NO_LABELS)
            if name not in calibrated:
                raise _input_error(
                    rule.text,
                    "rule",
                    f"the verdicts of {name} may decide only if they agree with those of people; add a rule such as "
                    f"'{name} agreement >= 0.6 on >= 50 labels', and labels in the column human",
                )


def judges_of(rule: Rule, pass_if: Condition | None) -> list[str]:
    """
    Return the judges whose verdicts a rule relies on.

    A rule on the agreement of a judge does not rely on its verdicts.
    """
    if rule.is_agreement:
        return []
    names: tuple[str, ...] = (rule.name,)
    if rule.name in OF_PASSING and pass_if:
        names = pass_if.names
    return [name for name in names if name.startswith(JUDGE)]


def _problem(rule: Rule, scorers: Collection[str] | None) -> str | None:
    """Return why a rule is not valid, or None."""
    is_scorer = rule.name not in NO_SCORERS
    # Quantiles of latency and noticed_after do not need a scorer. Their means do.
    is_latency_quantile = rule.name in {LATENCY, NOTICED_AFTER} and rule.of in QUANTILES
    needs_scorer = is_scorer and not is_latency_quantile
    if needs_scorer and scorers is not None and rule.name not in scorers:
        return f"there is no scorer {rule.name!r}, only {_listed(scorers)}"
    problem = None
    if rule.tag == "":
        problem = "there is no tag between the brackets"
    elif rule.tag is not None and (rule.name == DISAGREEMENT or rule.of == WORST):
        problem = "repetitions are compared over all questions only, not per tag"
    elif rule.is_agreement or rule.labels is not None:
        problem = _problem_of_agreement(rule)
    elif rule.of is not None and not is_scorer and not _is_drop_of_share(rule):
        problem = f"{rule.name} is one number and has no {rule.of}"
    elif rule.of is None:
        problem = _problem_of_count(rule)
    elif rule.is_drop:
        problem = _problem_of_drop(rule)
    else:
        problem = _problem_of_quantile(rule)
    return problem


def _is_drop_of_share(rule: Rule) -> bool:
    return rule.is_drop and rule.name in {COVERAGE, PASS_RATE}


def _problem_of_count(rule: Rule) -> str | None:
    if rule.name not in _COMPARISONS_OF:
        return None
    if rule.tag is not None:
        return f"{rule.name} is computed over all questions only, not per tag"
    allowed = _COMPARISONS_OF[rule.name]
    if rule.term.comparison not in allowed:
        return f"{rule.name} can only be limited with {' or '.join(allowed)}"
    return None


def _problem_of_drop(rule: Rule) -> str | None:
    if rule.term.comparison not in {"<=", "<"}:
        return "a drop needs an upper limit: use <="
    if rule.term.threshold < 0:
        return "the limit of a drop must not be negative"
    return None


def _problem_of_quantile(rule: Rule) -> str | None:
    if rule.of not in (WORST, *QUANTILES):
        return f"the quantiles are {', '.join(QUANTILES)}"
    if rule.tag is not None:
        return "quantiles are computed over all questions only, not per tag"
    return None


def _problem_of_agreement(rule: Rule) -> str | None:
    if not rule.is_agreement or not rule.name.startswith(JUDGE):
        return "only the agreement of a judge, such as judge.correctness, is 'on' labels"
    if rule.name == PAIRWISE:
        return NO_LABELS
    if rule.tag is not None:
        return "agreement is computed over all labels only, not per tag"
    if rule.term.comparison not in {">=", ">"}:
        return "an agreement can only be limited with >= or >"
    if not rule.labels:
        return "end it with the number of labels that are enough: 'on >= 50 labels'"
    return None


def _term(part: str, text: str) -> Term:
    match = re.fullmatch(_TERM_PATTERN, part)
    if match:
        return _term_of(match)
    if part.strip():
        reason = f"{part.strip()!r} is not 'scorer >= number'"
    else:
        reason = "a term is missing before or after 'and'"
    reason += "; write it like 'token_f1 >= 0.5 and must_include >= 1'"
    raise _input_error(text, "condition", reason)


def _term_of(match: re.Match[str]) -> Term:
    return Term(
        name=match["name"],
        comparison=match["comparison"],
        threshold=float(match["threshold"]),
    )


def _checked_text(text: object, what: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise _input_error(text, what, "it must be text")
    return text


def _input_error(text: object, what: str, reason: str) -> AssistantInputError:
    field = "pass_if" if what == "condition" else "gate"
    return AssistantInputError(f"{what} {text!r}: {reason}", field=field)


def _listed(scorers: Collection[str]) -> str:
    return ", ".join(scorers) or "none"
