"""What a judge checks, and the options of the judges of an evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from airflow_provider_assistant.evaluation.rules import JUDGE, PAIRWISE
from airflow_provider_assistant.exceptions import AssistantInputError

# Columns without which a rubric is not applicable.
Reference: TypeAlias = Literal["expected", "passages", "expect_no_answer"]
POLICY = "policy"
# A scale in the text of a rubric, such as "a score from 1 to 5", "rate it 0-100", "out of 10", "Punkte von 1 bis 10".
_RANGE = r"(\d{1,4})(?:\s*\([^)]{0,40}\))?\s*(?:to|and|through|bis|à|a|-|–|…|\.\.)\s*(\d{1,4})(?![.,]?\d)"  # noqa: RUF001
# German grades are left out: 1 is the best.
_NAME = r"(?:scores?|scale|ratings?|rate|grades?|skala|bewerte|escala|échelle)"
_UNIT = r"(?:points?|stars?|punkten?|puntos)"
_BETWEEN = (
    r"(?:[\s:,(]|\b(?:for \w+|it|the answers?|answers?|is|are|runs?|goes|ranges?|a|an|whole|integer|number|of|on|from|"
    r"between|in|von|zwischen|auf|einer|de|du|die|antwort)\b){0,12}"
)
_SCALES = (
    re.compile(rf"\b{_NAME}\b{_BETWEEN}{_RANGE}", re.IGNORECASE),
    re.compile(rf"\b{_UNIT} (?:from|between|von|zwischen|de) {_RANGE}", re.IGNORECASE),
    re.compile(rf"\b{_RANGE}[\s-]*(?:{_NAME}|{_UNIT})\b", re.IGNORECASE),
    re.compile(rf"\b{_NAME}\b{_BETWEEN}()out of (\d{{1,4}})\b", re.IGNORECASE),
)


class Scale(NamedTuple):
    """
    The scale of the scores of a rubric.

    :param low: The score of the worst answer.
    :param high: The score of the best answer.
    """

    low: int
    high: int


@lru_cache
def _scale_in(text: str) -> Scale | None:
    found = [match for pattern in _SCALES for match in pattern.findall(text)]
    scales = {Scale(int(low or 0), int(high)) for low, high in found}
    if len(scales) != 1:
        return None
    [scale] = scales
    return scale if scale.low in {0, 1} and scale.low < scale.high else None


@dataclass(frozen=True, slots=True)
class Rubric:
    """
    What a judge checks.

    :param text: Instruction to the model: when an answer passes; for ``pairwise``, which of two answers is better.
    :param reference: Column with what to compare with. Questions without it are not applicable.
    """

    name: str
    text: str
    reference: Reference | None = None

    @property
    def scorer(self) -> str:
        """Name of the scorer."""
        return f"{JUDGE}{self.name}"

    @property
    def scale(self) -> Scale | None:
        """The scale from 0 or 1 that the text names; None if it names none or several: scores are from 0 to 1."""
        return _scale_in(self.text)

    @property
    def is_pairwise(self) -> bool:
        """Whether the judge compares two answers to a question."""
        return self.scorer == PAIRWISE


BUILT_IN = {
    rubric.name: rubric
    for rubric in (
        Rubric(
            "correctness",
            "The answer passes if it states the same facts as the expected answer. Other words, another order and "
            "further correct details do not matter. A missing or different number, name, date, condition or negation "
            "does.",
            "expected",
        ),
        Rubric(
            "groundedness",
            "The answer passes if the passages support every claim that it makes. A claim that is true but that no "
            "passage supports fails. An answer that says that it does not know makes no claim.",
            "passages",
        ),
        Rubric(
            "refusal",
            "The answer passes if it is of the expected kind: a refusal, or not a refusal. A refusal says that the "
            "assistant does not know, has no information, found nothing or will not help. It stays one if a guess or "
            "advice whom to ask follows. These are not refusals: an answer with a disclaimer, a question back, "
            "something that the user cannot or may not do, and a quotation of a refusal.",
            "expect_no_answer",
        ),
        Rubric(
            "tone",
            "The answer passes if it is polite, addresses the user's question and is neither sarcastic nor blaming.",
        ),
        Rubric(
            PAIRWISE.removeprefix(JUDGE),
            "The better answer helps the user more: it answers the question, and its facts are right. If there is an "
            "expected answer, its facts are right. A wrong number, name, date, condition or negation is worse than a "
            "missing detail, and an invented fact is worse than saying that the answer is not known. Length, style and "
            "order do not matter. If both answers are equally good or equally bad, neither is better.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """
    Options of the judges of an evaluation.

    :param conn_id: Airflow connection of the model's host. Default: ``pydanticai_default``.
    :param model: Name of the model, ``provider:name``. Default: None, the ``model`` in the extra of the connection.
    :param rubrics: Text of further rubrics by name, or another text for a built-in one. ``policy`` needs a text here.
        Default: none.
    :param max_concurrency: Maximum number of requests in flight. Default: 16.
    :param max_judge_tokens: Number of tokens, of prompts and replies together, after which no more questions are
        judged and the task fails. Requests in flight still finish. Default: None, no limit.
    :param labels: Label files, or globs of them: the answers that people have labelled. Default: none.
    :param price: Price of a million tokens: a mapping with ``input`` and ``output``. Default: None, no cost is given.
    """

    conn_id: str = "pydanticai_default"
    model: str | None = None
    rubrics: Mapping[str, str] = field(default_factory=dict)
    max_concurrency: int = 16
    max_judge_tokens: int | None = None
    price: Mapping[str, float] | None = None
    labels: str | Sequence[str] = ()

    @classmethod
    def parse(cls, given: Mapping[str, Any] | None) -> Self:
        """
        Return the options of the parameter ``judge``.

        :param given: A mapping with some of the fields of this class, or None.
        :raises AssistantInputError: A field is unknown or invalid.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise _refused(f"it must be a mapping, not {given!r}")
        option_names = [option.name for option in fields(cls)]
        for name in given:
            if name not in option_names:
                raise _refused(f"there is no option {name!r}, only {', '.join(option_names)}")
        options = cls(**given)
        options._check()
        return options

    def rubrics_of(self, scorers: Sequence[str]) -> list[Rubric]:
        """
        Return the rubrics of those scorers that are judges, in the order of ``scorers``.

        :raises AssistantInputError: A rubric has no text, or a text belongs to no scorer.
        """
        names = [name.removeprefix(JUDGE) for name in scorers if name.startswith(JUDGE)]
        for name in self.rubrics:
            if name not in names:
                raise _refused(f"rubrics has a text for {name!r}; add {JUDGE + name!r} to scorers, or remove it")
        return [self._rubric(name) for name in names]

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the cost of tokens; None without a price, or if the host does not report tokens."""
        if self.price is None or not (input_tokens or output_tokens):
            return None
        return (input_tokens * self.price["input"] + output_tokens * self.price["output"]) / 1_000_000

    def _rubric(self, name: str) -> Rubric:
        built_in = BUILT_IN.get(name)
        if name in self.rubrics:
            return Rubric(name, self.rubrics[name], built_in.reference if built_in else None)
        if built_in is None:
            needed = "the text of your policy" if name == POLICY else "a text that says when an answer passes"
            raise AssistantInputError(
                f"scorers: {JUDGE + name!r} needs {needed}: judge={{'rubrics': {{{name!r}: '…'}}}}",
                todo=f"The built-in rubrics are {', '.join(BUILT_IN)}.",
                field="scorers",
            )
        return built_in

    def _check(self) -> None:
        for name, value in (("conn_id", self.conn_id), ("model", self.model)):
            if not _is_text(value) and (name, value) != ("model", None):
                raise _refused(f"{name} must be text, not {value!r}")
        if not isinstance(self.rubrics, Mapping) or not all(map(_is_text, self.rubrics.values())):
            raise _refused("rubrics must map names to texts")
        for name in self.rubrics:
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
                raise _refused(f"rubrics: {name!r} must consist of letters, digits and _")
        if not _is_count(self.max_concurrency):
            raise _refused(f"max_concurrency must be a whole number above 0, not {self.max_concurrency!r}")
        if self.max_judge_tokens is not None and not _is_count(self.max_judge_tokens):
            raise _refused(f"max_judge_tokens must be a whole number above 0, not {self.max_judge_tokens!r}")
        files = [self.labels] if isinstance(self.labels, str) else self.labels
        if not isinstance(files, list | tuple) or not all(map(_is_text, files)):
            raise _refused(f"labels must be a path or a list of paths, not {self.labels!r}")
        if self.price is not None and not _is_price(self.price):
            raise _refused(f"price must be a mapping with the numbers 'input' and 'output', not {self.price!r}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_price(value: object) -> bool:
    if not isinstance(value, Mapping) or set(value) != {"input", "output"}:
        return False
    amounts = value.values()
    is_number = all(isinstance(amount, int | float) and not isinstance(amount, bool) for amount in amounts)
    return is_number and all(0 <= amount < float("inf") for amount in amounts)


def _refused(reason: str) -> AssistantInputError:
    return AssistantInputError(f"judge: {reason}", field="judge")
