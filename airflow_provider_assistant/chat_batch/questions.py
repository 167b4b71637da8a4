"""Read the questions of a chat batch: their identity, what is sent, and the columns that the output repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage, checked
from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.chat_batch.answers import COLUMNS
from airflow_provider_assistant.chat_batch.conversations import read_conversations
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.loading.columns import BATCH, ColumnSelection
from airflow_provider_assistant.loading.field_columns import mapping_of
from airflow_provider_assistant.loading.fingerprints import (
    RowFingerprint,
    bad_row_key,
    check_count,
    encoded,
    hash_of,
    hashes_of,
    key_texts,
    without_blanks,
)
from airflow_provider_assistant.loading.rows import PreparedRow, content_label
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.loading.tables import read_columns

OPTIONAL = ("session_id", "email", "response_language")
# Values of ``session`` that do not name a column.
NO_COLUMN = (None, "per_row", "shared")


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
        return self.fields.get(name) or [self.constants.get(name)] * len(self)

    @property
    def last_turn(self) -> int:
        """Number of the last turn; 1 if the questions do not depend on each other."""
        return max(self.turns or [1])

    def at(self, positions: Sequence[int]) -> Questions:
        """Return the questions at some positions."""

        def some(values: list[Any]) -> list[Any]:
            return [values[position] for position in positions]

        return replace(
            self,
            question_ids=some(self.question_ids),
            keys=some(self.keys),
            display_keys=some(self.display_keys),
            repetitions=some(self.repetitions),
            row_numbers=some(self.row_numbers),
            turns=self.turns and some(self.turns),
            fields={name: some(values) for name, values in self.fields.items()},
            passthrough_columns={},
            problems={at: self.problems[old] for at, old in enumerate(positions) if old in self.problems},
        )


class QuestionRows:
    """Give questions to the engine of loads as rows; a row's content hash is its ``question_id``."""

    def __init__(self, questions: Questions, call: Callable[[ChatMessage], Call[Any]]) -> None:
        self._questions = questions
        self._call = call

    def fingerprints(self) -> Iterator[list[RowFingerprint]]:
        """Yield key and identity of all questions, in batches."""
        fingerprints = map(RowFingerprint, self._questions.keys, self._questions.question_ids)
        while batch := list(islice(fingerprints, BATCH)):
            yield batch

    def prepared(self, is_wanted: Callable[[int], bool]) -> Iterator[PreparedRow]:
        """Yield the questions whose numbers, from 1, are wanted."""
        for position in range(len(self._questions)):
            if is_wanted(position + 1):
                yield self._prepared(position)

    def _prepared(self, position: int) -> PreparedRow:
        questions, number = self._questions, position + 1
        fields = {name: values[position] for name, values in questions.fields.items()}
        label = questions.display_keys[position] if questions.has_key_columns else content_label(fields)
        fingerprint = RowFingerprint(questions.keys[position], questions.question_ids[position])
        row = PreparedRow(number, fingerprint, label, place=f"row {questions.row_numbers[position]}")
        if problem := questions.problems.get(position):
            return replace(row, problem=problem)
        try:
            message = checked(ChatMessage, {**questions.constants, **fields}, names=questions.names)
        except AssistantInputError as error:
            return replace(row, problem=str(error))
        return replace(row, call=self._call(message))


def read_questions(
    source: Any,
    *,
    columns: Mapping[str, str] | None,
    constants: Mapping[str, str] | None,
    key_columns: Sequence[str],
    session: str | None,
    scope: str,
    repeat: int = 1,
    turn: str | None = None,
    allowed_root: str | None = None,
    csv_options: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Questions:
    """
    Read all questions of a source.

    :param columns: Column by field, for fields (``message``, ``session_id``, ``email``, ``response_language``) whose
        column has another name; or None.
    :param constants: Value by field, for fields with one value for all questions; or None.
    :param key_columns: Columns that identify a question; if empty, the whole message identifies it.
    :param session: ``per_row`` for one generated session per question, ``shared`` for one generated session for all, or
        the name of a column with session ids. None for the column of the field ``session_id``, or else ``per_row``.
    :param scope: Scope from which session ids are generated.
    :param repeat: Number of times to ask each question, each time in its own session. The repetitions of a question
        follow each other.
    :param turn: Column with the number of the question within its conversation; ``session`` is then the column with the
        conversation, and the session ids are generated. None if the questions do not depend on each other.
    :param allowed_root: Folder that must contain all files of the source, after resolving symbolic links.
    :param allow_empty: Whether the source may have no rows or files.
    :return: The questions; rows that cannot be read are in its ``problems``.
    :raises AssistantInputError: The source cannot be read, has no rows, lacks a column, or has a column with an invalid
        name; ``repeat`` is more than 1 and the session ids are not generated; or ``turn`` is given without ``session``
        or ``key_columns``, or a value of it is invalid.
    """
    names, constants = _mapping(columns, constants, session)
    required = [names["message"]]
    if session not in NO_COLUMN:
        required.append(names["session_id"])
    required += [column for field, column in (columns or {}).items() if field in OPTIONAL]
    # The turns of a dataframe are numbers.
    numbered = key_columns if turn is None else [*key_columns, turn]
    wanted = ColumnSelection(tuple(dict.fromkeys(required)), tuple(dict.fromkeys(numbered)), rest=True)
    with open_source(source, wanted, allowed_root, csv_options=csv_options, allow_empty=allow_empty) as opened:
        rows = read_columns(opened)
    check_count(rows.count, allow_empty)
    for name in (*required, *numbered):
        # A source without rows may have no columns.
        rows.columns.setdefault(name, [])
    names = {field: column for field, column in names.items() if column in rows.columns}
    has_session = "session_id" in names or "session_id" in constants
    own_sessions = turn is not None or session in {"per_row", "shared"} or not has_session
    _check_sessions(repeat, turn, session, key_columns, own_sessions=own_sessions)
    if own_sessions:
        names.pop("session_id", None)

    rows = rows.repeated(repeat)
    repetitions = [number % repeat + 1 for number in range(rows.count)]
    fields = _fields(rows.columns, names)
    turns = None
    if turn is not None:
        conversations, numbers = rows.columns[str(session)], rows.columns[turn]
        fields["session_id"], turns = read_conversations(
            conversations, numbers, fields["message"], repetitions, scope=scope, problems=rows.problems
        )
    texts, bad_keys = key_texts(rows.columns, key_columns)
    problems = bad_keys | rows.problems
    keys = hashes_of(texts, rows.count) if texts else _content_hashes(fields, constants, rows.count)
    for position in problems:
        keys[position] = bad_row_key(position + 1)
    keys = [_key_of_repetition(key, number) for key, number in zip(keys, repetitions, strict=True)]
    if session == "shared":
        constants["session_id"] = session_id("thread", scope)
    elif own_sessions and turns is None:
        fields["session_id"] = [session_id("thread", scope, key) for key in keys]
    question_ids = _content_hashes(fields, constants, rows.count, keys)
    for position in problems:
        question_ids[position] = keys[position]
    return Questions(
        question_ids=question_ids,
        keys=keys,
        display_keys=_key_labels(key_columns, texts, fields["message"]),
        repetitions=repetitions,
        row_numbers=[number // repeat + 1 for number in range(rows.count)],
        turns=turns,
        has_key_columns=bool(key_columns),
        fields=fields,
        names={field: f"column {column!r}" for field, column in names.items()},
        constants=constants,
        passthrough_columns=_passthrough_columns(rows.columns, {**names, "turn": turn or ""}, key_columns),
        own_sessions=own_sessions,
        problems=problems,
    )


def _mapping(
    columns: Mapping[str, str] | None, constants: Mapping[str, str] | None, session: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the column of each field that varies by question, and the value of each other field."""
    names = mapping_of(ChatMessage, columns, constants)
    if "message" not in names:
        raise AssistantInputError(
            "constants: message must be a column, because a constant would ask the same question in every row",
            field="constants",
        )
    fixed = dict(constants or {})
    if session not in NO_COLUMN:
        names["session_id"] = str(session)
        fixed.pop("session_id", None)
    return names, fixed


def _fields(columns: Mapping[str, list[Any]], names: Mapping[str, str]) -> dict[str, list[Any]]:
    fields = {}
    for field, column in names.items():
        is_required = ChatMessage.model_fields[field].is_required()
        fields[field] = columns[column] if is_required else without_blanks(columns[column])
    return fields


def _key_of_repetition(key: str, number: int) -> str:
    # The first repetition keeps the key of the question: a retry with a larger ``repeat`` keeps its answer.
    return key if number == 1 else hash_of(encoded([key, str(number)]))


def _check_sessions(
    repeat: int, turn: str | None, session: str | None, key_columns: Sequence[str], *, own_sessions: bool
) -> None:
    if turn is not None and (session in NO_COLUMN or not key_columns):
        raise AssistantInputError(
            "turn needs session, the column with the conversation of each question, and key_columns",
            safe=NOTHING_SENT,
            field="turn",
        )
    if repeat > 1 and (session == "shared" or not own_sessions):
        raise AssistantInputError(
            "repeat: the repetitions of a question would share a session, and each would see the answers before it",
            safe=NOTHING_SENT,
            todo="Set session='per_row'.",
            field="repeat",
        )


def _content_hashes(
    fields: Mapping[str, list[Any]], constants: Mapping[str, str], count: int, keys: list[str] | None = None
) -> list[str]:
    """Return a hash of everything that is sent for each question, and of its key if given."""
    same = [text for constant in sorted(constants.items()) for text in constant]
    columns = list(fields.values())
    if keys is not None:
        columns.insert(0, keys)
    return hashes_of(columns, count, encoded([*same, *fields]))


def _key_labels(
    key_columns: Sequence[str], texts: Sequence[Sequence[str | None]], messages: Sequence[Any]
) -> list[str]:
    """Return the readable key of each question: its key columns, or else its message."""
    if texts:
        return [key_label(key_columns, values) for values in zip(*texts, strict=True)]
    shown = [None if message is None else str(message) for message in messages]
    return [key_label(("message",), [message]) for message in shown]


def _passthrough_columns(
    read: dict[str, list[Any]], names: Mapping[str, str], key_columns: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the columns other than message, session id, turn and key, after a check of their names."""
    used = {names["message"], names.get("session_id")} | ({"turn"} & {names["turn"]})
    if tuple(key_columns) == ("key",):
        used.add("key")
    columns = {name: values for name, values in read.items() if name not in used}
    if odd := [name for name in columns if not isinstance(name, str)]:
        raise AssistantInputError(
            f"source has columns whose names are not text: {odd}",
            safe=NOTHING_SENT,
            todo="Rename them.",
            field="source",
        )
    if taken := sorted(set(columns) & set(COLUMNS)):
        raise AssistantInputError(
            f"source has a column {', '.join(taken)}, which is also a column of the output",
            safe=NOTHING_SENT,
            todo="Rename it.",
            field="source",
        )
    return columns
