"""Join answers and a golden set of expectations into cases, which scorers score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

NOT_ASKED = "not_asked"
EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer", "weight", "tags")
# Key and number of the repetition.
Identity: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Case:
    """
    One answer with what is expected of it.

    :param message: The key if the tables have no column ``message``.
    :param answer: None unless the status is ``complete``.
    :param status: Status of the chat batch, or ``not_asked``: in the golden set, but not among the answers.
    :param seconds: Latency; None if not known.
    :param expected: The accepted answers, of which one is enough.
    :param expect_no_answer: Whether a correct answer says that it does not know; None if not specified.
    :param row: All columns of both tables, for functions of the user; with the list ``transcript`` in a conversation.
    :param conversation: Key of the first turn; None for a question of its own.
    :param transcript: Message and answer of the earlier turns.
    """

    key: str
    message: str
    answer: str | None
    repetition: int = 1
    status: str = "complete"
    error: str | None = None
    seconds: float | None = None
    request_id: str | None = None
    session_id: str | None = None
    confidence_level: str | None = None
    confidence_score: float | None = None
    expected: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    expected_url: tuple[str, ...] = ()
    expect_no_answer: bool | None = None
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    conversation: str | None = None
    transcript: tuple[tuple[str, str | None], ...] = ()

    @property
    def identity(self) -> Identity:
        """Key and number of the repetition."""
        return self.key, self.repetition

    @property
    def unit(self) -> str:
        """Key of what passes or fails as one: the question, or the first turn of its conversation."""
        return self.conversation or self.key

    @property
    def reference(self) -> str | None:
        """The accepted answers as one text for a person or a judge; None without any."""
        if len(self.expected) < 2:
            return self.expected[0] if self.expected else None
        answers = "\n".join(f"- {answer}" for answer in self.expected)
        return f"One of these answers:\n{answers}"

    @property
    def content_hash(self) -> str:
        """Hash of question and expectations. Runs compare questions with equal hashes."""
        content = [
            self.message,
            self.expected,
            self.must_include,
            self.must_not_include,
            self.expected_url,
            self.expect_no_answer,
            [message for message, _answer in self.transcript],
        ]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def read_cases(
    answers: pa.Table, expectations: pa.Table | None = None, *, key_columns: str | Sequence[str] = "key"
) -> list[Case]:
    """
    Return the cases in the order of the answers, then the questions of the golden set that were not asked.

    :param expectations: Table with the key and some of ``EXPECTATIONS``. Default: None, columns of ``answers``.
    """
    raise NotImplementedError
