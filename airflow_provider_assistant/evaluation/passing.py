"""Which questions and conversations pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.rules import Condition
from airflow_provider_assistant.evaluation.scored import Passed, Scored, passed_answers
from airflow_provider_assistant.evaluation.summary import PassRate
from airflow_provider_assistant.evaluation.units import Unit, passed_units


@dataclass(frozen=True, slots=True)
class Passing:
    """
    Which answers, questions and conversations fulfil the condition.

    :param condition: The condition; None if there is none, and then the mappings are empty.
    :param answers: Whether each answer passes.
    :param units: Whether each repetition of each question and conversation passes.
    :param units_with_errors: The same if an answer on which a scorer failed does not pass.
    :param answered: Repetitions of questions and conversations of which every turn has an answer.
    """

    condition: Condition | None
    answers: Passed
    units: Passed
    units_with_errors: Passed
    answered: frozenset[tuple[str, int]]

    @classmethod
    def of(
        cls,
        condition: Condition | None,
        cases: Sequence[Case],
        units: Sequence[Unit],
        rows_by_scorer: Mapping[str, Sequence[Scored]],
    ) -> Passing:
        """Check the condition on all answers."""
        if condition is None:
            return cls(None, {}, {}, {}, frozenset())
        answers = passed_answers(rows_by_scorer, condition)
        answers_with_errors = passed_answers(rows_by_scorer, condition, errors_fail=True)
        unanswered = {(case.unit, case.repetition) for case in cases if case.answer is None}
        return cls(
            condition=condition,
            answers=answers,
            units=passed_units(answers, units),
            units_with_errors=passed_units(answers_with_errors, units),
            answered=frozenset({(case.unit, case.repetition) for case in cases} - unanswered),
        )

    @property
    def failing(self) -> list[str]:
        """Keys of the questions and conversations of which a repetition fails."""
        return list(dict.fromkeys(key for (key, _repetition), verdict in self.units.items() if verdict is False))

    def rate(self, tag: str | None = None, units: Sequence[Unit] = ()) -> PassRate | None:
        """
        Return the counts; None without a condition.

        :param tag: Tag of the questions and conversations to count. Default: None, all.
        :param units: All questions and conversations.
        """
        if self.condition is None:
            return None
        keys = {unit.key for unit in units if tag is None or tag in unit.tags}
        identities = [identity for identity in self.units if tag is None or identity[0] in keys]
        counts = Counter(self.units[identity] for identity in identities)
        counts_with_errors = Counter(self.units_with_errors[identity] for identity in identities)
        return PassRate(
            condition=self.condition.text,
            passed=counts[True],
            failed=counts[False],
            not_judged=counts[None],
            answered=sum(identity in self.answered for identity in identities),
            rate=_share_of_passed(counts),
            rate_with_errors=_share_of_passed(counts_with_errors),
        )


def _share_of_passed(counts: Counter[bool | None]) -> float | None:
    judged = counts[True] + counts[False]
    return counts[True] / judged if judged else None
