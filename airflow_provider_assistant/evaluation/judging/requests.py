"""The request to a judge for one answer or for two: a chat completion with a JSON schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_assistant.api.call import Call, CallInfo
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.judging.host_limits import RESPONSE_FORMAT, SYSTEM_ROLE, TEMPERATURE
from airflow_provider_assistant.evaluation.judging.prompts import ANSWER, PAIR, PROMPT_VERSION
from airflow_provider_assistant.evaluation.judging.replies import Completion, answer_in, completion_of, preference_in
from airflow_provider_assistant.evaluation.judging.rubrics import Rubric
from airflow_provider_assistant.evaluation.judging.verdicts import Verdict
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import is_missing
from airflow_provider_assistant.texts import shortened

# Message and answer of each earlier turn of a conversation; an answer is None if there was none.
Turns: TypeAlias = tuple[tuple[str, str | None], ...]

ENDPOINT = "judge"
# Characters of one text of an earlier turn, and of all of them. The latest turns are sent.
TURN_LENGTH, TURNS_LENGTH = 2000, 12_000
# The expected kind of answer by ``expect_no_answer``.
_KINDS: dict[bool | None, str] = {True: "a refusal", False: "not a refusal"}


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """
    One answer to judge by one rubric, or two answers to compare.

    :param answer: Text of the answer, or of the first of two.
    :param passages: Passages that the answer should be based on.
    :param is_label: Whether a person has labelled this answer, and it is not the answer of this evaluation.
    :param second: Text of the second answer; None if there is only one to judge.
    :param earlier_turns: The conversation before the question, oldest turn first.
    :param earlier_turns_of_second: The same of the second answer, whose conversation had other answers.
    """

    key: str
    rubric: Rubric
    question: str
    answer: str
    expected: str | None
    passages: tuple[str, ...]
    is_label: bool = False
    repetition: int = 1
    second: str | None = None
    earlier_turns: Turns = ()
    earlier_turns_of_second: Turns = ()

    @classmethod
    def of(cls, case: Case, rubric: Rubric, answer: str | None, *, is_label: bool = False) -> JudgeRequest | None:
        """
        Return the request for an answer, or None if there is none, or the rubric is not applicable to the question.

        :raises AssistantInputError: The column ``passages`` does not hold texts.
        """
        if answer is None:
            return None
        # A built-in rubric gets only the texts that it is about; a rubric of the user gets all of them.
        reference = rubric.reference
        expected = case.reference
        passages: tuple[str, ...] = ()
        if reference == "expect_no_answer":
            expected = _KINDS.get(case.expect_no_answer)
        elif reference == "passages":
            expected = None
        if reference in {None, "passages"}:
            passages = passages_of(case.key, case.row.get("passages"))
        if reference in {"expected", "expect_no_answer"} and expected is None:
            return None
        if reference == "passages" and not passages:
            return None
        return cls(
            key=case.key,
            rubric=rubric,
            question=case.message,
            answer=answer,
            expected=expected,
            passages=passages,
            is_label=is_label,
            repetition=case.repetition,
            earlier_turns=case.transcript,
        )

    @property
    def subject(self) -> str:
        """What the request is about, for messages."""
        return f"{self.rubric.scorer} of question {self.key!r}"

    @property
    def texts(self) -> list[str]:
        """The texts that the model reads."""
        texts = [self.rubric.text, self.question, self.answer, self.second, self.expected, *self.passages]
        for turn in (*self.earlier_turns, *self.earlier_turns_of_second):
            texts += turn
        return [text for text in texts if text]

    def content_hash(self, model: str) -> str:
        """Return the hash of everything that the verdict depends on."""
        # Do not change this list: a retry finds the saved verdicts by their hashes.
        parts = [
            PROMPT_VERSION,
            model,
            self.rubric.name,
            self.rubric.text,
            self.question,
            self.expected,
            self.passages,
            self.answer,
            self.second,
            self.earlier_turns,
            self.earlier_turns_of_second,
        ]
        content = json.dumps(parts).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def call(
        self,
        model: str,
        *,
        without: Collection[str] = (),
        on_completion: Callable[[Completion], None] = lambda _: None,
    ) -> Call[Verdict]:
        """
        Return the API call: ``POST …/chat/completions`` with temperature 0.

        :param without: What the host does not support: names of :mod:`.host_limits`.
        :param on_completion: Called with every completion, also with one that is not a verdict: it costs tokens, too.
        """

        def parse(body: Any, _: CallInfo) -> Verdict:
            completion = completion_of(body)
            on_completion(completion)
            if self.second is None:
                return answer_in(completion, self.rubric.scale)
            return preference_in(completion)

        return Call(
            endpoint=ENDPOINT,
            method="POST",
            path="/chat/completions",
            subject=self.subject,
            parse=parse,
            json=self._body(model, without),
            idempotent=True,
        )

    def _body(self, model: str, without: Collection[str]) -> dict[str, Any]:
        prompt = ANSWER if self.second is None else PAIR
        system = prompt.system_message(self.rubric)
        user = json.dumps(self._payload(), ensure_ascii=False)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        if SYSTEM_ROLE in without:
            messages = [{"role": "user", "content": f"{system}\n\n{user}"}]
        body = {"model": model, "messages": messages, TEMPERATURE: 0, RESPONSE_FORMAT: prompt.response_format}
        return {name: value for name, value in body.items() if name not in without}

    def _payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = {}
        if self.second is None or self.earlier_turns == self.earlier_turns_of_second:
            payload |= _turns("earlier_turns", self.earlier_turns)
        else:
            payload |= _turns("earlier_turns_of_first", self.earlier_turns)
            payload |= _turns("earlier_turns_of_second", self.earlier_turns_of_second)
        payload["question"] = self.question
        if self.second is None:
            payload["answer"] = self.answer
        else:
            payload |= {"first": self.answer, "second": self.second}
        if self.expected is not None:
            payload["expected"] = self.expected
        if self.passages:
            payload["passages"] = self.passages
        return payload


def _turns(name: str, turns: Turns) -> dict[str, Any]:
    """Return the latest turns as part of a payload, and how many there were before."""
    sent: list[dict[str, str | None]] = []
    length = 0
    for message, answer in reversed(turns):
        question = shortened(message, TURN_LENGTH)
        reply = shortened(answer or "", TURN_LENGTH)
        length += len(question) + len(reply)
        if length > TURNS_LENGTH:
            break
        sent.insert(0, {"question": question, "answer": None if answer is None else reply})
    parts: dict[str, Any] = {}
    if len(sent) < len(turns):
        parts[f"{name}_left_out"] = len(turns) - len(sent)
    if sent:
        parts[name] = sent
    return parts


def passages_of(key: str, given: Any) -> tuple[str, ...]:
    """
    Return the passages of a cell.

    :param key: Key of the question, for messages.
    :raises AssistantInputError: The cell is neither a text nor a list of texts.
    """
    if is_missing(given):
        return ()
    texts = given
    if isinstance(given, str):
        texts = [given]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise AssistantInputError(
            f"question {key!r}: passages must be a text or a list of texts, not {type(given).__name__}",
            field="passages",
        )
    return tuple(text for text in texts if text.strip())
