"""
Models of ``summary.json``, from which the result of the task, the datasets and the report are made.

The reference page of evaluations says what each field means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_assistant.evaluation.rules import OnFail

SCHEMA_VERSION = 2
# Number of questions that the summary names in a list.
NAMED = 50


class Model(BaseModel):
    """Base of the models: unchangeable, and tolerant of fields that another version wrote."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Keys(Model):
    """The number of questions, and the keys of the first 50."""

    count: int = 0
    keys: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, keys: Sequence[str] | None) -> Keys | None:
        """Name the first questions and count all of them; None if they are not known."""
        return None if keys is None else cls(count=len(keys), keys=list(keys[:NAMED]))


class Change(Model):
    """
    The change of a figure since the earlier runs: now minus before, over the questions that both have.

    The interval and the errors need two questions; ``three_nights`` is the same change of the last three runs together.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    standard_error: float | None = None
    three_nights: float | None = None
    three_nights_error: float | None = None
    questions: int
    comparable: int
    runs: int


class Figure(Model):
    """
    A named number, such as ``token_f1[billing]`` or ``latency p95``.

    :param count: Number of answers, questions or labels that it was computed from.
    :param expected: Number of these that should have had a value.
    """

    value: float | None
    count: int
    expected: int
    change: Change | None = None


class Agreement(Model):
    """How well a judge agrees with people: Cohen's kappa with its interval; without kappa if it is not defined."""

    labels: int
    kappa: float | None = None
    low: float | None = None
    high: float | None = None


class JudgeFacts(Model):
    """What a judge was, and what it used. Runs of judges with another fingerprint are not compared."""

    model: str
    fingerprint: str
    rubric: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


class ScorerSummary(Model):
    """One scorer; its mean is the figure of its name. Answers with an error have the worst score."""

    higher_is_better: bool
    is_share: bool
    scored: int
    errors: int
    judge: JudgeFacts | None = None
    agreement: Agreement | None = None


class QuestionCounts(Model):
    """Counts of the answers, each repetition and each turn once; of those that are missing, by status."""

    total: int
    answered: int
    unanswered: dict[str, int] = Field(default_factory=dict)


class Deciding(Model):
    """A question that decided a rule, with its value in the figure, and its mean in the earlier runs if known."""

    key: str
    value: float | None = None
    before: float | None = None


Verdict: TypeAlias = Literal["passed", "failed", "not_proven", "too_few", "not_judged"]
WORDS: dict[Verdict, str] = {
    "passed": "passed",
    "failed": "failed",
    "not_proven": "not proven",
    "too_few": "too few questions to say",
    "not_judged": "not judged",
}


class RuleVerdict(Model):
    """
    The verdict on one rule. Only ``failed`` fails the gate.

    :param value: The number that was compared with the limit; of a ``drop``, the loss.
    :param is_worse: Whether a comparison failed because the answers got worse by more than chance explains.
    :param questions: The questions that decided, worst first; at most 50.
    :param deciding: Number of these questions.
    """

    rule: str
    figure: str
    verdict: Verdict
    value: float | None = None
    reason: str
    is_worse: bool = False
    questions: list[Deciding] = Field(default_factory=list)
    deciding: int = 0

    @property
    def word(self) -> str:
        """The verdict for people."""
        return "worse" if self.is_worse else WORDS[self.verdict]


class Gate(Model):
    """
    The verdict of the gate; ``none`` without rules.

    :param failed_runs: Number of runs in a row that failed, this one included.
    :param since: When the first of them asked.
    """

    verdict: Literal["passed", "failed", "none"] = "none"
    on_fail: OnFail = "report"
    failed_runs: int = 0
    since: str | None = None
    rules: list[RuleVerdict] = Field(default_factory=list)

    @property
    def failed(self) -> list[RuleVerdict]:
        """The rules that failed."""
        return [rule for rule in self.rules if rule.verdict == "failed"]

    @property
    def word(self) -> str:
        """The verdict for people."""
        return "worse" if self.is_worse else self.verdict.replace("none", "not judged")

    @property
    def is_worse(self) -> bool:
        """Whether a comparison failed. Such a run is not compared with."""
        return any(rule.is_worse for rule in self.rules)


class EarlierRuns(Model):
    """The runs that an evaluation is compared with: the latest one, and what changed in the golden set since."""

    path: str
    name: str
    run_id: str | None = None
    asked_at: str | None = None
    runs: int = 1
    changed: int = 0
    added: int = 0
    removed: int = 0


class Summary(Model):
    """The result of an evaluation. It has no time of its own: the same answers give the same bytes."""

    schema_version: int = SCHEMA_VERSION
    name: str
    run: dict[str, str | None] = Field(default_factory=dict)
    site: str | None = None
    asked_at: str | None = None
    pass_if: str | None = None
    questions: QuestionCounts
    scorers: dict[str, ScorerSummary]
    tags: dict[str, int] = Field(default_factory=dict)
    figures: dict[str, Figure]
    low_confidence: int | None = None
    failing: Keys | None = None
    newly_failing: Keys | None = None
    earlier: EarlierRuns | None = None
    gate: Gate = Gate()

    def as_json(self) -> bytes:
        """Return the content of ``summary.json``."""
        return f"{self.model_dump_json(indent=1)}\n".encode()

    def value(self, figure: str, tag: str | None = None) -> float | None:
        """Return the value of a figure, or of a figure of a tag; None without one."""
        found = self.figures.get(figure if tag is None else f"{figure}[{tag}]")
        return found.value if found else None

    @property
    def means(self) -> dict[str, float | None]:
        """Weighted mean by scorer."""
        return {name: self.value(name) for name in self.scorers}

    @property
    def judge_tokens(self) -> int | None:
        """Tokens of all judges, of prompts and replies; None without judges."""
        judges = [scorer.judge for scorer in self.scorers.values() if scorer.judge]
        return sum(judge.input_tokens + judge.output_tokens for judge in judges) if judges else None
