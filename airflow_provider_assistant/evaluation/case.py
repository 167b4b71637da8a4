"""A question with its answer and its expectations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Identity: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Case:
    """
    One question with its answer and its expectations.

    :param message: The key if the tables have no column ``message``.
    :param answer: None unless the status is ``complete``.
    :param status: Status as in the file of the chat batch, or ``not_asked``: among the expectations, but not among the
        answers.
    :param seconds: Latency in seconds, or None if not known.
    :param expect_no_answer: Whether a correct answer says that it does not know. None if not specified.
    :param weight: Weight in weighted means, relative to the other questions.
    :param row: All columns of both tables, for user-defined scorers.
    :param noticed_after: Seconds from submission to the poll that found the answer. None without polls.
    :param repetition: Number of the repetition, from 1. Repetitions of a question have the same key.
    :param transcript: Message and answer of the earlier turns, if the question is a turn of a conversation.
    :param expected_url: Addresses that a correct answer names.
    :param seconds_source: Source of the latency: ``service`` or ``measured``. None if not known.
    :param seconds_error: Seconds by which a measured latency may be too long. None if not known.
    :param confidence_level: The service's confidence in its answer as a word, such as ``low``.
    :param confidence_score: The same as a number.
    :param also_expected: Further accepted answers, besides ``expected``.
    :param conversation: Key of the first turn, if the question is a turn of a conversation of several.
    """

    key: str
    message: str
    answer: str | None
    status: str = "complete"
    error: str | None = None
    seconds: float | None = None
    session_id: str | None = None
    request_id: str | None = None
    expected: str | None = None
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    expect_no_answer: bool | None = None
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    noticed_after: float | None = None
    repetition: int = 1
    transcript: tuple[tuple[str, str | None], ...] = ()
    expected_url: tuple[str, ...] = ()
    seconds_source: str | None = None
    seconds_error: float | None = None
    confidence_level: str | None = None
    confidence_score: float | None = None
    also_expected: tuple[str, ...] = ()
    conversation: str | None = None

    @property
    def unit(self) -> str:
        """Key of what passes or fails as one: the question, or the first turn of its conversation."""
        return self.conversation or self.key

    @property
    def identity(self) -> Identity:
        """Key and number of the repetition, which identify an answer in an evaluation."""
        return self.key, self.repetition

    @property
    def accepted(self) -> tuple[str, ...]:
        """The accepted answers, of which one is enough. Empty if no answer is expected."""
        if self.expected is None:
            return ()
        return self.expected, *self.also_expected

    @property
    def reference(self) -> str | None:
        """The accepted answers as one text for a reader: a judge or a person."""
        if not self.also_expected:
            return self.expected
        answers = "\n".join(f"- {answer}" for answer in self.accepted)
        return f"One of these answers:\n{answers}"

    @property
    def has_confidence(self) -> bool:
        """Whether the reply has a confidence level or score."""
        return self.confidence_level is not None or self.confidence_score is not None

    @property
    def digest(self) -> str:
        """
        Content hash of question and expectations. Two evaluations compare questions with equal hashes.

        A turn of a conversation is another question if an earlier message of the conversation is another one.
        """
        content: list[Any] = [
            self.message,
            self.expected,
            self.must_include,
            self.must_not_include,
            self.expect_no_answer,
        ]
        content += [message for message, _answer in self.transcript]
        # Without these, the hash does not contain them: an expectation that is not used changes no question.
        if self.expected_url:
            content.append({"expected_url": self.expected_url})
        if self.also_expected:
            content.append({"also_expected": self.also_expected})
        encoded = json.dumps(content).encode()
        return hashlib.blake2b(encoded, digest_size=16).hexdigest()
