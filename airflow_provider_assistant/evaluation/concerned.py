"""Name the questions that a verdict on a rule is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.comparison import Compared
from airflow_provider_assistant.evaluation.passing import Passing
from airflow_provider_assistant.evaluation.rules import (
    COVERAGE,
    ERRORS,
    LATENCY,
    NEWLY_FAILING,
    NOTICED_AFTER,
    PASS_RATE,
    Rule,
    parse_rule,
)
from airflow_provider_assistant.evaluation.scored import Scored
from airflow_provider_assistant.evaluation.verdict import NAMED, RuleQuestion, RuleVerdict


@dataclass(frozen=True, slots=True)
class Concerned:
    """
    The questions of an evaluation, to choose from.

    :param compared: The comparison with the baseline; None without one.
    """

    cases: Sequence[Case]
    rows_by_scorer: Mapping[str, Sequence[Scored]]
    passing: Passing
    compared: Compared | None

    def named(self, verdict: RuleVerdict) -> RuleVerdict:
        """
        Return the verdict with the questions that it is about: those with an error of the scorer, then the worst.

        A rule that passed is about no question, and neither is one about the agreement of a judge.
        """
        rule = parse_rule(verdict.rule)
        if verdict.verdict not in {"failed", "not_proven"} or rule.is_agreement:
            return verdict
        found = self._questions(rule)
        if rule.tag is not None:
            tagged = {key for case in self.cases if rule.tag in case.tags for key in (case.key, case.unit)}
            found = [question for question in found if question.key in tagged]
        return verdict.model_copy(update={"questions": found[:NAMED], "concerned": len(found)})

    def _questions(self, rule: Rule) -> list[RuleQuestion]:
        if rule.is_drop:
            found = self._losses(rule.name)
        elif rule.name == COVERAGE:
            found = [RuleQuestion(key=case.key) for case in self.cases if case.answer is None]
        elif rule.name == ERRORS:
            found = self._errors(list(self.rows_by_scorer))
        elif rule.name in {PASS_RATE, NEWLY_FAILING}:
            found = self._failing(rule)
        elif rule.name == NOTICED_AFTER:
            found = self._worst(rule, [(case.key, case.noticed_after) for case in self.cases])
        elif rule.name == LATENCY:
            found = self._worst(rule, [(case.key, case.seconds) for case in self.cases])
        else:
            # The disagreement of repetitions is no scorer, and has no rows.
            rows = self.rows_by_scorer.get(rule.name, ())
            found = self._errors([rule.name]) + self._worst(rule, [(row.key, row.score) for row in rows])
        return found

    def _losses(self, name: str) -> list[RuleQuestion]:
        losses = self.compared.losses.get(name, ()) if self.compared else ()
        return [RuleQuestion(key=loss.key, value=loss.after, before=loss.before) for loss in losses]

    def _errors(self, scorers: Sequence[str]) -> list[RuleQuestion]:
        rows = [row for name in scorers for row in self.rows_by_scorer.get(name, ()) if row.outcome == "error"]
        return [RuleQuestion(key=key) for key in dict.fromkeys(row.key for row in rows)]

    def _failing(self, rule: Rule) -> list[RuleQuestion]:
        newly_failing = (self.compared.newly_failing if self.compared else None) or ()
        found = [RuleQuestion(key=key, value=0.0, before=1.0) for key in newly_failing]
        if rule.name == PASS_RATE:
            others = [key for key in self.passing.failing if key not in set(newly_failing)]
            found += [RuleQuestion(key=key, value=0.0) for key in others]
        return found

    def _worst(self, rule: Rule, values: Sequence[tuple[str, float | None]]) -> list[RuleQuestion]:
        """Return the questions that do not hold the threshold themselves, worst first."""
        worst_first = -1 if rule.term.comparison in {"<=", "<"} else 1
        known = [(key, value) for key, value in values if value is not None and not rule.term.holds(value)]
        known.sort(key=lambda pair: (worst_first * pair[1], pair[0]))
        # Of several repetitions, the worst one stays.
        value_by_key: dict[str, float] = {}
        for key, value in known:
            value_by_key.setdefault(key, value)
        return [RuleQuestion(key=key, value=value) for key, value in value_by_key.items()]
