"""What judges check, the options of the judges, and what a model reads of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from airflow_provider_assistant.evaluation.rules import JUDGE
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import hash_of
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.golden import Case

# Raise it with every change of the instructions or of what the model reads: it is part of each verdict's hash.
PROMPT_VERSION = 3
# Characters of the earlier turns of a conversation that a judge reads; the latest are kept.
TURNS_LENGTH = 12_000


class Rubric(NamedTuple):
    """When an answer passes, and the expectation without which that cannot be said."""

    name: str
    text: str
    needs: Literal["expected", "expect_no_answer"] | None = None

    @property
    def scorer(self) -> str:
        """Name of the scorer."""
        return f"{JUDGE}{self.name}"

    def fingerprint(self, model: str) -> str:
        """Return the hash of everything but the answer that a verdict depends on."""
        return hash_of(json.dumps([PROMPT_VERSION, model, self.text, self.needs]))


BUILT_IN = {
    rubric.name: rubric
    for rubric in (
        Rubric(
            "correctness",
            "The answer states the same facts as the expected answer. Other words, another order and further correct "
            "details do not matter. A missing or different number, name, date, condition or negation does.",
            "expected",
        ),
        Rubric(
            "refusal",
            "The answer is of the expected kind: a refusal, or not a refusal. A refusal says that the assistant does "
            "not know, has no information, found nothing or will not help. It stays one if a guess or advice whom to "
            "ask follows. These are not refusals: an answer with a disclaimer, a question back, something that the "
            "user cannot or may not do, and a quotation of a refusal.",
            "expect_no_answer",
        ),
    )
}


class JudgeOptions(BaseModel):
    """
    Options of the judges of an evaluation.

    :param conn_id: Airflow connection of the model, of the type ``pydanticai`` or one of its vendors.
    :param model: Name of the model, such as ``openai:gpt-5``. Default: the model of the connection.
    :param rubrics: By name, when an answer passes. A built-in rubric gets another text.
    :param max_concurrency: Maximum number of requests in flight.
    :param max_judge_tokens: Number of tokens after which nothing more is judged and the task fails. Default: no limit.
    :param labels: Path of a table of answers that people have labelled, or several. Default: none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    conn_id: str = Field("pydanticai_default", min_length=1)
    model: str | None = Field(None, min_length=1)
    rubrics: dict[str, str] = Field(default_factory=dict)
    max_concurrency: PositiveInt = 16
    max_judge_tokens: PositiveInt | None = None
    labels: str | list[str] = Field(default_factory=list)

    @classmethod
    def parse(cls, given: Mapping[str, Any] | None) -> JudgeOptions:
        """
        Return the options of the parameter ``judge``.

        :raises AssistantInputError: A field is unknown or invalid.
        """
        if given is not None and not isinstance(given, Mapping):
            raise refused(f"it must be a mapping, not {given!r}")
        try:
            return cls.model_validate(dict(given or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            if first["type"] == "extra_forbidden":
                raise refused(f"there is no option {where!r}, only {', '.join(cls.model_fields)}") from None
            raise refused(f"{where}: {first['msg']}, not {first['input']!r}") from None

    def rubrics_of(self, scorers: Iterable[str]) -> list[Rubric]:
        """
        Return the rubrics of those scorers that are judges, in their order.

        :raises AssistantInputError: A rubric has no text, or a text belongs to no scorer.
        """
        names = [name.removeprefix(JUDGE) for name in scorers if name.startswith(JUDGE)]
        for name in self.rubrics:
            if name not in names:
                raise refused(f"rubrics has a text for {name!r}: add {JUDGE + name!r} to scorers, or remove it")
        return [self._rubric(name) for name in names]

    def _rubric(self, name: str) -> Rubric:
        text = self.rubrics.get(name)
        built_in = BUILT_IN.get(name)
        if text is None and built_in:
            return built_in
        if not (text or "").strip():
            raise AssistantInputError(
                f"{JUDGE}{name} has no text that says when an answer passes",
                todo=f"Give it as judge={{'rubrics': {{{name!r}: '…'}}}}. Built in are {', '.join(BUILT_IN)}.",
                field="judge",
            )
        return Rubric(name, str(text), built_in.needs if built_in else None)


class Task(NamedTuple):
    """An answer, and the rubric by which it is judged."""

    rubric: Rubric
    case: Case

    @property
    def is_applicable(self) -> bool:
        """Whether there is an answer, and the expectation that the rubric compares it with."""
        needs = self.rubric.needs
        return self.case.answer is not None and (needs is None or getattr(self.case, needs) not in {None, ()})

    def prompt(self) -> str:
        """Return what the model reads besides the rubric."""
        case = self.case
        parts: dict[str, Any] = {}
        if case.transcript:
            parts["earlier_turns"] = _latest(case.transcript)
        parts["question"] = case.message
        parts["answer"] = case.answer
        expected = case.reference
        # A built-in rubric reads only the expectation that it is about.
        if self.rubric.needs == "expect_no_answer":
            expected = "a refusal" if case.expect_no_answer else "not a refusal"
        if expected is not None:
            parts["expected"] = expected
        return json.dumps(parts, ensure_ascii=False)

    def content_hash(self, model: str) -> str:
        """Return the hash of everything that the verdict depends on."""
        return hash_of(json.dumps([PROMPT_VERSION, model, self.rubric.text, self.prompt()]))


def _latest(turns: Sequence[tuple[str, str | None]]) -> list[dict[str, str | None]]:
    """Return the latest turns that a judge may read."""
    kept: list[dict[str, str | None]] = []
    length = 0
    for message, answer in reversed(turns):
        length += len(message) + len(answer or "")
        if kept and length > TURNS_LENGTH:
            break
        shown = None if answer is None else shortened(answer, TURNS_LENGTH // 2)
        kept.insert(0, {"question": shortened(message, TURNS_LENGTH // 2), "answer": shown})
    return kept


def refused(reason: str) -> AssistantInputError:
    """Return the error of a parameter ``judge`` that cannot be used."""
    return AssistantInputError(f"judge: {reason}", field="judge")
