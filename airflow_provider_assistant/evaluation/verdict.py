"""Models of the verdict of a gate, a part of ``summary.json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, computed_field

# Number of questions that are named.
NAMED = 50

Verdict: TypeAlias = Literal["passed", "failed", "not_proven", "too_few", "not_judged"]

_WORDS = {
    "passed": "passed",
    "failed": "failed",
    "not_proven": "not proven",
    "too_few": "too few questions to say",
    "not_judged": "not judged",
}


class Model(BaseModel):
    """Base of the models of a summary: unchangeable, and tolerant of fields that other versions wrote."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class NamedQuestions(Model):
    """
    Questions by name.

    :param count: Number of questions.
    :param keys: Keys of the first 50.
    """

    count: int
    keys: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, keys: Sequence[str]) -> NamedQuestions:
        """Name the first of the questions, and count all."""
        return cls(count=len(keys), keys=list(keys[:NAMED]))


class RuleQuestion(Model):
    """
    A question that decided a rule.

    :param value: Its value in the figure that the rule checks, such as its score; None if it has none.
    :param before: Its value in the baseline, the mean of several runs; None if not known.
    """

    key: str
    value: float | None = None
    before: float | None = None


class RuleVerdict(Model):
    """
    The verdict on one rule of the gate. Only ``failed`` fails the gate.

    :param rule: The rule as the user wrote it.
    :param verdict: ``passed``; ``failed``, also without data to judge; ``not_proven``: worse than the rule allows, but
        chance could explain it; ``too_few``: there are too few questions to notice a loss; or ``not_judged``: a
        comparison without a baseline or with a scorer that the baseline did not have.
    :param value: The number that was compared with the threshold. For a ``drop``, the loss. None without data.
    :param is_worse: Whether a comparison failed because the answers got worse, by more than chance explains.
    :param questions: The questions that the verdict is about, worst first; at most 50.
    :param concerned: Number of these questions.
    """

    rule: str
    verdict: Verdict
    value: float | None
    reason: str
    is_worse: bool = False
    questions: list[RuleQuestion] = Field(default_factory=list)
    concerned: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def word(self) -> str:
        """The verdict for people: ``worse`` is a word of its own."""
        return "worse" if self.is_worse else _WORDS[self.verdict]


class Gate(Model):
    """
    The verdict of the gate.

    :param verdict: ``passed`` or ``failed``; ``none`` without rules.
    """

    verdict: Literal["passed", "failed", "none"]
    on_fail: Literal["fail", "skip_downstream", "report"]
    rules: list[RuleVerdict]
