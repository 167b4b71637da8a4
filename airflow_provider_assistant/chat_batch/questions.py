"""The questions of a chat batch: their identity, what is sent, and the columns that the output repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_assistant.api.payloads import ChatMessage, checked
from airflow_provider_assistant.chat_batch.sessions import next_session
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.rows import Text, content_label
from airflow_provider_assistant.tables.fingerprints import encoded, hashes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """
    All questions of a source, in its order; each list has one element per question.

    :param question_ids: Identity of each question: a hash of its key and of all fields that are sent. Equal rows have
        the same identity.
    :param keys: Hash of each question's key.
    :param display_keys: Readable key of each question, for the output and for messages.
    :param repetitions: Number of each question's repetition, from 1.
    :param row_numbers: Number of each question's row in the source, from 1.
    :param turns: Position of each question in its conversation, from 1; None if the questions do not depend on each
        other.
    :param has_key_columns: Whether columns identify a question; if not, its whole content does.
    :param fields: Values by field of a message, for fields that vary by question.
    :param names: Name by field, for messages about a value of the field.
    :param constants: Value by field, for fields with one value for all questions.
    :param passthrough_columns: Values by column, for the columns that the output repeats unchanged.
    :param own_sessions: Whether the session ids are generated for these questions, not read from the source.
    :param problems: Error by position, for rows that cannot be read or have no key.
    """

    question_ids: list[str]
    keys: list[str]
    display_keys: list[str]
    repetitions: list[int]
    row_numbers: list[int]
    turns: list[int] | None
    has_key_columns: bool
    fields: Mapping[str, list[Any]]
    names: Mapping[str, str]
    constants: Mapping[str, str]
    passthrough_columns: Mapping[str, list[Any]]
    own_sessions: bool
    problems: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.question_ids)

    def field(self, name: str) -> list[Any]:
        """Return the values of a field, such as ``message``, one per question."""
        values = self.fields.get(name)
        if values:
            return values
        return [self.constants.get(name)] * len(self)

    def text(self, position: int) -> Text:
        """Return what is sent for the question at a position, as a row of the plan; or why it cannot be sent."""
        fields = {name: values[position] for name, values in self.fields.items()}
        label = self.display_keys[position] if self.has_key_columns else content_label(fields)
        place = f"row {self.row_numbers[position]}"
        problem = self.problems.get(position)
        if problem:
            return Text(label, place, problem=problem)
        try:
            message = checked(ChatMessage, {**self.constants, **fields}, names=self.names)
        except AssistantInputError as error:
            return Text(label, place, problem=str(error))
        return Text(label, place, message.model_dump_json(exclude_none=True))

    @property
    def last_turn(self) -> int:
        """Number of the last turn; 1 if the questions do not depend on each other."""
        return max(self.turns or [1])

    def at(self, positions: Sequence[int]) -> Questions:
        """Return the questions at some positions."""

        def selected(values: list[Any]) -> list[Any]:
            return [values[position] for position in positions]

        turns = None
        if self.turns is not None:
            turns = selected(self.turns)
        problems = {}
        for new_position, position in enumerate(positions):
            if position in self.problems:
                problems[new_position] = self.problems[position]
        return replace(
            self,
            question_ids=selected(self.question_ids),
            keys=selected(self.keys),
            display_keys=selected(self.display_keys),
            repetitions=selected(self.repetitions),
            row_numbers=selected(self.row_numbers),
            turns=turns,
            fields={name: selected(values) for name, values in self.fields.items()},
            passthrough_columns={},
            problems=problems,
        )

    def in_next_sessions(self, positions: Sequence[int]) -> Questions:
        """Return all questions, those at some positions in new sessions and with new identities."""
        sessions = list(self.field("session_id"))
        for position in positions:
            sessions[position] = next_session(sessions[position])
        changed = replace(self, fields={**self.fields, "session_id": sessions})
        moved = changed.at(positions)
        moved_ids = content_hashes(moved.fields, moved.constants, len(moved), moved.keys)
        question_ids = list(self.question_ids)
        for position, question_id in zip(positions, moved_ids, strict=True):
            question_ids[position] = question_id
        return replace(changed, question_ids=question_ids)

    def with_closed_sessions(self, positions: Sequence[int]) -> Questions:
        """Return all questions, those at some positions with the problem that their session is closed."""
        sessions = self.field("session_id")
        problems = dict(self.problems)
        for position in positions:
            problems[position] = (
                f"session {sessions[position]!r} is closed: an earlier try of this task closed it "
                "(close_sessions=True), and a closed session takes no more messages"
            )
        return replace(self, problems=problems)


def content_hashes(
    fields: Mapping[str, list[Any]], constants: Mapping[str, str], count: int, keys: list[str] | None = None
) -> list[str]:
    """Return a hash of everything that is sent for each question, and of its key if given."""
    # The names and the constants are the same for all questions, so they are encoded once.
    common_texts: list[str] = []
    for field, value in sorted(constants.items()):
        common_texts += [field, value]
    common_texts += fields
    columns = list(fields.values())
    if keys is not None:
        columns.insert(0, keys)
    return hashes_of(columns, count, encoded(common_texts))
