"""Questions of a source, and the conversations that they form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from airflow_provider_assistant.tables.whole import SourceColumns, read_columns
from airflow_provider_assistant.texts import counted

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

    :param others: Values of the columns that the output repeats.
    """

    rows: list[Question] = field(default_factory=list)
    others: dict[str, list[Any]] = field(default_factory=dict)

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

    :param columns: Column by field (``message``, ``session_id``, ``email``, ``response_language``) where it has another
        name.
    :param constants: Value by field, for fields with one value for all questions.
    :param key_columns: Columns that identify a question. If empty, everything that is sent identifies it.
    :param session: Column with session ids; with ``turn``, with the conversation. None for the column of the field
        ``session_id``, if the source has it.
    :param repeat: Number of times to ask each question, each time in its own session.
    :param turn: Column with the number of each question within its conversation. None if the questions do not depend
        on each other.
    :param allowed_root: Folder that must contain all files of the source, after resolving symbolic links.
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
    selected = _columns_to_read(columns or {}, names, session, key_columns, turn)
    parts = read_rows(source, selected, csv_options=csv_options, allowed_root=allowed_root, allow_empty=allow_empty)
    rows = read_columns(parts, selected.texts)
    check_count(rows.count, allow_empty)
    for name in selected.required:
        # A source without rows may have no columns.
        rows.columns.setdefault(name, [])
    # An optional field whose column the source does not have is not sent.
    names = {name: column for name, column in names.items() if column in rows.columns}
    _check_sessions(repeat, turn, session, key_columns, names_sessions=SESSION in names or SESSION in constants)
    read = _Reader(rows, names, constants, key_columns, turn)
    questions = [read.question(position, number + 1) for position in range(rows.count) for number in range(repeat)]
    _check_keys(questions)
    others = {
        name: [value for value in values for _ in range(repeat)]
        for name, values in _other_columns(rows.columns, names, key_columns, turn).items()
    }
    return Questions(questions, others)


def _columns_to_read(
    columns: Mapping[str, str],
    names: Mapping[str, str],
    session: str | None,
    key_columns: Sequence[str],
    turn: str | None,
) -> Columns:
    """Return the columns that the source must have; all others are read as well."""
    texts = [names["message"], *(names[name] for name in _OPTIONAL if name in columns)]
    if session is not None and turn is None:
        texts.append(session)
    # The keys, conversations and turns of a dataframe may be numbers.
    others = [*key_columns, *(column for column in (session, turn) if column is not None)]
    return Columns(required=tuple(dict.fromkeys([*texts, *others])), texts=frozenset(texts), rest=True)


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


class _Turn(NamedTuple):
    """The place of a row in its conversation, and a hash of everything that is said in it."""

    number: int
    conversation: str


class _Reader:
    """Make questions of the rows of a source."""

    def __init__(
        self,
        rows: SourceColumns,
        names: Mapping[str, str],
        constants: Mapping[str, str],
        key_columns: Sequence[str],
        turn: str | None,
    ) -> None:
        self._constants = constants
        self._key_columns = key_columns
        self._keys, bad_keys = key_texts(rows.columns, key_columns)
        # If a row has both, the problem of the row is reported.
        self._problems = bad_keys | rows.problems
        self._fields = {
            name: without_blanks(rows.columns[column]) if name in _OPTIONAL else rows.columns[column]
            for name, column in names.items()
        }
        self._names = {name: f"column {column!r}" for name, column in names.items()}
        self._turns: dict[int, _Turn] = {}
        if turn is not None:
            self._turns = self._conversations(rows.columns[names[SESSION]], rows.columns[turn])
            # This column names conversations, not sessions. Each repetition of a conversation gets a new session.
            del self._fields[SESSION]

    def question(self, position: int, repetition: int) -> Question:
        """Return a repetition of the question in a row."""
        fields = {**self._constants, **{name: values[position] for name, values in self._fields.items()}}
        sent = {name: value for name, value in fields.items() if value is not None}
        problem = self._problems.get(position)
        if problem is None:
            try:
                # The session is made later.
                checked(ChatMessage, {SESSION: "thread", **sent}, names=self._names)
            except AssistantInputError as error:
                problem = str(error)
        sent = {name: value for name, value in sent.items() if isinstance(value, str)}
        content = encoded([text for pair in sorted(sent.items()) for text in pair])
        texts = [column[position] for column in self._keys]
        key = hash_of(encoded(texts) if texts else content)
        if position in self._problems:
            key = bad_row_key(position + 1)
        # The first repetition keeps the key of the question: a retry with a larger ``repeat`` keeps its answer.
        key = key if repetition == 1 else hash_of(encoded([key, str(repetition)]))
        turn = self._turns.get(position)
        conversation = hash_of(encoded([turn.conversation, str(repetition)])) if turn else key
        label = key_label(self._key_columns, texts) if texts else key_label(("message",), [sent.get("message")])
        return Question(
            question_id=hash_of(encoded([key, content, conversation])),
            key=key,
            label=label,
            repetition=repetition,
            row=position + 1,
            turn=turn.number if turn else None,
            conversation=conversation,
            fields=sent,
            problem=problem,
        )

    def _conversations(self, names: Sequence[Any], numbers: Sequence[Any]) -> dict[int, _Turn]:
        """
        Return the turn of each row that can be read.

        :raises AssistantInputError: A row has no conversation or no number, or a number is there twice.
        """
        texts, _ = key_column(names)
        positions_of: dict[str, dict[float, int]] = {}
        for position, name in enumerate(texts):
            if position in self._problems:
                continue
            number = _number(numbers[position])
            if name is None or number is None:
                problem = f"question {position + 1} has no conversation"
                if name:
                    problem = f"the turn of question {position + 1}, of conversation {name!r}, is not a number"
                raise AssistantInputError(problem, safe=NOTHING_SENT, field="turn")
            if positions_of.setdefault(name, {}).setdefault(number, position) != position:
                raise AssistantInputError(
                    f"conversation {name!r} has two questions with the same turn", safe=NOTHING_SENT, field="turn"
                )
        turns = {}
        for name, position_of in positions_of.items():
            positions = [position for _number, position in sorted(position_of.items())]
            # If a message changes, the whole conversation is another one.
            said = [str(self._fields["message"][position]) for position in positions]
            conversation = hash_of(encoded([name, *said]))
            turns.update({position: _Turn(turn, conversation) for turn, position in enumerate(positions, start=1)})
        return turns


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    # A number that is not finite has no order.
    return number if math.isfinite(number) else None


def _other_columns(
    read: Mapping[str, list[Any]], names: Mapping[str, str], key_columns: Sequence[str], turn: str | None
) -> dict[str, list[Any]]:
    """Return the columns that the output repeats, after a check of their names."""
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
    return columns
