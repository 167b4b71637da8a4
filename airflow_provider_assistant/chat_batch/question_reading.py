"""Read the questions of a chat batch from a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.chat_batch.answers import COLUMNS
from airflow_provider_assistant.chat_batch.conversations import read_conversations
from airflow_provider_assistant.chat_batch.questions import Questions, content_hashes
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_label
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.loading.fields import mapping_of
from airflow_provider_assistant.loading.rows import check_count
from airflow_provider_assistant.tables import Columns, read_rows
from airflow_provider_assistant.tables.fingerprints import (
    bad_row_key,
    encoded,
    hashes_of,
    key_texts,
    without_blanks,
)
from airflow_provider_assistant.tables.whole import read_columns

OPTIONAL = ("session_id", "email", "response_language")
# Values of ``session`` that do not name a column.
NO_COLUMN = (None, "per_row", "shared")


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
    csv_options: Mapping[str, Any] | None = None,
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
    selected = _columns_to_read(columns or {}, names, session, key_columns, turn)
    read = read_rows(source, selected, csv_options=csv_options, allowed_root=allowed_root, allow_empty=allow_empty)
    rows = read_columns(read, selected.texts)
    check_count(rows.count, allow_empty)
    for name in selected.required:
        # A source without rows may have no columns.
        rows.columns.setdefault(name, [])
    # An optional field whose column the source does not have is not sent.
    names = {field: column for field, column in names.items() if column in rows.columns}
    has_session = "session_id" in names or "session_id" in constants
    own_sessions = turn is not None or session in {"per_row", "shared"} or not has_session
    _check_sessions(repeat, turn, session, key_columns, own_sessions=own_sessions)
    if own_sessions:
        names.pop("session_id", None)

    rows = rows.repeated(repeat)
    # The repetitions of a row follow each other.
    repetitions = [position % repeat + 1 for position in range(rows.count)]
    row_numbers = [position // repeat + 1 for position in range(rows.count)]
    fields = _fields(rows.columns, names)
    turns = None
    if turn is not None:
        conversations = read_conversations(
            rows.columns[str(session)],
            rows.columns[turn],
            fields["message"],
            repetitions,
            scope=scope,
            problems=rows.problems,
        )
        fields["session_id"] = conversations.session_ids
        turns = conversations.turns
    texts, key_problems = key_texts(rows.columns, key_columns)
    # If a row has both, the problem of the row is reported.
    problems = key_problems | rows.problems
    row_keys = _row_keys(texts, fields, constants, rows.count)
    for position in problems:
        row_keys[position] = bad_row_key(position + 1)
    keys = list(map(_key_of_repetition, row_keys, repetitions))
    if session == "shared":
        constants["session_id"] = session_id("thread", scope)
    elif own_sessions and turns is None:
        fields["session_id"] = [session_id("thread", scope, key) for key in keys]
    question_ids = content_hashes(fields, constants, rows.count, keys)
    for position in problems:
        # A row that cannot be read has no content, so its key identifies it.
        question_ids[position] = keys[position]
    return Questions(
        question_ids=question_ids,
        keys=keys,
        display_keys=_key_labels(key_columns, texts, fields["message"]),
        repetitions=repetitions,
        row_numbers=row_numbers,
        turns=turns,
        has_key_columns=bool(key_columns),
        fields=fields,
        names={field: f"column {column!r}" for field, column in names.items()},
        constants=constants,
        passthrough_columns=_passthrough_columns(rows.columns, names, key_columns, turn),
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
    value_by_field = dict(constants or {})
    if session not in NO_COLUMN:
        names["session_id"] = str(session)
        value_by_field.pop("session_id", None)
    return names, value_by_field


def _columns_to_read(
    columns: Mapping[str, str],
    names: Mapping[str, str],
    session: str | None,
    key_columns: Sequence[str],
    turn: str | None,
) -> Columns:
    """Return the columns that the source must have; all others are read as well."""
    text_columns = [names["message"]]
    if session not in NO_COLUMN:
        text_columns.append(names["session_id"])
    for field, column in columns.items():
        if field in OPTIONAL:
            text_columns.append(column)
    # The keys and turns of a dataframe may be numbers.
    other_columns = list(key_columns)
    if turn is not None:
        other_columns.append(turn)
    # dict.fromkeys removes duplicates and keeps the order.
    required = tuple(dict.fromkeys([*text_columns, *other_columns]))
    return Columns(required=required, texts=frozenset(text_columns), rest=True)


def _fields(columns: Mapping[str, list[Any]], names: Mapping[str, str]) -> dict[str, list[Any]]:
    fields = {}
    for field, column in names.items():
        is_required = ChatMessage.model_fields[field].is_required()
        fields[field] = columns[column] if is_required else without_blanks(columns[column])
    return fields


def _key_of_repetition(key: str, repetition: int) -> str:
    # The first repetition keeps the key of the question: a retry with a larger ``repeat`` keeps its answer.
    if repetition == 1:
        return key
    return hash_of(encoded([key, str(repetition)]))


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


def _row_keys(
    texts: Sequence[Sequence[str | None]],
    fields: Mapping[str, list[Any]],
    constants: Mapping[str, str],
    count: int,
) -> list[str]:
    """Return a hash of the key columns of each row, or else of its whole content."""
    if texts:
        return hashes_of(texts, count)
    return content_hashes(fields, constants, count)


def _key_labels(
    key_columns: Sequence[str], texts: Sequence[Sequence[str | None]], messages: Sequence[Any]
) -> list[str]:
    """Return the readable key of each question: its key columns, or else its message."""
    if texts:
        # There is one list of texts per key column; zip gives the texts of each question.
        return [key_label(key_columns, values) for values in zip(*texts, strict=True)]
    labels = []
    for message in messages:
        text = None if message is None else str(message)
        labels.append(key_label(("message",), [text]))
    return labels


def _passthrough_columns(
    read: dict[str, list[Any]],
    names: Mapping[str, str],
    key_columns: Sequence[str],
    turn: str | None,
) -> dict[str, list[Any]]:
    """Return the columns other than message, session id, turn and key, after a check of their names."""
    # The output has these under its own names.
    replaced = {names["message"], names.get("session_id")}
    if turn == "turn":
        replaced.add("turn")
    if tuple(key_columns) == ("key",):
        replaced.add("key")
    columns = {name: values for name, values in read.items() if name not in replaced}
    names_not_text = [name for name in columns if not isinstance(name, str)]
    if names_not_text:
        raise AssistantInputError(
            f"source has columns whose names are not text: {names_not_text}",
            safe=NOTHING_SENT,
            todo="Rename them.",
            field="source",
        )
    output_names = sorted(set(columns) & set(COLUMNS))
    if output_names:
        raise AssistantInputError(
            f"source has a column {', '.join(output_names)}, which is also a column of the output",
            safe=NOTHING_SENT,
            todo="Rename it.",
            field="source",
        )
    return columns
