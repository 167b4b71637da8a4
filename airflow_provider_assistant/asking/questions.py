"""Questions of a source, and the conversations that they form."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.api.payloads import ChatMessage, checked
from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.asking.answers import COLUMNS
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label
from airflow_provider_assistant.ledger import hash_of
from airflow_provider_assistant.loading.fields import mapping_of
from airflow_provider_assistant.loading.rows import check_count
from airflow_provider_assistant.tables import Columns, read_rows
from airflow_provider_assistant.tables.fingerprints import bad_row_key, encoded, key_texts, without_blanks
from airflow_provider_assistant.tables.whole import read_columns
from airflow_provider_assistant.texts import cell_text, counted

if TYPE_CHECKING:
    import pyarrow as pa

SESSION = "session_id"
_OPTIONAL = (SESSION, "email", "response_language")


class Question(NamedTuple):
    """
    A question of a batch.

    :param question_id: Hash of its key, its repetition, everything that is sent, and all messages of its conversation.
    :param key: Hash of its key and repetition, by which the ledger knows it.
    :param label: Its key as readable text.
    :param row: Number of its row in the source, from 1.
    :param turn: Its position in its conversation, from 1; None if it has none.
    :param conversation: What the session of its conversation is made of. A question without one has its own.
    :param fields: Values of the message; ``session_id`` only if the source names the session.
    :param problem: Why it cannot be asked; None if it can.
    """

    question_id: str
    key: str
    label: str
    repetition: int
    row: int
    turn: int | None
    conversation: str
    fields: dict[str, Any]
    problem: str | None = None

    def session(self, scope: str, number: int) -> str:
        """
        Return the session in which the question is asked.

        :param scope: The batch.
        :param number: Number of the sending. Asked again, a conversation begins in a new session.
        """
        named: str | None = self.fields.get(SESSION)
        return named or session_id("thread", scope, self.conversation, str(number))

    def message(self, session: str) -> ChatMessage:
        """Return what is sent."""
        return ChatMessage.model_validate({**self.fields, SESSION: session})


@dataclass(slots=True)
class Questions:
    """
    The questions of a batch, in the order of the source; the repetitions of a row follow each other.

    :param others: The columns that the output repeats.
    """

    rows: list[Question]
    others: pa.Table

    def conversations(self) -> Iterator[list[Question]]:
        """Yield the questions of each conversation, in the order of their turns. Equal rows are one question."""
        by_conversation: dict[str, dict[str, Question]] = {}
        for question in self.rows:
            by_conversation.setdefault(question.conversation, {}).setdefault(question.question_id, question)
        for questions in by_conversation.values():
            yield sorted(questions.values(), key=lambda question: question.turn or 0)


def read_questions(
    source: Any,
    *,
    columns: Mapping[str, str] | None = None,
    constants: Mapping[str, str] | None = None,
    key_columns: Sequence[str] = (),
    session: str | None = None,
    repeat: int = 1,
    turn: str | None = None,
    allowed_root: str | None = None,
    csv_options: Mapping[str, Any] | None = None,
    allow_empty: bool = False,
) -> Questions:
    """
    Read all questions of a source.

    The parameters are those of :class:`~airflow_provider_assistant.operators.chat_batch.AssistantChatBatchOperator`.

    :raises AssistantInputError: The source cannot be read, has no rows, lacks a column, has a column with an invalid
        name, or two questions with the same key; or ``repeat`` and ``turn`` do not fit the sessions.
    """
    names = mapping_of(ChatMessage, columns, constants)
    constants = dict(constants or {})
    if "message" not in names:
        raise AssistantInputError(
            "constants: message must be a column, because a constant would ask the same question in every row",
            field="constants",
        )
    if session is not None:
        names[SESSION] = session
        constants.pop(SESSION, None)
    texts = [names["message"], *(names[name] for name in _OPTIONAL if name in (columns or {}))]
    if session is not None and turn is None:
        texts.append(session)
    # The keys, conversations and turns of a dataframe may be numbers.
    any_type = [*key_columns, *(column for column in (session, turn) if column is not None)]
    selected = Columns(required=tuple(dict.fromkeys([*texts, *any_type])), texts=frozenset(texts), rest=True)
    parts = read_rows(source, selected, csv_options=csv_options, allowed_root=allowed_root, allow_empty=allow_empty)
    rows = read_columns(parts, selected.texts).repeated(repeat)
    check_count(rows.count, allow_empty)
    for name in selected.required:
        # A source without rows may have no columns.
        rows.columns.setdefault(name, [])
    # An optional field whose column the source does not have is not sent.
    names = {name: column for name, column in names.items() if column in rows.columns}
    _check_sessions(repeat, turn, session, key_columns, names_sessions=SESSION in names or SESSION in constants)
    where = {name: f"column {column!r}" for name, column in names.items()}
    fields = {
        name: without_blanks(rows.columns[column]) if name in _OPTIONAL else rows.columns[column]
        for name, column in names.items()
    }
    turns: dict[int, _Turn] = {}
    keys, bad_keys = key_texts(rows.columns, key_columns)
    # If a row has both, the problem of the row is reported.
    problems = bad_keys | rows.problems
    if turn is not None:
        # This column names conversations, not sessions. Each repetition of a conversation gets a new session.
        del fields[SESSION]
        turns = _turns(fields["message"], rows.columns[names[SESSION]], rows.columns[turn], problems, repeat)
    questions = []
    for position in range(rows.count):
        row, repetition = position // repeat + 1, position % repeat + 1
        values = {**constants, **{name: column[position] for name, column in fields.items()}}
        problem = problems.get(position) or _problem(values, where)
        sent = {name: value for name, value in sorted(values.items()) if isinstance(value, str)}
        content = encoded([text for pair in sent.items() for text in pair])
        key_parts = [column[position] for column in keys]
        key = bad_row_key(row) if position in problems else hash_of(encoded(key_parts) if key_parts else content)
        if repetition > 1:
            # The first repetition keeps the key of the question: a retry with a larger ``repeat`` keeps its answer.
            key = hash_of(encoded([key, str(repetition)]))
        place = turns.get(position, _Turn(None, key))
        question = Question(
            question_id=hash_of(encoded([key, content, place.conversation])),
            key=key,
            label=key_label(key_columns, key_parts) if key_parts else key_label(("message",), [sent.get("message")]),
            repetition=repetition,
            row=row,
            turn=place.number,
            conversation=place.conversation,
            fields=sent,
            problem=problem,
        )
        questions.append(question)
    _check_keys(questions)
    return Questions(questions, _others(rows.columns, names, key_columns, turn))


class _Turn(NamedTuple):
    """The place of a row in its conversation, and a hash of everything that is said in it."""

    number: int | None
    conversation: str


def _problem(values: Mapping[str, Any], where: Mapping[str, str]) -> str | None:
    """Return why a message cannot be sent."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        # The session is made later.
        checked(ChatMessage, {SESSION: "thread", **given}, names=where)
    except AssistantInputError as error:
        return str(error)
    return None


def _check_sessions(
    repeat: int, turn: str | None, session: str | None, key_columns: Sequence[str], *, names_sessions: bool
) -> None:
    if turn is not None and (session is None or not key_columns):
        raise AssistantInputError(
            "turn needs session, the column with the conversation of each question, and key_columns",
            safe=NOTHING_SENT,
            field="turn",
        )
    if repeat > 1 and turn is None and names_sessions:
        raise AssistantInputError(
            "repeat: the repetitions of a question would share a session, and each would see the answers before it",
            safe=NOTHING_SENT,
            todo="Leave out session, and rename the column session_id: then each repetition gets its own session.",
            field="repeat",
        )


def _check_keys(questions: Sequence[Question]) -> None:
    """Refuse questions with the same key and different content."""
    by_key: dict[str, Question] = {}
    conflicts: dict[str, tuple[Question, Question]] = {}
    for question in questions:
        first = by_key.setdefault(question.key, question)
        if first.question_id != question.question_id:
            conflicts.setdefault(question.key, (first, question))
    if conflicts:
        first, second = next(iter(conflicts.values()))
        raise AssistantInputError(
            f"the source has {counted(len(conflicts), 'key')} with rows of different content: {first.label!r} in "
            f"rows {first.row} and {second.row}",
            safe=NOTHING_SENT,
            todo="Choose unique key columns.",
            field="key_columns",
        )


def _turns(
    messages: Sequence[Any], names: Sequence[Any], numbers: Sequence[Any], unread: Collection[int], repeat: int
) -> dict[int, _Turn]:
    """
    Return the turn of each row that can be read, by its position.

    :param names: Conversation of each row.
    :param numbers: Place of each row in its conversation.
    :param repeat: Number of rows that follow each other and repeat one.
    :raises AssistantInputError: A row has no conversation or no number, or a number is there twice.
    """
    texts, _ = key_column(names)
    positions_of: dict[tuple[str, int], dict[float, int]] = {}
    for position, name in enumerate(texts):
        if position in unread:
            continue
        # Each row of the source is here ``repeat`` times.
        row, repetition = position // repeat + 1, position % repeat
        number = _number(numbers[position])
        if not name:
            raise _bad_turn(f"question {row} has no conversation")
        if number is None:
            raise _bad_turn(f"the turn of question {row}, of conversation {name!r}, is not a number")
        position_of = positions_of.setdefault((name, repetition), {})
        if number in position_of:
            raise _bad_turn(f"conversation {name!r} has two questions with the same turn")
        position_of[number] = position
    turns = {}
    for (name, repetition), position_of in positions_of.items():
        positions = [position for _number, position in sorted(position_of.items())]
        # If a message changes, the whole conversation is another one.
        said = [str(messages[position]) for position in positions]
        conversation = hash_of(encoded([name, str(repetition), *said]))
        turns.update({position: _Turn(number, conversation) for number, position in enumerate(positions, start=1)})
    return turns


def _bad_turn(problem: str) -> AssistantInputError:
    return AssistantInputError(problem, safe=NOTHING_SENT, field="turn")


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    # A number that is not finite has no order.
    return number if math.isfinite(number) else None


def _others(
    read: Mapping[str, list[Any]],
    names: Mapping[str, str],
    key_columns: Sequence[str],
    turn: str | None,
) -> pa.Table:
    """Return the columns that the output repeats, after a check of their names."""
    import pyarrow as pa

    # The output has these under its own names.
    replaced = {names["message"]}
    if turn is None:
        replaced.add(names.get(SESSION, ""))
    elif turn == "turn":
        replaced.add(turn)
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
    return pa.table({name: typed(values) for name, values in columns.items()})


def typed(values: Sequence[Any]) -> pa.Array:
    """Return a column with the values of a source; values without a common type become text, lists JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        column = pa.array(values)
        if pa.types.is_nested(column.type):
            # Parquet cannot store all nested types. Writing one to memory is the way to find out.
            pq.write_table(pa.table({"": column}), pa.BufferOutputStream())
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([None if value is None else cell_text(value) for value in values], pa.string())
    return column
