"""Read the questions of a chat batch: messages, session ids, and other columns that the output repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.api.sessions import session_id
from airflow_provider_assistant.chat_batch.answers import COLUMNS
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label
from airflow_provider_assistant.loading.columns import BATCH, Batch, ColumnSelection
from airflow_provider_assistant.loading.field_columns import mapping_of
from airflow_provider_assistant.loading.fingerprints import DataframeFingerprints, RowFingerprint, encoded, hash_of
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import Source, open_source

OPTIONAL = ("session_id", "email", "response_language")
# Column of generated session ids; no source can have a column of this name.
_SESSION = "\0session"


@dataclass(frozen=True, slots=True)
class Questions:
    """
    All questions of a source.

    :param columns: Values by column of the source; lists of the same length.
    :param fields: Column by field of a message.
    :param constants: Value by field, for fields with one value for all questions.
    :param key_columns: Columns that identify a question; if there are none, the whole message identifies it.
    :param own_sessions: Whether the session ids are generated for these questions, not read from the source.
    :param problems: Error by position, for rows that cannot be read. Default: none.
    :param allow_empty: Whether the source may have no questions. Default: False.
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

    def rows(self, call: Callable[[Any], Call[Any]]) -> DataframeRows:
        """
        Return the questions as rows for the engine of loads.

        :param call: Function that builds the call of a message.
        """
        return DataframeRows(Source(self._batches), call=call, **self._options)

    def digests(self) -> list[RowFingerprint]:
        """Return the key and the content hash of every question."""
        hashed = DataframeFingerprints(Source(self._batches), **self._options)
        return [one for fingerprints in hashed.fingerprints() for one in fingerprints]

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "payload": ChatMessage,
            "columns": self.fields,
            "constants": self.constants,
            "key_columns": self.key_columns,
            "allow_empty": self.allow_empty,
        }

    def labels(self) -> list[str]:
        """Return the readable keys of all questions, for the output and for messages."""
        if not self.key_columns:
            messages = self.columns[self.fields["message"]]
            return [key_label(("message",), [None if one is None else str(one)]) for one in messages]
        columns = [key_column(self.columns[name])[0] for name in self.key_columns]
        return [key_label(self.key_columns, texts) for texts in zip(*columns, strict=True)]

    def field(self, name: str) -> list[Any]:
        """
        Return the values of a field, one per question.

        :param name: Name of the field, such as ``message``.
        """
        if name in self.fields:
            return self.columns[self.fields[name]]
        return [self.constants.get(name)] * len(self)

    def carried(self) -> dict[str, list[Any]]:
        """Return the columns other than message, session id and key; the output repeats them unchanged."""
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
    allowed_root: str | None = None,
    csv_options: Mapping[str, str] | None = None,
    allow_empty: bool = False,
) -> Questions:
    """
    Read all questions of a source.

    :param source: Path, DataFrame or other source that
        :func:`~airflow_provider_assistant.loading.sources.open_source` accepts.
    :param columns: Column by field, for fields (``message``, ``session_id``, ``email``, ``response_language``) whose
        column has another name; or None.
    :param constants: Value by field, for fields with one value for all questions; or None.
    :param key_columns: Columns that identify a question; if empty, the whole message identifies it.
    :param session: ``per_row`` for one generated session per question, ``shared`` for one generated session for all, or
        the name of a column with session ids. None for the column of the field ``session_id``, or else ``per_row``.
    :param scope: Scope from which session ids are generated.
    :param allowed_root: Folder that must contain all files of the source, after resolving symbolic links. Default:
        None, any folder.
    :param csv_options: Dialect of CSV files. Default: None.
    :param allow_empty: Whether the source may have no rows or files. Default: False.
    :return: The questions; rows that cannot be read are in its ``problems``.
    :raises AssistantInputError: The source cannot be read, has no rows, lacks a column, or has a column with an invalid
        name.
    """
    fields, constants = mapping_of(ChatMessage, columns, constants), dict(constants or {})
    if "message" not in fields:
        raise AssistantInputError(
            "constants: message must be a column, because a constant would ask the same question in every row",
            field="constants",
        )
    if session not in {None, "per_row", "shared"}:
        fields["session_id"] = str(session)
        constants.pop("session_id", None)
    must = [fields["message"]]
    must += [fields["session_id"]] if session not in {None, "per_row", "shared"} else []
    must += [column for field, column in (columns or {}).items() if field in OPTIONAL]
    wanted = ColumnSelection(tuple(dict.fromkeys(must)), tuple(key_columns), rest=True)
    with open_source(source, wanted, allowed_root, csv_options=csv_options, allow_empty=allow_empty) as opened:
        read, problems = _all(opened)
    if not len(next(iter(read.values()), ())):
        if not allow_empty:
            raise AssistantInputError(
                "source has no rows; nothing was sent. If an empty source is valid, set allow_empty=True",
                field="source",
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
    """Check that the repeated columns have text names, and that none has the name of an output column."""
    carried = questions.carried()
    if odd := [name for name in carried if not isinstance(name, str)]:
        raise AssistantInputError(
            f"source has columns whose names are not text: {odd}. Nothing was sent. Rename them.", field="source"
        )
    if taken := sorted(set(carried) & set(COLUMNS)):
        raise AssistantInputError(
            f"source has a column {', '.join(taken)}, which is also a column of the output; rename it. "
            "Nothing was sent.",
            field="source",
        )


def asked_as(digest: RowFingerprint) -> str:
    """
    Return the identity of a question without a chat request: a hash of its key and its content.

    :param digest: Key and content hash of the question.
    """
    return hash_of(encoded([digest.key, digest.content_hash]))
