"""The questions of a source: what is asked, in which conversation, and what is carried along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.models import ChatMessage
from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.asking.answers import COLUMNS
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label
from airflow_provider_assistant.loading.rows import DataframeRows, Digest, digest_of, encoded, mapping_of
from airflow_provider_assistant.loading.source import BATCH, Batch, Source, Wanted, open_source

OPTIONAL = ("session_id", "email", "response_language")
# Where the session ids stand that are made here; no source can have a column of this name.
_SESSION = "\0session"


@dataclass(frozen=True, slots=True)
class Questions:
    """
    All questions of a source.

    :param columns: What was read, column by column; lists of the same length.
    :param fields: The column of each field of a message.
    :param constants: Fields with one value for all questions.
    :param key_columns: Columns that tell the questions apart; without any, the whole message does.
    :param own_sessions: Whether the conversations are made for these questions, and not named by the source.
    :param problems: By position, why a question cannot be read.
    :param allow_empty: Whether there may be no questions.
    """

    columns: dict[str, list[Any]]
    fields: dict[str, str]
    constants: dict[str, str]
    key_columns: tuple[str, ...]
    own_sessions: bool
    problems: Mapping[int, str] = field(default_factory=dict)
    allow_empty: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def rows(self, call: Callable[[Any], Call[Any]] = lambda _: None) -> DataframeRows:  # type: ignore[assignment,return-value]  # who only wants digests needs no call
        """Return the questions as the engine of loads takes rows."""
        return DataframeRows(
            Source(self._batches),
            payload=ChatMessage,
            columns=self.fields,
            constants=self.constants,
            key_columns=self.key_columns,
            call=call,
            allow_empty=self.allow_empty,
        )

    def digests(self) -> list[Digest]:
        """Return key and content of every question."""
        return [digest for digests in self.rows().digests() for digest in digests]

    def labels(self) -> list[str]:
        """Return the keys as people know them."""
        if not self.key_columns:
            messages = self.columns[self.fields["message"]]
            return [key_label(("message",), [None if one is None else str(one)]) for one in messages]
        columns = [key_column(self.columns[name])[0] for name in self.key_columns]
        return [key_label(self.key_columns, texts) for texts in zip(*columns, strict=True)]

    def field(self, name: str) -> list[Any]:
        """Return the values of a field of all messages."""
        if name in self.fields:
            return self.columns[self.fields[name]]
        return [self.constants.get(name)] * len(self)

    def carried(self) -> dict[str, list[Any]]:
        """Return the columns that are neither message, session nor key: they stand in the output as they are."""
        used = {self.fields["message"], self.fields.get("session_id"), _SESSION}
        if self.key_columns == ("key",):
            used.add("key")
        return {name: values for name, values in self.columns.items() if name not in used}

    def _batches(self) -> Iterator[Batch]:
        wanted = dict.fromkeys((*self.fields.values(), *self.key_columns))
        for start in range(0, len(self), BATCH):
            columns = {name: self.columns[name][start : start + BATCH] for name in wanted}
            problems = {
                number - start: self.problems[number] for number in self.problems if 0 <= number - start < BATCH
            }
            yield Batch(columns, start + 1, problems)


def read_questions(
    source: Any,
    *,
    columns: Mapping[str, str] | None,
    constants: Mapping[str, str] | None,
    key_columns: Sequence[str],
    session: str | None,
    scope: str,
    root: str | None = None,
    csv_options: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Questions:
    """
    Read all questions.

    :param source: As :func:`~airflow_provider_assistant.loading.source.open_source` takes it.
    :param columns: Column of a field whose name differs: ``message``, ``session_id``, ``email``,
        ``response_language``.
    :param constants: Fields with one value for all questions.
    :param key_columns: Columns that tell the questions apart.
    :param session: ``per_row``, ``shared``, or a column with session ids; None for the column of the field, where
        there is one, or else per row.
    :param scope: What the sessions that are made here belong to.
    :param root: Folder that all files have to lie in, once symbolic links are followed.
    :param csv_options: How CSV files are written.
    :param allow_empty: Whether the source may have no rows or files.
    :raises AssistantInputError: The source as a whole cannot be asked.
    """
    fields, constants = mapping_of(ChatMessage, columns, constants), dict(constants or {})
    if "message" not in fields:
        raise AssistantInputError("constants: message must be a column, or it is one question", field="constants")
    if session not in {None, "per_row", "shared"}:
        fields["session_id"] = str(session)
        constants.pop("session_id", None)
    must = [fields["message"]]
    must += [fields["session_id"]] if session not in {None, "per_row", "shared"} else []
    must += [column for field, column in (columns or {}).items() if field in OPTIONAL]
    wanted = Wanted(tuple(dict.fromkeys(must)), tuple(key_columns), rest=True)
    with open_source(source, wanted, root, csv_options=csv_options, allow_empty=allow_empty) as opened:
        read, problems = _all(opened)
    if not len(next(iter(read.values()), ())):
        if not allow_empty:
            raise AssistantInputError(
                "source has no rows; nothing was sent. If that may be so: allow_empty=True", field="source"
            )
        read = {name: [] for name in (*must, *key_columns)} | read
    fields = {field: column for field, column in fields.items() if column in read}
    own_sessions = session in {"per_row", "shared"} or not ({"session_id"} & {*fields, *constants})
    questions = Questions(read, fields, constants, tuple(key_columns), own_sessions, problems, allow_empty)
    if session == "shared":
        questions.constants["session_id"] = session_id("thread", scope)
        fields.pop("session_id", None)
    elif own_sessions:
        fields.pop("session_id", None)
        keys = [digest.key for digest in questions.digests()]
        read[_SESSION] = [session_id("thread", scope, key) for key in keys]
        fields["session_id"] = _SESSION
    _check_names(questions)
    return questions


def _all(source: Source) -> tuple[dict[str, list[Any]], dict[int, str]]:
    read: dict[str, list[Any]] = {}
    problems: dict[int, str] = {}
    count = 0
    for batch in source.batches():
        for name, values in batch.columns.items():
            read.setdefault(name, [None] * count).extend(values)
        problems |= {count + at: f"{batch.place(at)}: {problem}" for at, problem in batch.problems.items()}
        count += len(batch)
        for values in read.values():
            values.extend([None] * (count - len(values)))
    return read, problems


def _check_names(questions: Questions) -> None:
    """Make sure that what is carried along has a name, and does not stand where an answer is to stand."""
    carried = questions.carried()
    if odd := [name for name in carried if not isinstance(name, str)]:
        raise AssistantInputError(
            f"source has columns whose names are no text: {odd}. Nothing was sent.", field="source"
        )
    if taken := sorted(set(carried) & set(COLUMNS)):
        raise AssistantInputError(
            f"source has a column {', '.join(taken)}, which the output needs for itself; rename it. Nothing was sent.",
            field="source",
        )


def asked_as(digest: Digest) -> str:
    """Return what a question without a request is known by: another message under its key is another question."""
    return digest_of(encoded([digest.key, digest.content]))
